#!/bin/sh
# Builds the library's wheel and source archive into dist/, and lists what they and the pipeline are
# made of (CycloneDX) in build/. Then checks them where they are all that is installed.
#
#   build_dist.sh PYTHON VERSION
set -eu
python=$1 version=$2
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
trap 'exit 130' INT TERM

rm -rf dist
"$python" -m build --no-isolation --outdir dist pike_mixing >"$clean/log" 2>&1 || { cat "$clean/log" >&2; exit 1; }
"$python" -m twine check --strict dist/*

# The examples of the library's page, where the wheel and what it asks for are all that there is (-I: no PYTHONPATH).
"$python" -I -m venv "$clean/venv"
"$clean/venv/bin/python" -I -m pip install --disable-pip-version-check --quiet dist/*.whl
sed -n '/^```python$/,/^```$/p' docs/library.md | grep -v '^```' >"$clean/example.py"
"$clean/venv/bin/python" -I "$clean/example.py"
found=$("$clean/venv/bin/python" -I -c 'import pike_mixing; print(pike_mixing.__version__)')
[ "$found" = "$version" ] || { echo "archives: the wheel says $found, not $version" >&2; exit 1; }

mkdir -p build
"$python" -m cyclonedx_py environment --output-reproducible --of JSON --output-file "build/pike_mixing-$version.cdx.json" \
  "$clean/venv/bin/python"
"$python" -m cyclonedx_py requirements --output-reproducible --of JSON --output-file "build/pipeline-$version.cdx.json" \
  requirements-hashed.txt
