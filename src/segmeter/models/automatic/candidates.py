"""Candidates: masks predicted at each point of a grid, measured before masks are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import capability
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Scene
from segmeter.models._enlarging import Measured, Single, Whole, box_of
from segmeter.models.automatic.options import Crop, Options, grid
from segmeter.models.automatic.regions import clean_logits

Places = npt.NDArray[np.intp]
Points = npt.NDArray[np.float64]


@capability
class PredictsGrids(Protocol):
    """An encoded scene that predicts logits for thousands of single clicks `(n, 2)`, `(y, x)`."""

    def candidates(self, points: Points, above: float) -> Logits:
        """All candidates whose score is above a number.

        The comparison is strict and in single precision; a number of 0 or less lets all
        through.
        """
        ...

    def single_candidates(self, points: Points, above: float) -> Logits:
        """The one candidate that a click has as an unambiguous prompt, if its score is above."""
        ...

    def refined(self, points: Points, candidates: Logits) -> Logits:
        """One candidate for each, from its click and its own logits."""
        ...


@dataclass(frozen=True, slots=True)
class Logits:
    """Candidates as logit maps of low (or full) resolution, in the host's memory or a device's."""

    scores: Single  # the model's own
    places: Places  # which point each one answers
    maps: Any  # an array, or a tensor where `to` enlarges on a device
    to: Any  # Enlargement, or what has its measure, masks and values

    def measure(self, offset: float) -> Measured:
        found: Measured = self.to.measure(self.maps, 0.0, offset)
        return found

    def take(self, kept: Places) -> Logits:
        return Logits(self.scores[kept], self.places[kept], self.maps[kept], self.to)

    def masks(self) -> list[Mask]:
        found: list[Mask] = self.to.masks(self.maps, 0.0)
        return found

    def values(self) -> Single:
        """Logits at full size, `(n, H, W)`."""
        return np.asarray(self.to.values(self.maps))

    def cleaned(self, smallest: int) -> Logits:
        """With small regions of the logits lifted or lowered, as SAM 2 does."""
        on_host = isinstance(self.maps, np.ndarray)
        maps = clean_logits(self.maps if on_host else self.maps.cpu().numpy(), smallest)
        return replace(self, maps=maps if on_host else self.maps.new_tensor(maps))

    def encoded(self) -> Encoded:
        """The finished masks as run lengths: a thousandth of the maps' memory."""
        few = (self.maps[start : start + 16] for start in range(0, len(self.maps), 16))
        counts = tuple(mask.to_coco() for maps in few for mask in self.to.masks(maps, 0.0))
        return Encoded(self.scores, self.places, counts)


class Masks:
    """Candidates that are finished masks: no threshold moves them, so they are stable."""

    def __init__(self, scores: Single, places: Places, held: tuple[Any, ...]) -> None:
        self.scores, self.places, self._held = scores, places, held

    @property
    def finished(self) -> tuple[Mask, ...]:
        return self._held

    def measure(self, offset: float) -> Measured:
        areas = np.array([m.area for m in self.finished], dtype=np.int64)
        boxes = np.array([box_of(m) for m in self.finished], dtype=np.int64).reshape(-1, 4)
        return Measured(areas, areas, areas, boxes)

    def take(self, kept: Places) -> Self:
        of = tuple(self._held[i] for i in kept)
        return type(self)(self.scores[kept], self.places[kept], of)

    def masks(self) -> list[Mask]:
        return list(self.finished)

    def values(self) -> Single:
        raise BadInput("this model returns masks without logits; edges cannot be computed")

    def cleaned(self, smallest: int) -> Self:
        raise BadInput("this model returns masks without logits; clean the masks instead")


class Encoded(Masks):
    """Finished masks that are kept as run lengths until needed."""

    @property
    def finished(self) -> tuple[Mask, ...]:
        return tuple(Mask.from_coco(counts) for counts in self._held)


Candidates: TypeAlias = Logits | Masks


def candidates_of(encoded: EncodedScene, points: Points, above: float) -> Candidates:
    """Candidates of clicks `(n, 2)`, `(y, x)`, from any encoded scene that takes clicks."""
    if isinstance(encoded, PredictsGrids):
        return encoded.candidates(points, above)
    requests = [Request((Click((float(y), float(x))),)) for y, x in points]
    found = [
        (float(score), place, prediction.mask(candidate))
        for place, prediction in enumerate(encoded.predict(requests))
        for candidate, score in enumerate(prediction.scores)
    ]
    scores = np.array([score for score, _, _ in found], dtype=np.float32)
    places = np.array([place for _, place, _ in found], dtype=np.intp)
    every = Masks(scores, places, tuple(mask for _, _, mask in found))
    return every.take(np.flatnonzero(scores > np.float32(above))) if above > 0 else every


@dataclass(frozen=True, slots=True)
class Kept:
    """Candidates of one crop that passed the filters; boxes are in the image's frame."""

    crop: Crop
    parts: tuple[Candidates, ...]
    part: Places  # of each: which of the parts it is in
    place: Places  # and where in it
    points: Points
    scores: Single
    stability: Single
    areas: Whole
    boxes: Whole

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, kept: Places) -> Kept:
        columns = ("part", "place", "points", "scores", "stability", "areas", "boxes")
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})

    def groups(self) -> Iterator[tuple[Places, Candidates]]:
        """Which of these lie in each part, and they themselves."""
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(self.part == number)
            if mine.size:
                yield mine, part.take(self.place[mine])

    def masks(self, shape: tuple[int, int]) -> list[Mask]:
        made: dict[int, Mask] = {}
        for mine, part in self.groups():
            made |= zip(mine.tolist(), part.masks(), strict=True)
        found = [made[i] for i in range(len(self))]
        moved = [(m.low[0] + self.crop.top, m.low[1] + self.crop.left) for m in found]
        pairs = zip(found, moved, strict=True)
        return [Mask(shape, low, m.bits) if m else Mask.empty(shape) for m, low in pairs]


def crop_candidates(
    model: Model, scene: Scene, crop: Crop, options: Options, *, compact: bool = False
) -> Kept:
    """Candidates of a crop after the filters, before any suppression.

    `compact` keeps finished masks instead of logits where these lie in the host's memory: a
    grid of 64 x 64 points has 3 GB of them, of which little survives.
    """
    view, (height, width) = scene, crop.shape
    if crop.shape != scene.shape:
        name = f"{scene.id}@{crop.left},{crop.top},{crop.right},{crop.bottom}"
        view = Image(scene.dataset, name, np.ascontiguousarray(scene.pixels[crop.window]), [])
    encoded = model.encode(view)
    layout = options.grids[crop.layer] if options.grids else grid(options.points_in(crop.layer))
    xy = layout * np.array([width, height])
    # `published` takes a place between pixels for a pixel's number: half a pixel off.
    clicks = xy[:, ::-1] - (0.5 if options.protocol == "corrected" else 0.0)
    parts = [
        _filtered(encoded, clicks[start : start + options.batch], crop, scene, options, compact)
        for start in range(0, len(clicks), options.batch)
    ]
    columns = ("place", "points", "scores", "stability", "areas", "boxes")
    return Kept(
        crop,
        tuple(part.parts[0] for part in parts),
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in columns),
    )


def _filtered(
    encoded: EncodedScene, clicks: Points, crop: Crop, scene: Scene, options: Options, compact: bool
) -> Kept:
    """Candidates of some clicks that pass score, stability, cover and the crop's edge."""
    candidates = _answered(encoded, clicks, options)
    if options.smallest and options.clean == "logits":
        candidates = candidates.cleaned(options.smallest)
    found = candidates.measure(options.offset)
    height, width = scene.shape
    passed = passes(candidates.scores, found.stability, found.area, (height, width), options)
    cut = crop.cuts(found.boxes, (height, width), scaled=options.edge == "scaled")
    kept = np.flatnonzero(passed & ~cut)
    start = np.array([crop.top, crop.left])
    left = candidates.take(kept)
    if compact and isinstance(left, Logits) and isinstance(left.maps, np.ndarray):
        left = left.encoded()
    return Kept(
        crop,
        (left,),
        np.zeros(len(kept), dtype=np.intp),
        np.arange(len(kept)),
        clicks[candidates.places[kept]] + start,
        candidates.scores[kept],
        found.stability[kept],
        found.area[kept],
        found.boxes[kept] + np.tile(start[::-1], 2),
    )


def _answered(encoded: EncodedScene, clicks: Points, options: Options) -> Candidates:
    if options.output == "single":
        if options.refine or not isinstance(encoded, PredictsGrids):
            raise BadInput(
                "this model has no single mask for a lone click that could be asked for (or "
                "refined); leave output at three"
            )
        return encoded.single_candidates(clicks, options.score)
    if not options.refine:
        return candidates_of(encoded, clicks, options.score)
    if not isinstance(encoded, PredictsGrids):
        raise BadInput("this model takes no mask prompts; leave refine off")
    refined = encoded.refined(clicks, encoded.candidates(clicks, 0.0))
    if options.score <= 0:
        return refined
    return refined.take(np.flatnonzero(refined.scores > np.float32(options.score)))


def passes(
    scores: Single, stability: Single, areas: Whole, shape: tuple[int, int], options: Options
) -> npt.NDArray[np.bool_]:
    """Candidates with a high score, a stable mask and a small enough area."""
    usual = 0.95 if options.protocol == "corrected" else math.inf
    covers = usual if options.covers is None else options.covers
    passed = areas < covers * shape[0] * shape[1]
    if options.score > 0:
        passed &= scores > np.float32(options.score)
    if options.stability > 0:
        passed &= stability >= np.float32(options.stability)
    if options.protocol == "corrected":
        passed &= areas > 0
    return passed
