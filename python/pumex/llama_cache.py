"""States of sequences that are kept for prompts which begin alike."""

import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any, Optional, Sequence, Tuple


def prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids both begin with."""
    count = 0
    for x, y in zip(a, b):
        if x != y:
            break
        count += 1
    return count


class BaseLlamaCache(ABC):
    """What keeps states."""

    def __init__(self, capacity_bytes: int = 2 << 30) -> None:
        self.capacity_bytes = capacity_bytes

    @property
    @abstractmethod
    def cache_size(self) -> int: ...

    @abstractmethod
    def __getitem__(self, key: Sequence[int]) -> Any: ...

    @abstractmethod
    def __contains__(self, key: Sequence[int]) -> bool: ...

    @abstractmethod
    def __setitem__(self, key: Sequence[int], value: Any) -> None: ...


class LlamaRAMCache(BaseLlamaCache):
    """Keeps states in memory; those that were not used for longest go."""

    def __init__(self, capacity_bytes: int = 2 << 30) -> None:
        super().__init__(capacity_bytes)
        self.cache_state: "OrderedDict[Tuple[int, ...], Any]" = OrderedDict()

    @property
    def cache_size(self) -> int:
        return sum(state.llama_state_size for state in self.cache_state.values())

    def _find(self, key: Sequence[int]) -> Optional[Tuple[int, ...]]:
        best = max(self.cache_state, key=lambda known: prefix(known, key), default=None)
        return best if best is not None and prefix(best, key) > 0 else None

    def __getitem__(self, key: Sequence[int]) -> Any:
        found = self._find(tuple(key))
        if found is None:
            raise KeyError("Key not found")
        self.cache_state.move_to_end(found)
        return self.cache_state[found]

    def __contains__(self, key: Sequence[int]) -> bool:
        return self._find(tuple(key)) is not None

    def __setitem__(self, key: Sequence[int], value: Any) -> None:
        self.cache_state.pop(tuple(key), None)
        self.cache_state[tuple(key)] = value
        while self.cache_size > self.capacity_bytes and self.cache_state:
            self.cache_state.popitem(last=False)

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.cache_state) + self.cache_size


LlamaCache = LlamaRAMCache
