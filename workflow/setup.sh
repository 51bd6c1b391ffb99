#!/bin/sh
# Makes a virtual environment with this package in it, or leaves nothing behind; standard input has
# the constraints:
#
#   setup.sh PYTHON FOLDER EXTRAS [TORCH_INDEX [HASHED]]
#
# With TORCH_INDEX, a package index of CPU builds of torch, those are taken where the package index
# would give a build with CUDA to a machine without an NVIDIA GPU. Where it does not answer, and
# elsewhere, torch is the package index's own. HASHED names files of packages by their SHA-256, all
# but torch, whose indexes have different ones: no other file is installed of those.
set -eu
python=$1 folder=$2 extras=$3 index=${4:-} hashed=${5:-}

fail() { echo "set-up: $*" >&2; exit 1; }

command -v "$python" >/dev/null || fail "$python is not there: make setup PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  fail "$("$python" -V 2>&1) will not do: Python 3.11, 3.12 or 3.13 is needed (make setup PYTHON=/path/to/python3.13)"
# Debian has the modules that make an environment in a package of their own.
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  fail "$python cannot make environments: apt install python3-venv (Debian, Ubuntu), then the same command again"

if [ -n "$index" ]; then
  if [ "$(uname -s)" != Linux ] || command -v nvidia-smi >/dev/null; then
    index=
  elif ! "$python" -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1] + "/torch/", timeout=10)' \
    "$index" 2>/dev/null; then
    echo "set-up: $index does not answer; torch comes from the package index, which may give its build with CUDA (4 GB more)"
    index=
  fi
fi

# What was there before stays: the same command goes on with it.
made=
[ -e "$folder" ] || made=$folder
ended() {
  code=$?
  [ $code = 0 ] || [ -z "$made" ] || rm -rf "$made"
  [ $code = 0 ] || fail "failed; see above, and try the same command again${made:+ ($made was removed)}"
}
trap ended EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$python" -m venv "$folder"
cat >"$folder/constraints.txt"
if [ -n "$hashed" ]; then
  "$folder/bin/python" -m pip install --no-compile --disable-pip-version-check --quiet --no-deps --require-hashes --requirement "$hashed" ||
    fail "the package index does not answer, or gives other files than $hashed names: then make setup HASHED= takes them by their versions alone"
fi
"$folder/bin/python" -m pip install --no-compile --disable-pip-version-check --quiet ${index:+--extra-index-url "$index"} \
  --constraint "$folder/constraints.txt" --editable ".[$extras]"
"$folder/bin/python" -c 'import sys, torch
for_what = f"with CUDA {torch.version.cuda}" if torch.version.cuda else "for CPUs"
print(f"set-up: {sys.argv[1]} is ready: torch {torch.__version__} {for_what}")' "$folder"
