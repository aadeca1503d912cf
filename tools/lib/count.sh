# shellcheck shell=bash disable=SC2154  # build_dir and jobs are the caller's
# Sourced by tools/selftest: runs tests of several kinds and counts what passed and what failed. What ran nothing has failed.

passed=0 failed=0
failures=()

# count NAME PASSED FAILED
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  (($3 == 0)) || failures+=("$1: $3 failed")
}

# check NAME COMMAND…: one test, by exit code.
check() {
  local name=$1
  shift
  step "$name"
  if "$@" </dev/null; then count "$name" 1 0; else count "$name" 0 1; fi
}

# The counts of a tool that tells them: a tool that fails without a failed test (a collection error, no test) counts as one.
check_counted() {  # check_counted NAME PATTERN_PASSED PATTERN_FAILED COMMAND…
  local name=$1 good=$2 bad=$3 log status=0 p f
  shift 3
  step "$name"
  log=$(mktemp)
  "$@" </dev/null 2>&1 | tee "$log" || status=1
  p=$(sed -nE "s/$good/\1/p" "$log" | tail -n 1)
  f=$(sed -nE "s/$bad/\1/p" "$log" | tail -n 1)
  rm -f "$log"
  p=${p:-0} f=${f:-0}
  if ((status != 0 && f == 0)) || ((p + f == 0)); then f=$((f + 1)); fi
  count "$name" "$p" "$f"
}

ctest_label() {  # ctest_label NAME LABEL
  local junit=$build_dir/$1.junit.xml status=0 total failures_ skipped
  step "ctest -L $2"
  rm -f "$junit"
  # Passive waiting: two suites at once on two cores otherwise spin against each other.
  OMP_WAIT_POLICY=passive ctest --test-dir "$build_dir" -L "$2" -j "$jobs" --no-tests=error --output-on-failure \
    --output-junit "$junit" </dev/null || status=1
  total=$(attribute "$junit" tests) failures_=$(attribute "$junit" failures)
  skipped=$(($(attribute "$junit" skipped) + $(attribute "$junit" disabled)))
  if ((status != 0 && failures_ == 0)); then failures_=1 total=$((total + 1)); fi
  count "$1" $((total - failures_ - skipped)) "$failures_"
}

attribute() {  # attribute FILE NAME: a number of the first <testsuite>; 0 where the file is missing
  local value=''
  [[ ! -r $1 ]] || value=$(tr '\n\t' '  ' <"$1" | grep -o "<testsuite [^>]*" | head -n 1 | grep -oE " $2=\"[0-9]+\"" | grep -oE '[0-9]+' || true)
  printf '%s\n' "${value:-0}"
}
