"""Models, with the names of llama-cpp-python."""

from __future__ import annotations

import json
import time
import uuid
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Literal, Optional, Sequence, Union, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._completion import complete_by_ids, spoken
from ._sequence import (
    RANDOM_SEED,
    LlamaState,
    LogitsProcessor,
    LogitsProcessorList,
    MinTokensLogitsProcessor,
    OneSequence,
    StoppingCriteria,
    StoppingCriteriaList,
)
from .llama_cache import BaseLlamaCache, prefix
from .llama_chat_format import bring_files, template_of
from .llama_grammar import LlamaGrammar
from .llama_tokenizer import BaseLlamaTokenizer, LlamaTokenizer
from .llama_types import (
    CreateChatCompletionResponse,
    CreateChatCompletionStreamResponse,
    CreateCompletionResponse,
    CreateCompletionStreamResponse,
    CreateEmbeddingResponse,
    Embedding,
    EmbeddingUsage,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ChatOptions, CompletionOptions

__all__ = [
    "Llama",
    "LlamaState",
    "LogitsProcessor",
    "LogitsProcessorList",
    "MinTokensLogitsProcessor",
    "StoppingCriteria",
    "StoppingCriteriaList",
]

_POOLINGS = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
# What must be left as it is: what would have to be done otherwise is not.
_FIXED: Dict[str, Any] = {
    "tensor_split": None,
    "kv_overrides": None,
    "rope_scaling_type": -1,
    "rope_freq_base": 0.0,
    "rope_freq_scale": 0.0,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": 1.0,
    "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0,
    "yarn_orig_ctx": 0,
    "attention_type": -1,
    "lora_base": None,
    "spm_infill": False,
}
# What LangChain says without being asked, and where the model says it: that of the model counts.
_USUAL = {("rope_freq_base", 10000.0): "rope.freq_base", ("rope_freq_scale", 1.0): "rope.scale_linear"}
# What changes no answer here.
_NEEDLESS = {
    "split_mode", "main_gpu", "use_mmap", "use_mlock", "n_threads_batch", "offload_kqv", "flash_attn", "op_offload", "swa_full",
    "no_perf", "numa", "f16_kv", "n_parts",
}  # fmt: skip
# Numbers of ggml's types for `type_k` and `type_v`.
_CACHE_TYPES = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl", 30: "bf16"}


class _Context:
    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx


class Llama(OneSequence):
    """A model.

    `create_completion` and `create_chat_completion` answer requests, as a server does; `eval`, `sample` and `generate` work on a
    sequence of their own, for which the model is loaded once more when the first of them is called.
    """

    def __init__(
        self,
        model_path: str,
        *,
        n_gpu_layers: Optional[int] = None,
        vocab_only: bool = False,
        seed: int = RANDOM_SEED,
        n_ctx: int = 512,
        n_batch: int = 512,
        n_ubatch: int = 512,
        n_threads: Optional[int] = None,
        pooling_type: int = -1,
        logits_all: bool = False,
        embedding: bool = False,
        last_n_tokens_size: int = 64,
        lora_scale: float = 1.0,
        lora_path: Optional[str] = None,
        chat_format: Optional[str] = None,
        chat_handler: Any = None,
        draft_model: Any = None,
        tokenizer: Optional[BaseLlamaTokenizer] = None,
        type_k: Union[None, int, str] = None,
        type_v: Union[None, int, str] = None,
        verbose: bool = True,
        device: Optional[str] = None,
        mmproj: Optional[str] = None,
        n_parallel: int = 1,
        chat_template: Optional[str] = None,
        deterministic: bool = False,
        _hub: Optional[str] = None,
        **others: Any,
    ) -> None:
        for name, value in others.items():
            if name not in _FIXED and name not in _NEEDLESS:
                raise TypeError(f"Llama: no such argument: {name}")
            if name in _FIXED and value != _FIXED[name] and value is not None and (name, value) not in _USUAL:
                raise ValueError(f"{name}: expected {_FIXED[name]!r}, which is all that is supported, found {value!r}")
        if _hub is None and not Path(model_path).exists():
            raise ValueError(f"Model path does not exist: {model_path}")
        if device is None and n_gpu_layers == 0:
            device = "cpu"
        layers = n_gpu_layers if n_gpu_layers is not None and n_gpu_layers > 0 else None
        handler = getattr(chat_handler, "clip_model_path", None)
        template = chat_template or (template_of(chat_format) if chat_format else None)
        options = {
            "n_ctx": n_ctx,
            "device": device,
            "n_gpu_layers": layers,
            "n_threads": n_threads,
            "n_ubatch": max(1, min(n_batch, n_ubatch)),
            "n_parallel": n_parallel,
            "mmproj": mmproj or handler,
            "chat_template": template,
            "embedding": embedding,
            "on_demand": vocab_only,
            "deterministic": deterministic,
            "loras": [[lora_path, lora_scale]] if lora_path else None,
        }
        for name, kind in (("type_k", type_k), ("type_v", type_v)):
            if kind is not None:
                if isinstance(kind, int) and kind not in _CACHE_TYPES:
                    raise ValueError(f"{name}: expected one of {_CACHE_TYPES}, found {kind}")
                options[name] = _CACHE_TYPES[kind] if isinstance(kind, int) else kind
        opened = json.dumps({name: value for name, value in options.items() if value is not None})
        self._model = _native.Model.from_hub(_hub, opened) if _hub else _native.Model(str(model_path), opened)
        self.model_path = model_path
        self.metadata: Dict[str, str] = self._model.metadata()
        for name, value in others.items():
            own = self.metadata.get(self.metadata.get("general.architecture", "") + "." + _USUAL.get((name, value), ""), value)
            if float(own or 0) != value and (name, value) in _USUAL:
                warnings.warn(f"{name}: {value} is not taken over; the model has {own}", stacklevel=2)
        self.verbose = verbose
        self.n_batch = max(1, n_batch)
        self.last_n_tokens_size = last_n_tokens_size
        self.chat_format = chat_format
        self.chat_handler = chat_handler
        self.draft_model = draft_model
        self.cache: Optional[BaseLlamaCache] = None
        self.context_params = SimpleNamespace(**options)
        self._pooling = _POOLINGS.get(pooling_type)
        self._logits_all = logits_all
        self._tokenizer = tokenizer or LlamaTokenizer(self)
        self._ctx = _Context(self._model)
        try:
            positions, states = self._model.keeps()
        except ValueError:
            if not vocab_only:
                raise
            positions, states = False, False
        self._is_recurrent, self._is_hybrid = states and not positions, states and positions
        self._sequence = None
        self._ids: List[int] = []
        self._rows: Dict[int, "npt.NDArray[np.single]"] = {}
        self.set_seed(seed)

    # What there is.

    @property
    def ctx(self) -> Any:
        return self._ctx.ctx

    @property
    def model(self) -> Any:
        return self._model

    def n_ctx(self) -> int:
        return self._model.n_ctx()

    def n_vocab(self) -> int:
        return self._model.n_vocab()

    def n_embd(self) -> int:
        return int(self.metadata[self.metadata["general.architecture"] + ".embedding_length"])

    def tokenizer(self) -> LlamaTokenizer:
        return LlamaTokenizer(self)

    def token_eos(self) -> int:
        found = self._model.eos()
        return -1 if found is None else found

    def token_bos(self) -> int:
        found = self._model.bos()
        return -1 if found is None else found

    def token_nl(self) -> int:
        return self._model.tokenize("\n", False, False)[-1]

    def pooling_type(self) -> Optional[str]:
        return self._pooling

    def device(self) -> str:
        """The device that it runs on."""
        return self._model.device()

    def close(self) -> None:
        self._sequence = None
        self._ctx.ctx = None

    def __enter__(self) -> "Llama":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {"model_path": str(self.model_path), **vars(self.context_params)}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        loras = state.pop("loras", None)
        names = {"embedding", "n_ctx", "device", "n_gpu_layers", "n_threads", "n_ubatch", "n_parallel", "mmproj"}
        names |= {"chat_template", "deterministic", "type_k", "type_v", "model_path"}
        known = {name: value for name, value in state.items() if name in names}
        if loras:
            known["lora_path"], known["lora_scale"] = loras[0]
        self.__init__(vocab_only=state.get("on_demand", False), **known)  # type: ignore[misc]

    # Texts and ids.

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> List[int]:
        """The ids of a text in UTF-8."""
        return self._model.tokenize(text.decode("utf-8"), add_bos, special)

    def detokenize(
        self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False
    ) -> bytes:
        """The bytes of ids."""
        if prev_tokens is not None:
            before = self._model.detokenize([int(t) for t in prev_tokens], special)
            both = self._model.detokenize([int(t) for t in [*prev_tokens, *tokens]], special)
            return both[len(before) :]
        output = self._model.detokenize([int(t) for t in tokens], special)
        begins = len(tokens) > 0 and tokens[0] == self.token_bos()
        return output[1:] if begins and output[:1] == b" " else output

    # Requests.

    def _post(self, path: str, body: Dict[str, Any], embeds: bool = False) -> Any:
        answer = self._model.post(path, json.dumps(body), embeds)
        if answer.streams:
            return answer
        value = json.loads(answer.read())
        if answer.status != 200:
            raise _error(value, answer.status)
        return value

    def _parts(self, answer: Any, model: str) -> Iterator[Dict[str, Any]]:
        try:
            for part in answer:
                value = json.loads(part)
                if "error" in value:
                    raise _error(value, 500)
                yield {**value, "model": model}
        finally:
            answer.close()

    def embed(
        self,
        input: Union[str, List[str]],
        normalize: bool = False,
        truncate: bool = True,
        return_count: bool = False,
    ) -> Any:
        """A vector of each text; where nothing is pooled, a vector of each of its tokens."""
        texts = [input] if isinstance(input, str) else list(input)
        body: Dict[str, Any] = {"input": [self._shortened(t) if truncate else t for t in texts]}
        body["embd_normalize"] = 2 if normalize else -1
        if self._pooling is not None:
            body["pooling"] = self._pooling
        rows = self._post("/embeddings", body, True) if texts else []
        each = self._pooling == "none"
        vectors = [row["embedding"] if each or len(row["embedding"]) != 1 else row["embedding"][0] for row in rows]
        found = vectors[0] if isinstance(input, str) else vectors
        if return_count:
            return found, sum(len(self.tokenize(text.encode())) for text in texts)
        return found

    def _shortened(self, text: str) -> Union[str, List[int]]:
        most = self._model.n_ctx() if len(text) > 256 else 1 << 30
        ids = self._model.tokenize(text, True, True) if len(text) > 256 else []
        return ids[:most] if len(ids) > most else text

    def create_embedding(self, input: Union[str, List[str]], model: Optional[str] = None) -> CreateEmbeddingResponse:
        """Vectors of texts, in OpenAI's shape."""
        found, count = self.embed(input, return_count=True)
        vectors = [found] if isinstance(input, str) else found
        data: List[Embedding] = [{"object": "embedding", "embedding": v, "index": i} for i, v in enumerate(vectors)]
        usage: EmbeddingUsage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": model or str(self.model_path), "usage": usage}

    @overload
    def create_completion(
        self, prompt: Union[str, List[int]], *, stream: Literal[False] = ..., **options: Unpack[CompletionOptions]
    ) -> CreateCompletionResponse: ...

    @overload
    def create_completion(
        self, prompt: Union[str, List[int]], *, stream: Literal[True], **options: Unpack[CompletionOptions]
    ) -> Iterator[CreateCompletionStreamResponse]: ...

    @overload
    def create_completion(
        self, prompt: Union[str, List[int]], *, stream: bool, **options: Unpack[CompletionOptions]
    ) -> Union[CreateCompletionResponse, Iterator[CreateCompletionStreamResponse]]: ...

    def create_completion(
        self,
        prompt: Union[str, List[int]],
        suffix: Optional[str] = None,
        max_tokens: Optional[int] = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        logprobs: Optional[int] = None,
        echo: bool = False,
        stop: Union[None, str, List[str]] = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: bool = False,
        seed: Optional[int] = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: Optional[str] = None,
        stopping_criteria: Optional[StoppingCriteriaList] = None,
        logits_processor: Optional[LogitsProcessorList] = None,
        grammar: Optional[LlamaGrammar] = None,
        logit_bias: Optional[Dict[int, float]] = None,
    ) -> Any:
        """Continues a prompt: a text, or ids. With `stream`, gives the parts of the answer as they come."""
        name = model or str(self.model_path)
        sampling = {
            "temperature": temperature, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
            "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty, "repeat_penalty": repeat_penalty,
            "top_k": top_k, "mirostat": mirostat_mode, "mirostat_tau": mirostat_tau, "mirostat_eta": mirostat_eta,
        }  # fmt: skip
        stops = [stop] if isinstance(stop, str) else list(stop or [])
        if logits_processor or stopping_criteria or self.cache is not None:
            unless = {"suffix": suffix, "logit_bias": logit_bias, "logprobs": logprobs}
            given = [key for key, value in unless.items() if value]
            if given:
                raise ValueError(f"{given[0]}: not supported beside logits_processor, stopping_criteria or a cache")
            parts = complete_by_ids(
                self, prompt, name, max_tokens=max_tokens, stops=stops, echo=echo, seed=seed, sampling=sampling,
                logits_processor=logits_processor, stopping_criteria=stopping_criteria, grammar=grammar, stream=stream,
            )  # fmt: skip
            return parts if stream else next(parts)
        body: Dict[str, Any] = {**sampling, "stop": stops, "repeat_last_n": self.last_n_tokens_size}
        body["seed"] = self._next_seed(seed)
        if max_tokens is not None and max_tokens > 0:
            body["max_tokens"] = max_tokens
        if grammar is not None:
            body.update(grammar.fields())
        if logit_bias:
            body["logit_bias"] = {str(token): bias for token, bias in logit_bias.items()}
        if suffix is not None:
            if stream or echo or logprobs is not None:
                raise ValueError("suffix: not supported beside stream, echo or logprobs")
            return self._infill(prompt, suffix, name, body)
        body.update({"prompt": prompt, "echo": echo, "stream": stream})
        if logprobs is not None:
            body["logprobs"] = logprobs
        answer = self._post("/v1/completions", body)
        return self._parts(answer, name) if stream else {**answer, "model": name}

    __call__ = create_completion

    def _infill(self, prompt: Union[str, List[int]], suffix: str, name: str, body: Dict[str, Any]) -> Dict[str, Any]:
        if not isinstance(prompt, str):
            raise ValueError("suffix: expected a prompt that is a text, found ids")
        if "max_tokens" in body:
            body["n_predict"] = body.pop("max_tokens")
        found = self._post("/infill", {**body, "input_prefix": prompt, "input_suffix": suffix})
        reason = "length" if found.get("stop_type") == "limit" else "stop"
        counts = found["tokens_evaluated"], found["tokens_predicted"]
        return {
            "id": f"cmpl-{uuid.uuid4()}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
            "choices": [{"text": found["content"], "index": 0, "logprobs": None, "finish_reason": reason}],
            "usage": {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)},
        }

    @overload
    def create_chat_completion(
        self, messages: Sequence[Any], *, stream: Literal[False] = ..., **options: Unpack[ChatOptions]
    ) -> CreateChatCompletionResponse: ...

    @overload
    def create_chat_completion(
        self, messages: Sequence[Any], *, stream: Literal[True], **options: Unpack[ChatOptions]
    ) -> Iterator[CreateChatCompletionStreamResponse]: ...

    @overload
    def create_chat_completion(
        self, messages: Sequence[Any], *, stream: bool, **options: Unpack[ChatOptions]
    ) -> Union[CreateChatCompletionResponse, Iterator[CreateChatCompletionStreamResponse]]: ...

    def create_chat_completion(
        self,
        messages: Sequence[Any],
        functions: Optional[List[Any]] = None,
        function_call: Any = None,
        tools: Optional[List[Any]] = None,
        tool_choice: Any = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: Union[None, str, List[str]] = None,
        seed: Optional[int] = None,
        response_format: Optional[Dict[str, Any]] = None,
        max_tokens: Optional[int] = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: Optional[str] = None,
        logits_processor: Optional[LogitsProcessorList] = None,
        grammar: Optional[LlamaGrammar] = None,
        logit_bias: Optional[Dict[int, float]] = None,
        logprobs: Optional[bool] = None,
        top_logprobs: Optional[int] = None,
        **template_names: Any,
    ) -> Any:
        """Answers a conversation. With `stream`, gives the parts of the answer as they come."""
        name = model or str(self.model_path)
        sampling = {
            "temperature": temperature, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
            "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty, "repeat_penalty": repeat_penalty,
            "top_k": top_k, "mirostat": mirostat_mode, "mirostat_tau": mirostat_tau, "mirostat_eta": mirostat_eta,
        }  # fmt: skip
        stops = [stop] if isinstance(stop, str) else list(stop or [])
        talk = {"messages": bring_files(messages), "tools": tools, "chat_template_kwargs": template_names or None}
        if logits_processor:
            if functions or tools or response_format or logit_bias or logprobs:
                raise ValueError("logits_processor: not supported beside functions, tools, response_format, logit_bias, logprobs")
            shown = self._post("/apply-template", {key: value for key, value in talk.items() if value is not None})
            parts = complete_by_ids(
                self, shown["prompt"], name, max_tokens=max_tokens, stops=stops, echo=False, seed=seed, sampling=sampling,
                logits_processor=logits_processor, stopping_criteria=None, grammar=grammar, stream=stream, special=True,
            )  # fmt: skip
            said = spoken(parts, stream)
            return said if stream else next(said)
        body: Dict[str, Any] = {**sampling, **talk, "stop": stops, "stream": stream, "seed": self._next_seed(seed)}
        body["repeat_last_n"] = self.last_n_tokens_size
        body.update({
            "functions": functions, "function_call": function_call, "tool_choice": tool_choice,
            "response_format": response_format, "logprobs": logprobs, "top_logprobs": top_logprobs,
        })  # fmt: skip
        if max_tokens is not None and max_tokens > 0:
            body["max_tokens"] = max_tokens
        if grammar is not None:
            body.update(grammar.fields())
        if logit_bias:
            body["logit_bias"] = {str(token): bias for token, bias in logit_bias.items()}
        answer = self._post("/v1/chat/completions", {key: value for key, value in body.items() if value is not None})
        return self._parts(answer, name) if stream else {**answer, "model": name}

    @staticmethod
    def logits_to_logprobs(logits: Any, axis: int = -1) -> "npt.NDArray[np.single]":
        """Logarithms of the probabilities that logits stand for."""
        array = np.asarray(logits, dtype=np.single)
        top = np.max(array, axis=axis, keepdims=True)
        shifted = array - np.where(np.isfinite(top), top, 0)
        result: npt.NDArray[np.single] = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
        return result

    @staticmethod
    def longest_token_prefix(a: Sequence[int], b: Sequence[int]) -> int:
        """How many ids both begin with."""
        return prefix(a, b)

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        filename: Optional[str] = None,
        additional_files: Optional[List[str]] = None,
        local_dir: Optional[str] = None,
        cache_dir: Optional[str] = None,
        **kwargs: Any,
    ) -> "Llama":
        """A model of the Hugging Face Hub: `repo_id` may end in a type, as `user/repo:Q4_K_M`; `filename` may have `*` in it."""
        for key, value in (("additional_files", additional_files), ("local_dir", local_dir), ("cache_dir", cache_dir)):
            if value:
                raise ValueError(f"{key}: not supported; files are in the Hub's own cache (HF_HOME)")
        if filename is None or ":" in repo_id:
            return cls(model_path=repo_id, _hub=repo_id, **kwargs)
        if "*" in filename or "?" in filename:
            kind = filename.rsplit(".gguf", 1)[0].strip("*?").strip("-._")
            return cls(model_path=repo_id, _hub=f"{repo_id}:{kind}" if kind else repo_id, **kwargs)
        return cls(model_path=filename, _hub=f"{repo_id}:{filename}", **kwargs)


def _error(value: Any, status: int) -> Exception:
    """What an endpoint refused, as an exception."""
    error = value.get("error", value) if isinstance(value, dict) else value
    text = error.get("message", str(error)) if isinstance(error, dict) else str(error)
    return ValueError(text) if status < 500 or status == 501 else _native.PumexError(text)
