#!/usr/bin/env bash
# usage: limited.sh SECONDS COMMAND...
# Runs a command that tells of tests as Rust's do. One that takes longer than so many seconds is told by name, and ends the run;
# Rust's tests tell of those that run for over a minute.
set -uo pipefail
limit=$1
shift
exec 3>&1
coproc TESTS { exec "$@" 2>&1; }
tests=$TESTS_PID
exec 4<&"${TESTS[0]}"
declare -A slow=()
line=""
end() {
  echo "FAILED: $1 ran for more than $limit s" >&3
  # Its children first: cargo's tests are processes of their own.
  local all=("$tests") at=0
  while [ "$at" -lt "${#all[@]}" ]; do
    mapfile -t -O "${#all[@]}" all < <(ps -o pid= --ppid "${all[at]}" | tr -d ' ')
    at=$((at + 1))
  done
  kill -9 "${all[@]}" 2>/dev/null
  exit 124
}
while true; do
  part=""
  IFS= read -r -t 5 -u 4 part
  status=$?
  line+=$part
  if [ "$status" -eq 0 ]; then
    printf '%s\n' "$line" >&3
    if [[ $line =~ ^test\ (.+)\ has\ been\ running\ for\ over\ 60\ seconds$ ]]; then
      slow[${BASH_REMATCH[1]}]=$((SECONDS - 60))
    elif [[ $line =~ ^test\ (.+)\ \.\.\.\ (ok|FAILED|ignored) ]]; then
      unset "slow[${BASH_REMATCH[1]}]"
    fi
    line=""
  elif [ "$status" -le 128 ]; then
    printf '%s' "$line" >&3
    break
  fi
  for test in "${!slow[@]}"; do
    [ $((SECONDS - slow[$test])) -le "$limit" ] || end "$test"
  done
done
wait "$tests"
