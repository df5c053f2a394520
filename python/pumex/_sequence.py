"""One sequence of a model, id by id, and what Python may have a say in."""

import json
import random
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from .llama_cache import BaseLlamaCache, prefix
from .llama_grammar import LlamaGrammar

LogitsProcessor = Callable[["npt.NDArray[np.intc]", "npt.NDArray[np.single]"], "npt.NDArray[np.single]"]
StoppingCriteria = Callable[["npt.NDArray[np.intc]", "npt.NDArray[np.single]"], bool]

RANDOM_SEED = 0xFFFFFFFF


class LogitsProcessorList(List[LogitsProcessor]):
    """Functions through which logits go, one after the other."""

    def __call__(self, input_ids: "npt.NDArray[np.intc]", scores: "npt.NDArray[np.single]") -> "npt.NDArray[np.single]":
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(List[StoppingCriteria]):
    """Functions of which any may end an answer."""

    def __call__(self, input_ids: "npt.NDArray[np.intc]", logits: "npt.NDArray[np.single]") -> bool:
        return any([criterion(input_ids, logits) for criterion in self])


class MinTokensLogitsProcessor:
    """Keeps an answer from ending before it has so many tokens."""

    def __init__(self, min_tokens: int, token_eos: int) -> None:
        self.min_tokens = min_tokens
        self.token_eos = token_eos
        self.prompt_tokens: Optional[int] = None

    def __call__(self, input_ids: "npt.NDArray[np.intc]", scores: "npt.NDArray[np.single]") -> "npt.NDArray[np.single]":
        if self.prompt_tokens is None:
            self.prompt_tokens = len(input_ids)
        if len(input_ids) - self.prompt_tokens < self.min_tokens:
            scores[self.token_eos] = -np.inf
        return scores


class LlamaState:
    """A sequence as it was."""

    def __init__(
        self,
        input_ids: "npt.NDArray[np.intc]",
        scores: "npt.NDArray[np.single]",
        n_tokens: int,
        llama_state: bytes,
        llama_state_size: int,
        seed: int,
    ) -> None:
        self.input_ids = input_ids
        self.scores = scores
        self.n_tokens = n_tokens
        self.llama_state = llama_state
        self.llama_state_size = llama_state_size
        self.seed = seed


class OneSequence:
    """What a model does with a sequence of its own, for which it is loaded once more when the first of this is called."""

    _model: _native.Model
    _sequence: Optional[_native.Sequence]
    _ids: List[int]
    _rows: Dict[int, "npt.NDArray[np.single]"]
    _logits_all: bool
    n_batch: int
    last_n_tokens_size: int

    def set_cache(self, cache: Optional[BaseLlamaCache]) -> None:
        """Keeps states of prompts in a cache; none: no longer."""
        self.cache = cache

    def set_seed(self, seed: int) -> None:
        """The random numbers of what does not bring a seed of its own."""
        self._seed = seed if seed != RANDOM_SEED else random.SystemRandom().randrange(RANDOM_SEED)

    def _next_seed(self, seed: Optional[int]) -> int:
        """A request's seed, from which the next one's follows."""
        self.set_seed(random.Random(self._seed).randrange(RANDOM_SEED) if seed is None else seed)
        return self._seed

    @property
    def _own(self) -> _native.Sequence:
        if self._sequence is None:
            self._sequence = self._model.sequence()
        return self._sequence

    @property
    def n_tokens(self) -> int:
        return len(self._ids)

    @property
    def input_ids(self) -> "npt.NDArray[np.intc]":
        ids = np.zeros(max(self._own.n_ctx(), len(self._ids)), dtype=np.intc)
        ids[: len(self._ids)] = self._ids
        return ids

    @property
    def _input_ids(self) -> "npt.NDArray[np.intc]":
        return np.array(self._ids, dtype=np.intc)

    @property
    def scores(self) -> "npt.NDArray[np.single]":
        """Logits by position, `[n_ctx, n_vocab]`; zeros where none are kept: all but the last row, unless `logits_all`."""
        rows = np.zeros((self._own.n_ctx(), self._own.n_vocab()), dtype=np.single)
        for position, row in self._rows.items():
            rows[position] = row
        return rows

    @property
    def _scores(self) -> "npt.NDArray[np.single]":
        return self.scores[: len(self._ids)]

    @property
    def eval_tokens(self) -> List[int]:
        return list(self._ids)

    @property
    def eval_logits(self) -> List[List[float]]:
        return [self._rows[position].tolist() for position in sorted(self._rows)]

    def reset(self) -> None:
        """Forgets the sequence."""
        self._cut(0)

    def _cut(self, held: int) -> int:
        """Forgets ids from a position on; gives how many are left."""
        if held < len(self._ids):
            held = self._own.forget(held)
            del self._ids[held:]
            self._rows = {position: row for position, row in self._rows.items() if position < held}
        return len(self._ids)

    def eval(self, tokens: Sequence[int]) -> None:
        """Goes on with ids."""
        ids = [int(token) for token in tokens]
        for start in range(0, len(ids), self.n_batch):
            part = ids[start : start + self.n_batch]
            logits = np.frombuffer(self._own.eval(part, self._logits_all), dtype="<f4")
            rows = logits.reshape(-1, self._own.n_vocab())
            self._ids.extend(part)
            if not self._logits_all:
                self._rows.clear()
            first = len(self._ids) - len(rows)
            self._rows.update((first + i, row) for i, row in enumerate(rows))

    def _sampler(self, seed: Optional[int], grammar: Optional[LlamaGrammar], sampling: Dict[str, Any]) -> Any:
        named = {"repeat_last_n": self.last_n_tokens_size, "seed": self._next_seed(seed), **sampling}
        fields = grammar.fields() if grammar is not None else {}
        if "json_schema" in fields:
            return self._model.sampler(json.dumps(named), None, json.dumps(fields["json_schema"]))
        return self._model.sampler(json.dumps(named), fields.get("grammar"), None)

    def _choose(
        self, sampler: Any, logits: "npt.NDArray[np.single]", logits_processor: Optional[LogitsProcessorList]
    ) -> int:
        if logits_processor is not None:
            logits = np.asarray(logits_processor(self._input_ids, np.array(logits)), dtype="<f4")
        return int(sampler.sample(np.ascontiguousarray(logits, dtype="<f4").tobytes()))

    def sample(
        self,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.80,
        repeat_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_eta: float = 0.1,
        mirostat_tau: float = 5.0,
        penalize_nl: bool = True,
        logits_processor: Optional[LogitsProcessorList] = None,
        grammar: Optional[LlamaGrammar] = None,
        idx: Optional[int] = None,
    ) -> int:
        """An id, by the logits after the last one, or after the one at `idx`."""
        position = len(self._ids) - 1 if idx is None else idx
        if position not in self._rows:
            kept = sorted(self._rows) or "none"
            raise ValueError(f"idx: expected a position whose logits are kept ({kept}), found {position} (see logits_all)")
        sampling = {
            "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p, "temperature": temp,
            "repeat_penalty": repeat_penalty, "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty,
            "mirostat": mirostat_mode, "mirostat_eta": mirostat_eta, "mirostat_tau": mirostat_tau,
        }  # fmt: skip
        sampler = self._sampler(None, grammar, sampling)
        sampler.look_back(self._ids)
        return self._choose(sampler, self._rows[position], logits_processor)

    def generate(
        self,
        tokens: Sequence[int],
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.80,
        repeat_penalty: float = 1.0,
        reset: bool = True,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        penalize_nl: bool = True,
        logits_processor: Optional[LogitsProcessorList] = None,
        stopping_criteria: Optional[StoppingCriteriaList] = None,
        grammar: Optional[LlamaGrammar] = None,
        seed: Optional[int] = None,
    ) -> Generator[int, Optional[Sequence[int]], None]:
        """Ids that go on from these, one after the other, also those that end a text. Ids that are sent take their place."""
        sampling = {
            "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p, "temperature": temp,
            "repeat_penalty": repeat_penalty, "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty,
            "mirostat": mirostat_mode, "mirostat_eta": mirostat_eta, "mirostat_tau": mirostat_tau,
        }  # fmt: skip
        sampler = self._sampler(seed, grammar, sampling)
        ids = [int(token) for token in tokens]
        if reset:
            same = prefix(self._ids, ids)
            # Logits after the last id are needed, which only those of the very same sequence are.
            if not (same == len(ids) == len(self._ids) and same - 1 in self._rows):
                same = min(same, len(ids) - 1)
                if self._ids and same <= 0:
                    self.reset()
                else:
                    same = self._cut(max(same, 0))
            ids = ids[same:]
        sampler.look_back([*self._ids, *ids])
        while True:
            if ids:
                self.eval(ids)
            logits = self._rows[len(self._ids) - 1]
            token = self._choose(sampler, logits, logits_processor)
            if stopping_criteria is not None and stopping_criteria(self._input_ids, logits):
                return
            sampler.accept(token)
            sent = yield token
            ids = [token]
            if sampler.is_over():
                return
            if sent:
                ids.extend(int(token) for token in sent)

    def save_state(self) -> LlamaState:
        """What the sequence is now."""
        state = self._own.save() if self._ids else b""
        last = self._rows.get(len(self._ids) - 1)
        scores = np.array([] if last is None else [last], dtype=np.single)
        return LlamaState(self._input_ids, scores, len(self._ids), state, len(state), self._seed)

    def load_state(self, state: LlamaState) -> None:
        """Makes the sequence what it was."""
        self._own.forget(0)
        self._ids, self._rows, self._seed = [], {}, state.seed
        if state.n_tokens > 0:
            self._own.restore(state.n_tokens, state.llama_state)
            self._ids = [int(token) for token in state.input_ids[: state.n_tokens]]
            if len(state.scores) > 0:
                self._rows = {state.n_tokens - 1: np.array(state.scores[-1], dtype=np.single)}
