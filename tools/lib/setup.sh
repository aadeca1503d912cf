# shellcheck shell=bash
# Sourced by tools/conformance, tools/selftest and tools/lint: options, packages, LibTorch, configure, build.
#
# Everything can be repeated and interrupted: what is downloaded grows under a name ending in .partial and gets its own
# name when it is complete, under a lock, so that two clones on one machine share it. A second call touches no registry.

ASSAY_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tools/lib/runtime.sh
source "$ASSAY_ROOT/tools/lib/runtime.sh"
ASSAY_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/assay
PIP_OPTIONS=(--disable-pip-version-check --no-input)

cmake_setting() { sed -nE "s/^set\($1 \"?([0-9.]+)\"?.*/\1/p" "$ASSAY_ROOT/cmake/LibTorch.cmake"; }

step() { printf '== %s\n' "$*"; }

usage_options() {
  cat <<TEXT
  --offline            reach no registry; what is missing is an error
  --libtorch PATH      use this LibTorch (a torch folder with include/ and lib/, or a Python environment with torch)
  --torch-version V    use LibTorch V (such as 2.15.0) from the user's cache folder, installed there when it is missing
  --jobs N             parallel compilers and tests (default: by cores and memory)
  --build-dir DIR      build there (default: build; for --torch-version: build-V)
  --help               this text
TEXT
}

parse_options() {
  offline=OFF libtorch='' torch_wanted='' jobs='' build_dir=''
  while (($#)); do
    case $1 in
      --offline) offline=ON ;;
      --help | -h)
        usage
        exit 0
        ;;
      --libtorch | --torch-version | --jobs | --build-dir)
        (($# >= 2)) && [[ -n $2 ]] || die 2 "$1 needs a value; --help lists the options."
        case $1 in
          --libtorch) libtorch=$2 ;;
          --torch-version) torch_wanted=$2 ;;
          --jobs) jobs=$2 ;;
          --build-dir) build_dir=$2 ;;
        esac
        shift
        ;;
      *) die 2 "unknown option '$1'; --help lists the options." ;;
    esac
    shift
  done
  check_options
}

check_options() {
  [[ -z $jobs || $jobs =~ ^[1-9][0-9]*$ ]] || die 2 "--jobs takes a positive number, not '$jobs'."
  [[ -z $torch_wanted || $torch_wanted =~ ^[0-9]+\.[0-9]+(\.[0-9]+)?$ ]] ||
    die 2 "--torch-version takes a version such as 2.15.0, not '$torch_wanted'."
  [[ -z $libtorch || -z $torch_wanted ]] || die 2 "--libtorch and --torch-version exclude each other."
  if [[ -n $torch_wanted ]] && ! supported "$torch_wanted"; then
    die 2 "LibTorch $torch_wanted is not supported: Assay needs $(cmake_setting ASSAY_TORCH_MIN) to $(cmake_setting ASSAY_TORCH_MAX)."
  fi
  if [[ -z $jobs ]]; then
    # A compiler of LibTorch's headers takes up to 2 GB.
    local memory
    memory=$(awk '/MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo 2>/dev/null || echo 1)
    jobs=$(nproc)
    ((memory < jobs)) && jobs=$((memory > 0 ? memory : 1))
  fi
  if [[ -z $build_dir ]]; then
    build_dir=$ASSAY_ROOT/build${torch_wanted:+-$torch_wanted}
  elif [[ $build_dir != /* ]]; then
    build_dir=$PWD/$build_dir
  fi
}

# supported VERSION: is its major.minor within the range that cmake/LibTorch.cmake states?
supported() {
  local version
  version=$(cut -d. -f1,2 <<<"$1")
  [[ $(printf '%s\n' "$(cmake_setting ASSAY_TORCH_MIN)" "$version" "$(cmake_setting ASSAY_TORCH_MAX)" | sort -V | sed -n 2p) == "$version" ]]
}

# ---- packages

# has_header HEADER: in the system or in a prefix of CMAKE_PREFIX_PATH?
has_header() {
  local prefix
  local -a prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in ${prefixes[@]+"${prefixes[@]}"} /usr /usr/local; do
    if compgen -G "$prefix/include/$1" >/dev/null || compgen -G "$prefix/include/*-linux-gnu/$1" >/dev/null; then
      return 0
    fi
  done
  return 1
}

# missing_packages: the Debian packages that are missing, one a line.
missing_packages() {
  command -v c++ >/dev/null || command -v g++ >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v python3 >/dev/null || echo python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  has_header gtest/gtest.h || echo libgtest-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header openssl/evp.h || echo libssl-dev
}

# optional_packages: what only `assay bundle` and `assay verify` need.
optional_packages() {
  has_header archive.h || echo libarchive-dev
  command -v ssh-keygen >/dev/null || echo openssh-client
}

ensure_packages() {
  local missing optional still
  missing=$(missing_packages | tr '\n' ' ') optional=$(optional_packages | tr '\n' ' ')
  if [[ -z $missing ]]; then
    ensure_optional "$optional"
    check_cmake
    return
  fi
  if [[ $offline == OFF && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    step "installing $missing"
    # stdin closed and DEBIAN_FRONTEND set: no package may ask a question.
    DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null || die 2 "apt-get update failed: is the network reachable?"
    # shellcheck disable=SC2086  # a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing $optional </dev/null ||
      die 2 "apt-get could not install ${missing% }: install by hand, then run this again."
  elif [[ $offline == OFF ]]; then
    # CMake downloads the header libraries itself, pinned by hash; the rest only an administrator can install.
    still=$(missing_packages | grep -vE '^(libgtest-dev|nlohmann-json3-dev|libcli11-dev)$' | tr '\n' ' ' || true)
    [[ -z $still ]] || die 2 "missing: ${still% }. Install with: sudo apt-get install ${missing% }"
    say "missing: ${missing% }; CMake downloads these now (or: sudo apt-get install ${missing% })"
  else
    die 2 "missing: ${missing% }. Install with: apt-get install ${missing% }, or name their prefix in CMAKE_PREFIX_PATH."
  fi
  check_cmake
}

ensure_optional() {  # ensure_optional PACKAGES: without them all but bundles works
  [[ -n $1 ]] || return 0
  if [[ $offline == OFF && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    step "installing $1"
    # shellcheck disable=SC2086  # a list of names
    if DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null &&
      DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $1 </dev/null; then
      return 0
    fi
  fi
  say "missing, for bundles of evidence alone: ${1% } (apt-get install ${1% })"
}

check_cmake() {
  local version
  version=$(cmake --version | awk 'NR == 1 { print $3 }')
  [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]] ||
    die 2 "CMake $version is too old, 3.25 is needed: pip install --user cmake, then put it first in PATH."
}

# ---- environments in the user's cache folder

# locked NAME COMMAND…: runs COMMAND alone among all set-ups of this user.
locked() {
  local name=$1 lock
  shift
  mkdir -p "$ASSAY_CACHE" || die 2 "cannot make the cache folder $ASSAY_CACHE: set XDG_CACHE_HOME to a writable folder."
  (
    exec {lock}>"$ASSAY_CACHE/$name.lock"
    if ! flock -n "$lock"; then
      say "another set-up is making $name: waiting for it"
      flock "$lock"
    fi
    "$@"
  )
}

# make_environment NAME PIP_ARGUMENTS…: a virtual environment in the cache folder, complete or not there at all.
make_environment() {
  local folder=$ASSAY_CACHE/$1 partial=$ASSAY_CACHE/$1.partial
  shift
  [[ ! -d $folder ]] || return 0  # another set-up made it while this one waited
  [[ ! -e $partial ]] || say "an earlier set-up was interrupted: starting $(basename "$folder") afresh"
  rm -rf "$partial"
  python3 -m venv "$partial" && "$partial/bin/python" -m pip install "${PIP_OPTIONS[@]}" "$@" </dev/null || {
    rm -rf "$partial"
    die 2 "pip could not install '$*': see its message above; repeat this command, or name what you have (--libtorch)."
  }
  mv "$partial" "$folder"  # python -m works under the new name; the scripts in bin/ are not used
}

# ensure_libtorch: sets torch_path, by option, CMAKE_PREFIX_PATH, the --libtorch that this build folder was made with, Python's
# own torch, or the cache folder, in this order.
ensure_libtorch() {
  local version=${torch_wanted:-$(cmake_setting ASSAY_TORCH_VERSION)} folder
  if [[ -n $libtorch ]]; then
    torch_path=$(torch_folder "$libtorch") ||
      die 2 "there is no LibTorch in '$libtorch': name the folder that holds include/ and lib/libtorch_cpu.so."
  elif [[ -z $torch_wanted ]] && torch_path=$(prefix_torch); then
    :
  elif [[ -z $torch_wanted && -e $build_dir/assay_libtorch.txt ]]; then
    torch_path=$(torch_folder "$(<"$build_dir/assay_libtorch.txt")") ||
      die 2 "the LibTorch of the last --libtorch is gone: name one, or remove $build_dir/assay_libtorch.txt."
    say "--libtorch as the last time; remove $build_dir/assay_libtorch.txt to forget it"
  elif [[ -z $torch_wanted ]] && torch_path=$(python_torch) && supported "$(torch_version "$torch_path")"; then
    :
  else
    folder=$ASSAY_CACHE/libtorch-$version
    if [[ ! -d $folder ]]; then
      [[ $offline == OFF ]] || die 2 "LibTorch $version is not in $ASSAY_CACHE and --offline forbids the download: name one with --libtorch PATH."
      step "installing LibTorch $version into $folder (about 5 GB)"
      locked "libtorch-$version" make_environment "libtorch-$version" "torch==$version"
    fi
    torch_path=$(torch_folder "$folder") || die 2 "$folder holds no LibTorch: remove that folder and run this again."
  fi
  version=$(torch_version "$torch_path") || die 2 "LibTorch in $torch_path does not tell its version: name another with --libtorch."
  supported "$version" ||
    die 2 "LibTorch $version in $torch_path is not supported: Assay needs $(cmake_setting ASSAY_TORCH_MIN) to $(cmake_setting ASSAY_TORCH_MAX)."
  say "LibTorch $version: $torch_path"
}

prefix_torch() {
  local prefix
  local -a prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in ${prefixes[@]+"${prefixes[@]}"}; do
    torch_folder "$prefix" && return 0
  done
  return 1
}

# ensure_golden_python: sets golden_python, an interpreter with golden/requirements.txt. The environment's name carries the
# hash of that file, so that a changed pin makes a new one.
ensure_golden_python() {
  local requirements=$ASSAY_ROOT/golden/requirements.txt name
  name=golden-$(sha256sum "$requirements" | cut -c 1-12)
  golden_python=$ASSAY_CACHE/$name/bin/python
  if [[ -x $golden_python ]]; then
    return
  fi
  if [[ $offline == ON ]]; then
    golden_python=python3
    python3 -c 'import autograd, flint, mpmath, numpy, pytest, safetensors' 2>/dev/null ||
      die 2 "the generator's Python packages are missing and --offline forbids the download: pip install -r golden/requirements.txt first."
    return
  fi
  step "installing the generator's Python packages into $ASSAY_CACHE/$name"
  locked "$name" make_environment "$name" -r "$requirements"
}

# ---- configure and build

configure() {
  local stamp=$build_dir/assay_setup.txt
  local -a arguments=(-S "$ASSAY_ROOT" -B "$build_dir" -G Ninja "-DASSAY_LIBTORCH=$torch_path" "-DASSAY_OFFLINE=$offline")
  # Ninja reruns CMake when a CMake file or the set of sources changed; here only when the arguments did.
  mkdir -p "$build_dir"
  if [[ -n $libtorch ]]; then printf '%s\n' "$torch_path" >"$build_dir/assay_libtorch.txt"; fi
  if [[ -e $build_dir/build.ninja && -e $stamp && $(<"$stamp") == "${arguments[*]}" ]]; then
    return
  fi
  step "configuring $build_dir"
  cmake "${arguments[@]}" </dev/null || die 2 "CMake could not configure: see its message above."
  printf '%s\n' "${arguments[*]}" >"$stamp"
}

build() {
  step "building with $jobs jobs"
  if ! cmake --build "$build_dir" -j "$jobs" </dev/null; then
    # A compiler that was killed for memory succeeds when it is alone; a mistake in the sources fails again, at once.
    say "the build failed: once more, one compiler at a time"
    cmake --build "$build_dir" -j 1 </dev/null || die 2 "the build failed: see the compiler's message above."
  fi
}

# lock_build: one tool at a time builds and runs in a build folder; the lock lasts as long as this script, which may set up
# twice (tools/gate, before and behind the upgrade).
build_lock=''
lock_build() {
  [[ -z $build_lock ]] || return 0
  { mkdir -p "$build_dir" && exec {build_lock}>>"$build_dir/tools.lock"; } 2>/dev/null ||
    die 2 "cannot write into $build_dir: choose a writable folder with --build-dir."
  flock -n "$build_lock" || die 2 "another of Assay's tools works in $build_dir: wait for it, or take another folder with --build-dir."
}

set_up() {
  cd "$ASSAY_ROOT" || exit 2
  ensure_packages
  ensure_libtorch
  lock_build
  configure
  build
}

# print_summary: where the results of the last ctest call are, and what they say.
print_summary() {
  local run
  [[ -r $build_dir/current_run ]] || die 2 "no run folder was made: see CTest's message above."
  run=$(<"$build_dir/current_run")
  "$build_dir/assay" summary "$run" || true  # the exit code is CTest's
}
