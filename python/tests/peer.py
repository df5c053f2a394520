"""Gets llama-cpp-python's own tests ready: of its sources, with the import changed, and small models in the place of those they fetch.

`peer.py WORK`: the sources are `WORK/llama_cpp_python-*.tar.gz`, or fetched there; tests come to `WORK/peer`. Left out is what tests the
low-level binding: `_internals`, and the test that goes through it.
"""

import re
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np

VERSION = "0.3.36"
ROOT = Path(__file__).resolve().parents[2]

CONFTEST = '''
"""Models of those names are small ones that lie here."""

from pathlib import Path

import huggingface_hub
import pytest

HERE = Path(__file__).parent


def found(repo_id, filename, **_):
    path = HERE / "models" / Path(filename).name
    if not path.exists():
        pytest.skip(f"no model in the place of {filename}")
    return str(path)


huggingface_hub.hf_hub_download = found
'''


def sources(work):
    """The archive of the peer's sources."""
    name = f"llama_cpp_python-{VERSION}.tar.gz"
    if not (work / name).exists():
        args = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(work)]
        subprocess.run([sys.executable, "-m", "pip", *args, f"llama-cpp-python=={VERSION}"], check=True, timeout=600)
    return work / name


def changed(text):
    """A test file with the import changed, without what goes through the low-level binding."""
    text = re.sub(r"^import llama_cpp\._internals.*\n", "", text, flags=re.M)
    text = text.replace("llama_cpp.", "pumex.").replace("import llama_cpp", "import pumex").replace("from llama_cpp ", "from pumex ")
    parts = re.split(r"(?m)^(?=@|def |class )", text)
    return "".join(part for part in parts if "internals." not in part)


def read_value(data, at, kind):
    """A value of a GGUF file, and where it ends."""
    plain = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    if kind in plain:
        return at + struct.calcsize("<" + plain[kind])
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = read_value(data, at, inner)
    return at


def packed(text):
    """A string of a GGUF file."""
    return struct.pack("<Q", len(text.encode())) + text.encode()


def text(value):
    """A string with its type before it."""
    return struct.pack("<I", 8) + packed(value)


def entry(key, value):
    """A key of a GGUF file, with a value that has its type before it; a number is one of 32 bits."""
    return packed(key) + (struct.pack("<II", 4, value) if isinstance(value, int) else value)


def vocabulary(words, kinds, scores):
    """The keys of a vocabulary whose words are found by their scores."""
    n = len(words)
    return [
        entry("tokenizer.ggml.model", text("t5")),
        entry("tokenizer.ggml.tokens", struct.pack("<IIQ", 9, 8, n) + b"".join(map(packed, words))),
        entry("tokenizer.ggml.scores", struct.pack(f"<IIQ{n}f", 9, 6, n, *scores)),
        entry("tokenizer.ggml.token_type", struct.pack(f"<IIQ{n}i", 9, 5, n, *kinds)),
        entry("tokenizer.ggml.bos_token_id", 1),
        entry("tokenizer.ggml.eos_token_id", 2),
        entry("tokenizer.ggml.unknown_token_id", 0),
        entry("tokenizer.ggml.add_bos_token", struct.pack("<I?", 7, True)),
        entry("tokenizer.ggml.add_space_prefix", struct.pack("<I?", 7, False)),
    ]


def spoken(data):
    """A model of 128 ids without a vocabulary, with one of single characters."""
    version, n_tensors, n_keys = struct.unpack_from("<IQQ", data, 4)
    at, kept = 24, []
    for _ in range(n_keys):
        start = at
        size = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8 : at + 8 + size].decode()
        at += 8 + size
        at = read_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
        if not key.startswith("tokenizer."):
            kept.append(data[start:at])
    infos = at
    for _ in range(n_tensors):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4 + 8
    words = ["<unk>", "<s>", "</s>", "\u2581"] + [chr(c) for c in range(33, 127)]
    words += [f"<unused{i}>" for i in range(len(words), 128)]
    rows = vocabulary(words, [2, 3, 3] + [1] * 95 + [5] * 30, [0.0] * 128)
    head = data[:4] + struct.pack("<IQQ", version, n_tensors, len(kept) + len(rows))
    head += b"".join(kept) + b"".join(rows) + data[infos:at]
    return head + bytes(-len(head) % 32) + data[at + -at % 32 :]


def knowing():
    """A model of words, each of which has one that follows it: it knows a sentence by heart, and of any other text nothing."""
    sentence = "The quick brown fox jumps over the lazy dog .".split()
    others = "capital of france is paris par true false rot Pick a number from 1 to 10 or".split()
    words = ["<unk>", "<s>", "</s>", "\u2581", "\n"] + [chr(c) for c in range(33, 127)]
    spaced = ["\u2581" + word for word in sentence[:-1] + others]
    words += [word for word in [*spaced, "The", "Pick", "true", "false", "rot"] if word not in words]
    n, width = len(words), 256
    words += [f"<unused{i}>" for i in range(n, width)]
    follows = [words.index("\u2581" + word) for word in sentence[1:-1]] + [words.index(".")]
    follows = dict(zip([words.index("The"), *follows], follows))
    follows[words.index(".")] = words.index("\u2581The")
    follows[words.index("\u2581The")] = follows[words.index("The")]
    follows[words.index("\n")] = words.index("true")
    output = np.zeros((width, width), np.float32)
    for word, after in follows.items():
        output[after, word] = 1.0
    # What all of its texts may go on with, a little.
    output[words.index("rot")] += 0.01
    square, ones = np.zeros((width, width), np.float32), np.ones(width, np.float32)
    tensors = {"token_embd.weight": np.eye(width, dtype=np.float32), "output_norm.weight": ones, "output.weight": output}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"blk.0.{name}.weight"] = square
    tensors.update({"blk.0.attn_norm.weight": ones, "blk.0.ffn_norm.weight": ones})
    numbers = {"context_length": 64, "embedding_length": width, "block_count": 1, "feed_forward_length": width}
    numbers |= {"attention.head_count": 4, "rope.dimension_count": 64}
    rows = [
        entry("general.architecture", text("llama")),
        *(entry("llama." + name, value) for name, value in numbers.items()),
        entry("llama.attention.layer_norm_rms_epsilon", struct.pack("<If", 6, 1e-6)),
        *vocabulary(words, [2, 3, 3] + [1] * (n - 3) + [5] * (width - n), [-float(len(word) == 1) * 9 - 1 for word in words]),
    ]
    head, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(rows)) + b"".join(rows), 0
    for name, values in tensors.items():
        shape = values.shape[::-1]
        head += packed(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, at)
        at += values.nbytes
    return head + bytes(-len(head) % 32) + b"".join(values.tobytes() for values in tensors.values())


def models(to):
    """Small models under the names of those that the tests fetch."""
    to.mkdir(parents=True, exist_ok=True)
    demo = (ROOT / "assets/demo.gguf").read_bytes()
    (to / "stories15M-q4_0.gguf").write_bytes(demo)
    (to / "bge-small-en-v1.5-q4_k_m.gguf").write_bytes(demo)
    archs = ROOT.parent / "shared/models/archs"
    for name, of in (("mamba-130m-hf.Q2_K", "mamba-dense"), ("Falcon-H1-Tiny-90M-Instruct-Q2_K", "falcon-h1-dense")):
        if (archs / f"{of}.gguf").exists():
            (to / f"{name}.gguf").write_bytes(spoken((archs / f"{of}.gguf").read_bytes()))
    (to / "Qwen3.5-0.8B-Q8_0.gguf").write_bytes(knowing())


def main():
    work = Path(sys.argv[1])
    tests = work / "peer"
    tests.mkdir(parents=True, exist_ok=True)
    with tarfile.open(sources(work)) as archive:
        for member in archive.getmembers():
            path = Path(*Path(member.name).parts[1:])
            if path.parts[:1] == ("tests",) and path.suffix == ".py":
                text = archive.extractfile(member).read().decode()
                (tests / path.name).write_text(changed(text))
            elif str(path) == "vendor/llama.cpp/models/ggml-vocab-llama-spm.gguf":
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                (work / path).write_bytes(archive.extractfile(member).read())
    (tests / "conftest.py").write_text(CONFTEST)
    models(tests / "models")


main()
