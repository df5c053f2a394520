"""Conversations as prompts, and what reads pictures."""

import base64
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence
from urllib.parse import unquote, urlparse

from . import _native

_MISTRAL = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + '</s>' }}{% endif %}{% endfor %}"
)
# Names of llama-cpp-python for templates that are called otherwise here.
_NAMES = {"llama-2": "llama2", "llama-3": "llama3", "mistral-instruct": _MISTRAL, "phi-3": "phi3"}


class ChatFormatterResponse(NamedTuple):
    """A prompt, and what ends an answer to it."""

    prompt: str
    stop: Any = None
    stopping_criteria: Any = None
    added_special: bool = False


ChatFormatter = Callable[..., ChatFormatterResponse]


def template_of(chat_format: str) -> str:
    """The template of a format's name."""
    name = _NAMES.get(chat_format, chat_format)
    if name not in _native.templates() and "{" not in name:
        known = ", ".join(sorted({*_NAMES, *_native.templates()}))
        raise ValueError(f"chat_format: expected one of {known}; found {chat_format!r}")
    return name


class Jinja2ChatFormatter:
    """A template in Jinja."""

    def __init__(
        self,
        template: str,
        eos_token: str,
        bos_token: str,
        add_generation_prompt: bool = True,
        stop_token_ids: Optional[List[int]] = None,
    ) -> None:
        self.template = template
        self.eos_token = eos_token
        self.bos_token = bos_token
        self.add_generation_prompt = add_generation_prompt
        self.stop_token_ids = stop_token_ids

    def __call__(self, *, messages: Sequence[Any], tools: Any = None, **kwargs: Any) -> ChatFormatterResponse:
        names = {
            "messages": list(messages),
            "tools": tools,
            "add_generation_prompt": self.add_generation_prompt,
            "chat_template_kwargs": kwargs,
        }
        prompt = _native.render(self.template, json.dumps(names), self.bos_token, self.eos_token)
        return ChatFormatterResponse(prompt=prompt, stop=[self.eos_token], added_special=True)


def format_mistral_instruct(messages: Sequence[Any], **kwargs: Any) -> ChatFormatterResponse:
    """Mistral's first format, without what begins a text."""
    prompt = _native.render(_MISTRAL, json.dumps({"messages": list(messages)}))
    return ChatFormatterResponse(prompt=prompt, stop="</s>")


def hf_tokenizer_config_to_chat_formatter(
    tokenizer_config: Dict[str, Any], add_generation_prompt: bool = True
) -> ChatFormatter:
    """The formatter of a `tokenizer_config.json`."""
    for key in ("chat_template", "bos_token", "eos_token"):
        if not isinstance(tokenizer_config.get(key), str):
            raise ValueError(f"tokenizer_config: expected {key} as a text, found {tokenizer_config.get(key)!r}")
    template, bos, eos = (tokenizer_config[key] for key in ("chat_template", "bos_token", "eos_token"))
    inner = Jinja2ChatFormatter(template, eos_token=eos, bos_token=bos, add_generation_prompt=False)

    def formatter(*, messages: Sequence[Any], **kwargs: Any) -> ChatFormatterResponse:
        # The model's turn is opened by a message of its own that says nothing yet.
        opened = [{"role": "assistant", "content": ""}] if add_generation_prompt else []
        return inner(messages=[*messages, *opened], **kwargs)._replace(stop=[eos, bos])

    return formatter


class MTMDChatHandler:
    """The projector's file of pictures and sounds: `chat_handler=` of a model."""

    def __init__(self, clip_model_path: Optional[str] = None, verbose: bool = True, **kwargs: Any) -> None:
        path = clip_model_path or kwargs.get("mmproj_path")
        if path is None or not Path(path).exists():
            raise ValueError(f"Clip path does not exist: {path}")
        self.clip_model_path = str(path)


# One projector's file says which family it is of.
Llava15ChatHandler = Llava16ChatHandler = Qwen25VLChatHandler = MTMDChatHandler
MoondreamChatHandler = NanoLlavaChatHandler = MiniCPMv26ChatHandler = Llama3VisionAlphaChatHandler = MTMDChatHandler


def bring_files(messages: Sequence[Any]) -> List[Any]:
    """Messages in which `file:` URLs of pictures and sounds are the files themselves."""

    def url(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("file:"):
            data = Path(unquote(urlparse(value).path)).read_bytes()
            return "data:application/octet-stream;base64," + base64.b64encode(data).decode()
        return {**value, "url": url(value["url"])} if isinstance(value, dict) and "url" in value else value

    def part(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        media = ("image_url", "audio_url", "input_audio")
        return {key: url(inner) if key in media else inner for key, inner in value.items()}

    def message(value: Any) -> Any:
        content = value.get("content") if isinstance(value, dict) else None
        return {**value, "content": [part(p) for p in content]} if isinstance(content, list) else value

    return [message(m) for m in messages]
