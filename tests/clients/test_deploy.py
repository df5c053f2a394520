"""That what is in deploy/ speaks of what the server has."""

import json
import re
import subprocess
import sys
import urllib.request

from conftest import PUMEX, QUESTION, ROOT

DEPLOY = ROOT / "deploy"


def names(text):
    """Series in a query or in /metrics, without the endings of histograms."""
    found = re.findall(r"\b(?:llamacpp|vllm|pumex):\w+", text)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_the_dashboard_shows_series_that_the_server_has(server):
    body = json.dumps({"messages": QUESTION, "max_tokens": 4}).encode()
    request = urllib.request.Request(server.address + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).read()
    with urllib.request.urlopen(server.address + "/metrics", timeout=30) as answer:
        there = names(answer.read().decode())
    shown = json.loads((DEPLOY / "grafana.json").read_text())
    asked = set().union(*(names(target["expr"]) for panel in shown["panels"] for target in panel.get("targets", [])))
    assert len(asked) > 15 and asked <= there, asked - there


def test_the_dashboard_is_what_its_script_writes():
    code = "import json, grafana; print(json.dumps(grafana.dashboard()))"
    made = subprocess.run([sys.executable, "-B", "-c", code], cwd=DEPLOY, capture_output=True, text=True, check=True).stdout
    assert json.loads(made) == json.loads((DEPLOY / "grafana.json").read_text())


def test_flags_in_deploy_are_flags_of_the_server():
    known = subprocess.run([PUMEX, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    lines = {
        "pumex.service": r"^(?:#.*)?(?:ExecStart=|Environment=\"PUMEX_FLAGS|.*add --host).*",
        "Containerfile": r"^ENTRYPOINT.*|^# .*podman run.*|^# it --api-key.*",
        "compose.yaml": r"^  command: .*",
        "kubernetes.yaml": r"^ {12}- --.*",
    }
    for name, pattern in lines.items():
        text = "\n".join(re.findall(pattern, (DEPLOY / name).read_text(), re.M))
        flags = {flag for flag in re.findall(r"--[a-z][a-z-]+", text) if flag not in ("--device", "--rm", "--gpus")}
        assert flags, name
        assert all(flag in known for flag in flags), (name, [flag for flag in flags if flag not in known])


def test_probes_are_answered(server):
    text = (DEPLOY / "kubernetes.yaml").read_text()
    paths = set(re.findall(r"httpGet: \{path: (\S+),", text))
    assert paths == {"/health", "/live"}
    for path in paths:
        with urllib.request.urlopen(server.address + path, timeout=30) as answer:
            assert answer.status == 200
