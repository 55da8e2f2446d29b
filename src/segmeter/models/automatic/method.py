"""Automatic masks as a method of the catalogue: `automatic?model=sam2-hiera-tiny&points=32`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.models import Model, ModelCard, ProtocolName, Segmentation
from segmeter.core.scenes import Scene
from segmeter.models.automatic.generator import AutomaticMask, generate
from segmeter.models.automatic.options import Clean, Edge, Nms, Options, Output

__all__ = ["Automatic", "clicked_model", "defaults_of"]

_SUMMARY = "masks of everything, from a grid of clicks to any model that takes clicks"
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
    reading
        `published`: as SAM's code, faults included; `corrected`: see the documentation.
    device, dtype, weights
        Handed to the model.
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
        given: dict[str, Any] = {
            "points": points,
            "crops": crops,
            "fewer": fewer,
            "overlap": overlap,
            "score": score,
            "stability": stability,
            "offset": offset,
            "box_nms": box_nms,
            "crop_nms": crop_nms,
            "smallest": smallest,
            "clean": clean,
            "refine": refine,
            "nms": nms,
            "covers": covers,
            "edge": edge,
            "output": output,
            "batch": batch,
        }
        known = {key: value for key, value in given.items() if value is not None}
        Options(**known, protocol=protocol)  # refused before weights are looked for
        self.model = clicked_model(model, weights, device, dtype)
        self.options = Options(**{**defaults_of(self.model), **known, "protocol": protocol})

    @cached_property
    def card(self) -> ModelCard:
        under = self.model.card
        return ModelCard(
            name=f"automatic {under.name}",
            summary=f"automatic masks of {under.name}",
            abilities=frozenset({"automatic"}),
            licence=under.licence,
            citation=under.citation,
            family=under.family,
            fingerprint=under.fingerprint,
        )

    def masks(self, scene: Scene) -> list[AutomaticMask]:
        """All masks with what is known of them, in the order of the last suppression."""
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
        given = {"weights": weights, "device": device, "dtype": dtype}
        wanted: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        spec = Spec.parse(model)
        if catalogue.models.takes(spec, "resize"):
            wanted["resize"] = "pillow"
        made = catalogue.models.make(spec, **wanted)
    if "click" not in made.card.abilities:
        raise BadInput(f"'{made.card.name}' takes no clicks; automatic masks are made of clicks")
    return made


def defaults_of(model: Model) -> dict[str, Any]:
    """Where the generator that came with a model differs from SAM's."""
    return {"score": 0.8, "clean": "logits"} if model.card.family in _SECOND else {}
