"""The click-response map of a 1024 x 1024 frame: one click at a time against ours, in one run.

    python perf/click_response.py [--side 1024] [--clicks 1048576] [--device cuda]
    python perf/click_response.py --error --data DATA --weights WEIGHTS

SAM's decoder (the same for ViT-B, -L and -H) with random weights on a random embedding:
speed does not depend on them. One click at a time means one call of the decoder, up-sampling,
threshold and IoU for each click on the same device. `--error` says what half precision costs
on real weights: the largest change of IoU over all clicks of some images. On a processor
take a small frame, such as `--side 128 --clicks 256 --device cpu`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segmeter.benchmarks.tetris.click_response import single_click_scores
from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import Request, render
from segmeter.core.prompts import Click
from segmeter.core.scenes import Target
from segmeter.measures.objects import band_reach, iou
from segmeter.models.sam._click_decoding import DeviceJudge, click_decoder
from segmeter.models.sam._click_decoding import together as clicks_together
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._prompt_batches import Policy
from segmeter.models.sam._resizing import Padded

WIDTH = 256


@dataclass(eq=False)  # hashed by identity, as a network is
class RandomSam:
    """The parts of a SAM after its image encoder, with random weights."""

    prompts: PromptEncoder
    decoder: MaskDecoder
    device: torch.device
    second: bool = False


def random_view(side: int, device: torch.device) -> SamEncodedScene:
    torch.manual_seed(0)
    network: Any = RandomSam(
        PromptEncoder(side, side // 16, WIDTH).to(device), MaskDecoder().to(device).eval(), device
    )
    cells = torch.randn(1, (side // 16) ** 2, WIDTH, device=device)
    return SamEncodedScene(network, Padded((side, side), side), Embedding(cells), Policy())


def ready(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def milliseconds(work: Callable[[], Any], count: int, device: torch.device) -> float:
    """Milliseconds for each of `count` clicks, after a call that warms up."""
    work()
    ready(device)
    start = time.perf_counter()
    work()
    ready(device)
    return 1000 * (time.perf_counter() - start) / count


def one_at_a_time(
    encoded: SamEncodedScene, target: Target, places: Sequence[tuple[int, int]]
) -> None:
    for place in places:
        (mask,) = render(encoded, encoded.predict([Request((Click(place),))]))
        iou(target.mask, mask)


@torch.no_grad()
def together(
    encoded: SamEncodedScene, places: Tensor, dtype: torch.dtype, compiled: bool
) -> Callable[[], None]:
    """Many clicks a call on one embedding."""
    decode = click_decoder(encoded, dtype)
    decode = torch.compile(decode, dynamic=False) if compiled else decode

    @torch.no_grad()
    def work() -> None:
        decode(places)

    return work


def ladder(encoded: SamEncodedScene, target: Target, places: Tensor) -> float:
    """One step after the other, each with what it brings; returns one click at a time."""
    device = encoded.network.device
    single = [(int(y), int(x)) for y, x in places[:64].tolist()]
    lone = milliseconds(lambda: one_at_a_time(encoded, target, single), len(single), device)
    print(f"{'one click at a time, float32':<44} {lone:9.4f} ms per click", flush=True)
    size = len(places)
    kinds = [torch.float32, torch.bfloat16, torch.float16]
    steps: list[tuple[str, Callable[[], Callable[[], None]]]] = []
    for compiled in (False, True) if device.type == "cuda" else (False,):
        for dtype in kinds[1:] if compiled else kinds:
            name = f"together, {str(dtype).removeprefix('torch.')}"
            name += ", compiled" if compiled else ""
            steps.append((name, partial(together, encoded, places, dtype, compiled)))
    for name, make in steps:
        spent = milliseconds(make(), size, device)
        print(f"{name:<44} {spent:9.4f} ms per click {lone / spent:8.1f} x", flush=True)
        torch.compiler.reset()
    half = torch.float16 if device.type == "cuda" else torch.float32
    low = 4 * encoded.network.prompts.grid_side
    logits = torch.randn(size, low, low, device=device, dtype=half)
    for reach, said in ((0, "IoU"), (band_reach(target.mask.shape), "IoU and Boundary IoU")):
        judge = DeviceJudge(encoded.frame, target, device, reach, device.type == "cuda")
        with torch.no_grad():
            spent = milliseconds(partial(judge, logits), size, device)
        print(f"{'up-sampling, threshold, ' + said:<44} {spent:9.4f} ms per click", flush=True)
    return lone


def whole(
    encoded: SamEncodedScene, target: Target, points: np.ndarray, lone: float, boundary: bool
) -> None:
    """The map itself, everything counted."""
    device = encoded.network.device
    on_cuda = device.type == "cuda"
    warm = points[: clicks_together(device)]
    single_click_scores(encoded, warm, target, boundary=boundary, compiled=on_cuda)
    ready(device)
    start = time.perf_counter()
    scores = single_click_scores(encoded, points, target, boundary=boundary, compiled=on_cuda)
    seconds = time.perf_counter() - start
    assert scores is not None
    assert np.isfinite(scores[:, 0]).all()
    said = "IoU and Boundary IoU" if boundary else "IoU"
    faster = lone * len(points) / 1000 / seconds
    print(
        f"{len(points)} clicks, {said}: {seconds:.1f} s, {1000 * seconds / len(points):.4f} ms a "
        f"click, {faster:.0f} x faster than one at a time ({lone * len(points) / 1000:.0f} s)",
        flush=True,
    )


def errors(data: Path, weights: Path, names: Sequence[str], images: int) -> None:
    """Largest change of IoU when the decoder computes in half precision."""
    dataset = catalogue.datasets.make("grabcut", data=data)
    for name in names:
        model = catalogue.models.make(name, weights=weights)
        worst: dict[str, list[np.ndarray]] = {"float16": [], "bfloat16": []}
        for scene in list(dataset.scenes())[:images]:
            loaded = dataset.load(scene)
            encoded, target = model.encode(loaded), loaded.targets[0]
            rows, columns = np.nonzero(target.mask.dense())
            points = np.stack([rows, columns], axis=1)[:: max(1, len(rows) // 512)]
            exact = single_click_scores(encoded, points, target, dtype=torch.float32)
            assert exact is not None
            for kind, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
                rough = single_click_scores(encoded, points, target, dtype=dtype)
                assert rough is not None
                worst[kind].append(np.abs(rough - exact)[:, 0])
        for kind, parts in worst.items():
            all_ = np.concatenate(parts)
            print(
                f"{name}, {kind}: IoU of {len(all_)} clicks changes by {np.median(all_):.1e} "
                f"(median), {np.quantile(all_, 0.99):.1e} (99 %), {all_.max():.1e} (most)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--clicks", type=int, default=0, help="0: every pixel")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--images", type=int, default=8)
    chosen = parser.parse_args()
    if chosen.error:
        errors(chosen.data, chosen.weights, ("mobile-sam",), chosen.images)
        return
    device = torch.device(chosen.device)
    side = chosen.side
    encoded = random_view(side, device)
    target = Target("square", Mask.box((side, side), (side // 4,) * 2, (3 * side // 4,) * 2))
    points = np.indices((side, side)).reshape(2, -1).T.copy()
    if chosen.clicks:
        points = points[:: max(1, len(points) // chosen.clicks)][: chosen.clicks]
    size = chosen.batch or clicks_together(device)
    what = torch.cuda.get_device_name() if device.type == "cuda" else "processor"
    print(f"{what}, frame {side} x {side}, {size} clicks a call")
    places = torch.from_numpy(points[:size]).to(device, torch.float32)
    lone = ladder(encoded, target, places)
    whole(encoded, target, points, lone, boundary=False)
    whole(encoded, target, points[:: max(1, len(points) // 131072)], lone, boundary=True)


if __name__ == "__main__":
    main()
