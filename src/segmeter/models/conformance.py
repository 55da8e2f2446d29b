"""Conformance: rules that every model must follow, checked on any model.

`check(model, scene)` tries the model and returns a sentence for each rule that it breaks; an
empty list is a pass.

>>> from segmeter.models.synthetic import Disc
>>> check(Disc(radius=5), drawn_scene())
[]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from segmeter.core.errors import error_text
from segmeter.core.masks import Mask
from segmeter.core.models import (
    PROTOCOLS,
    EncodedScene,
    Model,
    ModelCard,
    Prediction,
    Request,
    keeps_state,
    render,
)
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, Text
from segmeter.core.scenes import Image, Scene, SceneHeader, Target, Volume
from segmeter.core.videos import TracksObjects, Video

PROMPT_ABILITIES = frozenset({"click", "box", "scribble", "mask", "text"})
OTHER_ABILITIES = frozenset({"automatic", "differentiable", "example", "video", "volume"})

ROUNDING = 1e-3
"""Fraction of pixels that may change with batching: sums are taken in another order, and pixels
at the threshold may flip."""


def check(model: Model, scene: Scene | None = None) -> list[str]:
    """Rules that a model breaks on a scene; none for a model that can be evaluated."""
    faults = list(_parts(model))
    if faults:
        return faults
    if "video" in model.card.abilities:
        return _tracking_faults(model)
    if scene is None:
        scene = drawn_volume() if "volume" in model.card.abilities else drawn_scene()
    try:
        trial = _Trial(model, scene)
    except Exception as error:  # noqa: BLE001  a user's model may raise anything
        return [f"encode(scene) raises {error_text(error)}"]
    if not callable(getattr(trial.encoded, "predict", None)):
        return ["encode(scene) returns an object without predict(requests)"]
    faults = list(_abilities_are_true(trial))
    wrong_types = list(_returns_predictions(trial)) if trial.usable else []
    if wrong_types or not trial.usable:
        return list(dict.fromkeys([*faults, *wrong_types]))
    for rule in _RULES:
        try:
            faults += rule(trial)
        except Exception as error:  # noqa: BLE001  as above
            faults.append(f"predict(requests) raises {error_text(error)}")
    return list(dict.fromkeys(faults))


def _tracking_faults(model: Model) -> list[str]:
    """Rules that a tracker breaks on four equal frames, of which it is given the first object."""
    still = drawn_scene()
    header = SceneHeader("video", (4, *still.shape))
    video = Video("drawn", "ellipse", lambda t: still.pixels, [], header=header)
    try:
        track = cast("TracksObjects", model.encode(video)).begin()
        masks = {0: track.prompt(0, [Click(tuple(n / 2 for n in still.shape))])}
        masks |= dict(track.segment())
    except Exception as error:  # noqa: BLE001  a user's model may raise anything
        return [f"tracking raises {error_text(error)}"]
    if sorted(masks) != list(range(len(video))):
        return [f"segment() gives masks of frames {sorted(masks)} of a video of {len(video)}"]
    sizes = {mask.shape for mask in masks.values()}
    return [] if sizes == {still.shape} else [f"masks have the sizes {sizes}, not {still.shape}"]


def _returns_predictions(trial: _Trial) -> Iterator[str]:
    requests = trial.requests()
    try:
        found = trial.predictions
    except Exception as error:  # noqa: BLE001  a user's model may raise anything
        yield f"predict(requests) raises {error_text(error)}"
        return
    if isinstance(found, np.ndarray) or not isinstance(found, Sequence):
        yield f"predict(requests) returns {_what(found)}; return a list, one prediction each"
        return
    if len(found) != len(requests):
        yield f"{len(requests)} requests returned {len(found)} predictions"
    for prediction in found:
        if not isinstance(prediction, Prediction):
            yield f"predict(requests) returns {_what(prediction)}; {_WRAP}"
        elif not isinstance(mask := prediction.mask(), Mask):
            yield f"mask() gives {_what(mask)}; {_WRAP}"


_WRAP = "wrap each mask: MaskPrediction(Mask.of(array > 0.5))"


def _what(thing: Any) -> str:
    """Description of a returned value: type, shape and range."""
    if thing is None:
        return "nothing (None)"
    shape = getattr(thing, "shape", None)
    if shape is None or isinstance(thing, Mask):
        return f"a {type(thing).__name__}"
    kind = "a tensor" if hasattr(thing, "detach") else "an array"
    array = np.asarray(thing.detach().cpu() if hasattr(thing, "detach") else thing)
    content = ""
    if array.dtype.kind == "f" and array.size:
        fraction = " of probabilities" if ((array > 0) & (array < 1)).any() else ""
        content = " with NaN" if np.isnan(array).any() else fraction
        content = " of logits" if array.min() < 0 else content
    return f"{kind} of {array.dtype} {tuple(shape)}{content}"


def drawn_scene(height: int = 96, width: int = 128) -> Scene:
    """A bright ellipse on a darker, slightly uneven ground."""
    y, x = np.mgrid[:height, :width]
    inside = ((y - height / 2) / (height / 4)) ** 2 + ((x - width / 2) / (width / 5)) ** 2 <= 1
    ground = 60 + 20 * np.sin(y / 9) + 15 * np.cos(x / 7)
    grey = np.where(inside, 190 + 10 * np.sin(x / 5), ground)
    pixels = np.stack([grey, grey * 0.9, grey * 0.7], axis=-1).astype(np.uint8)
    return Image("drawn", "ellipse", pixels, [Target("ellipse", Mask.of(inside))])


def drawn_volume(depth: int = 8) -> Volume:
    """The drawn ellipse through some slices of 3 mm, grey."""
    flat = drawn_scene(48, 64)
    voxels = np.repeat(flat.pixels[None, :, :, 0], depth, axis=0).astype(np.float32)
    slices = dict.fromkeys(range(2, depth - 2), flat.targets[0].mask)
    target = Target("cylinder", Mask.stack(slices, depth))
    header = SceneHeader("volume", (depth, 48, 64), (3.0, 1.0, 1.0))
    return Volume("drawn", "cylinder", voxels, [target], header=header)


class _Trial:
    """A model with an encoded scene, and prompts of each kind for it."""

    def __init__(self, model: Model, scene: Scene) -> None:
        self.model, self.scene, self.before = model, scene, scene.pixels.copy()
        self.encoded: EncodedScene = model.encode(scene)
        low, high = ([n // 3 for n in scene.shape], [n - n // 3 for n in scene.shape])
        target = scene.targets[0].mask if scene.targets else Mask.box(scene.shape, low, high)
        prompts = _prompts_of_each_kind(target)
        self.alone: dict[str, Sequence[Prediction]] = {}  # of each kind of prompt by itself
        self.usable = {k: p for k, p in prompts.items() if k in model.card.abilities}

    def requests(self) -> list[Request]:
        """Requests of different kinds and lengths, as in a round of many users."""
        singles = [(p,) for p in self.usable.values()]
        return [Request(p) for p in (*singles, self.clicks()) if p]

    @cached_property
    def predictions(self) -> Sequence[Prediction]:
        """All requests together, for the first time."""
        return self.encoded.predict(self.requests())

    def clicks(self) -> tuple[Prompt, ...]:
        first = self.usable.get("click")
        if not isinstance(first, Click):
            return ()
        return (first, Click((0,) * len(self.scene.shape), positive=False))

    def same(self, one: Mask, other: Mask) -> bool:
        differ = one.area + other.area - 2 * one.overlap(other)
        return differ <= ROUNDING * math.prod(self.scene.shape)


Rule = Callable[[_Trial], Iterator[str]]


def _parts(model: Model) -> Iterator[str]:
    card = getattr(model, "card", None)
    if not isinstance(card, ModelCard):
        yield "the model has no card; give it a segmeter.ModelCard"
    else:
        if not card.name:
            yield "the card has no name"
        odd = sorted(card.abilities - PROMPT_ABILITIES - OTHER_ABILITIES)
        if odd:
            yield f"the card names an unknown ability: '{odd[0]}'"
        if not card.abilities & PROMPT_ABILITIES:
            yield "the card names no prompt that the model takes"
    if not callable(getattr(model, "encode", None)):
        yield "the model has no encode(scene)"


def _encoding_is_pure(trial: _Trial) -> Iterator[str]:
    if not np.array_equal(trial.before, trial.scene.pixels):
        yield "encode(scene) changes the scene's pixels"
    again = trial.model.encode(trial.scene)
    kind, prompt = next(iter(trial.usable.items()))
    other = render(again, again.predict([Request((prompt,))]))
    if render(trial.encoded, trial.alone[kind]) != other:
        yield "encoding a scene twice gives different predictions"


def _one_prediction_per_request(trial: _Trial) -> Iterator[str]:
    if len(trial.encoded.predict([])) != 0:
        yield "an empty list of requests returned a prediction"
    for request, prediction in zip(trial.requests(), trial.predictions, strict=False):
        named = any(isinstance(prompt, Text) for prompt in request.prompts)
        if not named or len(prediction.scores):  # nothing may be there that a phrase names
            yield from _prediction(prediction, trial.scene)


def _prediction(prediction: Prediction, scene: Scene) -> Iterator[str]:
    count = len(prediction.scores)
    if not np.isfinite(prediction.scores).all():
        yield "a score is not a finite number"
    if not 0 <= prediction.shown < count:
        yield f"candidate {prediction.shown} is shown, but there are {count}"
        return
    for candidate in range(count):
        shape = prediction.mask(candidate).shape
        if shape != scene.shape:
            yield f"a mask has size {shape} in a scene of size {scene.shape}"
    if prediction.mask() != prediction.mask(prediction.shown):
        yield "mask() is not the candidate that is shown"


def _together_is_one_by_one(trial: _Trial) -> Iterator[str]:
    encoded, requests = trial.encoded, trial.requests()
    together = render(encoded, trial.predictions)
    alone = [trial.alone[kind] for kind in trial.usable]
    alone += [encoded.predict([request]) for request in requests[len(alone) :]]
    apart = [render(encoded, predictions)[0] for predictions in alone]
    backwards = render(encoded, encoded.predict(requests[::-1]))[::-1]
    for request, one, other, turned in zip(requests, together, apart, backwards, strict=True):
        if not trial.same(one, other):
            yield f"predictions together and one by one differ for {_kinds(request.prompts)}"
        if not trial.same(one, turned):
            yield f"the order of requests changes the prediction for {_kinds(request.prompts)}"


def _same_prediction_always(trial: _Trial) -> Iterator[str]:
    """Checked after the earlier rules, which request other predictions."""
    encoded, requests = trial.encoded, trial.requests()
    first = trial.predictions
    masks = render(encoded, first)
    again = encoded.predict(requests)
    if masks != render(encoded, again):
        yield "the same requests do not always give the same prediction"
    if any(not np.array_equal(a.scores, b.scores) for a, b in zip(first, again, strict=True)):
        yield "the same requests do not always give the same score"
    if masks != [p.mask() for p in first]:
        yield "render and mask() disagree, or a prediction changed after it was made"


def _state_is_returned(trial: _Trial) -> Iterator[str]:
    encoded, clicks = trial.encoded, trial.clicks()
    if not clicks:
        return
    state = encoded.predict([Request(clicks[:1])])[0].state
    if not all(isinstance(keeps_state(encoded, clicks, p), bool) for p in PROTOCOLS):
        yield "keeps_state does not return True or False"
    requests = [Request(clicks, state), Request(clicks, None)]
    one = render(encoded, encoded.predict(requests))
    if one != render(encoded, encoded.predict(requests)):
        yield "a prediction from a state changes when it is requested again"
    alone = [render(encoded, encoded.predict([request]))[0] for request in requests]
    if not all(trial.same(a, b) for a, b in zip(one, alone, strict=True)):
        yield "one session's state leaks into another's prediction"


def _abilities_are_true(trial: _Trial) -> Iterator[str]:
    """Tried first: kinds of prompt that fail are left out of the other rules."""
    for kind, prompt in list(trial.usable.items()):
        try:
            trial.alone[kind] = trial.encoded.predict([Request((prompt,))])
        except Exception as error:  # noqa: BLE001  a user's model may raise anything
            del trial.usable[kind]
            named = ", which its card or parameters name" * (kind != "click")
            yield f"predict fails for a '{kind}' prompt{named}: {error_text(error)}"


_RULES: tuple[Rule, ...] = (
    _encoding_is_pure,
    _one_prediction_per_request,
    _together_is_one_by_one,
    _same_prediction_always,
    _state_is_returned,
)


def _prompts_of_each_kind(target: Mask) -> dict[str, Prompt]:
    places = np.argwhere(target.dense())
    middle = places[np.abs(places - places.mean(axis=0)).sum(axis=1).argmin()]
    stroke = tuple(map(tuple, places[:: max(1, target.area // 12)].tolist()))
    return {
        "click": Click(tuple(middle.tolist())),
        "box": Box.around(target),
        "scribble": Scribble(stroke),
        "mask": MaskHint(target),
        "text": Text("the thing in the middle"),
    }


def _kinds(prompts: Sequence[Any]) -> str:
    return " and ".join(type(p).__name__.lower() for p in prompts)
