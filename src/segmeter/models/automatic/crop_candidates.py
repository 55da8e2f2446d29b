"""Candidates of a crop: what its grid of clicks offers after the filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model
from segmeter.core.scenes import Image, Scene
from segmeter.models.automatic.candidates import (
    Candidates,
    Logits,
    PredictsGrids,
    PredictsGridsSingly,
    RefinesCandidates,
    candidates_of,
)
from segmeter.models.automatic.grids import Crop, grid
from segmeter.models.automatic.options import Options

__all__ = ["Kept", "Places", "crop_candidates", "passes"]

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Kept:
    """Candidates of one crop that passed the filters; boxes are in the image's frame."""

    crop: Crop
    parts: tuple[Candidates, ...]
    part: Places  # of each: which of the parts it is in
    place: Places  # and where in it
    points: npt.NDArray[np.float64]
    scores: npt.NDArray[np.float32]
    stability: npt.NDArray[np.float32]
    areas: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.int64]

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

    def masks(self, shape: tuple[int, int], threshold: float) -> list[Mask]:
        """All masks in the image's frame."""
        made: dict[int, Mask] = {}
        for mine, part in self.groups():
            made |= zip(mine.tolist(), part.masks(threshold), strict=True)
        low = (self.crop.top, self.crop.left)
        return [_pasted(made[i], low, shape) for i in range(len(self))]


def crop_candidates(
    model: Model, scene: Scene, crop: Crop, options: Options, *, compact: bool = False
) -> Kept:
    """What a crop offers after the filters, before any suppression.

    `compact` keeps finished masks instead of logits where these lie in the host's memory: a
    grid of 64 x 64 points has 3 GB of them, of which little survives.
    """
    encoded = model.encode(_cropped(scene, crop))
    height, width = crop.shape
    layout = options.grids[crop.layer] if options.grids else grid(options.points_in(crop.layer))
    xy = layout * np.array([width, height])
    # `published` takes a place between pixels for a pixel's number: half a pixel off.
    clicks = xy[:, ::-1] - (0.5 if options.protocol == "corrected" else 0.0)
    parts = [
        _filtered(encoded, clicks[start : start + options.batch], crop, scene, options, compact)
        for start in range(0, len(clicks), options.batch)
    ]
    return _joined(crop, parts)


def _filtered(
    encoded: EncodedScene,
    clicks: npt.NDArray[np.float64],
    crop: Crop,
    scene: Scene,
    options: Options,
    compact: bool,
) -> Kept:
    """Candidates of some clicks that pass score, stability, cover and the crop's edge."""
    candidates = _answered(encoded, clicks, options)
    if options.smallest and options.clean == "logits":
        candidates = candidates.cleaned(options.smallest, options.threshold)
    found = candidates.measure(options.threshold, options.offset)
    height, width = scene.shape
    passed = passes(candidates.scores, found.stability, found.area, (height, width), options)
    cut = crop.cuts(found.boxes, (height, width), scaled=options.edge == "scaled")
    kept = np.flatnonzero(passed & ~cut)
    start = np.array([crop.top, crop.left])
    left = candidates.take(kept)
    if compact and isinstance(left, Logits):
        left = left.encoded(options.threshold)
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


def _answered(
    encoded: EncodedScene, clicks: npt.NDArray[np.float64], options: Options
) -> Candidates:
    if options.output == "single":
        return _answered_singly(encoded, clicks, options)
    if not options.refine:
        return candidates_of(encoded, clicks, options.score)
    if not isinstance(encoded, PredictsGrids) or not isinstance(encoded, RefinesCandidates):
        raise BadInput("this model cannot take its masks back; leave refine off")
    refined = encoded.refined(clicks, encoded.candidates(clicks, 0.0))
    if options.score <= 0:
        return refined
    return refined.take(np.flatnonzero(refined.scores > np.float32(options.score)))


def _answered_singly(
    encoded: EncodedScene, clicks: npt.NDArray[np.float64], options: Options
) -> Candidates:
    if options.refine or not isinstance(encoded, PredictsGridsSingly):
        raise BadInput(
            "this model has no single mask for a lone click that could be asked for (or refined); "
            "leave output at three"
        )
    return encoded.single_candidates(clicks, options.score)


def _joined(crop: Crop, parts: Sequence[Kept]) -> Kept:
    """The batches of a crop as one."""
    columns = ("place", "points", "scores", "stability", "areas", "boxes")
    sizes = [len(part) for part in parts]
    return Kept(
        crop,
        tuple(part.parts[0] for part in parts),
        np.repeat(np.arange(len(parts)), sizes),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in columns),
    )


def passes(
    scores: npt.NDArray[np.float32],
    stability: npt.NDArray[np.float32],
    areas: npt.NDArray[np.int64],
    shape: tuple[int, int],
    options: Options,
) -> npt.NDArray[np.bool_]:
    """Which candidates score high, hold still and cover little enough."""
    passed = areas < options.cover_limit * shape[0] * shape[1]
    if options.score > 0:
        passed &= scores > np.float32(options.score)
    if options.stability > 0:
        passed &= stability >= np.float32(options.stability)
    if options.protocol == "corrected":
        passed &= areas > 0
    return passed


def _pasted(mask: Mask, low: tuple[int, int], shape: tuple[int, int]) -> Mask:
    if not mask:
        return Mask.empty(shape)
    return Mask(shape, (mask.low[0] + low[0], mask.low[1] + low[1]), mask.bits)


def _cropped(scene: Scene, crop: Crop) -> Scene:
    if crop.shape == scene.shape:
        return scene
    name = f"{scene.id}@{crop.left},{crop.top},{crop.right},{crop.bottom}"
    pixels = np.ascontiguousarray(scene.pixels[crop.window])
    return Image(scene.dataset, name, pixels, [])
