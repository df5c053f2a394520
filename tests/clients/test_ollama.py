"""The client `ollama`."""

import json

import ollama
import pytest
from conftest import QUESTION, SCHEMA, TOOL, check_arguments

OPTIONS = {"temperature": 0, "num_predict": 24}


@pytest.fixture
def client(server):
    return ollama.Client(host=server.address)


def test_models_are_listed_and_shown(client):
    assert any(model.model.split(":")[0] == "demo" for model in client.list().models)
    shown = client.show("demo")
    assert shown.modelinfo["general.architecture"] == "llama" and shown.details.format == "gguf"


def test_a_chat_is_answered_and_streamed(client):
    whole = client.chat("demo", QUESTION, options=OPTIONS)
    assert whole.done and whole.message.content and whole.eval_count == 24
    pieces = list(client.chat("demo", QUESTION, options=OPTIONS, stream=True))
    assert "".join(piece.message.content or "" for piece in pieces) == whole.message.content
    assert [piece.done for piece in pieces].count(True) == 1 and pieces[-1].done_reason == "length"


def test_a_prompt_is_continued_and_streamed(client):
    whole = client.generate("demo", "In the beginning", raw=True, options=OPTIONS)
    assert whole.response and whole.eval_count == 24
    pieces = client.generate("demo", "In the beginning", raw=True, options=OPTIONS, stream=True)
    assert "".join(piece.response for piece in pieces) == whole.response


def test_an_answer_follows_a_schema(client):
    answer = client.chat("demo", QUESTION, format=SCHEMA, options={"num_predict": 200})
    check_arguments(json.loads(answer.message.content))


def test_functions_and_results_are_taken(client):
    call = {"function": {"name": "weather", "arguments": {"city": "Bonn", "warm": True}}}
    messages = [
        *QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_name": "weather"},
    ]
    assert client.chat("demo", messages, tools=[TOOL], options=OPTIONS).done


def test_texts_become_vectors(embedder):
    client = ollama.Client(host=embedder.address)
    vectors = client.embed("demo", ["light", "darkness"]).embeddings
    assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-3


def test_refusals_have_ollamas_shape(client):
    with pytest.raises(ollama.ResponseError) as raised:
        client.chat("demo", QUESTION, options={"temperature": "warm"})
    assert raised.value.status_code == 400 and "temperature" in raised.value.error
