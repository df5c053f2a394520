"""The client `litellm`."""

import json

import litellm
import pytest
from conftest import QUESTION, SCHEMA, TOOL, check_arguments

litellm.suppress_debug_info = True


def ask(server, provider="openai", **options):
    base = {"openai": server.address + "/v1", "ollama_chat": server.address, "anthropic": server.address}[provider]
    options = {"messages": QUESTION, "max_tokens": 24, "temperature": 0, "num_retries": 0, "timeout": 60, **options}
    return litellm.completion(model=f"{provider}/demo", api_base=base, api_key="none", **options)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama_chat"])
def test_a_chat_is_answered_and_streamed(server, provider):
    whole = ask(server, provider).choices[0].message.content
    assert whole
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask(server, provider, stream=True) if chunk.choices]
    assert "".join(pieces) == whole and len(pieces) > 5


def test_a_function_that_must_be_called_is(server):
    answer = ask(server, tools=[TOOL], tool_choice="required", max_tokens=600, parallel_tool_calls=False)
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "weather"
    check_arguments(json.loads(call.function.arguments))


def test_an_answer_follows_a_schema(server):
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    check_arguments(json.loads(ask(server, response_format=form, max_tokens=600, parallel_tool_calls=False).choices[0].message.content))


def test_texts_become_vectors(embedder):
    answer = litellm.embedding(model="openai/demo", input=["light", "darkness"], api_base=embedder.address + "/v1", api_key="none")
    assert len(answer.data) == 2 and answer.data[0]["embedding"] != answer.data[1]["embedding"]


def test_refusals_are_told_apart(server, locked):
    with pytest.raises(litellm.AuthenticationError):
        ask(locked)
    with pytest.raises(litellm.BadRequestError):
        ask(server, messages=[{"role": "user", "content": "word " * 5000}])
