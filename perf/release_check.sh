#!/usr/bin/env bash
# What a release must pass: sdist and wheel are built, each goes into a fresh environment (the
# sdist where no C++ compiler can be found), and the demo runs there.
#   make release-check
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath "${BIN:-.venv/bin}")/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$python" -m pip -q install build
"$python" -m build --outdir "$place/dist" . > "$place/build.log" 2>&1 || { tail -20 "$place/build.log"; exit 1; }
ls "$place/dist"

try() { # NAME FILE [environment of pip ...]
  local name=$1 file=$2
  shift 2
  "$python" -m venv "$place/$name"
  env "$@" "$place/$name/bin/pip" -q install -c constraints.txt "$file"
  (cd "$place" && "$name/bin/segmeter" demo --out "$place/run-$name")
  test -s "$place/run-$name/report.html"
  echo "release-check: $name works"
}

try wheel "$place"/dist/*.whl
# A compiler that is not there: the plain kernels must serve.
try sdist "$place"/dist/*.tar.gz CXX=/nonexistent CC=/nonexistent
