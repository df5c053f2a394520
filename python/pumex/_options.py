"""What requests may say beside their prompt or messages, for type checkers."""

from typing import Any, Dict, List, Optional, TypedDict, Union

from ._sequence import LogitsProcessorList, StoppingCriteriaList
from .llama_grammar import LlamaGrammar


class CompletionOptions(TypedDict, total=False):
    """Of `Llama.create_completion`."""

    suffix: Optional[str]
    max_tokens: Optional[int]
    temperature: float
    top_p: float
    min_p: float
    typical_p: float
    logprobs: Optional[int]
    echo: bool
    stop: Union[None, str, List[str]]
    frequency_penalty: float
    presence_penalty: float
    repeat_penalty: float
    top_k: int
    seed: Optional[int]
    tfs_z: float
    mirostat_mode: int
    mirostat_tau: float
    mirostat_eta: float
    model: Optional[str]
    stopping_criteria: Optional[StoppingCriteriaList]
    logits_processor: Optional[LogitsProcessorList]
    grammar: Optional[LlamaGrammar]
    logit_bias: Optional[Dict[int, float]]


class ChatOptions(TypedDict, total=False):
    """Of `Llama.create_chat_completion`."""

    functions: Optional[List[Any]]
    function_call: Any
    tools: Optional[List[Any]]
    tool_choice: Any
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    typical_p: float
    stop: Union[None, str, List[str]]
    seed: Optional[int]
    response_format: Optional[Dict[str, Any]]
    max_tokens: Optional[int]
    presence_penalty: float
    frequency_penalty: float
    repeat_penalty: float
    tfs_z: float
    mirostat_mode: int
    mirostat_tau: float
    mirostat_eta: float
    model: Optional[str]
    logits_processor: Optional[LogitsProcessorList]
    grammar: Optional[LlamaGrammar]
    logit_bias: Optional[Dict[int, float]]
    logprobs: Optional[bool]
    top_logprobs: Optional[int]
