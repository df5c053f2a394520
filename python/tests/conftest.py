"""The demo model of the repository, on the CPU."""

from pathlib import Path

import pytest

import pumex

DEMO = Path(__file__).resolve().parents[2] / "assets" / "demo.gguf"


@pytest.fixture(scope="session")
def demo_path():
    return str(DEMO)


@pytest.fixture(scope="session")
def llm(demo_path):
    return pumex.Llama(demo_path, n_ctx=256, device="cpu", verbose=False)
