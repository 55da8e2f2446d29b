"""Objects of other libraries as models: `ultralytics.SAM` and the SAMs of `transformers`.

    segmeter.evaluate(ultralytics.SAM("mobile_sam.pt"))
    segmeter.evaluate(transformers.SamModel.from_pretrained(...))
    segmeter.evaluate((model, processor))

They are recognised by the library that their class comes from and used through its interface,
so results are those of the library: its preprocessing, its decoder, its choice of masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click
from segmeter.core.scenes import Scene

_TAKES = frozenset({"click", "box"})
_PROCESSORS = {
    "SamModel": ("SamProcessor", "SamImageProcessor"),
    "SamHQModel": ("SamHQProcessor", "SamImageProcessor"),
    "Sam2Model": ("Sam2Processor", "Sam2ImageProcessor"),
    "Sam3TrackerModel": ("Sam3TrackerProcessor", "Sam3ImageProcessor"),
    "EdgeTamModel": ("Sam2Processor", "Sam2ImageProcessor"),
}


def as_library_model(thing: Any, name: str = "") -> Any | None:
    """The object as a model if a known library made it; else None."""
    if isinstance(thing, tuple) and len(thing) == 2 and _is_of(thing[0], "transformers"):
        return TransformersSam(thing[0], thing[1], name or type(thing[0]).__name__)
    if _is_of(thing, "transformers") and hasattr(thing, "get_image_embeddings"):
        return TransformersSam(thing, _processor(thing), name or type(thing).__name__)
    if _is_of(thing, "ultralytics") and callable(getattr(thing, "predict", None)):
        return UltralyticsSam(thing, name or "ultralytics")
    return None


def _is_of(thing: Any, library: str) -> bool:
    """Whether an object's class, or one that it derives from, is a library's."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(thing).__mro__)


def _processor(model: Any) -> Any:
    """The processor of a model's kind with its usual settings."""
    import transformers

    kind = type(model).__name__
    if kind not in _PROCESSORS:
        raise BadInput(f"give '{kind}' with its processor: evaluate((model, processor))")
    whole, images = _PROCESSORS[kind]
    made = getattr(transformers, images, None) or getattr(transformers, f"{images}Fast")
    return getattr(transformers, whole)(made())


@dataclass(frozen=True, slots=True)
class UltralyticsSam:
    """`ultralytics.SAM`: one mask per request, no logits; the image is encoded once."""

    sam: Any
    name: str = "ultralytics"
    _held: list[Scene] = field(default_factory=list, repr=False, compare=False)  # one at most

    @property
    def card(self) -> ModelCard:
        about = f"ultralytics {type(self.sam).__name__}, with its own preprocessing"
        return ModelCard(self.name, about, _TAKES, licence="AGPL-3.0", family="ultralytics")

    def encode(self, scene: Scene) -> _UltralyticsEncodedScene:
        self.hold(scene)
        return _UltralyticsEncodedScene(self, scene)

    def hold(self, scene: Scene) -> Any:
        """The library's predictor with this image set."""
        bgr = np.ascontiguousarray(scene.pixels[..., ::-1])
        if self.sam.predictor is None:  # made by the first call
            self.sam.predict(bgr, points=[[[0, 0]]], labels=[[1]], conf=0, verbose=False)
        if not self._held or self._held[0] is not scene:
            self._held.clear()
            self.sam.predictor.set_image(bgr)
            self._held.append(scene)
        self.sam.predictor.args.conf = 0.0  # masks of a low score would be left out
        return self.sam.predictor


@dataclass(frozen=True, slots=True)
class _UltralyticsEncodedScene:
    model: UltralyticsSam
    scene: Scene

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> MaskPrediction:
        points, labels, box = _prompts(request, self.model.name)
        given: dict[str, Any] = {"bboxes": [box]} if box else {}
        if points:
            given |= {"points": [points], "labels": [labels]}
        results = self.model.hold(self.scene)(**given)
        if not results or results[0].masks is None or not len(results[0].masks.data):
            return MaskPrediction(Mask.empty(self.scene.shape), 0.0)
        found, masks = results[0], results[0].masks.data
        mask = np.asarray(masks[0].cpu() if hasattr(masks[0], "cpu") else masks[0]).astype(bool)
        if mask.shape != tuple(self.scene.shape):
            raise BadInput(f"{self.model.name}: gave a mask of {mask.shape} for {self.scene.shape}")
        return MaskPrediction(Mask.of(mask), float(found.boxes.conf[0]))


@dataclass(frozen=True, slots=True)
class TransformersSam:
    """A SAM of `transformers` with its processor; of several masks the best by score is shown."""

    model: Any
    processor: Any
    name: str = "transformers"

    @property
    def card(self) -> ModelCard:
        about = f"transformers {type(self.model).__name__}, with its own decoder"
        return ModelCard(self.name, about, _TAKES, family="transformers")

    def encode(self, scene: Scene) -> _TransformersEncodedScene:
        import torch

        given = self.processor(images=scene.pixels.copy(), return_tensors="pt")
        device, dtype = self.model.device, self.model.dtype
        pixels = given["pixel_values"].to(device, dtype)
        with torch.no_grad():
            embeddings = self.model.get_image_embeddings(pixels)
        cropped = given.get("reshaped_input_sizes")  # the first SAM pads its square
        size = tuple(pixels.shape[-2:]) if cropped is None else tuple(int(n) for n in cropped[0])
        inside = (size[0], size[1])
        return _TransformersEncodedScene(self, scene, embeddings, inside, cropped is not None)


@dataclass(frozen=True, slots=True)
class _TransformersEncodedScene:
    model: TransformersSam
    scene: Scene
    embeddings: Any
    inside: tuple[int, int]
    padded: bool

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        import torch

        with torch.no_grad():
            return [self._one(request) for request in requests]

    def _one(self, request: Request) -> MaskPrediction:
        import torch

        points, labels, box = _prompts(request, self.model.name)
        own = self.model.model
        given: dict[str, Any] = {"multimask_output": True}
        if isinstance(self.embeddings, tuple | list) and "hq" in type(own).__name__.lower():
            given["image_embeddings"], given["intermediate_embeddings"] = self.embeddings
        else:
            given["image_embeddings"] = self.embeddings
        if points:
            given["input_points"] = self._scaled(points)[None, None]
            given["input_labels"] = torch.tensor([[labels]], device=own.device)
        if box:
            corners = self._scaled([box[:2], box[2:]]).reshape(1, 1, 4)
            given["input_boxes"] = corners
        if request.state is not None:
            given["input_masks"] = request.state
        found = own(**given)
        scores, low = found.iou_scores.reshape(-1), found.pred_masks.flatten(0, 2)
        best = int(scores.argmax())
        mask = self._full(found.pred_masks.float().cpu())[0].flatten(0, 1)[best].numpy()
        state = low[best][None, None]
        return MaskPrediction(Mask.of(mask.astype(bool)), float(scores[best]), state)

    def _scaled(self, points: Sequence[Sequence[float]]) -> Any:
        import torch

        height, width = self.scene.shape
        scale = torch.tensor([self.inside[1] / width, self.inside[0] / height])
        own = self.model.model
        return (torch.tensor(points, dtype=torch.float32) * scale).to(own.device, own.dtype)

    def _full(self, masks: Any) -> Any:
        """Masks at the scene's size by the library's own processor."""
        post = self.model.processor.post_process_masks
        size = [[int(n) for n in self.scene.shape]]
        return post(masks, size, [list(self.inside)]) if self.padded else post(masks, size)


def _prompts(
    request: Request, name: str
) -> tuple[list[list[float]], list[int], list[float] | None]:
    """Points `(x, y)` with labels, and the last box as `(x0, y0, x1, y1)`."""
    strange = [p for p in request.prompts if not isinstance(p, Click | Box)]
    if strange:
        raise BadInput(f"{name} takes clicks and boxes, not a {type(strange[0]).__name__.lower()}")
    clicks = [p for p in request.prompts if isinstance(p, Click)]
    boxes = [p for p in request.prompts if isinstance(p, Box)]
    corners = (boxes[-1].low, boxes[-1].high) if boxes else ()
    box = [float(c) for corner in corners for c in corner[::-1]] or None
    return [list(c.point[::-1]) for c in clicks], [int(c.positive) for c in clicks], box
