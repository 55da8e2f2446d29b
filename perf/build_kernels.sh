#!/usr/bin/env bash
# Builds the kernels beside their sources, for a machine where the package is not installed:
#   bash perf/build_kernels.sh && PYTHONPATH=src python perf/session.py ...
set -e
cd "$(dirname "$0")/.."
cmake -S . -B build/beside -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release \
  -DPython_EXECUTABLE="$(command -v python3)" > /dev/null
cmake --build build/beside -j > /dev/null
cp build/beside/_kernels*.so src/segmeter/kernels/
