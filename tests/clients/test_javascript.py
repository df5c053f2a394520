"""The client `openai` for JavaScript, in node."""

import os
import shutil
import subprocess

import pytest
from conftest import HERE


def test_openai_for_javascript(server, embedder):
    modules = os.environ.get("PUMEX_NODE_MODULES")
    if not modules or not shutil.which("node"):
        pytest.skip("node or its packages are missing")
    # Packages are found from the file's own folder upward, so the test is run beside them.
    copy = os.path.join(os.path.dirname(modules), "openai.test.mjs")
    shutil.copyfile(HERE / "openai.test.mjs", copy)
    environment = {**os.environ, "PUMEX_ADDRESS": server.address, "PUMEX_EMBEDDER": embedder.address}
    run = subprocess.run(["node", "--test", copy], env=environment, capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
