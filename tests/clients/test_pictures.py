"""Pictures by the clients that people have, to a small model that sees; skipped without the folder of reference files beside the checkout."""

import base64
import json
import subprocess

import anthropic
import ollama
import openai
import pytest
from conftest import HERE, PUMEX, ROOT, Server

VISION = ROOT.parent / "shared/golden/vision"
MODEL = ["-m", str(VISION / "text/tiny-qwen2vl.gguf"), "--mmproj", str(VISION / "mmproj/qwen2vl.gguf")]
TEMPLATE = ["--chat-template-file", str(HERE / "chat.jinja")]
PICTURES = [VISION / "images" / name for name in ("a_gradient_224x224.png", "d_checker_33x20.png")]
TEXT, TOKENS = "What is this?", 8

pytestmark = pytest.mark.skipif(not VISION.is_dir(), reason="no ../shared with golden files")


@pytest.fixture(scope="module")
def seeing():
    """Answers to pictures."""
    server = Server(*MODEL, *TEMPLATE, "--alias", "seeing", "-np", "2")
    yield server.address
    server.stop()


@pytest.fixture(scope="module")
def expected():
    """What the library answers to each picture."""

    def answer(picture):
        command = [PUMEX, "run", *MODEL, *TEMPLATE, "--device", "cpu", "--temp", "0", "-n", str(TOKENS), "-st", "--json"]
        command += ["--image", str(picture), "-p", "<__media__>" + TEXT]
        said = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
        return json.loads(said)["message"]["content"]

    answers = [answer(picture) for picture in PICTURES]
    assert answers[0] != answers[1], "the answer follows from the picture"
    return answers


def encoded(picture):
    return base64.b64encode(picture.read_bytes()).decode()


def test_openai_s_chat_sees(seeing, expected):
    client = openai.OpenAI(base_url=seeing + "/v1", api_key="none", max_retries=0, timeout=60)

    def ask(picture):
        parts = [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + encoded(picture)}},
            {"type": "text", "text": TEXT},
        ]
        messages = [{"role": "user", "content": parts}]
        return client.chat.completions.create(model="seeing", messages=messages, max_tokens=TOKENS, temperature=0)

    answers = [ask(picture) for picture in PICTURES]
    assert [answer.choices[0].message.content for answer in answers] == expected
    assert answers[0].usage.prompt_tokens > answers[1].usage.prompt_tokens + 50, "pictures count as the tokens they take"
    with pytest.raises(openai.BadRequestError, match="video input is not supported"):
        parts = [{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}]
        client.chat.completions.create(model="seeing", messages=[{"role": "user", "content": parts}])


def test_openai_s_responses_see(seeing, expected):
    client = openai.OpenAI(base_url=seeing + "/v1", api_key="none", max_retries=0, timeout=60)

    def ask(picture):
        parts = [
            {"type": "input_image", "image_url": "data:image/png;base64," + encoded(picture), "detail": "auto"},
            {"type": "input_text", "text": TEXT},
        ]
        given = [{"role": "user", "content": parts}]
        return client.responses.create(model="seeing", input=given, max_output_tokens=TOKENS, temperature=0)

    assert [ask(picture).output_text for picture in PICTURES] == expected


def test_anthropic_s_messages_see(seeing, expected):
    client = anthropic.Anthropic(base_url=seeing, api_key="none", max_retries=0, timeout=60)

    def ask(picture):
        source = {"type": "base64", "media_type": "image/png", "data": encoded(picture)}
        parts = [{"type": "image", "source": source}, {"type": "text", "text": TEXT}]
        messages = [{"role": "user", "content": parts}]
        extra = {"temperature": 0}
        return client.messages.create(model="seeing", messages=messages, max_tokens=TOKENS, extra_body=extra)

    assert ["".join(b.text for b in ask(picture).content if b.type == "text") for picture in PICTURES] == expected


def test_ollama_s_chat_sees(seeing, expected):
    client = ollama.Client(host=seeing)

    def ask(picture):
        message = {"role": "user", "content": TEXT, "images": [picture.read_bytes()]}
        return client.chat("seeing", [message], options={"temperature": 0, "num_predict": TOKENS})

    answers = [ask(picture) for picture in PICTURES]
    assert [answer.message.content for answer in answers] == expected
    assert "vision" in client.show("seeing").capabilities
