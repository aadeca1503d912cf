#!/usr/bin/env bash
# Failure paths of the scripts: wrong options, missing packages, an interrupted or a doubled set-up, an unsuitable LibTorch, exit
# codes. Nothing here reaches a registry: pip, apt-get and Python are stubs, and the cache folder is a temporary one.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0 ran=0
# Should a script forget itself, it still finds no registry and not the user's cache folder.
export XDG_CACHE_HOME=$scratch/nowhere PIP_NO_INDEX=1
unset PIP_FIND_LINKS ASSAY_RESUME ASSAY_STORE ASSAY_RESULTS ASSAY_RUN_FILE ASSAY_LIBTORCH

# expect NAME CODE TEXT COMMAND…: the command must exit with CODE and print TEXT.
expect() {
  local name=$1 code=$2 text=$3 output status=0
  shift 3
  ran=$((ran + 1))
  output=$("$@" 2>&1 </dev/null) || status=$?
  if [[ $status != "$code" || $output != *"$text"* ]]; then
    printf 'FAILED %s: exit code %s (want %s), output (want "%s"):\n%s\n' "$name" "$status" "$code" "$text" "$output"
    failed=$((failed + 1))
  fi
}

truth() {  # truth NAME COMMAND…: the command must succeed
  local name=$1
  shift
  ran=$((ran + 1))
  "$@" || {
    echo "FAILED $name"
    failed=$((failed + 1))
  }
}

# A folder for PATH that holds the usual small tools and nothing that builds.
stub_path() {
  local folder=$1 tool
  mkdir -p "$folder"
  for tool in bash env basename dirname sed awk grep sort head tail tr cut cat nproc id mktemp rm mkdir mv touch sleep flock \
    ls ln printf sha256sum date readlink uname; do
    ln -sf "$(command -v "$tool")" "$folder/$tool" 2>/dev/null || true
  done
}

stub() {  # stub FOLDER NAME: a program made of standard input
  rm -f "$1/$2"
  { echo '#!/usr/bin/env bash'; cat; } >"$1/$2"
  chmod +x "$1/$2"
}

test_options() {
  local script
  for script in conformance selftest lint run-assay; do
    [[ $script == run-assay ]] || expect "$script, unknown option" 2 "unknown option '--bogus'" "$root/tools/$script" --bogus
    [[ $script == run-assay ]] || expect "$script --help" 0 "usage:" "$root/tools/$script" --help
  done
  expect "value missing" 2 "--libtorch needs a value" "$root/tools/conformance" --libtorch
  expect "jobs" 2 "positive number" "$root/tools/conformance" --jobs 0
  expect "version malformed" 2 "such as 2.15.0" "$root/tools/conformance" --torch-version new
  expect "version too old" 2 "LibTorch 2.8.0 is not supported" "$root/tools/conformance" --torch-version 2.8.0
  expect "version too new" 2 "LibTorch 2.99.0 is not supported" "$root/tools/conformance" --torch-version 2.99.0
  expect "a spread run is not resumed" 2 "leave --resume out" env ASSAY_RESULTS="$scratch" "$root/tools/conformance" --resume --spread
  expect "nothing to resume" 2 "no run to resume" "$root/tools/conformance" --resume --build-dir "$scratch/no_build"
  expect "both" 2 "exclude each other" "$root/tools/conformance" --torch-version 2.11.0 --libtorch /
}

test_packages() {
  local bin=$scratch/bare
  stub_path "$bin"
  stub "$bin" id <<<'echo 1000'
  expect "missing packages, not root" 2 "sudo apt-get install" env PATH="$bin" "$root/tools/conformance"
  expect "missing packages, by name" 2 "cmake ninja-build" env PATH="$bin" "$root/tools/conformance"
  expect "missing packages, offline" 2 "CMAKE_PREFIX_PATH" env PATH="$bin" "$root/tools/conformance" --offline
  stub "$bin" id <<<'echo 0'
  stub "$bin" apt-get <<<"echo \"\$@\" >>$scratch/apt; [[ \$1 == update ]]"
  expect "apt-get fails" 2 "could not install" env PATH="$bin" "$root/tools/conformance"
  truth "apt-get was asked for CMake" grep -q 'install.* cmake ninja-build' "$scratch/apt"
  : >"$scratch/apt"
  expect "offline as root" 2 "missing: " env PATH="$bin" "$root/tools/conformance" --offline
  truth "offline calls no apt-get" test ! -s "$scratch/apt"
  stub "$bin" cmake <<<'echo cmake version 3.22.1'
  expect "CMake too old" 2 "CMake 3.22.1 is too old" env PATH="$bin" bash -c \
    "set -euo pipefail; source '$root/tools/lib/setup.sh'; check_cmake"
}

# A python3 without torch whose "pip install" makes a folder that looks like LibTorch 2.11 and leaves a line in the log.
fake_python() {
  stub "$1" python3 <<SH
log=$scratch/pip
case "\$*" in
  *find_spec*) exit 1 ;;
  "-m venv"*) mkdir -p "\$3/bin"; ln -s "\$0" "\$3/bin/python" ;;
  "-m pip install"*)
    echo "\$*" >>"\$log"
    [[ ! -e $scratch/pip_fails ]] || exit 1
    sleep "\$(cat $scratch/pip_sleep 2>/dev/null || echo 0)"
    torch=\$(dirname "\$(dirname "\$0")")/lib/python3.11/site-packages/torch
    mkdir -p "\$torch/lib" "\$torch/include/torch/headeronly"
    touch "\$torch/lib/libtorch_cpu.so"
    printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n' >"\$torch/include/torch/headeronly/version.h" ;;
esac
SH
}

test_libtorch() {
  local bin=$scratch/python cache=$scratch/cache
  stub_path "$bin"
  fake_python "$bin"
  # shellcheck disable=SC2016
  local call=(env -u CMAKE_PREFIX_PATH PATH="$bin" XDG_CACHE_HOME="$cache" bash -c
    "set -euo pipefail; source '$root/tools/lib/setup.sh'; parse_options \"\$@\"; ensure_libtorch" conformance)
  expect "offline without LibTorch" 2 "--offline forbids the download" "${call[@]}" --offline
  touch "$scratch/pip_fails"
  expect "pip fails" 2 "pip could not install" "${call[@]}"
  truth "a failed pip leaves nothing" test ! -e "$cache/assay/libtorch-2.11.0" -a ! -e "$cache/assay/libtorch-2.11.0.partial"
  rm "$scratch/pip_fails"
  mkdir -p "$cache/assay/libtorch-2.11.0.partial/lib/python3.11/site-packages/torch/lib"  # as an interruption leaves it
  touch "$cache/assay/libtorch-2.11.0.partial/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
  expect "an interrupted set-up is not taken" 2 "--offline forbids" "${call[@]}" --offline
  expect "an interrupted set-up starts afresh" 0 "interrupted" "${call[@]}"
  truth "no partial folder is left" test ! -e "$cache/assay/libtorch-2.11.0.partial"
  : >"$scratch/pip"
  expect "second run" 0 "LibTorch 2.11: $cache" "${call[@]}"
  mkdir -p "$scratch/chosen" "$scratch/build_of_chosen"
  cp -r "$cache"/assay/libtorch-2.11.0/lib/python3.11/site-packages/torch "$scratch/chosen/torch"
  echo "$scratch/chosen/torch" >"$scratch/build_of_chosen/assay_libtorch.txt"
  expect "the LibTorch of last time" 0 "LibTorch 2.11: $scratch/chosen" "${call[@]}" --build-dir "$scratch/build_of_chosen"
  rm -r "$scratch/chosen"
  expect "the LibTorch of last time is gone" 2 "is gone: name one" "${call[@]}" --build-dir "$scratch/build_of_chosen"
  truth "second run calls no pip" test ! -s "$scratch/pip"
  rm -rf "$cache"
  echo 1 >"$scratch/pip_sleep"
  "${call[@]}" >"$scratch/one" 2>&1 &
  "${call[@]}" >"$scratch/two" 2>&1
  wait
  truth "two set-ups at once install once" test "$(wc -l <"$scratch/pip")" = 1
  truth "one of the two waited" grep -q "waiting" "$scratch/one" "$scratch/two"
  sed -i 's/MINOR 11/MINOR 3/' "$cache"/assay/libtorch-2.11.0/lib/python3.11/site-packages/torch/include/torch/headeronly/version.h
  expect "an old LibTorch" 2 "LibTorch 2.3 in" "${call[@]}"
  expect "no LibTorch there" 2 "there is no LibTorch in" "${call[@]}" --libtorch "$scratch"
}

test_cmake() {
  local fake=$scratch/torch
  mkdir -p "$fake/lib" "$fake/include/ATen" "$fake/include/torch/headeronly"
  touch "$fake/lib/libtorch_cpu.so" "$fake/include/ATen/ATen.h"
  printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 3\n' >"$fake/include/torch/headeronly/version.h"
  local call=(cmake -S "$root" -B "$scratch/build" -G Ninja)
  expect "CMake, an old LibTorch" 1 "is not supported" "${call[@]}" "-DASSAY_LIBTORCH=$fake"
  expect "CMake, no LibTorch there" 1 "There is no LibTorch in" "${call[@]}" "-DASSAY_LIBTORCH=$scratch/none"
}

test_start_run() {
  local start=$root/tools/lib/start-run
  expect "start-run without arguments" 2 "usage" "$start"
  expect "start-run" 0 "results: $scratch/results/" "$start" "$scratch/run" "$scratch/results"
  expect "start-run, the same second" 0 "results: " "$start" "$scratch/run2" "$scratch/results"
  truth "two runs, two folders" test "$(<"$scratch/run")" != "$(<"$scratch/run2")"
  expect "start-run, nothing to resume" 2 "no run to resume" env ASSAY_RESUME=1 "$start" "$scratch/none" "$scratch/results"
  expect "start-run, no records to resume" 2 "no run to resume" env ASSAY_RESUME=1 "$start" "$scratch/run" "$scratch/results"
  touch "$(<"$scratch/run")/environment.json"
  expect "start-run, resumed" 0 "results: $(<"$scratch/run")" env ASSAY_RESUME=1 "$start" "$scratch/run" "$scratch/results"
  expect "start-run, no such run of the user's" 2 "no run to resume" env ASSAY_RESUME=1 ASSAY_RESULTS="$scratch/x" "$start" "$scratch/run" x
  expect "start-run, a folder that cannot be" 2 "choose a writable folder" env ASSAY_RESULTS="$scratch/run/x" "$start" "$scratch/run" x
  expect "start-run, a folder of the user's" 0 "results: $scratch/mine" env ASSAY_RESULTS="$scratch/mine" "$start" "$scratch/run" x
}

test_run_assay() {
  local tree=$scratch/tree torch=$scratch/runtime/torch
  mkdir -p "$tree/bin" "$tree/lib/assay" "$torch/lib"
  cp "$root/tools/run-assay" "$tree"
  cp "$root/tools/lib/start-run" "$root/tools/lib/runtime.sh" "$tree/lib/assay"
  printf '2.11\n' >"$tree/lib/assay/libtorch.txt"
  printf 'alpha\nbeta\n' >"$tree/lib/assay/suites.txt"
  touch "$torch/lib/libtorch_cpu.so"
  printf "__version__ = '2.11.0+cu130'\n" >"$torch/version.py"
  local call=("$tree/run-assay" --libtorch "$torch" --device cpu) code
  expect "run-assay, unknown option" 2 "unknown option '--bogus'" "$tree/run-assay" --bogus
  expect "run-assay, resume what?" 2 "needs --results" "$tree/run-assay" --resume
  expect "run-assay, device" 2 "cpu, cuda or all" "$tree/run-assay" --device tpu
  stub "$tree/bin" assay <<<'exit 0'
  stub "$tree/bin" alpha_suite <<<'exit 0'
  stub "$tree/bin" beta_suite <<<'exit 139'
  expect "run-assay, one suite" 0 "" "${call[@]}" --suites alpha
  expect "run-assay, for programs by hand" 0 "export LD_LIBRARY_PATH=$torch/lib" "${call[@]}" --environment
  expect "run-assay, no such suite" 2 "no suite matches 'gamma'" "${call[@]}" --suites gamma
  expect "run-assay, no LibTorch" 2 "there is no LibTorch" "$tree/run-assay" --libtorch "$scratch/none"
  stub "$tree/bin" assay <<<'echo "assay $*"; exit 1'
  expect "run-assay prints the summary" 2 "assay summary $tree/results/" "${call[@]}"
  stub "$tree/bin" alpha_suite <<<'echo "alpha sees $LD_LIBRARY_PATH"; exit 0'
  for code in 0 1 2 77 139; do
    stub "$tree/bin" beta_suite <<<"exit $code"
    case $code in
      0 | 77) expect "run-assay, a suite exits $code" 0 "alpha sees $torch/lib" "${call[@]}" ;;
      1) expect "run-assay, a suite fails" 1 "beta on cpu: FAILED" "${call[@]}" ;;
      *) expect "run-assay, a suite exits $code" 2 "beta on cpu: could not run" "${call[@]}" ;;
    esac
  done
  # A suite for one kind of device alone.
  printf 'alpha\nbeta cuda\n' >"$tree/lib/assay/suites.txt"
  stub "$tree/bin" beta_suite <<<'exit 1'
  expect "run-assay, a suite of GPUs on the CPU" 0 "alpha sees" "${call[@]}"
  expect "run-assay, a suite of GPUs" 1 "beta on cuda: FAILED" "$tree/run-assay" --libtorch "$torch"
  printf 'alpha\nbeta\n' >"$tree/lib/assay/suites.txt"
  # Ctrl-C: the suite that runs ends by its own hand with 1, and no other one starts.
  # shellcheck disable=SC2016
  stub "$tree/bin" alpha_suite <<<'kill -INT $PPID; exit 1'
  stub "$tree/bin" beta_suite <<<'echo beta ran; exit 0'
  expect "run-assay, interrupted" 2 "go on with --resume --results $tree/results/" "${call[@]}"
  expect "run-assay, nothing after an interruption" 0 "none" bash -c "'$tree/run-assay' --libtorch '$torch' --device cpu 2>&1 | grep 'beta ran' || echo none"
  stub "$tree/bin" alpha_suite <<<'exit 0'
  mv "$tree/lib/assay/suites.txt" "$tree/lib/assay/gone.txt"
  expect "run-assay, no list of suites: no verdict" 2 "ended early" "${call[@]}"
  mv "$tree/lib/assay/gone.txt" "$tree/lib/assay/suites.txt"
  touch "$scratch/plain_file"
  expect "run-assay, results in a file" 2 "could not start" "${call[@]}" --results "$scratch/plain_file/run"
  stub "$tree/bin" alpha_suite <<<'exit 77'
  stub "$tree/bin" beta_suite <<<'exit 77'
  expect "run-assay, all skipped" 77 "skipped" "${call[@]}"
  printf "__version__ = '2.12.0'\n" >"$torch/version.py"
  expect "run-assay, another LibTorch" 2 "were built for LibTorch 2.11" "${call[@]}"
}

# The drill of an upgrade, with an installed tree whose programs only say that they ran.
test_gate() {
  local gate=$root/tools/gate tree=$scratch/gated drill=$scratch/drill
  mkdir -p "$tree/bin"
  # shellcheck disable=SC2016  # the stubs' own variables
  stub "$tree" run-assay <<<'mkdir -p "$2"; echo "run $2 store $ASSAY_STORE"; touch "$2/environment.json"
    echo "{\"ended\": ${GATED_ENDED:-1}}" >"$2/a.cpu.plan.json"; exit "${GATED_EXIT:-0}"'
  # shellcheck disable=SC2016
  stub "$tree/bin" assay <<<'echo "assay $*"; exit "${GATED_VERDICT:-0}"'
  local call=("$gate" "$drill" --installed "$tree")
  expect "gate, no folder" 2 "name a folder" "$gate"
  expect "gate, unknown option" 2 "unknown option '--bogus'" "$gate" "$drill" --bogus
  expect "gate, no tree" 2 "no run-assay" "$gate" "$drill" --installed "$scratch/none"
  expect "gate, labels of a tree" 2 "has --suites" "$gate" "$drill" --installed "$tree" --labels '^matmul$'
  expect "gate, repeats" 2 "from 1 to 99" "${call[@]}" --repeats 0
  expect "gate, a run that cannot be made" 2 "could not be made" env GATED_EXIT=2 "${call[@]}"
  expect "gate, other settings" 2 "has other settings" "${call[@]}" --repeats 3
  expect "gate, a run that does not end" 2 "did not come to its end" env GATED_ENDED=null "${call[@]}"
  expect "gate, before the upgrade" 0 "now, upgrade" bash -c "'$gate' '$drill' --installed '$tree' | sed 's/: upgrade, then/: now, upgrade/'"
  truth "gate, two runs before it" test -e "$drill/baseline-2/done"
  expect "gate, the upgrade fails" 2 "the upgrade failed" "${call[@]}" --upgrade false
  truth "gate, nothing ran after it" test ! -e "$drill/candidate-1"
  expect "gate, the failed upgrade is not forgotten" 2 "give --upgrade again" "${call[@]}"
  rm "$drill/upgrade.txt"
  expect "gate, after the upgrade" 0 "assay gate --baseline $drill/baseline-1 $drill/baseline-2 --candidate $drill/candidate-1 $drill/candidate-2" "${call[@]}"
  echo '"environment": []' >"$drill/gate.json"
  expect "gate, nothing was upgraded" 2 "was anything upgraded" "${call[@]}"
  rm -rf "$drill"
  expect "gate, all at once, rejected" 1 "store all" env GATED_EXIT=1 GATED_VERDICT=1 "${call[@]}" --upgrade "touch '$scratch/upgrade'"
  truth "gate, upgraded" test -e "$scratch/upgrade"
  expect "gate, another upgrade" 2 "take another folder" "${call[@]}" --upgrade true
  # Two at once; what an upgrade leaves running is no second one.
  rm -rf "$drill"
  mkdir "$drill"
  flock "$drill/lock" "${call[@]}" >"$scratch/second" 2>&1
  truth "gate, two at once" grep -q "another tools/gate works in" "$scratch/second"
  expect "gate, an upgrade that leaves a daemon" 0 "assay gate" "${call[@]}" --upgrade "sleep 60 >/dev/null 2>&1 & echo \$! >'$scratch/daemon'"
  expect "gate, beside that daemon" 0 "assay gate" "${call[@]}" --upgrade "sleep 60 >/dev/null 2>&1 & echo \$! >'$scratch/daemon'"
  kill "$(<"$scratch/daemon")"
  # What cannot be written is no verdict.
  rm -rf "$drill"
  mkdir -p "$drill/drill.txt.partial"
  expect "gate, settings that cannot be written" 2 "cannot write $drill/drill.txt" "${call[@]}"
  touch "$scratch/no_folder"
  expect "gate, a file as its folder" 2 "cannot make" "$gate" "$scratch/no_folder" --installed "$tree"
}

# The installed tree's CTest file must parse and keep the labels (in a build folder only: CTest names it).
test_installed_ctest() {
  [[ -n ${ASSAY_TEST_BUILD:-} ]] || return 0
  mkdir -p "$scratch/installed"
  cp "$ASSAY_TEST_BUILD/installed/CTestTestfile.cmake" "$scratch/installed"
  expect "installed CTest file" 0 ".cpu" ctest --test-dir "$scratch/installed" -N -L '^cpu$'
  mkdir -p "$scratch/installed/bin" "$scratch/installed/lib/assay"
  cp "$root/tools/lib/start-run" "$scratch/installed/lib/assay"
  # shellcheck disable=SC2016
  stub "$scratch/installed/bin" matmul_suite <<<'echo "matmul $* into $(<"$ASSAY_RUN_FILE")"'
  expect "installed CTest runs" 0 "matmul --device cpu into $scratch/installed/results/" ctest --test-dir "$scratch/installed" -V -R '^matmul.cpu$'
  # A specification of two GPUs: both suites at once, each on a GPU of its own; without one a suite is allotted none.
  local list='{"gpus": [{"id": "0", "slots": 1}, {"id": "1", "slots": 1}]}'
  echo "{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [$list]}" >"$scratch/resources.json"
  # shellcheck disable=SC2016
  for suite in matmul softmax; do
    stub "$scratch/installed/bin" "${suite}_suite" <<<'echo "on ${CTEST_RESOURCE_GROUP_0_GPUS-all}"; sleep 1'
  done
  local spread=(env ASSAY_RESOURCES="$scratch/resources.json" ctest --test-dir "$scratch/installed" -V -j 2
    -R '^(matmul|softmax).gpu$' --resource-spec-file "$scratch/resources.json")
  expect "spread, the first GPU" 0 "on id:0,slots:1" "${spread[@]}"
  expect "spread, the second GPU" 0 "on id:1,slots:1" "${spread[@]}"
  expect "not spread" 0 "on all" ctest --test-dir "$scratch/installed" -V -R '^(matmul|softmax).gpu$'
  expect "installed CTest labels" 0 ".gpu" ctest --test-dir "$scratch/installed" -N -L '^gpu$'
}

# tally COMMAND: what tools/selftest's counters say after one test.
tally() {
  bash -c "set -euo pipefail; source '$root/tools/lib/setup.sh'; source '$root/tools/lib/count.sh'
           build_dir=$scratch/ctest jobs=1; $1; echo \"\$passed passed, \$failed failed\""
}

test_counts() {
  local pytest="'.*[^0-9]([0-9]+) passed.*' '.*[^0-9]([0-9]+) (failed|errors?).*'"
  expect "count, success" 0 "1 passed, 0 failed" tally "check name true"
  expect "count, failure" 0 "0 passed, 1 failed" tally "check name false"
  expect "count, both" 0 "7 passed, 2 failed" tally "check_counted n $pytest bash -c 'echo = 2 failed, 7 passed in 1s; exit 1'"
  expect "count, nothing ran" 0 "0 passed, 1 failed" tally "check_counted n $pytest true"
  expect "count, failed without a count" 0 "7 passed, 1 failed" tally "check_counted n $pytest bash -c 'echo = 7 passed; exit 2'"
  mkdir -p "$scratch/ctest"
  printf 'add_test(%s)\nset_tests_properties(good bad skip PROPERTIES LABELS x SKIP_RETURN_CODE 77)\n' \
    "good true)
add_test(bad false)
add_test(skip bash -c \"exit 77\"" >"$scratch/ctest/CTestTestfile.cmake"
  expect "count, CTest" 0 "1 passed, 1 failed" tally "ctest_label name x"
  expect "count, CTest without a test" 0 "0 passed, 1 failed" tally "ctest_label name none"
}

# One tool at a time builds and runs in a build folder.
test_lock() {
  local call=(bash -c "set -euo pipefail; source '$root/tools/lib/setup.sh'; build_dir=$scratch/locked; lock_build; echo alone")
  expect "lock, alone" 0 "alone" "${call[@]}"
  expect "lock, twice by one" 0 "alone" "${call[@]/lock_build;/lock_build; lock_build;}"
  expect "lock, two at once" 2 "another of Assay's tools works in $scratch/locked" flock "$scratch/locked/tools.lock" "${call[@]}"
  touch "$scratch/no_build"
  expect "lock, no such folder can be" 2 "choose a writable folder" "${call[@]/$scratch\/locked/$scratch/no_build/x}"
}

for group in options packages libtorch cmake start_run run_assay gate installed_ctest lock counts; do
  "test_$group"
done
echo "$((ran - failed)) of $ran passed"
((failed == 0))
