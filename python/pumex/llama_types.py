"""Shapes of requests and answers, which are OpenAI's. At run time they are plain dicts."""

from typing import Any, Dict, List, Optional, TypedDict, Union


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogprobs(TypedDict):
    text_offset: List[int]
    token_logprobs: List[Optional[float]]
    tokens: List[str]
    top_logprobs: List[Optional[Dict[str, float]]]


class CompletionChoice(TypedDict):
    text: str
    index: int
    logprobs: Optional[CompletionLogprobs]
    finish_reason: Optional[str]


class _CreateCompletionResponse(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[CompletionChoice]


class CreateCompletionResponse(_CreateCompletionResponse, total=False):
    usage: CompletionUsage


CreateCompletionStreamResponse = CreateCompletionResponse
Completion = CreateCompletionResponse
CompletionChunk = CreateCompletionResponse


class Embedding(TypedDict):
    index: int
    object: str
    embedding: Union[List[float], List[List[float]]]


class EmbeddingUsage(TypedDict):
    prompt_tokens: int
    total_tokens: int


class CreateEmbeddingResponse(TypedDict):
    object: str
    model: str
    data: List[Embedding]
    usage: EmbeddingUsage


class ChatCompletionFunction(TypedDict, total=False):
    name: str
    description: str
    parameters: Dict[str, Any]


class ChatCompletionTool(TypedDict):
    type: str
    function: ChatCompletionFunction


class ChatCompletionMessageToolCallFunction(TypedDict):
    name: str
    arguments: str


class ChatCompletionMessageToolCall(TypedDict):
    id: str
    type: str
    function: ChatCompletionMessageToolCallFunction


class ChatCompletionResponseMessage(TypedDict, total=False):
    role: str
    content: Optional[str]
    reasoning_content: str
    tool_calls: List[ChatCompletionMessageToolCall]
    function_call: ChatCompletionMessageToolCallFunction


class ChatCompletionResponseChoice(TypedDict):
    index: int
    message: ChatCompletionResponseMessage
    logprobs: Optional[Dict[str, Any]]
    finish_reason: Optional[str]


class CreateChatCompletionResponse(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[ChatCompletionResponseChoice]
    usage: CompletionUsage


class ChatCompletionStreamResponseChoice(TypedDict):
    index: int
    delta: ChatCompletionResponseMessage
    finish_reason: Optional[str]


class CreateChatCompletionStreamResponse(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[ChatCompletionStreamResponseChoice]


class ChatCompletionRequestResponseFormat(TypedDict, total=False):
    type: str
    schema: Dict[str, Any]


class ChatCompletionRequestMessageContentPartText(TypedDict):
    type: str
    text: str


class ChatCompletionRequestMessageContentPartImageImageUrl(TypedDict, total=False):
    url: str
    detail: str


class ChatCompletionRequestMessageContentPartImage(TypedDict):
    type: str
    image_url: Union[str, ChatCompletionRequestMessageContentPartImageImageUrl]


class ChatCompletionRequestSystemMessage(TypedDict):
    role: str
    content: Optional[str]


class ChatCompletionRequestUserMessage(TypedDict):
    role: str
    content: Union[None, str, List[Dict[str, Any]]]


class ChatCompletionRequestAssistantMessage(TypedDict, total=False):
    role: str
    content: Optional[str]
    tool_calls: List[ChatCompletionMessageToolCall]
    function_call: ChatCompletionMessageToolCallFunction


class ChatCompletionRequestToolMessage(TypedDict):
    role: str
    content: Optional[str]
    tool_call_id: str


class ChatCompletionRequestFunctionMessage(TypedDict):
    role: str
    content: Optional[str]
    name: str


ChatCompletionRequestMessage = Union[
    ChatCompletionRequestSystemMessage,
    ChatCompletionRequestUserMessage,
    ChatCompletionRequestAssistantMessage,
    ChatCompletionRequestToolMessage,
    ChatCompletionRequestFunctionMessage,
]
