#!/usr/bin/env bash
# Builds the wheel by maturin, which is installed into an environment of its own, into the folder WHEELS.
# PROFILE: cargo's, dev or release. The wheel runs where the C library is as new as here.
set -euo pipefail
cd "$(dirname "$0")"
wheels=${WHEELS:?"the folder for the wheel"}
target=${CARGO_TARGET_DIR:-$PWD/../target}
tools=$target/python/tools
command -v python3 >/dev/null || { echo "python3 is missing" >&2; exit 1; }
[ -x "$tools/bin/maturin" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.7,<2'; } ||
  { echo "maturin could not be installed from the package index" >&2; exit 1; }
rm -rf "$wheels"
CARGO_TARGET_DIR=$target "$tools/bin/maturin" build --quiet --profile "${PROFILE:-release}" --compatibility linux --out "$wheels"
ls -l "$wheels"
