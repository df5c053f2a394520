#!/usr/bin/env bash
# Installs the wheel in the folder WHEELS into a fresh environment and runs the tests there; then llama-cpp-python's own tests, if its
# sources can be had. Says what is skipped.
# PUMEX_REQUIRE with `python` in it: what is not there fails instead.
set -euo pipefail
cd "$(dirname "$0")"
skip() {
  echo "skipped: $1"
  case ",${PUMEX_REQUIRE:-}," in *,python,*) exit 1 ;; *) exit 0 ;; esac
}
tests=$PWD/tests wheels=$(cd "${WHEELS:?"the folder of the wheel"}" && pwd)
work=${CARGO_TARGET_DIR:-$PWD/../target}/python
mkdir -p "$work" && cd "$work"
rm -rf venv
python3 -m venv venv
python=venv/bin/python
$python -m pip install --quiet --disable-pip-version-check "$wheels"/*.whl -r "$tests/requirements.txt" ||
  skip "no pytest from the package index"
$python -m pytest -q --rootdir "$tests" -p no:cacheprovider "$tests"
$python -m mypy --strict "$tests/typed.py"
timeout 600 $python "$tests/peer.py" . || skip "llama-cpp-python's sources could not be had"
$python -m pytest -q -p no:cacheprovider peer
