"""The generator: grids of clicks in, masks of everything out.

The order of the steps is that of Segment Anything; what a step would throw away is thrown
away before it costs anything. The score is asked before a map is made, areas and boxes come
from low-resolution maps without enlarging them, and only masks that survive every
suppression are drawn.

    Kirillov et al. Segment anything. ICCV 2023, supplement B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, Reading, View
from segmeter.core.scenes import Picture, Scene
from segmeter.models.automatic.candidates import (
    AnswersGrids,
    AnswersGridsSingly,
    Candidates,
    Logits,
    RefinesCandidates,
    candidates_of,
)
from segmeter.models.automatic.grids import Crop, checked_crops, grid
from segmeter.models.automatic.options import Options
from segmeter.models.automatic.regions import clean_mask, largest_region
from segmeter.models.automatic.suppression import suppress_boxes, suppress_masks

__all__ = ["AutomaticMask", "Kept", "crop_candidates", "generate", "generate_each"]

Places = npt.NDArray[np.intp]
_NEVER = 2.0
"""A share of the picture that no mask covers."""


@dataclass(frozen=True, slots=True)
class AutomaticMask:
    """One mask that nobody asked for.

    Attributes
    ----------
    score, stability
        The model's own score, and the share of the mask that a stricter threshold keeps.
    point
        The click that made it, `(y, x)` in the picture.
    crop
        Where the model was looking.
    box
        First and last column and row, `x0 y0 x1 y1`, both inside; an empty mask has the
        crop's first pixel.
    cleaned
        Whether small regions were found in it; score and stability are those from before.
    """

    mask: Mask
    score: float
    stability: float
    point: tuple[float, float]
    crop: Crop
    box: tuple[int, int, int, int]
    cleaned: bool = False

    def record(self, reading: Reading = "published") -> dict[str, Any]:
        """The record of SAM's generator, masks as COCO's text.

        `published` gives width and height one short; `sound` counts pixels, and says
        whether the mask was cleaned.
        """
        (left, top, right, bottom), more = self.box, int(reading == "sound" and self.mask.area > 0)
        high, wide = self.crop.shape
        told = {
            "segmentation": self.mask.to_coco(),
            "area": self.mask.area,
            "bbox": [left, top, right - left + more, bottom - top + more],
            "predicted_iou": self.score,
            "point_coords": [[self.point[1], self.point[0]]],
            "stability_score": self.stability,
            "crop_box": [self.crop.left, self.crop.top, wide, high],
        }
        return told | ({"cleaned": self.cleaned} if reading == "sound" else {})


@dataclass(frozen=True, slots=True)
class Kept:
    """Candidates of one crop that passed the filters; boxes are in the picture's frame."""

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
        """All masks in the picture's frame."""
        made: dict[int, Mask] = {}
        for mine, part in self.groups():
            made |= zip(mine.tolist(), part.masks(threshold), strict=True)
        low = (self.crop.top, self.crop.left)
        return [_pasted(made[i], low, shape) for i in range(len(self))]


def generate(model: Model, scene: Scene, options: Options | None = None) -> list[AutomaticMask]:
    """Masks of everything in a picture, in the order of the last suppression."""
    return generate_each(model, scene, [Options() if options is None else options])[0]


def generate_each(
    model: Model, scene: Scene, several: Sequence[Options]
) -> list[list[AutomaticMask]]:
    """The same for several filters and suppressions; the model is asked once for all of them.

    What is asked of the model must be the same in all: grid, crops, threshold, reading.
    """
    if len(scene.shape) != 2:
        raise BadInput(f"{scene.name} is a volume; automatic masks are made of pictures")
    height, width = scene.shape
    loosest = _loosest(several)
    crops = checked_crops((height, width), loosest.crops, loosest.overlap)
    if len(several) == 1:  # what a crop's suppression drops need not be kept
        kept = [
            _left(crop_candidates(model, scene, crop, loosest), (height, width), several[0])
            for crop in crops
        ]
        return [_finished(kept, (height, width), several[0])]
    every = [crop_candidates(model, scene, crop, loosest) for crop in crops]
    return [
        _finished([_left(k, (height, width), o) for k in every], (height, width), o)
        for o in several
    ]


_ASKED = (
    "points",
    "crops",
    "fewer",
    "overlap",
    "threshold",
    "offset",
    "clean",
    "refine",
    "edge",
    "output",
    "reading",
)


def _loosest(several: Sequence[Options]) -> Options:
    """Options under which nothing is dropped that one of several would keep."""
    first = several[0]
    for name in _ASKED:
        if any(getattr(one, name) != getattr(first, name) for one in several):
            raise BadInput(f"automatic masks: settings that share a look differ in '{name}'")
    if any(one.grids is not first.grids for one in several):
        raise BadInput("automatic masks: settings that share a look have grids of their own")
    if first.clean == "logits" and len({one.smallest for one in several}) > 1:
        raise BadInput("automatic masks: settings that share a look differ in 'smallest'")
    lowest = {name: min(getattr(one, name) for one in several) for name in ("score", "stability")}
    covers = max(one.cover_limit for one in several)
    smallest = first.smallest if first.clean == "logits" else 0
    return replace(first, **lowest, covers=min(covers, _NEVER), smallest=smallest)


def _left(kept: Kept, shape: tuple[int, int], options: Options) -> Kept:
    """What the filters and the suppression within a crop leave."""
    passed = np.flatnonzero(_passes(kept.scores, kept.stability, kept.areas, shape, options))
    left = kept.take(passed)
    if options.reading == "sound" and options.smallest and options.clean == "masks":
        masks = left.masks(shape, options.threshold)
        large = [largest_region(m.bits) >= options.smallest for m in masks]
        left = left.take(np.flatnonzero(large))
    return _without_overlaps(left, shape, options)


def _passes(
    scores: npt.NDArray[np.float32],
    stability: npt.NDArray[np.float32],
    areas: npt.NDArray[np.int64],
    shape: tuple[int, int],
    options: Options,
) -> npt.NDArray[np.bool_]:
    passed = areas < options.cover_limit * shape[0] * shape[1]
    if options.score > 0:
        passed &= scores > np.float32(options.score)
    if options.stability > 0:
        passed &= stability >= np.float32(options.stability)
    if options.reading == "sound":
        passed &= areas > 0
    return passed


def _finished(
    kept: Sequence[Kept], shape: tuple[int, int], options: Options
) -> list[AutomaticMask]:
    found = _between_crops(kept, shape, options)
    if options.smallest and options.clean == "masks":
        return _cleaned(found, options)
    return found


def crop_candidates(
    model: Model, scene: Scene, crop: Crop, options: Options, *, compact: bool = False
) -> Kept:
    """What a crop offers after the filters, before any suppression.

    `compact` keeps finished masks instead of logits where these lie in the host's memory: a
    grid of 64 x 64 points has 3 GB of them, of which little survives.
    """
    view = model.look(_cropped(scene, crop))
    height, width = crop.shape
    layout = options.grids[crop.layer] if options.grids else grid(options.points_in(crop.layer))
    xy = layout * np.array([width, height])
    # `published` takes a place between pixels for a pixel's number: half a pixel off.
    clicks = xy[:, ::-1] - (0.5 if options.reading == "sound" else 0.0)
    parts = [
        _filtered(view, clicks[start : start + options.batch], crop, scene, options, compact)
        for start in range(0, len(clicks), options.batch)
    ]
    return _joined(crop, parts)


def _filtered(
    view: View,
    clicks: npt.NDArray[np.float64],
    crop: Crop,
    scene: Scene,
    options: Options,
    compact: bool,
) -> Kept:
    """Candidates of some clicks that pass score, stability, cover and the crop's edge."""
    candidates = _answered(view, clicks, options)
    if options.smallest and options.clean == "logits":
        candidates = candidates.cleaned(options.smallest, options.threshold)
    found = candidates.measure(options.threshold, options.offset)
    height, width = scene.shape
    passed = _passes(candidates.scores, found.stability, found.area, (height, width), options)
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


def _answered(view: View, clicks: npt.NDArray[np.float64], options: Options) -> Candidates:
    if options.output == "single":
        return _answered_singly(view, clicks, options)
    if not options.refine:
        return candidates_of(view, clicks, options.score)
    if not isinstance(view, AnswersGrids) or not isinstance(view, RefinesCandidates):
        raise BadInput("this model cannot take its masks back; leave refine off")
    refined = view.refined(clicks, view.candidates(clicks, 0.0))
    if options.score <= 0:
        return refined
    return refined.take(np.flatnonzero(refined.scores > np.float32(options.score)))


def _answered_singly(view: View, clicks: npt.NDArray[np.float64], options: Options) -> Candidates:
    if options.refine or not isinstance(view, AnswersGridsSingly):
        raise BadInput(
            "this model has no single mask for a lone click that could be asked for (or refined); "
            "leave output at three"
        )
    return view.single_candidates(clicks, options.score)


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


def _without_overlaps(kept: Kept, shape: tuple[int, int], options: Options) -> Kept:
    if options.nms == "masks":
        masks = kept.masks(shape, options.threshold)
        return kept.take(suppress_masks(masks, kept.scores, options.box_nms))
    return kept.take(suppress_boxes(kept.boxes, kept.scores, options.box_nms, options.reading))


def _between_crops(
    crops: Sequence[Kept], shape: tuple[int, int], options: Options
) -> list[AutomaticMask]:
    """All crops together; where they overlap, what smaller crops saw stays."""
    if len(crops) > 1 and options.nms == "boxes":
        crops, order = _by_crop(crops, options)
    else:
        order = None
    every = [mask for kept in crops for mask in _drawn(kept, shape, options)]
    if order is not None:
        return [every[i] for i in order]
    if len(crops) == 1:
        return every
    preferred = [_preference(m.crop) for m in every]
    left = suppress_masks([m.mask for m in every], preferred, options.crop_nms)
    return [every[i] for i in left]


def _by_crop(crops: Sequence[Kept], options: Options) -> tuple[list[Kept], Places]:
    """Suppression by boxes before anything is drawn: what is left of each crop, and the order."""
    boxes = np.concatenate([kept.boxes for kept in crops])
    preferred = np.repeat([_preference(kept.crop) for kept in crops], [len(kept) for kept in crops])
    stays = suppress_boxes(boxes, preferred, options.crop_nms, options.reading)
    starts = np.cumsum([0, *(len(kept) for kept in crops)])
    left = []
    for kept, start in zip(crops, starts[:-1], strict=True):
        mine = np.sort(stays[(stays >= start) & (stays < start + len(kept))])
        left.append(kept.take(mine - start))
    return left, np.searchsorted(np.sort(stays), stays)


def _preference(crop: Crop) -> np.float32:
    """Smaller crops first."""
    height, width = crop.shape
    return np.float32(1) / np.float32(height * width)


def _drawn(kept: Kept, shape: tuple[int, int], options: Options) -> list[AutomaticMask]:
    return [
        AutomaticMask(
            mask,
            float(kept.scores[i]),
            float(kept.stability[i]),
            (float(kept.points[i, 0]), float(kept.points[i, 1])),
            kept.crop,
            _box(kept.boxes[i]),
        )
        for i, mask in enumerate(kept.masks(shape, options.threshold))
    ]


def _cleaned(masks: Sequence[AutomaticMask], options: Options) -> list[AutomaticMask]:
    """Without small regions; of masks that now overlap the untouched ones stay."""
    if not masks:
        return []
    after = [_clean(one, options) for one in masks]
    scores = [0.0 if one.cleaned else 1.0 for one in after]
    threshold = max(options.box_nms, options.crop_nms)
    if options.nms == "masks":
        kept = suppress_masks([one.mask for one in after], scores, threshold)
    else:
        boxes = [_tight(one.mask) for one in after]
        kept = suppress_boxes(boxes, scores, threshold, options.reading)
    return [after[i] for i in kept]


def _clean(one: AutomaticMask, options: Options) -> AutomaticMask:
    bits, changed = clean_mask(one.mask.dense(), options.smallest, options.reading)
    if not changed:
        return one
    mask = Mask.of(bits)
    return replace(one, mask=mask, box=_tight(mask), cleaned=True)


def _tight(mask: Mask) -> tuple[int, int, int, int]:
    if not mask:
        return 0, 0, 0, 0
    return mask.low[1], mask.low[0], mask.high[1] - 1, mask.high[0] - 1


def _box(values: npt.NDArray[np.int64]) -> tuple[int, int, int, int]:
    left, top, right, bottom = values.tolist()
    return left, top, right, bottom


def _pasted(mask: Mask, low: tuple[int, int], shape: tuple[int, int]) -> Mask:
    if not mask:
        return Mask.empty(shape)
    return Mask(shape, (mask.low[0] + low[0], mask.low[1] + low[1]), mask.bits)


def _cropped(scene: Scene, crop: Crop) -> Scene:
    if crop.shape == scene.shape:
        return scene
    name = f"{scene.id}@{crop.left},{crop.top},{crop.right},{crop.bottom}"
    pixels = np.ascontiguousarray(scene.pixels[crop.window])
    return Picture(scene.dataset, name, pixels, [])
