"""Grammars that answers keep to."""

import json
from pathlib import Path
from typing import Any, Dict, Union


class LlamaGrammar:
    """A grammar in llama.cpp's notation (GBNF), or a JSON schema. Whether it can be held to shows when it is used."""

    def __init__(self, _grammar: str = "", schema: Any = None) -> None:
        self._grammar = _grammar
        self._schema = schema

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> "LlamaGrammar":
        return cls(_grammar=grammar)

    @classmethod
    def from_file(cls, file: Union[str, Path], verbose: bool = True) -> "LlamaGrammar":
        text = Path(file).read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError(f"{file}: expected a grammar, found nothing")
        return cls(_grammar=text)

    @classmethod
    def from_json_schema(cls, json_schema: Union[str, Dict[str, Any]], verbose: bool = True) -> "LlamaGrammar":
        schema = json.loads(json_schema) if isinstance(json_schema, str) else json_schema
        return cls(schema=schema)

    def fields(self) -> Dict[str, Any]:
        """The fields of a request that ask for it."""
        return {"grammar": self._grammar} if self._schema is None else {"json_schema": self._schema}
