#!/usr/bin/env bash
# Tests of `pumex serve` with the clients that people have: openai (Python, JavaScript), anthropic, ollama; then LangChain, litellm,
# the router and the batch example, which are large and are left out with PUMEX_CLIENTS_SMALL=1.
#
# The clients are installed from their registries into a cache folder (PUMEX_CLIENTS_CACHE) and kept there. Where that cannot be
# done, or there is no python3, the tests are skipped with a message, or fail if PUMEX_REQUIRE names `clients`. Servers listen on 127.0.0.1 only and end with the tests.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${PUMEX_CLIENTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pumex/clients}
export PUMEX=${PUMEX:-$here/../../target/release/pumex}

skip() {
  echo "clients: skipped: $1"
  [[ ,${PUMEX_REQUIRE:-}, != *,clients,* ]]
  exit
}

[ -x "$PUMEX" ] || skip "no $PUMEX; cargo build --release first"
command -v python3 >/dev/null || skip "no python3"
mkdir -p "$cache" && cd "$cache" || skip "no folder for the clients"

# install FILE: packages of a list, once for each content of the list.
install() {
  local mark
  mark=.installed-$(cat "$@" | cksum | cut -d' ' -f1)
  [ -e "$mark" ] && return
  [ -x venv/bin/python ] || python3 -m venv venv || return 1
  timeout 900 venv/bin/pip install --quiet --disable-pip-version-check $(printf -- '-r %s ' "$@") && touch "$mark"
}

install "$here/requirements.txt" || skip "the clients cannot be installed"
tests=("$here"/test_{openai,anthropic,ollama,pictures,javascript,deploy,schemas}.py)

if command -v npm >/dev/null && [ ! -d js/node_modules/openai ]; then
  mkdir -p js && cp "$here/package.json" js/ && (cd js && timeout 300 npm install --silent --no-fund --no-audit) ||
    echo "clients: the client for JavaScript cannot be installed; its test is skipped"
fi
[ -d js/node_modules/openai ] && export PUMEX_NODE_MODULES="$cache/js/node_modules"

if [ "${PUMEX_CLIENTS_SMALL:-0}" = 0 ]; then
  if install "$here/requirements-large.txt"; then
    tests+=("$here"/test_{langchain,litellm,router,batch}.py)
  else
    echo "clients: the large clients cannot be installed; their tests are skipped"
    [[ ,${PUMEX_REQUIRE:-}, != *,clients,* ]] || exit 1
  fi
fi
exec venv/bin/python -m pytest -q -p no:cacheprovider --rootdir "$here" "${tests[@]}" "$@"
