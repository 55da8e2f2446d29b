"""Automatic masks: the published order of steps against ours, in one run, results compared.

    python perf/automatic.py [--weights WEIGHTS] [--model mobile-sam] [--points 32]
        [--image FILE] [--device cpu] [--maps 24] [--dtype float32] [--repeats 3]

First what comes after the network, on drawn logit maps at 480 x 640 and 1080 x 1440: enlarge,
stability, threshold, box and run lengths. Then, where weights are available, a whole image,
encoding included, at the default settings. The plain way is what the originals do: batches of 64
points through the decoder as published, run eagerly, everything enlarged before anything is
dropped, run lengths of all that passed, suppression, masks drawn (`plain_automatic.py`,
`plain_decoder.py`); network, weights and precision are the same. On a GPU half precision
follows, its plain version, and how far its masks are from those of single precision.
Ends with status 1 where a promise does not hold:

- counts, boxes, stabilities and masks after the network are the same, bit by bit;
- what comes after the network is at least 10 x faster at 1080 x 1440;
- at 32 x 32 points (the default) a whole image is at least 2 x faster, and under 0.4 s in single
  and 0.15 s in half precision on a GPU.

`--repeats 0` times a single call that is not warmed up: 1024 points take a processor minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plain_automatic import Found, plain_masks, plain_steps
from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image
from segmeter.models.automatic.generator import AutomaticMask, defaults_of, generate
from segmeter.models.automatic.options import Options
from segmeter.models.sam._resizing import Padded

Single = npt.NDArray[np.float32]
SHAPES = ((480, 640), (1080, 1440))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="mobile-sam")
    parser.add_argument("--weights", default=os.environ.get("SEGMETER_WEIGHTS"))
    parser.add_argument("--image", type=Path)
    parser.add_argument("--points", type=int, default=32)
    parser.add_argument("--maps", type=int, default=24)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    held = [after_the_network(shape, chosen.maps) for shape in SHAPES]
    try:
        held += whole_image(chosen)
    except NotFound as missing:
        print(f"whole image skipped: {missing}")
    return 0 if all(held) else 1


def after_the_network(shape: tuple[int, int], count: int) -> bool:
    """Plain and fused on the same maps; prints a line, and whether the promises hold."""
    maps, scores = drawn_maps(count), np.linspace(0.8, 1.0, count, dtype=np.float32)
    frame = Padded(shape)
    to = frame.enlargement((256, 256))
    options = Options(score=0.0, stability=0.0, box_nms=0.7)

    def plain() -> Found:
        full = frame.leave(torch.from_numpy(maps)[:, None])[:, 0]
        return plain_steps(full, torch.from_numpy(scores), options)

    def fused() -> tuple[Any, list[Mask], list[bytes]]:
        found = to.measure(maps, 0.0, 1.0)
        masks = to.masks(maps, 0.0)
        return found, masks, [m.to_coco()["counts"] for m in masks]

    theirs, slow = timed(plain, 3)
    (found, masks, _), fast = timed(fused, 3)
    _, measured = timed(lambda: to.measure(maps, 0.0, 1.0), 3)
    same = (
        np.array_equal(found.boxes, theirs.boxes)
        and np.array_equal(found.stability, theirs.stability)
        and [m.run_lengths().tolist() for m in masks] == theirs.counts
    )
    name = f"after the network, {shape[0]} x {shape[1]}"
    each = 1000 / count
    print(
        f"{name:<34} plain {slow * each:7.2f} ms  fused {fast * each:6.3f} ms per mask"
        f"  {slow / fast:6.1f} x  (measuring alone {slow / measured:6.1f} x)"
        f"  {'identical' if same else 'DIFFERENT'}"
    )
    return same and (shape[0] < 1080 or slow >= 10 * fast)


def whole_image(chosen: argparse.Namespace) -> Iterator[bool]:
    """One image in the precision asked for and, on a GPU, in half precision too."""
    scene = image(chosen.image)
    single, held = compared(chosen, scene, chosen.dtype)
    yield held
    if chosen.dtype == "float32" and chosen.device != "cpu":
        half, held = compared(chosen, scene, "float16")
        yield held
        best = [max((iou(a.mask, b.mask) for b in half), default=0.0) for a in single]
        print(
            f"half precision: {len(half)} masks; of {len(single)} masks in single precision the "
            f"best partner has a mean IoU of {np.mean(best):.4f}, the lowest "
            f"{min(best, default=1.0):.4f}, {np.mean(np.array(best) > 0.99):.1%} above 0.99"
        )


def compared(
    chosen: argparse.Namespace, scene: Image, dtype: str
) -> tuple[list[AutomaticMask], bool]:
    """Plain and ours on an image; our masks, and whether the promises hold."""
    where = {"weights": chosen.weights, "device": chosen.device, "dtype": dtype}
    model = catalogue.models.make(chosen.model, **where, resize="pillow")
    options = Options(points=chosen.points, **defaults_of(model))
    height, width = scene.shape

    def plain() -> Found:
        return plain_masks(model.encode(scene), (height, width), options)

    model.encode(scene)  # weights are read with the first encoding
    _, encode = timed(lambda: model.encode(scene), chosen.repeats, chosen.device)
    theirs, slow = timed(plain, chosen.repeats, chosen.device)
    mine, fast = timed(lambda: generate(model, scene, options), chosen.repeats, chosen.device)
    print(
        f"{chosen.model}, {width} x {height}, {chosen.points} x {chosen.points} points, "
        f"{chosen.device} {dtype}: plain {slow:.3f} s, ours {fast:.3f} s, "
        f"{slow / fast:.1f} x; encoding alone {encode:.3f} s; "
        f"without it {(slow - encode) / (fast - encode):.1f} x"
    )
    print(agreement(theirs, mine))
    return mine, chosen.points != 32 or promised(chosen.device, dtype, slow, fast)


def promised(device: str, dtype: str, slow: float, fast: float) -> bool:
    limit = float("inf") if device == "cpu" else 0.4 if dtype == "float32" else 0.15
    return slow >= 2 * fast and fast < limit


def agreement(theirs: Found, mine: list[AutomaticMask]) -> str:
    """How the two lists differ."""
    if not mine and not theirs.counts:
        return "no masks either way"
    size = mine[0].mask.shape if mine else theirs.masks[0].shape
    masks = [Mask.from_coco({"size": size, "counts": counts}) for counts in theirs.counts]
    if len(mine) != len(masks) or any(
        iou(a.mask, b) < 0.5 for a, b in zip(mine, masks, strict=True)
    ):
        best = [max((iou(a.mask, b) for b in masks), default=0.0) for a in mine]
        return (
            f"another order: {len(masks)} masks the plain way, {len(mine)} ours, whose best "
            f"partner has a mean IoU of {np.mean(best):.4f}, the lowest {min(best, default=0):.4f}"
        )
    overlaps = [iou(a.mask, b) for a, b in zip(mine, masks, strict=True)]
    gaps = np.abs(np.array([m.score for m in mine]) - theirs.scores)
    equal = sum(a.mask == b for a, b in zip(mine, masks, strict=True))
    return (
        f"{len(mine)} masks in the same order; {equal} equal bit by bit, "
        f"lowest IoU {min(overlaps):.5f}; scores differ by at most {gaps.max():.1e}"
    )


def iou(a: Mask, b: Mask) -> float:
    both = a.overlap(b)
    union = a.area + b.area - both
    return both / union if union else 1.0


def timed(work: Callable[[], Any], repeats: int, device: str = "cpu") -> tuple[Any, float]:
    """The result and the least seconds of some calls, after one that warms up.

    CPU seconds on a processor, which others may be using too; seconds by the clock on a GPU.
    """
    now = time.process_time if device == "cpu" else time.perf_counter
    result = work() if repeats else None
    seconds = []
    for _ in range(repeats or 1):
        start = now()
        result = work()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(now() - start)
    return result, min(seconds)


def drawn_maps(count: int, side: int = 256) -> Single:
    """Logits of compact things with uneven outlines: about three logits a pixel there."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:side, :side]
    maps = []
    for _ in range(count):
        cy, cx = rng.uniform(0.15 * side, 0.8 * side, 2)
        radius, waves = rng.uniform(0.03, 0.27) * side, rng.integers(2, 7)
        far, angle = np.hypot(y - cy, x - cx), np.arctan2(y - cy, x - cx)
        rise = 3 * (radius - far * (1 + 0.15 * np.sin(waves * angle)))
        maps.append(np.clip(rise, -20, 20) + rng.normal(0, 0.3, (side, side)))
    return np.array(maps, dtype=np.float32)


def image(file: Path | None) -> Image:
    if file is None:
        inside = catalogue.datasets.make("mini")
        scene: Image = inside.load(inside.scenes()[0])
        return scene
    from segmeter.datasets.image_files import read_rgb

    return Image("file", file.stem, read_rgb(file), [])


if __name__ == "__main__":
    sys.exit(main())
