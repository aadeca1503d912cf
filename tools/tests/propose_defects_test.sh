#!/usr/bin/env bash
# tools/propose-defects on a run whose checks fail, throw and abort: what it proposes is refused while its why is open, and then covers
# exactly what failed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${ASSAY_TEST_BUILD:-$root/build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

expect() {  # expect CODE TEXT COMMAND…: the command must exit with CODE and print TEXT
  local code=$1 text=$2 output status=0
  shift 2
  output=$("$@" 2>&1 </dev/null) || status=$?
  [[ $status == "$code" && $output == *"$text"* ]] && return
  printf 'FAILED %s\nexit code %s (want %s), output (want "%s"):\n%s\n' "$*" "$status" "$code" "$text" "$output"
  failed=1
}

suite() {  # suite RUN DEFECTS
  "$build/fake_suite" --results "$scratch/$1" --known-defects "$scratch/$2.json" --gtest_filter='*.first__*:*/first__*:*fails__*:*throws__*:*aborts__*'
}

propose() { "$root/tools/propose-defects" "${@/#/$scratch/}"; }

edit() { python3 -c "import json,sys; f=sys.argv[1]; $2" "$scratch/$1"; }  # edit FILE PYTHON

echo '{"format": 1, "defects": []}' >"$scratch/none.json"
expect 1 "FAILED" suite first none
propose first >"$scratch/proposed.json" 2>/dev/null
[[ $? == 1 ]] || { echo "FAILED: a run with failures proposes entries"; failed=1; }
edit proposed.json 'd=json.load(open(f)); json.dump({"format": 1, "defects": d}, open(f, "w"))'
expect 2 "needs a text as" suite open proposed
edit proposed.json 'd=json.load(open(f)); [e.update(why="a test", want="another") for e in d["defects"]]; json.dump(d, open(f, "w"), indent=1)'
expect 0 "known defects" suite second proposed
expect 0 "0 entries proposed" propose second

[[ $(grep -c '"id"' "$scratch/proposed.json") == 3 ]] || { echo "FAILED: wrong elements, an exception and a crash are three entries"; failed=1; }

# Fails in one run, passes in another: no entry can say that.
mkdir "$scratch/passes" && cp "$scratch/first/environment.json" "$scratch/passes"
sed 's/"status":"FAILED"/"status":"PASSED"/' "$scratch/first/fake.cpu.jsonl" >"$scratch/passes/fake.cpu.jsonl"
expect 1 "not steady" propose first passes
# A line in the middle that is no record; one at the end was cut off by a kill.
mkdir "$scratch/cut" && cp "$scratch/first/environment.json" "$scratch/cut"
head -c -40 "$scratch/first/fake.cpu.jsonl" >"$scratch/cut/fake.cpu.jsonl"
expect 1 "entries proposed" propose cut
{ echo '{"test"'; cat "$scratch/first/fake.cpu.jsonl"; } >"$scratch/cut/fake.cpu.jsonl"
expect 2 "is damaged" propose cut
mkdir "$scratch/empty"
expect 2 "holds no records" propose empty
sed 's/"loaded":/"unloaded":/g' "$scratch/first/environment.json" >"$scratch/passes/environment.json"
expect 2 "environment.json" propose passes
exit "$failed"
