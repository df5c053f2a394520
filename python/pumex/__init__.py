"""Pumex: GGUF models on any Vulkan GPU, or on the CPU, with the names of llama-cpp-python."""

from ._native import PumexError, __version__
from .llama import (
    Llama,
    LlamaState,
    LogitsProcessorList,
    MinTokensLogitsProcessor,
    StoppingCriteriaList,
)
from .llama_cache import BaseLlamaCache, LlamaCache, LlamaRAMCache
from .llama_grammar import LlamaGrammar
from .llama_tokenizer import BaseLlamaTokenizer, LlamaTokenizer
from .llama_types import *  # noqa: F401,F403

__all__ = [
    "BaseLlamaCache",
    "BaseLlamaTokenizer",
    "Llama",
    "LlamaCache",
    "LlamaGrammar",
    "LlamaRAMCache",
    "LlamaState",
    "LlamaTokenizer",
    "LogitsProcessorList",
    "MinTokensLogitsProcessor",
    "PumexError",
    "StoppingCriteriaList",
    "__version__",
]
