"""The generator: grids of clicks in, masks of everything out.

The order of the steps is that of Segment Anything; what a step would discard is discarded as early
as possible: areas and boxes come from low-resolution maps without enlarging them, and only masks
that survive every suppression are drawn.

    Kirillov et al. Segment anything. ICCV 2023, supplement B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ModelCard, ProtocolName, Segmentation
from segmeter.core.scenes import Scene
from segmeter.models._enlarging import box_of
from segmeter.models.automatic.candidates import Kept, crop_candidates
from segmeter.models.automatic.options import Clean, Crop, Edge, Nms, Options, Output, checked_crops
from segmeter.models.automatic.regions import (
    clean_mask,
    largest_region,
    suppress_boxes,
    suppress_masks,
)


@dataclass(frozen=True, slots=True)
class AutomaticMask:
    """One automatic mask.

    Attributes
    ----------
    score, stability
        The model's own score, and the share of the mask that a stricter threshold keeps.
    point
        The click that made it, `(y, x)` in the image.
    crop
        The crop that the model was given.
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
    box: tuple[int, ...]
    cleaned: bool = False

    def record(self, protocol: ProtocolName = "published") -> dict[str, Any]:
        """The record of SAM's generator, masks as COCO's text.

        `published` gives width and height one short; `corrected` counts pixels, and records whether
        the mask was cleaned.
        """
        left, top, right, bottom = self.box
        more = int(protocol == "corrected" and self.mask.area > 0)
        high, wide = self.crop.shape
        facts = {
            "segmentation": self.mask.to_coco(),
            "area": self.mask.area,
            "bbox": [left, top, right - left + more, bottom - top + more],
            "predicted_iou": self.score,
            "point_coords": [[self.point[1], self.point[0]]],
            "stability_score": self.stability,
            "crop_box": [self.crop.left, self.crop.top, wide, high],
        }
        return facts | ({"cleaned": self.cleaned} if protocol == "corrected" else {})


def generate(model: Model, scene: Scene, options: Options | None = None) -> list[AutomaticMask]:
    """Masks of everything in an image, in the order of the last suppression."""
    if len(scene.shape) != 2:
        raise BadInput(f"{scene.name} is a volume; automatic masks are made of images")
    options = Options() if options is None else options
    shape = (scene.shape[0], scene.shape[1])
    crops = checked_crops(shape, options.crops, options.overlap)
    kept = [_left(crop_candidates(model, scene, crop, options), shape, options) for crop in crops]
    found = _between_crops(kept, shape, options)
    if options.smallest and options.clean == "masks":
        return _cleaned(found, options)
    return found


def _left(kept: Kept, shape: tuple[int, int], options: Options) -> Kept:
    """Candidates that pass the suppression within a crop."""
    if options.protocol == "corrected" and options.smallest and options.clean == "masks":
        masks = kept.masks(shape)
        large = [largest_region(m.bits) >= options.smallest for m in masks]
        kept = kept.take(np.flatnonzero(large))
    if options.nms == "masks":
        masks = kept.masks(shape)
        return kept.take(suppress_masks(masks, kept.scores, options.box_nms))
    return kept.take(suppress_boxes(kept.boxes, kept.scores, options.box_nms, options.protocol))


def _between_crops(
    crops: Sequence[Kept], shape: tuple[int, int], options: Options
) -> list[AutomaticMask]:
    """All crops together; where they overlap, what smaller crops found stays."""
    every = [
        AutomaticMask(
            mask,
            float(kept.scores[i]),
            float(kept.stability[i]),
            (float(kept.points[i, 0]), float(kept.points[i, 1])),
            kept.crop,
            tuple(kept.boxes[i].tolist()),
        )
        for kept in crops
        for i, mask in enumerate(kept.masks(shape))
    ]
    if len(crops) == 1:
        return every
    sizes = np.array([math.prod(one.crop.shape) for one in every], dtype=np.float32)
    return _suppressed(every, np.float32(1) / sizes, options.crop_nms, options)


def _cleaned(masks: Sequence[AutomaticMask], options: Options) -> list[AutomaticMask]:
    """Without small regions; of masks that now overlap the untouched ones stay."""
    after = []
    for one in masks:
        bits, changed = clean_mask(one.mask.dense(), options.smallest, options.protocol)
        mask = Mask.of(bits)
        after.append(replace(one, mask=mask, box=box_of(mask), cleaned=True) if changed else one)
    scores = [0.0 if one.cleaned else 1.0 for one in after]
    return _suppressed(after, scores, max(options.box_nms, options.crop_nms), options)


def _suppressed(
    masks: Sequence[AutomaticMask], preferred: npt.ArrayLike, threshold: float, options: Options
) -> list[AutomaticMask]:
    """The masks that stay, the preferred first, by the overlap of boxes or of masks."""
    if options.nms == "masks":
        kept = suppress_masks([one.mask for one in masks], preferred, threshold)
    else:
        boxes = [one.box for one in masks]
        kept = suppress_boxes(boxes, preferred, threshold, options.protocol)
    return [masks[i] for i in kept]


_SUMMARY = "automatic masks from a grid of clicks, for any model that accepts clicks"
_SECOND = frozenset({"sam2", "sam3", "edgetam"})
_NAMES_OF_SAM = {
    "points_per_side": "points",
    "points_per_batch": "batch",
    "pred_iou_thresh": "score",
    "stability_score_thresh": "stability",
    "stability_score_offset": "offset",
    "box_nms_thresh": "box_nms",
    "crop_n_layers": "crops",
    "crop_nms_thresh": "crop_nms",
    "crop_overlap_ratio": "overlap",
    "crop_n_points_downscale_factor": "fewer",
    "min_mask_region_area": "smallest",
    "use_m2m": "refine",
}


@catalogue.methods.add("automatic", summary=_SUMMARY)
class Automatic:
    """Segment Anything's automatic masks, from any model that takes clicks.

    Parameters
    ----------
    model
        Name in the catalogue, or a model itself.
    points, crops, fewer, overlap, score, stability, offset, box_nms, crop_nms, smallest, refine
        See `Options`; what is left open takes the value of the code that came with the
        model: for SAM 2 and later `score=0.8` and small regions cleaned in the logits.
    protocol
        `published`: as SAM's code, faults included; `corrected`: see the documentation.
    device, dtype, weights
        Passed to the model.
    """

    other_names = _NAMES_OF_SAM  # options of Meta's generators, for a hint

    def __init__(
        self,
        model: str | Model,
        points: int | None = None,
        crops: int | None = None,
        fewer: int | None = None,
        overlap: float | None = None,
        score: float | None = None,
        stability: float | None = None,
        offset: float | None = None,
        box_nms: float | None = None,
        crop_nms: float | None = None,
        smallest: int | None = None,
        clean: Clean | None = None,
        refine: bool | None = None,
        nms: Nms | None = None,
        covers: float | None = None,
        edge: Edge | None = None,
        output: Output | None = None,
        batch: int | None = None,
        protocol: ProtocolName = "corrected",
        device: str | None = None,
        dtype: str | None = None,
        weights: str | Path | None = None,
    ) -> None:
        named = {f.name for f in fields(Options)} - {"protocol"}
        known: dict[str, Any] = {k: v for k, v in locals().items() if k in named and v is not None}
        Options(**known, protocol=protocol)  # refused before weights are looked for
        self.model = clicked_model(model, weights, device, dtype)
        self.options = Options(**{**defaults_of(self.model), **known, "protocol": protocol})

    @cached_property
    def card(self) -> ModelCard:
        name, takes = self.model.card.name, frozenset({"automatic"})
        about = f"automatic masks of {name}"
        return replace(self.model.card, name=f"automatic {name}", summary=about, abilities=takes)

    def masks(self, scene: Scene) -> list[AutomaticMask]:
        """All masks with their scores, in the order of the last suppression."""
        return generate(self.model, scene, self.options)

    def segment(self, scene: Scene) -> Segmentation:
        return Segmentation(proposals=tuple(one.mask for one in self.masks(scene)))


def clicked_model(
    model: str | Model,
    weights: str | Path | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Model:
    """A model that takes clicks, by name or as it is; the first SAM resizes as Meta's does."""
    if not isinstance(model, str):
        made: Model = model
    else:
        resize = "pillow" if catalogue.models.takes(model, "resize") else None
        made = catalogue.models.make(
            model, weights=weights, device=device, dtype=dtype, resize=resize
        )
    if "click" not in made.card.abilities:
        raise BadInput(f"'{made.card.name}' takes no clicks; automatic masks are made of clicks")
    return made


def defaults_of(model: Model) -> dict[str, Any]:
    """Differences of the generator that came with a model from SAM's."""
    return {"score": 0.8, "clean": "logits"} if model.card.family in _SECOND else {}
