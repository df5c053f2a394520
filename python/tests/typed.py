"""What a type checker is to know: not run, but checked by mypy."""

from typing import Iterator, List

import numpy as np
import numpy.typing as npt

from pumex import Llama, LlamaGrammar
from pumex.llama_types import CreateChatCompletionStreamResponse, CreateCompletionResponse

llm = Llama("model.gguf", n_ctx=512)
ids: List[int] = llm.tokenize(b"hi")
whole: CreateCompletionResponse = llm("a", max_tokens=3)
text: str = llm("a", grammar=LlamaGrammar.from_string('root ::= "a"'))["choices"][0]["text"]
parts: Iterator[CreateChatCompletionStreamResponse] = llm.create_chat_completion(
    [{"role": "user", "content": "x"}], stream=True
)
rows: "npt.NDArray[np.single]" = llm.scores
llm("x", max_tokens="7")  # type: ignore[call-overload]
number: int = llm("x")["choices"][0]["text"]  # type: ignore[assignment]
