#!/usr/bin/env python3
"""Answers a Parquet file of prompts with Ray Data over one or several `pumex serve`.

    pip install "ray[data]"
    pumex serve -m model.gguf -np 16 --port 8081 &
    pumex serve -m model.gguf -np 16 --port 8082 &
    python examples/ray_batch.py prompts.parquet answers/ --server http://127.0.0.1:8081 --server http://127.0.0.1:8082

The input has a column `prompt` (text), or `messages` (a JSON text of OpenAI's messages). All its columns come out again, with
`answer` (text, or null), `error` (why there is none, or null), `prompt_tokens`, `completion_tokens` and `attempts`.

Each server has an actor of its own, which keeps `--parallel` requests at work there. A request that meets a server that is gone, busy
(429, 503) or at fault (5xx) goes to the next one, after a pause that doubles; what a server refuses (other 4xx) is an error of
that row and does not stop the others. Set PUMEX_API_KEY where servers ask for a key.
"""

import argparse
import concurrent.futures
import json
import os
import random
import time
import urllib.error
import urllib.request

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before ray is imported

import pyarrow  # noqa: E402
import ray  # noqa: E402

LONGEST_PAUSE = 30.0
"""Seconds between two attempts at most."""


COLUMNS = {
    "answer": pyarrow.string(),
    "error": pyarrow.string(),
    "prompt_tokens": pyarrow.int64(),
    "completion_tokens": pyarrow.int64(),
    "attempts": pyarrow.int64(),
}
"""Columns that come to those of the input."""


class Gone(Exception):
    """A server that may answer later, or another one that may answer now."""

    def __init__(self, reason, pause=None):
        super().__init__(reason)
        self.pause = pause


def ask(server, body, key, timeout):
    """One request. Raises `Gone` where it is worth another attempt, `ValueError` where it is not."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(server + "/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            text = json.loads(text)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            pass
        if error.code in (408, 429) or error.code >= 500:
            wait = error.headers.get("Retry-After", "")
            raise Gone(f"HTTP {error.code}: {text}", float(wait) if wait.isdigit() else None) from None
        raise ValueError(f"HTTP {error.code}: {text}") from None
    except (OSError, ValueError) as error:  # no connection, a broken one, or half an answer
        raise Gone(str(error)) from None


class Answers:
    """An actor: answers batches of rows, by its own server as long as that is there."""

    def __init__(self, servers, places, options):
        self.place = ray.get(places.take.remote())
        self.servers, self.options = servers, options
        self.pool = concurrent.futures.ThreadPoolExecutor(options["parallel"])

    def __call__(self, table):
        rows = list(self.pool.map(self.answer, self.bodies(table)))
        # With their types: a column of nulls alone would have another one than that of the next batch.
        for name, kind in COLUMNS.items():
            table = table.append_column(name, pyarrow.array([row[name] for row in rows], kind))
        return table

    def bodies(self, table):
        fields = {"max_tokens": self.options["max_tokens"], "temperature": self.options["temperature"]}
        if self.options["model"]:
            fields["model"] = self.options["model"]
        if "messages" in table.column_names:
            return [{"messages": json.loads(text), **fields} for text in table["messages"].to_pylist()]
        return [{"messages": [{"role": "user", "content": text}], **fields} for text in table["prompt"].to_pylist()]

    def answer(self, body):
        row = {"answer": None, "error": None, "prompt_tokens": 0, "completion_tokens": 0, "attempts": 0}
        pause = 0.25
        while row["attempts"] < self.options["attempts"]:
            server = self.servers[(self.place + row["attempts"]) % len(self.servers)]
            row["attempts"] += 1
            try:
                answer = ask(server, body, os.environ.get("PUMEX_API_KEY"), self.options["timeout"])
                row["answer"] = answer["choices"][0]["message"]["content"]
                row["prompt_tokens"] = answer["usage"]["prompt_tokens"]
                row["completion_tokens"] = answer["usage"]["completion_tokens"]
                row["error"] = None
                return row
            except ValueError as error:
                row["error"] = str(error)
                return row
            except Gone as gone:
                row["error"] = str(gone)
                # Requests that failed together must not come back together.
                time.sleep(min(LONGEST_PAUSE, gone.pause or pause * (0.5 + random.random())))
                pause *= 2
        return row


@ray.remote(num_cpus=0)
class Places:
    """Gives each actor another server to begin with."""

    def __init__(self):
        self.taken = 0

    def take(self):
        self.taken += 1
        return self.taken - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="Parquet file or folder")
    parser.add_argument("output", help="folder for Parquet files")
    parser.add_argument("--server", action="append", required=True, help="address of a server; may come several times")
    parser.add_argument("--model", default="", help="name of the model, where servers have several")
    parser.add_argument("--parallel", type=int, default=16, help="requests at work in each server (its -np)")
    parser.add_argument("--batch-size", type=int, default=64, help="rows that an actor takes at a time")
    parser.add_argument("--attempts", type=int, default=8, help="attempts at a row")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one attempt")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--ray-address", help="a running cluster; without it, one of this machine is started")
    args = parser.parse_args()

    if args.ray_address:
        ray.init(address=args.ray_address, log_to_driver=False)
    else:
        ray.init(num_cpus=len(args.server) + 1, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    options = {name: getattr(args, name) for name in ("parallel", "attempts", "timeout", "max_tokens", "temperature", "model")}
    servers = [server.rstrip("/") for server in args.server]

    # A file of few blocks would keep few actors busy.
    data = ray.data.read_parquet(args.input).repartition(4 * len(servers))
    answered = data.map_batches(
        Answers,
        fn_constructor_args=(servers, Places.remote(), options),
        compute=ray.data.ActorPoolStrategy(size=len(servers)),
        batch_size=args.batch_size,
        batch_format="pyarrow",
        num_cpus=1,
    )
    answered = answered.materialize()
    answered.write_parquet(args.output)
    failed = answered.filter(lambda row: row["error"] is not None).count()
    print(f"{answered.count()} rows, {failed} without an answer")
    ray.shutdown()


if __name__ == "__main__":
    main()
