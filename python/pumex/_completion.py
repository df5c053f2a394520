"""Completions for which Python chooses ids, or keeps states."""

import time
import uuid
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Union

from .llama_cache import prefix

if TYPE_CHECKING:
    from .llama import Llama


def complete_by_ids(
    llama: "Llama",
    prompt: Union[str, List[int]],
    name: str,
    *,
    max_tokens: Optional[int],
    stops: List[str],
    echo: bool,
    seed: Optional[int],
    sampling: Dict[str, Any],
    logits_processor: Any,
    stopping_criteria: Any,
    grammar: Any,
    stream: bool,
    special: bool = True,
) -> Iterator[Dict[str, Any]]:
    """The parts of an answer, or the one whole."""
    ids = llama.tokenize(prompt.encode(), True, special) if isinstance(prompt, str) else list(prompt)
    if llama.cache is not None:
        _from_cache(llama, ids)
    room = max(llama._own.n_ctx() - len(ids), 0)
    most = room if max_tokens is None or max_tokens <= 0 else min(max_tokens, room)
    frame = {"id": f"cmpl-{uuid.uuid4()}", "object": "text_completion", "created": int(time.time()), "model": name}
    begun = (prompt if isinstance(prompt, str) else llama.detokenize(ids).decode("utf-8", "replace")) if echo else ""

    def part(text: str, reason: Optional[str]) -> Dict[str, Any]:
        return {**frame, "choices": [{"text": text, "index": 0, "logprobs": None, "finish_reason": reason}]}

    names = {"temperature": "temp", "mirostat": "mirostat_mode"}
    given = {names.get(key, key): value for key, value in sampling.items()}
    tokens: List[int] = []
    sent, text, reason = 0, "", "length"
    found = llama.generate(
        ids, **given, logits_processor=logits_processor, stopping_criteria=stopping_criteria, grammar=grammar, seed=seed
    )
    if stream and begun:
        yield part(begun, None)
    while len(tokens) < most:
        token = next(found, None)
        if token is None or llama._model.is_end(token):
            reason = "stop"
            break
        tokens.append(token)
        raw = llama._model.detokenize(tokens, False)
        text = raw.decode("utf-8", "ignore")
        ends = [at for at in (text.find(stop) for stop in stops) if at >= 0]
        if ends:
            text, reason = text[: min(ends)], "stop"
            break
        # What may be the beginning of a text that ends it waits.
        held = max((n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
        if stream and len(text) - held > sent:
            yield part(text[sent : len(text) - held], None)
            sent = len(text) - held
    found.close()
    if llama.cache is not None:
        llama.cache[[*ids, *tokens]] = llama.save_state()
    usage = {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "total_tokens": len(ids) + len(tokens)}
    if stream:
        if len(text) > sent:
            yield part(text[sent:], None)
        yield {**part("", reason), "usage": usage}
    else:
        yield {**part(begun + text, reason), "usage": usage}


def _from_cache(llama: "Llama", ids: List[int]) -> None:
    """Goes on from the state that has most of the prompt, if that is more than the sequence has."""
    try:
        state = llama.cache[ids]  # type: ignore[index]
    except KeyError:
        return
    kept = prefix([int(token) for token in state.input_ids[: state.n_tokens]], ids)
    if kept > prefix(llama._ids, ids):
        llama.load_state(state)


def spoken(parts: Iterator[Dict[str, Any]], stream: bool) -> Iterator[Dict[str, Any]]:
    """Completions as answers of a conversation."""
    begins = True
    for value in parts:
        choice = value["choices"][0]
        said: Dict[str, Any] = {"content": choice["text"]}
        if begins or not stream:
            said = {"role": "assistant", **said}
        begins = False
        if stream and choice["finish_reason"]:
            said = {}
        kind = "chat.completion.chunk" if stream else "chat.completion"
        new = {"index": 0, "delta" if stream else "message": said, "logprobs": None, "finish_reason": choice["finish_reason"]}
        yield {**value, "id": "chat" + value["id"], "object": kind, "choices": [new]}
