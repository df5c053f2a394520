#!/usr/bin/env python3
"""Sums of what llama.cpp's converter makes of the seeded folders.

    PUMEX_CONVERT_OUT=FOLDER cargo test -p pumex-convert --test conversions
    python oracle.py LLAMA_CPP FOLDER > golden/sums.txt

LLAMA_CPP is the folder of convert_hf_to_gguf.py; Python needs what it needs (transformers 4.57.6, torch, sentencepiece, numpy).
A small vocabulary has no pre-tokenizer that its table knows, so that each folder says what to take for it.
"""

import hashlib
import os
import runpy
import sys
from pathlib import Path

llama, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(llama))
sys.path.insert(1, str(llama / "gguf-py"))
os.environ["NO_LOCAL_GGUF"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

from conversion.base import TextModel  # noqa: E402


def run(script, arguments):
    sys.argv = [script, *arguments]
    runpy.run_path(str(llama / script), run_name="__main__")


for told in sorted(folder.glob("*.oracle")):
    name, pre, base = told.read_text().split("\n")[:3]
    TextModel.get_vocab_base_pre = lambda self, tokenizer, pre=pre: pre
    for kind in ["f32", "f16", "bf16", "q8_0"]:
        out = folder / f"{name}.{kind}.gguf"
        arguments = [str(folder / name), "--outfile", str(out), "--outtype", kind]
        out.unlink(missing_ok=True)
        try:
            if base:
                run("convert_lora_to_gguf.py", [*arguments, "--base", str(folder / base)])
            else:
                run("convert_hf_to_gguf.py", arguments)
            print(name, kind, hashlib.sha256(out.read_bytes()).hexdigest())
        except (Exception, SystemExit) as error:  # the sums of the others count all the same
            print(f"{name} {kind}: {error!r}", file=sys.stderr)
            import traceback
            traceback.print_exc()
        sys.stdout.flush()
