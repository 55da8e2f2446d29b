"""Adapters: a plain function, or an object that works as SAM's predictor, as a model.

    def predict(image, clicks):         # uint8 (H, W, 3); list of (y, x, positive)
        ...
        return mask                     # bool (H, W)

    segmeter run noc --model mine.py:predict --dataset mini
    segmeter.evaluate(predict)

For volumes the function is `predict(volume, prompts)`, see `VolumeFunctionModel`; for videos
`track(frames, prompts)`, see `models.videos.frame_trackers.FunctionTracker`.

An object with `set_image(image)` and `predict(point_coords, point_labels, ...)` is taken as
well: it returns masks, scores and, if it has them, low-resolution logits to feed back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.core.scenes import Scene, Volume


def as_model(thing: Any, name: str = "") -> Any:
    """A model as it is, or a function or predictor made into one.

    >>> as_model(lambda image, clicks: image[..., 0] > 128, "bright").card.name
    'bright'
    """
    if hasattr(thing, "encode") and hasattr(thing, "card"):
        return thing
    from segmeter.models.library_objects import as_library_model

    made = as_library_model(thing, name)
    if made is not None:
        return made
    called = name or getattr(thing, "__name__", type(thing).__name__)
    if callable(getattr(thing, "set_image", None)) and callable(getattr(thing, "predict", None)):
        return PredictorModel(thing, called)
    if callable(thing) and not isinstance(thing, type) and not is_network(type(thing)):
        first = next(iter(inspect.signature(thing).parameters), "")  # image, volume or frames
        if first == "frames":
            from segmeter.models.videos.frame_trackers import FunctionTracker

            return FunctionTracker(thing, called)
        return (VolumeFunctionModel if first == "volume" else FunctionModel)(thing, called)
    raise BadInput(no_model(thing, called))


_NETWORK = """
import torch

net = {name}().eval()  # and net.load_state_dict(torch.load("FILE"))

def predict(image, clicks):  # uint8 (H, W, 3); [(y, x, positive), ...]
    maps = torch.zeros(2, *image.shape[:2])  # positive clicks, negative clicks
    for y, x, positive in clicks:
        maps[0 if positive else 1, y, x] = 1
    pixels = torch.from_numpy(image).permute(2, 0, 1) / 255
    with torch.no_grad():
        logits = net(torch.cat([pixels, maps])[None])
    return (logits[0, 0] > 0).numpy()"""


def no_model(thing: Any, name: str) -> str:
    """Why an object is not a model, and what makes it one; of a torch module the lines to write."""
    made = thing if isinstance(thing, type) else type(thing)
    if is_network(made):
        lines = _NETWORK.format(name=made.__name__)
        return (
            f"'{name}' is a torch module; add a function that calls it to its file, and name the "
            f"function instead (FILE.py:predict), for example:\n{lines}"
        )
    return (
        f"'{name}' is not a model: give a function predict(image, clicks), an object with "
        "set_image and predict, or one with card and encode(scene)"
    )


def is_network(made: type) -> bool:
    return any(base.__module__ == "torch.nn.modules.module" for base in made.__mro__)


@dataclass(frozen=True, slots=True)
class OneByOne:
    """An encoded scene whose requests are predicted one by one."""

    one: Callable[[Request], MaskPrediction]

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self.one(request) for request in requests]


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A function `predict(image, clicks) -> mask` as a model."""

    wrapped: Callable[..., Any]
    name: str = "predict"
    takes: ClassVar[frozenset[str]] = frozenset({"click"})

    @property
    def card(self) -> ModelCard:
        summary = (self.wrapped.__doc__ or "a function").strip().split("\n")[0]
        return ModelCard(self.name, summary, self.takes)

    def encode(self, scene: Scene) -> OneByOne:
        def one(request: Request) -> MaskPrediction:
            found = self.wrapped(*self._arguments(scene, request.prompts))
            return MaskPrediction(mask_from(found, scene.shape, self.name))

        return OneByOne(one)

    def _arguments(self, scene: Scene, prompts: Sequence[Prompt]) -> tuple[Any, list[Any]]:
        clicks = [(*c.point[-2:], c.positive) for c in only_clicks(prompts, self.name)]
        return scene.pixels.copy(), clicks


class VolumeFunctionModel(FunctionModel):
    """A function `predict(volume, prompts) -> mask` as a model for whole volumes.

    `volume.voxels` are `(z, y, x)`, `volume.spacing_mm` their sides; prompts are all clicks,
    boxes and scribbles so far, in voxels `(z, y, x)`; the mask is bool `(z, y, x)`.
    """

    takes = frozenset({"click", "box", "scribble", "volume"})

    def encode(self, scene: Scene) -> OneByOne:
        return super().encode(as_volume(scene, self.name))

    def _arguments(self, scene: Scene, prompts: Sequence[Prompt]) -> tuple[Any, list[Any]]:
        return scene, list(prompts)


@dataclass(frozen=True, slots=True)
class PredictorModel:
    """An object with SAM's `set_image` and `predict` as a model.

    It holds one image at a time; `set_image` is called again for an encoded scene whose image it
    no longer holds, such as another slice of a volume.

    The mask with the highest score is shown. Logits, if returned third, are fed back with the
    next click as `mask_input`.
    """

    wrapped: Any
    name: str = "predictor"
    about: ModelCard | None = None
    _shown: list[Scene] = field(default_factory=list, repr=False, compare=False)  # one at most

    @property
    def card(self) -> ModelCard:
        if self.about is not None:
            return self.about
        kind = type(self.wrapped).__name__
        takes = {"click", "box"} if _takes_box(self.wrapped.predict) else {"click"}
        return ModelCard(self.name, f"a predictor ({kind})", frozenset(takes))

    def encode(self, scene: Scene) -> OneByOne:
        self._shown.clear()
        self.show(scene)
        return OneByOne(partial(self._one, scene))

    def show(self, scene: Scene) -> None:
        """Give the predictor an image, unless it is the one that it has."""
        if not self._shown or self._shown[0] is not scene:
            self._shown.clear()  # lest an image that failed pass for the one before
            self.wrapped.set_image(scene.pixels.copy())
            self._shown.append(scene)

    def _one(self, scene: Scene, request: Request) -> MaskPrediction:
        self.show(scene)
        points, labels, box = as_sam(request.prompts, self.name)
        given: dict[str, Any] = {}
        if points:
            given["point_coords"] = np.array(points, dtype=np.float32)
            given["point_labels"] = np.array(labels, dtype=np.int32)
        if box:
            given["box"] = np.array(box, dtype=np.float32)
        if request.state is not None:
            given["mask_input"] = request.state
        found = self.wrapped.predict(**given)
        if not isinstance(found, tuple | list) or len(found) < 2:
            raise BadInput(f"{self.name}: predict gives (masks, scores, logits), as SAM's does")
        masks, scores = found[0], np.ravel(_array(found[1])).astype(float)
        if len(masks) != len(scores) or not len(scores):
            raise BadInput(f"{self.name}: {len(masks)} masks came with {len(scores)} scores")
        best = int(scores.argmax())
        mask = mask_from(masks[best], scene.shape, self.name)
        logits = found[2] if len(found) > 2 else None
        state = None if logits is None else np.array(_array(logits)[best : best + 1])
        return MaskPrediction(mask, float(scores[best]), state)


def _takes_box(predict: Callable[..., Any]) -> bool:
    """Whether a predictor can be given a box.

    >>> _takes_box(lambda point_coords, point_labels: None), _takes_box(lambda **given: None)
    (False, True)
    """
    taken = inspect.signature(predict).parameters.values()
    return any(p.name == "box" or p.kind is p.VAR_KEYWORD for p in taken)


def mask_from(found: Any, shape: Sequence[int], name: str = "predict") -> Mask:
    """A model's output as a mask; refused unless it is boolean (or 0 and 1) and of the right shape.

    >>> mask_from(np.full((2, 2), -5.0), (2, 2))
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: predict returned logits (-5 to -5); return mask > 0
    """
    array = _array(found)
    fault = _fault(found, array, tuple(shape))
    if fault:
        raise BadInput(f"{name} {fault}")
    return Mask.of(array.astype(bool))


def _fault(found: Any, array: npt.NDArray[Any], shape: tuple[int, ...]) -> str:
    if found is None:
        return f"returned nothing; return a mask of shape {shape}"
    if array.dtype == object:
        return f"returned a {type(found).__name__}; return an array of shape {shape}"
    if array.shape != shape:
        one = [s for s in array.shape if s != 1]
        hint = "remove the axes of length 1" if tuple(one) == shape else f"return one {shape}"
        return f"returned an array of shape {array.shape}; {hint}"
    if array.dtype == bool or not array.size:
        return ""
    if np.isnan(array).any():
        return "returned NaN; a mask is true or false"
    low, high = float(array.min()), float(array.max())
    if low >= 0 and high <= 1:
        if ((array == 0) | (array == 1)).all():
            return ""
        return f"returned probabilities ({low:.3g} to {high:.3g}); return mask > 0.5"
    what = "logits" if low < 0 else "values other than 0 and 1"
    return f"returned {what} ({low:.3g} to {high:.3g}); return mask > 0"


def _array(found: Any) -> npt.NDArray[Any]:
    if hasattr(found, "detach"):  # a torch tensor, perhaps on a GPU
        found = found.detach().cpu()
    try:
        return np.asarray(found)
    except ValueError:  # a ragged list
        return np.asarray(None, dtype=object)


def as_image(scene: Scene, name: str) -> Scene:
    if scene.header.kind != "image":
        raise BadInput(
            f"{scene.name} is a volume, and '{name}' takes images; try 'slicewise?model={name}'"
        )
    return scene


def as_volume(scene: Scene, name: str) -> Volume:
    if not isinstance(scene, Volume):
        raise BadInput(f"{scene.name} is an image, and '{name}' segments volumes")
    return scene


def only_clicks(prompts: Sequence[Prompt], name: str) -> list[Click]:
    clicks = [p for p in prompts if isinstance(p, Click)]
    if len(clicks) != len(prompts):
        raise BadInput(f"{name} takes clicks only; choose a user who clicks")
    return clicks


def as_sam(prompts: Sequence[Prompt], name: str) -> tuple[list[Any], list[int], list[float]]:
    """Clicks and the last box in SAM's words: `(x, y)` points, 1 for positive, `x0, y0, x1, y1`."""
    boxes = [p for p in prompts if isinstance(p, Box)]
    clicks = [p for p in prompts if isinstance(p, Click)]
    if len(boxes) + len(clicks) != len(prompts):
        odd = next(p for p in prompts if not isinstance(p, Click | Box))
        raise BadInput(f"{name} takes clicks and boxes, not a {type(odd).__name__.lower()}")
    corners = (boxes[-1].low, boxes[-1].high) if boxes else ()
    box = [float(c) for corner in corners for c in corner[::-1]]
    return [list(c.point[::-1]) for c in clicks], [int(c.positive) for c in clicks], box
