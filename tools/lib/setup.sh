# Shared by tools/conformance and tools/selftest: installs what is missing, configures and builds. Meant to be sourced.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/assay
torch_version=2.11.0
libtorch=
offline=
build=$root/build
jobs=$(nproc)

say() { printf 'assay: %s\n' "$*"; }
die() { printf 'assay: %s\n' "$*" >&2; exit 2; }

parse_flags() {
  while [ $# -gt 0 ]; do
    case $1 in
      --libtorch) [ $# -gt 1 ] || die "--libtorch needs a folder"; libtorch=$2; shift ;;
      --torch-version) [ $# -gt 1 ] || die "--torch-version needs a version"; torch_version=$2; shift ;;
      --build-dir) [ $# -gt 1 ] || die "--build-dir needs a folder"; build=$2; shift ;;
      --jobs) [ $# -gt 1 ] || die "--jobs needs a number"; jobs=$2; shift ;;
      --offline) offline=1 ;;
      --help) say "flags: --libtorch FOLDER --torch-version V --build-dir FOLDER --jobs N --offline"; exit 0 ;;
      *) die "unknown flag $1; --help lists them" ;;
    esac
    shift
  done
}

# The Debian packages without which nothing builds; a check tells whether each is there.
need_packages() {
  missing=()
  command -v g++ >/dev/null || missing+=(g++)
  command -v cmake >/dev/null || missing+=(cmake)
  command -v ninja >/dev/null || missing+=(ninja-build)
  command -v python3 >/dev/null || missing+=(python3)
  [ -e /usr/include/gtest/gtest.h ] || missing+=(libgtest-dev)
  [ -e /usr/include/nlohmann/json.hpp ] || missing+=(nlohmann-json3-dev)
  [ -e /usr/include/openssl/evp.h ] || missing+=(libssl-dev)
  if command -v python3 >/dev/null && ! python3 -c 'import ensurepip' 2>/dev/null; then missing+=(python3-venv); fi
  [ ${#missing[@]} -eq 0 ] && return
  [ -n "${CMAKE_PREFIX_PATH:-}" ] && [ -n "$offline" ] && return
  [ -z "$offline" ] || die "missing: ${missing[*]}; install them, or name a prefix that holds them in CMAKE_PREFIX_PATH"
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    die "missing: ${missing[*]}; have an administrator run: apt-get install ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" || die "apt-get could not install ${missing[*]}"
}

# make_venv FOLDER REQUIREMENT…: made once; an interrupted one is made anew, since only a complete one carries the final name.
make_venv() {
  local folder=$1
  shift
  [ -d "$folder" ] && return
  [ -z "$offline" ] || die "$folder is missing and --offline forbids to make it"
  mkdir -p "$cache"
  (
    flock 9
    [ -d "$folder" ] && exit 0
    rm -rf "$folder.partial"
    say "installing $* (once, into $folder)"
    python3 -m venv "$folder.partial" && "$folder.partial/bin/python" -m pip install --disable-pip-version-check "$@" \
      && mv "$folder.partial" "$folder"
  ) 9>"$cache/lock" || die "pip could not install $*; run the command again to go on"
}

set_up() {
  need_packages
  if [ -z "$libtorch" ]; then
    make_venv "$cache/libtorch-$torch_version" "torch==$torch_version" numpy
    libtorch=$(echo "$cache/libtorch-$torch_version"/lib/python3*/site-packages/torch)
  fi
  [ -e "$libtorch/lib/libtorch_cpu.so" ] || die "$libtorch holds no LibTorch (lib/libtorch_cpu.so is missing)"
  cmake -S "$root" -B "$build" -G Ninja -DASSAY_LIBTORCH="$libtorch" >"$build.configure.log" 2>&1 \
    || { cat "$build.configure.log" >&2; die "configure failed"; }
  cmake --build "$build" -j "$jobs" || cmake --build "$build" -j 1 || die "the build failed"
}
