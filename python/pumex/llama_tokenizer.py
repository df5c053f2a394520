"""Texts as ids, and ids as texts."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, List, Optional

if TYPE_CHECKING:
    from .llama import Llama


class BaseLlamaTokenizer(ABC):
    """What a model's texts are read by."""

    @abstractmethod
    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> List[int]: ...

    @abstractmethod
    def detokenize(
        self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False
    ) -> bytes: ...


class LlamaTokenizer(BaseLlamaTokenizer):
    """The model's own."""

    def __init__(self, llama: "Llama") -> None:
        self._llama = llama

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> List[int]:
        return self._llama.tokenize(text, add_bos, special)

    def detokenize(
        self, tokens: List[int], prev_tokens: Optional[List[int]] = None, special: bool = False
    ) -> bytes:
        return self._llama.detokenize(tokens, prev_tokens, special)

    def encode(self, text: str, add_bos: bool = True, special: bool = True) -> List[int]:
        return self.tokenize(text.encode("utf-8", errors="ignore"), add_bos, special)

    def decode(self, tokens: List[int]) -> str:
        return self.detokenize(tokens).decode("utf-8", errors="ignore")
