"""ONNX on the CPU against torch: MobileSAM's encoder and decoder, ratios in one run.

    python perf/onnx_speed.py --weights FOLDER [--repeats 5] [--threads 1]

Exports the weights, then times both in turn on a built-in image; prints wall milliseconds and
how much faster onnxruntime is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.models.sam.onnx_export import export_pair

from segmeter.core import catalogue
from segmeter.core.models import Request
from segmeter.core.prompts import Click


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", required=True, help="a folder with mobile-sam")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    ours = catalogue.models.make("mobile-sam", weights=asked.weights, device="cpu")
    data = catalogue.datasets.make("mini")
    scene = data.load(data.scenes()[0])
    with tempfile.TemporaryDirectory() as folder:
        pair = export_pair(ours.network, Path(folder) / "mobile-sam.onnx")
        models = [ours, catalogue.models.make(str(pair), device="cpu")]
        _print("encode", [partial(m.encode, scene) for m in models], asked.repeats)
        encoded = [model.encode(scene) for model in models]
        request = Request((Click((100, 120)),))
        steps = [partial(_clicked, e, request) for e in encoded]
        _print("click", steps, 4 * asked.repeats)
        masks = [step() for step in steps]
        both = (masks[0].dense() & masks[1].dense()).sum()
        either = (masks[0].dense() | masks[1].dense()).sum()
        print(f"IoU of the two masks {both / either:.4f}")


def _clicked(encoded: Any, request: Request) -> Any:
    return encoded.predict([request])[0].mask()


def _print(name: str, works: Sequence[Callable[[], Any]], repeats: int) -> None:
    """Times both in turn, so that whatever else runs slows both."""
    for work in works:
        work()
    spent = []
    for _ in range(repeats):
        row = []
        for work in works:
            start = time.perf_counter()
            work()
            row.append(1000 * (time.perf_counter() - start))
        spent.append(row)
    torch_ms, onnx_ms = np.median(spent, axis=0)
    ratio = np.median([a / b for a, b in spent])
    print(f"{name:8} torch {torch_ms:8.1f} ms  onnxruntime {onnx_ms:8.1f} ms  {ratio:.2f} x")


if __name__ == "__main__":
    main()
