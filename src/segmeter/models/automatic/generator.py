"""The generator: grids of clicks in, masks of everything out.

The order of the steps is that of Segment Anything; what a step would throw away is thrown
away before it costs anything. The score is asked before a map is made, areas and boxes come
from low-resolution maps without enlarging them, and only masks that survive every
suppression are drawn.

    Kirillov et al. Segment anything. ICCV 2023, supplement B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ProtocolName
from segmeter.core.scenes import Scene
from segmeter.models.automatic.crop_candidates import Kept, Places, crop_candidates, passes
from segmeter.models.automatic.grids import Crop, checked_crops
from segmeter.models.automatic.options import Options
from segmeter.models.automatic.regions import clean_mask, largest_region
from segmeter.models.automatic.suppression import suppress_boxes, suppress_masks

__all__ = ["AutomaticMask", "generate", "generate_each"]

_NEVER = 2.0
"""A share of the image that no mask covers."""


@dataclass(frozen=True, slots=True)
class AutomaticMask:
    """One mask that nobody asked for.

    Attributes
    ----------
    score, stability
        The model's own score, and the share of the mask that a stricter threshold keeps.
    point
        The click that made it, `(y, x)` in the image.
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

    def record(self, protocol: ProtocolName = "published") -> dict[str, Any]:
        """The record of SAM's generator, masks as COCO's text.

        `published` gives width and height one short; `corrected` counts pixels, and says
        whether the mask was cleaned.
        """
        (left, top, right, bottom), more = (
            self.box,
            int(protocol == "corrected" and self.mask.area > 0),
        )
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
        return told | ({"cleaned": self.cleaned} if protocol == "corrected" else {})


def generate(model: Model, scene: Scene, options: Options | None = None) -> list[AutomaticMask]:
    """Masks of everything in an image, in the order of the last suppression."""
    return generate_each(model, scene, [Options() if options is None else options])[0]


def generate_each(
    model: Model, scene: Scene, several: Sequence[Options]
) -> list[list[AutomaticMask]]:
    """The same for several filters and suppressions; the model is asked once for all of them.

    What is asked of the model must be the same in all: grid, crops, threshold, protocol.
    """
    if len(scene.shape) != 2:
        raise BadInput(f"{scene.name} is a volume; automatic masks are made of images")
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
    "protocol",
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
    passed = np.flatnonzero(passes(kept.scores, kept.stability, kept.areas, shape, options))
    left = kept.take(passed)
    if options.protocol == "corrected" and options.smallest and options.clean == "masks":
        masks = left.masks(shape, options.threshold)
        large = [largest_region(m.bits) >= options.smallest for m in masks]
        left = left.take(np.flatnonzero(large))
    return _without_overlaps(left, shape, options)


def _finished(
    kept: Sequence[Kept], shape: tuple[int, int], options: Options
) -> list[AutomaticMask]:
    found = _between_crops(kept, shape, options)
    if options.smallest and options.clean == "masks":
        return _cleaned(found, options)
    return found


def _without_overlaps(kept: Kept, shape: tuple[int, int], options: Options) -> Kept:
    if options.nms == "masks":
        masks = kept.masks(shape, options.threshold)
        return kept.take(suppress_masks(masks, kept.scores, options.box_nms))
    return kept.take(suppress_boxes(kept.boxes, kept.scores, options.box_nms, options.protocol))


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
    stays = suppress_boxes(boxes, preferred, options.crop_nms, options.protocol)
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
        kept = suppress_boxes(boxes, scores, threshold, options.protocol)
    return [after[i] for i in kept]


def _clean(one: AutomaticMask, options: Options) -> AutomaticMask:
    bits, changed = clean_mask(one.mask.dense(), options.smallest, options.protocol)
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
