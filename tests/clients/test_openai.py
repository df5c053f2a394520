"""The client `openai`."""

import json

import openai
import pydantic
import pytest
from conftest import QUESTION, SCHEMA, TOOL, check_arguments


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.address + "/v1", api_key="none", max_retries=0, timeout=60)


def ask(client, **options):
    options = {"model": "demo", "messages": QUESTION, "max_tokens": 24, "temperature": 0, **options}
    return client.chat.completions.create(**options)


def test_models_are_listed(client):
    assert "demo" in [model.id for model in client.models.list()]


def test_a_chat_is_answered_with_its_usage(client):
    answer = ask(client)
    assert answer.choices[0].message.content
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24


def test_a_stream_has_the_same_text_and_usage_at_its_end(client):
    whole = ask(client).choices[0].message.content
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole
    assert len([piece for piece in pieces if piece]) > 5
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["length"]
    assert chunks[-1].usage.completion_tokens == 24
    assert len({chunk.id for chunk in chunks}) == 1


def test_several_answers_come_with_a_seed_each(client):
    options = {"n": 3, "temperature": 1.0, "seed": 7}
    first = [choice.message.content for choice in ask(client, **options).choices]
    assert len(first) == 3 and len(set(first)) > 1
    assert [choice.message.content for choice in ask(client, **options).choices] == first


def test_an_answer_ends_before_a_stop_text(client):
    whole = ask(client).choices[0].message.content
    word = whole.split()[3]
    stopped = ask(client, stop=[word]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == whole[: whole.index(word)]


def test_log_probabilities_come_with_the_best_others(client):
    content = ask(client, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert len(content) == 24
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
        assert bytes(token.bytes).decode(errors="replace") == token.token or "\ufffd" in token.token


def test_a_function_that_must_be_called_is(client):
    answer = ask(client, tools=[TOOL], tool_choice="required", max_tokens=600, parallel_tool_calls=False)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    call = choice.message.tool_calls[0]
    assert call.function.name == "weather" and call.id
    check_arguments(json.loads(call.function.arguments))


def test_a_named_function_streams_its_arguments(client):
    choice = {"type": "function", "function": {"name": "weather"}}
    stream = ask(client, tools=[TOOL], tool_choice=choice, max_tokens=600, parallel_tool_calls=False, stream=True)
    deltas = [d for c in stream if c.choices for d in c.choices[0].delta.tool_calls or []]
    assert [d.function.name for d in deltas if d.function.name] == ["weather"]
    check_arguments(json.loads("".join(d.function.arguments or "" for d in deltas)))


def test_results_of_functions_are_taken(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn", "warm": true}'}}
    messages = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]
    assert ask(client, messages=messages, tools=[TOOL], tool_choice="none").choices[0].message.content


def test_an_answer_follows_a_schema(client):
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    check_arguments(json.loads(ask(client, response_format=form, max_tokens=600, parallel_tool_calls=False).choices[0].message.content))


def test_an_answer_is_parsed_into_a_class(client):
    class Answer(pydantic.BaseModel):
        warm: bool
        degrees: pydantic.conint(ge=0, le=9)

    parsed = client.chat.completions.parse(model="demo", messages=QUESTION, response_format=Answer, max_tokens=600)
    assert isinstance(parsed.choices[0].message.parsed, Answer)


def test_plain_completions_go_on_with_a_text(client):
    answer = client.completions.create(model="demo", prompt="In the beginning", max_tokens=8, temperature=0)
    assert answer.choices[0].text and answer.usage.completion_tokens == 8
    stream = client.completions.create(model="demo", prompt="In the beginning", max_tokens=8, temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in stream if c.choices) == answer.choices[0].text


def test_responses_are_written_and_streamed(client):
    options = {"model": "demo", "input": "In the beginning", "max_output_tokens": 16, "temperature": 0}
    whole = client.responses.create(**options)
    assert whole.output_text and whole.usage.output_tokens == 16
    events = list(client.responses.create(**options, stream=True))
    assert events[0].type == "response.created"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type in ("response.completed", "response.incomplete")


def test_vectors_are_of_length_one(embedder):
    client = openai.OpenAI(base_url=embedder.address + "/v1", api_key="none", max_retries=0)
    texts = ["light", "darkness", "light"]
    for encoding in ("float", "base64", openai.NOT_GIVEN):  # not given, the client asks for base64 and decodes it
        answer = client.embeddings.create(model="demo", input=texts, encoding_format=encoding)
        assert [item.index for item in answer.data] == [0, 1, 2] and answer.usage.prompt_tokens > 0
        if encoding == "base64":
            continue
        first, second, third = (item.embedding for item in answer.data)
        assert abs(sum(x * x for x in first) - 1) < 1e-3
        assert max(abs(a - b) for a, b in zip(first, third)) < 1e-3 < max(abs(a - b) for a, b in zip(first, second))


def test_a_wrong_field_is_named(client):
    with pytest.raises(openai.BadRequestError) as raised:
        ask(client, temperature="warm")
    assert raised.value.status_code == 400 and "temperature" in str(raised.value)
    with pytest.raises(openai.BadRequestError):
        ask(client, messages="not a list")


def test_a_prompt_that_is_too_long_is_refused_with_both_counts(client):
    with pytest.raises(openai.BadRequestError) as raised:
        ask(client, messages=[{"role": "user", "content": "word " * 5000}])
    assert "context size" in str(raised.value)


def test_a_key_is_wanted_where_there_is_one(locked):
    wrong = openai.OpenAI(base_url=locked.address + "/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        ask(wrong)
    right = openai.OpenAI(base_url=locked.address + "/v1", api_key="secret", max_retries=0)
    assert ask(right).choices[0].message.content


def test_who_stops_reading_frees_the_slot(client, server):
    stream = ask(client, stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    import time

    until = time.monotonic() + 5
    while any(slot["is_processing"] for slot in server.get("/slots")) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(slot["is_processing"] for slot in server.get("/slots"))
