# shellcheck shell=bash
# Sourced by the set-up scripts and by the installed run-assay: where LibTorch is, what it is, and which GPUs the driver sees.

say() { printf '%s\n' "$*"; }
die() {  # die CODE SENTENCE: what is wrong and what to do
  local code=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$code"
}

# Exit code 1 is a verdict, which only `verdict 1` gives. In a script with `trap 'demand_verdict $?' EXIT`, a command that fails
# where nobody looked (no space, no right, a file that is not there) ends it with 2, could not run.
verdict() {
  verdict_given=1
  exit "$1"
}
demand_verdict() {
  (($1 != 1)) || [[ -n ${verdict_given:-} ]] || die 2 "it ended early: see above for the reason."
}

# torch_folder WHERE: prints the torch folder at or under WHERE (torch itself, site-packages, a virtual environment).
torch_folder() {
  local candidate
  for candidate in "$1" "$1/torch" "$1/libtorch" "$1"/lib/python3*/site-packages/torch; do
    if [[ -e $candidate/lib/libtorch_cpu.so ]]; then
      (cd "$candidate" && pwd -P)
      return 0
    fi
  done
  return 1
}

# python_torch: the torch folder of python3, found without the two seconds that importing it takes.
python_torch() {
  local folder
  folder=$(python3 -c "import importlib.util as u; print(next(iter(u.find_spec('torch').submodule_search_locations)))" \
    2>/dev/null) || return 1
  torch_folder "$folder"
}

# torch_version FOLDER: "2.11", from LibTorch's own header, or from the file that a runtime without headers has.
torch_version() {
  local header
  for header in include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h; do
    if [[ -r $1/$header ]]; then
      awk '$2 == "TORCH_VERSION_MAJOR" { major = $3 } $2 == "TORCH_VERSION_MINOR" { minor = $3 }
           END { print major "." minor }' "$1/$header"
      return 0
    fi
  done
  for header in "$1/version.py" "$1/build-version"; do
    if [[ -r $header ]]; then
      sed -nE "s/^(__version__ = ')?([0-9]+\.[0-9]+).*/\2/p" "$header" | head -n 1
      return 0
    fi
  done
  return 1
}

# torch_library_path FOLDER: the folders that the loader must search, LibTorch's own environment before any toolkit.
torch_library_path() {
  local path=$1/lib folder
  for folder in "$1"/../nvidia/*/lib; do
    [[ -d $folder ]] && path+=:$(cd "$folder" && pwd -P)
  done
  printf '%s\n' "$path"
}

# gpu_count: the GPUs that the driver shows (1 where MIG slices them, since CUDA then shows one slice to a process).
gpu_count() {
  local list
  list=$(nvidia-smi -L 2>/dev/null) || list=
  if grep -q 'MIG ' <<<"$list"; then
    echo 1
  else
    grep -c '^GPU ' <<<"$list" || true
  fi
}
