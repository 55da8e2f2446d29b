"""All execution paths of SAM's decoder with random weights, with ratios, in one run.

    python perf/decoder_paths.py [--device cuda] [--clicks 256] [--side 1024] [--repeats 20]

Captured CUDA graphs, eager calls, one large pass for single clicks, and the same compiled by torch.
A grid of clicks: candidates, counts and boxes.
Each ratio is against the first line of the same work; a path below 2 is not worth its code. On a
processor take `--side 128 --clicks 8 --repeats 2 --device cpu`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from segmeter.core.models import Request
from segmeter.core.prompts import Click
from segmeter.models.sam._click_decoding import _counts_and_boxes, click_decoder
from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._loading import SamNetwork
from segmeter.models.sam._prompt_batches import Policy
from segmeter.models.sam._resizing import Padded
from segmeter.models.sam._vit import TinyVit


def milliseconds(work: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """The fastest of some calls, after two that warm up."""
    best = float("inf")
    for number in range(repeats + 2):
        start = time.perf_counter()
        with torch.no_grad():
            work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number > 1:
            best = min(best, time.perf_counter() - start)
    return 1000 * best


def scene(network: Any, side: int, seed: int) -> SamEncodedScene:
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randn(1, (side // 16) ** 2, 256, generator=generator).to(network.device)
    embedding = Embedding(cells.to(network.dtype))
    return SamEncodedScene(network, Padded((side, side), side), embedding, Policy())


def requests(count: int, side: int) -> list[Request]:
    places = torch.Generator().manual_seed(1)
    points = torch.randint(0, side, (count, 2), generator=places).tolist()
    return [Request((Click((y, x)),)) for y, x in points]


def _eager(encoded: SamEncodedScene, asked: list[Request]) -> None:
    encoded.graphs = False
    encoded.render(encoded.predict(asked))
    encoded.graphs = True


def rounds(encoded: SamEncodedScene, count: int, side: int) -> Iterator[tuple[str, Any]]:
    """A round of sessions: few requests on one scene."""
    asked = requests(count, side)
    yield f"round of {count}, captured graphs", lambda: encoded.render(encoded.predict(asked))
    yield f"round of {count}, eager", lambda: _eager(encoded, asked)


def clicks(encoded: SamEncodedScene, count: int, side: int) -> Iterator[tuple[str, Any]]:
    """Many single clicks on one scene, as a click-response map or a grid asks for."""
    asked = requests(count, side)
    device = encoded.network.device
    points = torch.tensor([r.prompts[0].point for r in asked], device=device).float()  # type: ignore[union-attr]
    decode = click_decoder(encoded, encoded.network.dtype)
    yield f"{count} single clicks, captured graphs", lambda: encoded.predict(asked)
    yield f"{count} single clicks, eager", lambda: _eager(encoded, asked)
    yield f"{count} single clicks, one pass", partial(decode, points)
    if device.type == "cuda":
        fused = torch.compile(decode, dynamic=False)
        yield f"{count} single clicks, one pass, compiled", partial(fused, points)


def grids(encoded: SamEncodedScene, count: int, side: int) -> Iterator[tuple[str, Any]]:
    """Candidates of a grid of clicks, with counts and boxes."""
    device = encoded.network.device
    points = np.stack(np.meshgrid(*[np.linspace(8, side - 8, round(count**0.5))] * 2), -1)
    places = points.reshape(-1, 2)
    name = f"grid of {len(places)}"
    yield f"{name}, candidates", lambda: encoded.candidates(places, 0.0)
    yield f"{name}, and measured", lambda: encoded.candidates(places, 0.0).measure(1.0)
    values = torch.randn(24, side, side, device=device)
    yield "counts and boxes of 24 maps", lambda: _counts_and_boxes(values, 0.0, 1.0)


def measure(paths: Iterator[tuple[str, Any]], device: torch.device, repeats: int) -> None:
    first = 0.0
    for name, work in paths:
        took = milliseconds(work, device, repeats)
        first = first or took
        print(f"{name:<52} {took:10.3f} ms   {first / took:6.2f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    known = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=known)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--clicks", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    device = torch.device(given.device)
    for dtype in ("float32", "float16") if device.type == "cuda" else ("float32",):
        network = SamNetwork(TinyVit(), given.side, device=given.device, dtype=dtype)
        network.parts.to(network.device, network.dtype)
        print(f"\n{dtype}, side {given.side}, {device}")
        encoded = scene(network, given.side, 0)
        for count in (1, 8):
            measure(rounds(encoded, count, given.side), device, given.repeats)
        measure(clicks(encoded, given.clicks, given.side), device, given.repeats)
        measure(grids(encoded, given.clicks, given.side), device, given.repeats)


if __name__ == "__main__":
    main()
