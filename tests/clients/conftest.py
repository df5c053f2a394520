"""Servers for the tests: `pumex serve` with the demo model on ports of this machine that are free."""

import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PUMEX = os.environ.get("PUMEX", str(ROOT / "target/release/pumex"))

# Clients must ask nobody but the server: no tables of prices, no statistics, no proxies.
os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    LITELLM_TELEMETRY="False",
    LANGSMITH_TRACING="false",
    NO_PROXY="127.0.0.1",
)


class Server:
    """A server of its own; `address` has no slash at its end."""

    def __init__(self, *flags):
        model = [] if "-m" in flags else ["-m", str(ROOT / "assets/demo.gguf")]
        command = [PUMEX, "serve", *model, "--device", "cpu", "--port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()
        self.address = self._address()
        self._wait()

    def _address(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = re.search(r"http://[^\s/]+", "".join(self.said))
            if found:
                return found[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("the server did not start: " + "".join(self.said))

    def _wait(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(self.address + "/health", timeout=5):
                    return
            except (urllib.error.URLError, socket.timeout):
                time.sleep(0.05)
        self.stop()
        raise RuntimeError("the server is not ready")

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return json.load(answer)

    def metric(self, name):
        with urllib.request.urlopen(self.address + "/metrics", timeout=30) as answer:
            found = re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", answer.read().decode(), re.M)
        return float(found[1])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serving(*flags):
    server = Server(*flags)
    yield server
    server.stop()


CHAT = ("--chat-template-file", str(HERE / "chat.jinja"), "--alias", "demo", "-np", "4", "--metrics")


@pytest.fixture(scope="session")
def server():
    """Writes answers."""
    yield from serving(*CHAT)


@pytest.fixture(scope="session")
def embedder():
    """Makes vectors."""
    yield from serving("--embeddings", "--pooling", "mean", "--alias", "demo")


@pytest.fixture(scope="session")
def locked():
    """Wants the key `secret`."""
    yield from serving(*CHAT, "--api-key", "secret")


QUESTION = [{"role": "user", "content": "In the beginning"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Bonn", "Rome"]}, "warm": {"type": "boolean"}},
    "required": ["city", "warm"],
    "additionalProperties": False,
}
"""A function in OpenAI's shape. The demo model knows no functions; what it writes is held to the schema."""
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA}}


def check_arguments(arguments):
    """That arguments of a call, or an answer, follow the schema."""
    assert set(arguments) == {"city", "warm"}, arguments
    assert arguments["city"] in ("Bonn", "Rome") and isinstance(arguments["warm"], bool), arguments
