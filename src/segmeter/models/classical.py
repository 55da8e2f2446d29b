"""Classical interactive segmenters: GrabCut and the random walker. No weights, no GPU.

Both work on a smaller copy of the image, so that an answer costs the same for every
image, and enlarge their answer smoothly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.masks import Bits, Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble, points_of
from segmeter.core.scenes import Pixels, Scene
from segmeter.models.adapters import OneByOne, as_image

Map = npt.NDArray[np.float32]
Labels = npt.NDArray[np.uint8]
Ratio = tuple[float, ...]

UNKNOWN, OBJECT, GROUND = 0, 1, 2


@catalogue.models.add("grabcut", "GrabCut: colour mixtures and a graph cut (OpenCV)")
class GrabCut:
    """Learns the colours of object and background and cuts between them.

    A lone click starts from a disc around it; later rounds start from the last mask.

    Parameters
    ----------
    side
        Longest side of the copy it works on, in pixels. The defaults were chosen on four
        images of `mini` (chelsea, coffee, coins, camera), where they gave a higher IoU than
        320 pixels with three rounds, in about a third of the CPU time.
    rounds
        Iterations of colour model and cut for each prediction.
    """

    card = ModelCard(
        "grabcut",
        "GrabCut: colour mixtures and a graph cut (OpenCV)",
        frozenset({"click", "box", "scribble", "mask"}),
        licence="Apache-2.0",
        citation="rother2004",
        family="classical",
    )

    def __init__(self, side: int = 192, rounds: int = 2) -> None:
        self.side, self.rounds = side, rounds

    def encode(self, scene: Scene) -> OneByOne:
        pixels, ratio = _small(scene, self.side, self.card.name)
        return OneByOne(lambda request: _prediction(self._cut(pixels, ratio, request), scene.shape))

    def _cut(self, pixels: Pixels, ratio: Ratio, request: Request) -> Map:
        import cv2

        labels: Any = _start(pixels, ratio, request)
        object_like = np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD))
        if not object_like.any() or object_like.all():
            return object_like.astype(np.float32)
        # The colours' clusters start from OpenCV's own generator.
        cv2.setRNGSeed(0)
        back, front = np.zeros((2, 1, 65))
        whole = (0, 0, 0, 0)  # ignored in this mode
        for mode in (cv2.GC_INIT_WITH_MASK, *[cv2.GC_EVAL] * (self.rounds - 1)):
            cv2.grabCut(pixels, labels, whole, back, front, 1, mode)
            found = np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD))
            if not found.any():  # colours too alike: keep the last mask that is not empty
                break
            object_like = found
        return object_like.astype(np.float32)


@catalogue.models.add("random-walker", "random walker from clicks and strokes (scikit-image)")
class RandomWalker:
    """Gives a pixel to the seeds that a random walker from there reaches first.

    Without a box the image's border is background, unless a prompt marks it as foreground.

    Parameters
    ----------
    side
        Longest side of the copy it works on, in pixels.
    beta
        Weight of colour differences: the larger, the less the walker crosses edges.
    """

    card = ModelCard(
        "random-walker",
        "random walker from clicks and strokes (scikit-image)",
        frozenset({"click", "box", "scribble"}),
        licence="BSD-3-Clause",
        citation="grady2006",
        family="classical",
    )

    def __init__(self, side: int = 160, beta: float = 130) -> None:
        self.side, self.beta = side, beta

    def encode(self, scene: Scene) -> OneByOne:
        (pixels, ratio), shape = _small(scene, self.side, self.card.name), scene.shape
        return OneByOne(
            lambda request: _prediction(self._walk(pixels, ratio, request.prompts), shape)
        )

    def _walk(self, pixels: Pixels, ratio: Ratio, prompts: tuple[Prompt, ...]) -> Map:
        from skimage.segmentation import random_walker

        seeds = _seeds(pixels, ratio, prompts)
        found = np.unique(seeds)
        if OBJECT not in found or GROUND not in found or UNKNOWN not in found:
            return np.where(seeds == OBJECT, np.float32(1), np.float32(0))
        chances: Any = random_walker(
            pixels / 255.0,
            seeds.astype(np.int32),
            beta=self.beta,
            mode="bf",  # solved outright: exact, and iterating took 80 times as long
            channel_axis=-1,
            return_full_prob=True,
        )
        return np.asarray(chances[0], dtype=np.float32)


def _prediction(chance: Map, shape: tuple[int, ...]) -> MaskPrediction:
    """A probability map of the smaller copy, enlarged when needed.

    Its score is the mean probability inside the mask.
    """
    inside = chance > 0.5
    score = float(chance[inside].mean()) if inside.any() else 0.0
    return MaskPrediction(partial(_enlarged, chance, shape), score, inside)


def _enlarged(chance: Map, shape: tuple[int, ...]) -> Mask:
    import cv2

    height, width = shape
    whole = cv2.resize(chance, (width, height), interpolation=cv2.INTER_LINEAR)
    return Mask.of(whole > 0.5)


def _start(pixels: Pixels, ratio: Ratio, request: Request) -> Labels:
    """OpenCV's labels: sure where prompts are, probable elsewhere."""
    import cv2

    seeds = paint(request.prompts, pixels.shape[:2], ratio, radius=3)
    labels = np.where(_likely(request, seeds, ratio), cv2.GC_PR_FGD, cv2.GC_PR_BGD)
    box = _last_box(request.prompts)
    if box is not None:
        labels[~_inside(box, labels.shape, ratio)] = cv2.GC_BGD
    labels[seeds == OBJECT] = cv2.GC_FGD
    labels[seeds == GROUND] = cv2.GC_BGD
    return labels.astype(np.uint8)


def _likely(request: Request, seeds: Labels, ratio: tuple[float, ...]) -> Bits:
    """Region the object may cover: the last mask, a hint, the box, or discs around seeds."""
    import cv2

    if request.state is not None:
        return np.asarray(request.state, dtype=bool)
    hints = [p.mask for p in request.prompts if isinstance(p, MaskHint)]
    height, width = seeds.shape
    if hints:
        dense = hints[-1].dense().astype(np.uint8)
        return np.asarray(cv2.resize(dense, (width, height)) > 0)
    box = _last_box(request.prompts)
    if box is not None:
        return _inside(box, seeds.shape, ratio)
    if not (seeds == OBJECT).any():
        return np.zeros(seeds.shape, dtype=bool)
    far = cv2.distanceTransform((seeds != OBJECT).astype(np.uint8), cv2.DIST_L2, 5)
    return np.asarray(far < min(height, width) / 4)


def _seeds(pixels: Pixels, ratio: Ratio, prompts: tuple[Prompt, ...]) -> Labels:
    shape = pixels.shape[:2]
    around = np.zeros(shape, dtype=np.uint8)
    box = _last_box(prompts)
    if box is not None:
        around[~_inside(box, shape, ratio)] = GROUND
        around[_middle(box, shape, ratio)] = OBJECT
    else:
        around[[0, -1]] = around[:, [0, -1]] = GROUND
    painted = paint(prompts, shape, ratio, radius=max(shape) / 32)
    return np.where(painted == UNKNOWN, around, painted)


def paint(
    prompts: Iterable[Prompt], shape: Sequence[int], ratio: Sequence[float], radius: float
) -> Labels:
    """Clicks and strokes as labelled discs on the smaller copy; later ones cover earlier."""
    labels = np.zeros(shape, dtype=np.uint8)
    y, x = np.ogrid[: shape[0], : shape[1]]
    for prompt in prompts:
        if not isinstance(prompt, Click | Scribble):
            continue
        for point in points_of(prompt):
            row, column = _scaled(point, ratio)
            near = (y - row) ** 2 + (x - column) ** 2 <= radius**2
            labels[near] = OBJECT if prompt.positive else GROUND
    return labels


def _small(scene: Scene, side: int, name: str) -> tuple[Pixels, Ratio]:
    """The image with its longest side at most `side`, and its size relative to the image's."""
    import cv2

    height, width = as_image(scene, name).shape
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = np.asarray(cv2.resize(scene.pixels, size, interpolation=cv2.INTER_AREA))
    return small, (small.shape[0] / height, small.shape[1] / width)


def _scaled(point: Point, ratio: Sequence[float]) -> tuple[float, ...]:
    """Pixel centres of the image as pixel centres of the copy."""
    return tuple((c + 0.5) * r - 0.5 for c, r in zip(point, ratio, strict=True))


def _last_box(prompts: Iterable[Prompt]) -> Box | None:
    boxes = [p for p in prompts if isinstance(p, Box)]
    return boxes[-1] if boxes else None


def _inside(box: Box, shape: Sequence[int], ratio: Sequence[float]) -> Bits:
    """The copy's pixels within the box, at least one."""
    bits = np.zeros(shape, dtype=bool)
    low, high = _scaled(box.low, ratio), _scaled(box.high, ratio)
    ends = zip(low, high, strict=True)
    bits[tuple(slice(max(0, round(a)), max(0, round(a), round(b)) + 1) for a, b in ends)] = True
    return bits


def _middle(box: Box, shape: Sequence[int], ratio: Sequence[float]) -> Bits:
    """The ellipse of half the box's size in its middle."""
    low, high = _scaled(box.low, ratio), _scaled(box.high, ratio)
    axes = np.ogrid[: shape[0], : shape[1]]
    squared = sum(
        ((axis - (a + b) / 2) / max((b - a) / 4, 0.5)) ** 2
        for axis, a, b in zip(axes, low, high, strict=True)
    )
    return np.asarray(squared <= 1)
