"""LangChain's client of OpenAI's chat, `langchain-openai`."""

import openai
import pytest
from conftest import SCHEMA, check_arguments
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def chat(server, **options):
    options = {"model": "demo", "temperature": 0, "max_tokens": 24, "max_retries": 0, "timeout": 60, "api_key": "none", **options}
    return ChatOpenAI(base_url=server.address + "/v1", **options)


def test_a_chat_is_answered_and_streamed(server):
    whole = chat(server).invoke("In the beginning")
    assert whole.content and whole.usage_metadata["output_tokens"] == 24
    pieces = [piece.content for piece in chat(server).stream("In the beginning")]
    assert "".join(pieces) == whole.content and len(pieces) > 5


def test_several_prompts_are_answered_at_once(server):
    answers = chat(server).batch(["In the beginning", "And God said", "The earth"])
    assert len({answer.content for answer in answers}) == 3


def test_a_bound_function_is_called(server):
    @tool
    def weather(warm: bool) -> str:
        """The weather."""
        return "rain"

    bound = chat(server, max_tokens=600).bind_tools([weather], tool_choice="weather", parallel_tool_calls=False)
    call = bound.invoke("Is it warm?").tool_calls[0]
    assert call["name"] == "weather" and isinstance(call["args"]["warm"], bool)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_answers_have_a_structure(server, method):
    model = chat(server, max_tokens=600).with_structured_output({"title": "answer", "description": "An answer.", **SCHEMA}, method=method)
    check_arguments(model.invoke("Is it warm?"))


def test_texts_become_vectors(embedder):
    # The check of lengths would fetch a tokenizer.
    model = OpenAIEmbeddings(base_url=embedder.address + "/v1", api_key="none", model="demo", check_embedding_ctx_length=False)
    first, second = model.embed_documents(["light", "darkness"])
    assert len(first) == len(second) and first != second


def test_refusals_are_openais(server):
    with pytest.raises(openai.BadRequestError):
        chat(server).invoke("word " * 5000)
