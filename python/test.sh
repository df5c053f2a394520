#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment and runs the tests; then llama-cpp-python's own tests, if its sources can be
# had. Says what is skipped.
# PROFILE: cargo's, dev or release. PUMEX_REQUIRE with `python` in it: what is not there fails instead.
set -euo pipefail
cd "$(dirname "$0")"
skip() {
  echo "skipped: $1"
  case ",${PUMEX_REQUIRE:-}," in *,python,*) exit 1 ;; *) exit 0 ;; esac
}
command -v python3 >/dev/null || skip "no python3"
work=${PUMEX_PYTHON_WORK:-${CARGO_TARGET_DIR:-$PWD/../target}/python}
mkdir -p "$work"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "python3 has no module venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check maturin pytest numpy scipy huggingface_hub jinja2 ||
  skip "no maturin and pytest from the package index"
rm -rf "$work/wheels"
"$work/venv/bin/maturin" build --quiet --profile "${PROFILE:-release}" --compatibility linux --out "$work/wheels"
ls -l "$work/wheels"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$work"/wheels/*.whl
tests=$PWD/tests
cd "$work"
venv/bin/python -m pytest -q --rootdir "$tests" -p no:cacheprovider "$tests"
venv/bin/python "$tests/peer.py" "$work" || skip "llama-cpp-python's sources could not be had"
venv/bin/python -m pytest -q -p no:cacheprovider "$work/peer" || exit 1
