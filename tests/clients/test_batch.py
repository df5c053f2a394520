"""The example that answers a Parquet file over several servers."""

import os
import subprocess
import sys

import pyarrow
import pyarrow.parquet as parquet
import pytest
from conftest import CHAT, ROOT, Server


@pytest.fixture
def replicas():
    servers = [Server(*CHAT) for _ in range(2)]
    yield servers
    for server in servers:
        server.stop()


def answer(folder, servers, prompts, *flags):
    parquet.write_table(pyarrow.table({"id": range(len(prompts)), "prompt": prompts}), folder / "prompts.parquet")
    command = [sys.executable, ROOT / "examples/ray_batch.py", folder / "prompts.parquet", folder / "answers", *flags]
    for server in servers:
        command += ["--server", server]
    run = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=240, env={**os.environ, "TMPDIR": "/tmp"}
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return sorted(parquet.read_table(folder / "answers").to_pylist(), key=lambda row: row["id"])


def test_all_rows_are_answered_by_all_servers_and_refusals_stay_in_their_rows(replicas, tmp_path):
    """One address has no server: its rows must be answered by the others."""
    prompts = [f"Verse {i}" for i in range(40)]
    prompts[7] = "word " * 5000  # more than the context holds
    addresses = [replica.address for replica in replicas] + ["http://127.0.0.1:9"]
    rows = answer(tmp_path, addresses, prompts, "--max-tokens", "8", "--batch-size", "8", "--parallel", "4")
    assert [row["id"] for row in rows] == list(range(40))
    assert [row["id"] for row in rows if row["error"]] == [7]
    assert rows[7]["answer"] is None and "context size" in rows[7]["error"]
    assert all(row["answer"] and row["completion_tokens"] <= 8 for row in rows if row["id"] != 7)
    assert max(row["attempts"] for row in rows) >= 2
    assert all(replica.metric("pumex:requests_done_total") >= 5 for replica in replicas)
