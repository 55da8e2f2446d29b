"""Objects of other libraries as models: `ultralytics`, `transformers` and MONAI bundles.

    segmeter.evaluate(ultralytics.SAM("mobile_sam.pt"))
    segmeter.evaluate(transformers.SamModel.from_pretrained(...))
    segmeter.evaluate([(model, processor)])
    segmeter.evaluate(workflow, "mini-volumes", benchmark="volumes")  # monai.bundle.ConfigWorkflow

They are recognised by the library that their class comes from and used through its interface,
so results are those of the library: its preprocessing, its decoder, its choice of masks.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.scenes import Pixels, Scene, Volume
from segmeter.models.adapters import (
    OneByOne,
    PredictorModel,
    as_sam,
    as_volume,
    mask_from,
    only_clicks,
)

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
        about = f"ultralytics {type(thing).__name__}, with its own preprocessing"
        card = ModelCard(name or "ultralytics", about, _TAKES, "AGPL-3.0", family="ultralytics")
        return PredictorModel(UltralyticsPredictor(thing), card.name, card)
    if any(kind.__name__ == "BundleWorkflow" for kind in type(thing).__mro__):
        return MonaiBundle(thing, name or "monai-bundle")
    if _is_of(thing, "monai") and _takes_points(thing):
        alone = SimpleNamespace(network_def=thing, inferer=lambda x, net, **given: net(x, **given))
        return MonaiBundle(alone, name or type(thing).__name__)
    return None


def _is_of(thing: Any, library: str) -> bool:
    """Whether an object's class, or one that it derives from, is a library's."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(thing).__mro__)


def _processor(model: Any) -> Any:
    import transformers

    kind = type(model).__name__
    if kind not in _PROCESSORS:
        raise BadInput(f"give '{kind}' with its processor: evaluate((model, processor))")
    whole, images = _PROCESSORS[kind]
    made = getattr(transformers, images, None) or getattr(transformers, f"{images}Fast")
    return getattr(transformers, whole)(made())


class UltralyticsPredictor:
    """`ultralytics.SAM` with the interface of SAM's predictor: one mask per request, no logits."""

    def __init__(self, sam: Any) -> None:
        self.sam, self.shape = sam, (0, 0)

    def set_image(self, image: Pixels) -> None:
        bgr = np.ascontiguousarray(image[..., ::-1])
        if self.sam.predictor is None:  # made by the first call
            self.sam.predict(bgr, points=[[[0, 0]]], labels=[[1]], conf=0, verbose=False)
        self.sam.predictor.set_image(bgr)
        self.shape = image.shape[:2]

    def predict(self, point_coords: Any = None, point_labels: Any = None, box: Any = None) -> Any:
        self.sam.predictor.args.conf = 0.0  # masks of a low score would be left out
        given: dict[str, Any] = {} if box is None else {"bboxes": [box.tolist()]}
        if point_coords is not None:
            given |= {"points": [point_coords.tolist()], "labels": [point_labels.tolist()]}
        results = self.sam.predictor(**given)
        if not results or results[0].masks is None or not len(results[0].masks.data):
            return np.zeros((1, *self.shape), bool), [0.0]
        return results[0].masks.data[:1], results[0].boxes.conf[:1]


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

    def encode(self, scene: Scene) -> OneByOne:
        import torch

        given = self.processor(images=scene.pixels.copy(), return_tensors="pt")
        pixels = given["pixel_values"].to(self.model.device, self.model.dtype)
        with torch.no_grad():
            embeddings = self.model.get_image_embeddings(pixels)
        known: dict[str, Any] = {"image_embeddings": embeddings}
        if isinstance(embeddings, tuple | list) and "hq" in type(self.model).__name__.lower():
            known["image_embeddings"], known["intermediate_embeddings"] = embeddings
        padded = given.get("reshaped_input_sizes")  # the first SAM pads its square
        inside = pixels.shape[-2:] if padded is None else [int(n) for n in padded[0]]
        sizes = [[int(n) for n in scene.shape]], *([] if padded is None else [[list(inside)]])

        def one(request: Request) -> MaskPrediction:
            prompts = self._prompts(request, np.divide(inside, scene.shape))
            with torch.no_grad():
                found = self.model(multimask_output=True, **known, **prompts)
            scores, low = found.iou_scores.reshape(-1), found.pred_masks.flatten(0, 2)
            best = int(scores.argmax())
            full = self.processor.post_process_masks(found.pred_masks.float().cpu(), *sizes)
            mask = full[0].flatten(0, 1)[best].numpy().astype(bool)
            return MaskPrediction(Mask.of(mask), float(scores[best]), low[best][None, None])

        return OneByOne(one)

    def _prompts(self, request: Request, scale: Any) -> dict[str, Any]:
        import torch

        def scaled(points: Sequence[Sequence[float]]) -> Any:
            factors = torch.tensor(scale[::-1].copy(), dtype=torch.float32)
            return (torch.tensor(points, dtype=torch.float32) * factors).to(device, dtype)

        device, dtype = self.model.device, self.model.dtype
        points, labels, box = as_sam(request.prompts, self.name)
        given: dict[str, Any] = {}
        if points:
            given["input_points"] = scaled(points)[None, None]
            given["input_labels"] = torch.tensor([[labels]], device=device)
        if box:
            given["input_boxes"] = scaled([box[:2], box[2:]]).reshape(1, 1, 4)
        if request.state is not None:
            given["input_masks"] = request.state
        return given


@dataclass(frozen=True, slots=True)
class MonaiBundle:
    """An inference workflow of a MONAI bundle on volumes: its transforms, inferer and network.

    The transforms receive the volume as `image` and all clicks as `foreground` and `background`,
    indices `(x, y, z)`; a network that takes `point_coords` receives them in the frame of its
    input. Transforms that load or save files are left out. Non-zero labels, or logits above 0,
    are foreground.
    """

    wrapped: Any
    name: str = "monai-bundle"

    @property
    def card(self) -> ModelCard:
        network = type(self.wrapped.network_def).__name__
        about = f"a MONAI bundle with the network {network}"
        return ModelCard(self.name, about, frozenset({"click", "volume"}), family="monai")

    def encode(self, scene: Scene) -> OneByOne:
        return OneByOne(partial(self._one, as_volume(scene, self.name)))

    def _one(self, scene: Volume, request: Request) -> MaskPrediction:
        import torch

        workflow, network = self.wrapped, self.wrapped.network_def
        clicks = only_clicks(request.prompts, self.name)
        places = [([round(c) for c in click.point[::-1]], click.positive) for click in clicks]
        image = _as_loaded(scene)
        data: dict[str, Any] = {"image": image, "image_meta_dict": image.meta}
        data["foreground"] = [place for place, positive in places if positive]
        data["background"] = [place for place, positive in places if not positive]
        data = _transformed(getattr(workflow, "preprocessing", None), data)
        entered = data["image"] if data["image"].ndim > 3 else data["image"][None]
        device, dtype = (p := next(network.parameters())).device, p.dtype
        given = _points(entered, image, places) if _takes_points(network) else {}
        given = {key: value.to(device) for key, value in given.items()}
        batch = torch.as_tensor(entered)[None].to(device, dtype)
        with torch.no_grad():
            data["pred"] = workflow.inferer(batch, network.eval(), **given)[0]
        made = _transformed(getattr(workflow, "postprocessing", None), data)["pred"]
        values = np.asarray(made.cpu())[-1].T
        fraction = values.min() >= 0 and values.max() <= 1 and bool((values % 1).any())
        values = values if fraction else values > 0
        return MaskPrediction(mask_from(values, scene.shape, self.name))


def _as_loaded(volume: Volume) -> Any:
    """The volume as MONAI's loader gives it: axes `(x, y, z)` and an affine."""
    import torch
    from monai.data.meta_tensor import MetaTensor

    spacing = volume.header.spacing_mm or (1.0, 1.0, 1.0)
    voxels = np.ascontiguousarray(np.asarray(volume.voxels, np.float32).T)
    meta = {"spatial_shape": np.array(voxels.shape), "original_channel_dim": float("nan")}
    affine = torch.diag(torch.tensor([*spacing[::-1], 1.0], dtype=torch.float64))
    return MetaTensor(voxels, affine=affine, meta=meta)


def _transformed(transforms: Any, data: dict[str, Any]) -> dict[str, Any]:
    """A bundle's transforms of a dictionary, without those that read or write files."""
    for transform in getattr(transforms, "transforms", [transforms] if transforms else []):
        if not type(transform).__name__.startswith(("LoadImage", "SaveImage")):
            data = transform(data)
    return data


def _points(entered: Any, image: Any, places: Sequence[tuple[list[int], bool]]) -> dict[str, Any]:
    """Points as indices of a transformed volume, by the two affines, and their labels."""
    import torch

    there = torch.linalg.inv(entered.affine) @ image.affine
    points = torch.tensor([place for place, _ in places], dtype=there.dtype).reshape(-1, 3)
    labels = torch.tensor([[int(positive) for _, positive in places]])
    found = (points @ there[:3, :3].T + there[:3, 3]).float()
    return {"point_coords": found[None], "point_labels": labels}


def _takes_points(network: Any) -> bool:
    forward = getattr(network, "forward", None)
    return forward is not None and "point_coords" in inspect.signature(forward).parameters
