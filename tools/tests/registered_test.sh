#!/usr/bin/env bash
# suites/checks.json is what the suites of this build register, and tools/registered-checks sees where it is not.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${ASSAY_TEST_BUILD:-$root/build}
tool=$root/tools/registered-checks
failed=0

expect() {  # expect NAME CODE TEXT COMMAND…
  local name=$1 code=$2 text=$3 output status=0
  shift 3
  output=$("$@" 2>&1 </dev/null) || status=$?
  if [[ $status != "$code" || $output != *"$text"* ]]; then
    printf 'FAILED %s: exit code %s (want %s), output (want "%s"):\n%s\n' "$name" "$status" "$code" "$text" "$output"
    failed=1
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
expect "no build" 2 "build all of them" "$tool" --check "$scratch"
if [[ -e $build/data_parallel_suite ]]; then
  expect "the list is current: else run tools/registered-checks and look at the difference" 0 "" "$tool" --check "$build"
else
  echo "built without CUDA: suites/checks.json is not compared"
fi

# Suites that only list: what is in the list, and what is not taken.
suite() {
  # shellcheck disable=SC2016
  printf '#!/bin/sh\n[ "$2" = cpu ] && device=cpu || device=cuda0\n%s\n' "$2" >"$scratch/$1_suite"
  chmod +x "$scratch/$1_suite"
}
# shellcheck disable=SC2016
listed='echo "S/T."; echo "  C/op__a__${device}_f"; [ $device = cpu ] || echo "  C/op__a__cuda1_f"'
suite data_parallel "$listed"
suite one "$listed"
written=$scratch/written.json
expect "written" 0 "" "$tool" --output "$written" "$scratch"
expect "as it was written" 0 "" "$tool" --output "$written" --check "$scratch"
suite one "$listed; echo '  C/op__b__'\${device}_f; echo '  C/op__b__cuda1_f'"
expect "a check more" 1 "is not what the build registers" "$tool" --output "$written" --check "$scratch"
suite one "$listed; echo '  C/other__b__'\${device}_f"
expect "GPUs that differ" 2 "the same checks on each of two GPUs" "$tool" --output "$written" --check "$scratch"
suite one "exit 3"
expect "a suite that cannot list" 2 "failed" "$tool" --output "$written" --check "$scratch"
suite one ":"
expect "a suite that lists nothing" 2 "lists no test" "$tool" --output "$written" --check "$scratch"
((failed == 0)) && echo "all passed"
exit "$failed"
