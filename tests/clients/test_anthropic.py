"""The client `anthropic`."""

import anthropic
import pytest
from conftest import QUESTION, SCHEMA, check_arguments

TOOL = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}


@pytest.fixture
def client(server):
    return anthropic.Anthropic(base_url=server.address, api_key="none", max_retries=0, timeout=60)


def ask(client, temperature=0, **options):
    # Newer clients have no word for it any more, and pass it on.
    options = {"model": "demo", "messages": QUESTION, "max_tokens": 24, **options}
    return client.messages.create(**options, extra_body={"temperature": temperature})


def test_a_message_is_answered_with_its_usage(client):
    answer = ask(client, system="Be brief.")
    assert answer.role == "assistant" and answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 24


def test_a_stream_has_the_same_text(client):
    whole = ask(client).content[0].text
    with client.messages.stream(model="demo", messages=QUESTION, max_tokens=24, extra_body={"temperature": 0}) as stream:
        assert "".join(stream.text_stream) == whole
        final = stream.get_final_message()
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 24


def test_a_function_that_must_be_called_is(client):
    answer = ask(client, tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=600)
    call = next(block for block in answer.content if block.type == "tool_use")
    assert answer.stop_reason == "tool_use" and call.name == "weather" and call.id
    check_arguments(call.input)


def test_a_call_streams_and_its_result_is_taken(client):
    options = {"model": "demo", "tools": [TOOL], "max_tokens": 600}
    choice = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    with client.messages.stream(messages=QUESTION, tool_choice=choice, **options) as stream:
        answer = stream.get_final_message()
    call = next(block for block in answer.content if block.type == "tool_use")
    check_arguments(call.input)
    messages = [
        *QUESTION,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]},
    ]
    assert client.messages.create(messages=messages, tool_choice={"type": "none"}, **options).content


def test_an_answer_ends_before_a_stop_text(client):
    whole = ask(client).content[0].text
    word = whole.split()[3]
    stopped = ask(client, stop_sequences=[word])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == word
    assert stopped.content[0].text == whole[: whole.index(word)]


def test_tokens_are_counted_as_they_are_used(client):
    counted = client.messages.count_tokens(model="demo", messages=QUESTION).input_tokens
    usage = ask(client).usage
    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_a_wrong_field_is_named(client):
    with pytest.raises(anthropic.BadRequestError) as raised:
        ask(client, temperature="warm")
    assert raised.value.body["type"] == "error" and "temperature" in str(raised.value)


def test_a_key_is_wanted_where_there_is_one(locked):
    with pytest.raises(anthropic.AuthenticationError):
        ask(anthropic.Anthropic(base_url=locked.address, api_key="wrong", max_retries=0))
    assert ask(anthropic.Anthropic(base_url=locked.address, api_key="secret", max_retries=0)).content
