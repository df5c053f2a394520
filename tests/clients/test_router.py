"""Three servers behind `sglang-router`: prompts go where their beginning is cached, and the loss of a server costs no answer."""

import concurrent.futures
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from conftest import CHAT, Server


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    def __init__(self, servers):
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
        command += ["--policy", "cache_aware", "--worker-urls", *(server.address for server in servers)]
        command += ["--health-check-interval-secs", "1", "--worker-startup-check-interval", "1", "--log-level", "warn"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 90
        while time.monotonic() < until:
            try:
                self.ask("ready?")
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        self.stop()
        raise RuntimeError("the router is not ready")

    def ask(self, text, tokens=4):
        body = {"model": "demo", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0}
        request = urllib.request.Request(
            self.address + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def servers():
    servers = [Server(*CHAT) for _ in range(3)]
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def router(servers):
    router = Router(servers)
    yield router
    router.stop()


def prompts_of(servers):
    return [server.metric("vllm:prompt_tokens_total") for server in servers]


def test_prompts_go_where_their_beginning_is_cached(router, servers):
    beginnings = [f"Document {n}. " + f"Word {n} of many words that stand in it. " * 20 for n in range(6)]
    # What is new goes to the server with the least to do, so they come at once.
    with concurrent.futures.ThreadPoolExecutor(len(beginnings)) as pool:
        list(pool.map(lambda beginning: router.ask(beginning + "What is it about?", 24), beginnings))
    used = set()
    for n, beginning in enumerate(beginnings):
        before = prompts_of(servers)
        answers = [router.ask(f"{beginning}Question {i}?") for i in range(4)]
        after = prompts_of(servers)
        asked = [i for i, (a, b) in enumerate(zip(before, after)) if b > a]
        assert len(asked) == 1, f"document {n} went to {asked}"
        used.update(asked)
        for answer in answers:
            usage = answer["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2, usage
    assert len(used) > 1, "all documents went to one server"


def test_the_loss_of_a_server_costs_no_answer(router, servers):
    servers[0].process.kill()
    servers[0].process.wait()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda i: router.ask(f"Request {i}, please."), range(24)))
    assert all(answer["choices"][0]["message"]["content"] for answer in answers)
