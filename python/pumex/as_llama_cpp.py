"""`import pumex.as_llama_cpp` makes this package the one that `import llama_cpp` finds, for programs and libraries that name it:
LangChain's `ChatLlamaCpp` and llama-index's `LlamaCPP`. The real llama_cpp must not have been imported before."""

import importlib
import sys

import pumex

_PARTS = ("llama", "llama_cache", "llama_chat_format", "llama_grammar", "llama_speculative", "llama_tokenizer", "llama_types")

_found = sys.modules.setdefault("llama_cpp", pumex)
if _found is not pumex:
    raise ImportError("llama_cpp: imported already; import pumex.as_llama_cpp before it")
for _part in _PARTS:
    sys.modules["llama_cpp." + _part] = importlib.import_module("pumex." + _part)
