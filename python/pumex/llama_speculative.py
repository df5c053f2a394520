"""Ids that are proposed for a model to check."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt


class LlamaDraftModel(ABC):
    """What proposes ids."""

    @abstractmethod
    def __call__(self, input_ids: "npt.NDArray[np.intc]", /, **kwargs: Any) -> "npt.NDArray[np.intc]": ...


class LlamaPromptLookupDecoding(LlamaDraftModel):
    """Proposes what stood behind the same ids before."""

    def __init__(self, max_ngram_size: int = 2, num_pred_tokens: int = 10) -> None:
        self.max_ngram_size = max_ngram_size
        self.num_pred_tokens = num_pred_tokens

    @staticmethod
    def find_candidate_pred_tokens(
        input_ids: "npt.NDArray[np.intc]", max_ngram_size: int, num_pred_tokens: int
    ) -> "npt.NDArray[np.intc]":
        ids = np.asarray(input_ids)
        for size in range(min(max_ngram_size, len(ids) - 1), 0, -1):
            windows = np.lib.stride_tricks.sliding_window_view(ids, size)
            for start in np.flatnonzero((windows == ids[-size:]).all(axis=1)):
                behind = ids[start + size : start + size + num_pred_tokens]
                if len(behind) > 0 and start + size < len(ids):
                    return behind
        return np.array([], dtype=np.intc)

    def __call__(self, input_ids: "npt.NDArray[np.intc]", /, **kwargs: Any) -> "npt.NDArray[np.intc]":
        return self.find_candidate_pred_tokens(input_ids, self.max_ngram_size, self.num_pred_tokens)
