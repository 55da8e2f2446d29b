"""Released layouts with rule-made weights: do our networks give the outputs of the authors' code?

    python perf/checkpoints.py --shared ../shared [NAME...]

The tests compare two of the nine models (SAM 2.1 small, SAM-HQ ViT-B); this script compares all of
them, up to SAM ViT-H, which needs about 8 GB of memory. Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests' own comparison


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--shared", type=Path, required=True, help="golden and data")
    asked = parser.parse_args()
    golden, data = asked.shared / "golden", asked.shared / "data"
    packed = (golden / "checkpoints" / "rule_cases.json.gz").read_bytes()
    known = json.loads(gzip.decompress(packed))["models"]
    compare = importlib.import_module("tests.models.test_checkpoints").compare_with_rule
    worst = 0
    for name in asked.names or known:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(Path(folder), golden, data, name)
                told = "agrees: logits within 0.1 % of their range, scores within 0.001"
            except AssertionError as error:
                told, worst = f"DIFFERS: {str(error).splitlines()[0]}", 1
        print(f"{name:24} {told} ({time.perf_counter() - start:.0f} s)", flush=True)
    return worst


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
