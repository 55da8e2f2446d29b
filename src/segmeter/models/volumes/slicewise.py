"""`slicewise`: any model for images on a volume, axial slice by axial slice.

A slice is encoded when it gets its first prompt, and not again while memory lasts, for any target,
user, step or protocol with the same preprocessing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import FollowsProtocol, OnDevice, capable
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.models import (
    EncodedScene,
    Model,
    ModelCard,
    Prediction,
    ProtocolName,
    Request,
    render,
)
from segmeter.core.prompts import MaskHint, Prompt
from segmeter.core.scenes import Image, Pixels, Scene, Volume
from segmeter.core.seeds import fingerprint
from segmeter.models.adapters import as_volume
from segmeter.models.volumes.slices import (
    EncodesTogether,
    EncodesValues,
    PreparedSlices,
    PromptHistory,
    ReadsSlices,
    ReadsTargets,
    SliceStore,
    Values,
    flattened,
    prepared,
    turned,
)
from segmeter.models.weights import on_gpu

Prepared = npt.NDArray[Any]
_BUDGET_MB = 2048
_TOGETHER = 16
"""Slices that a GPU embeds and predicts at once."""


@dataclass(frozen=True, slots=True)
class SliceState:
    """State of a session by slice.

    Attributes
    ----------
    masks
        The newest mask of every slice that was predicted.
    inner
        The inner model's states of the same slices.
    called
        Slices of the last prediction; the published loop keeps only those.
    history
        The prompts of the predictions so far.
    """

    masks: Mapping[int, Mask] = field(default_factory=dict)
    inner: Mapping[int, Any] = field(default_factory=dict)
    called: frozenset[int] = frozenset()
    history: PromptHistory = field(default_factory=PromptHistory)


@dataclass(frozen=True)
class SlicewisePrediction:
    """Slices predicted now, over those of earlier predictions.

    `renderer` is the encoded scene of one of them, which renders for all where it can.
    """

    encoded: SliceEncodedScene
    renderer: EncodedScene | None
    answers: Mapping[int, Prediction]
    earlier: SliceState
    history: PromptHistory
    shown: int = 0

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """One candidate; its score is the mean of what the slices shown score themselves."""
        own = [float(a.scores[a.shown]) for a in self.answers.values()]
        return np.array([np.mean(own) if own else 0.0], dtype=np.float32)

    @cached_property
    def slices(self) -> Mapping[int, Mask]:
        """All masks by slice, rendered when first needed."""
        shown = list(self.answers.values())
        masks = [] if self.renderer is None else render(self.renderer, shown)
        turned = map(Mask.turned, masks) if self.encoded.upright else masks
        return {**self.earlier.masks, **dict(zip(self.answers, turned, strict=True))}

    @property
    def state(self) -> SliceState:
        inner = {**self.earlier.inner, **{z: a.state for z, a in self.answers.items()}}
        return SliceState(self.slices, inner, frozenset(self.answers), self.history)

    def mask(self, candidate: int | None = None) -> Mask:
        slices, shape = dict(self.slices), self.encoded.shape
        return Mask.stack(slices, shape[0]) if slices else Mask.empty(shape)


class _Prepared(dict[ProtocolName, PreparedSlices]):
    """A volume's slices by protocol, as 0 to 255, with `names` of slices by their content."""

    def __init__(self, volume: Volume, family: str) -> None:
        self.volume, self.family = volume, family
        self.names: dict[tuple[ProtocolName, int], str] = {}

    def __missing__(self, protocol: ProtocolName) -> PreparedSlices:
        return self.setdefault(protocol, prepared(self.volume, self.family, protocol))


@capable(FollowsProtocol)
class SliceEncodedScene:
    """A volume whose slices are encoded when first needed.

    In `corrected` the model sees slices as radiologists do, the front at the top and the patient's
    right on the left; in `published`, as in the paper, rotated by 180 degrees.
    """

    def __init__(
        self,
        model: Slicewise,
        volume: Volume,
        protocol: ProtocolName = "corrected",
        prepared: _Prepared | None = None,
    ) -> None:
        self.model, self.volume = model, volume
        self.protocol: ProtocolName = protocol
        family = model.inner.card.family
        self._prepared = _Prepared(volume, family) if prepared is None else prepared

    @property
    def shape(self) -> tuple[int, int, int]:
        depth, height, width = self.volume.shape
        return depth, height, width

    @property
    def upright(self) -> bool:
        """Whether the model sees the front at the top."""
        return self.protocol != "published"

    @property
    def window(self) -> tuple[float, float] | None:
        """Darkest and brightest value that the model sees; None where each slice has its own."""
        slices = self._prepared[self.protocol]
        return slices.range if slices.preparation.scope in ("volume", "window") else None

    def in_protocol(self, protocol: ProtocolName) -> SliceEncodedScene:
        """The same volume in a protocol; embeddings are shared where slices agree."""
        if protocol == self.protocol:
            return self
        return SliceEncodedScene(self.model, self.volume, protocol, self._prepared)

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        """One prediction per request; those of a slice are predicted together."""
        parts = [self._slice_requests(request) for request in requests]
        answers: list[dict[int, Prediction]] = [{} for _ in requests]
        encoded: EncodedScene | None = None
        together, wanted = self.model.together, sorted({z for part in parts for z in part})
        for some in (wanted[i : i + together] for i in range(0, len(wanted), together)):
            for z, encoded in zip(some, self._encoded_slices(some), strict=True):
                mine = [i for i, part in enumerate(parts) if z in part]
                for i, found in zip(
                    mine, encoded.predict([parts[i][z] for i in mine]), strict=True
                ):
                    answers[i][z] = found
        return [
            SlicewisePrediction(self, encoded, own, _state(request), self._extended(request))
            for own, request in zip(answers, requests, strict=True)
        ]

    def _shown(self, prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
        """Prompts of a slice where the model sees them."""
        return tuple(turned(p, self.shape[1:]) if self.upright else p for p in prompts)

    def _encoded_slices(self, slices: Sequence[int]) -> list[EncodedScene]:
        for z in slices:
            if not 0 <= z < self.shape[0]:
                raise BadInput(f"{self.volume.name} has no slice {z}: it has {self.shape[0]}")
        fresh: dict[int, Prepared] = {}  # slices that were prepared for their names
        names = [self._name(z, fresh) for z in slices]

        def encode(places: Sequence[int]) -> Sequence[EncodedScene]:
            wanted = [slices[i] for i in places]
            seen = [fresh[z] if z in fresh else self._seen(z) for z in wanted]
            if isinstance(self.model.inner, ReadsTargets):
                planes = zip(wanted, seen, strict=True)
                return [self.model.inner.encode(self._with_targets(*plane)) for plane in planes]
            return self.model.encode_slices(self.volume, seen)

        found = self.model.store.encoded_scenes(names, encode)
        return [self.model.in_protocol(encoded, self.protocol) for encoded in found]

    def _name(self, z: int, fresh: dict[int, Prepared]) -> str:
        """A slice's name by its content; one that is prepared for it goes into `fresh`."""
        names, place = self._prepared.names, (self.protocol, z)
        if place not in names:
            fresh[z] = seen = np.ascontiguousarray(self._seen(z))
            own = (self.volume.name, *place) if isinstance(self.model.inner, ReadsTargets) else ()
            names[place] = fingerprint(seen.dtype.str, *seen.shape, seen.tobytes(), *own)
        return names[place]

    def _seen(self, z: int) -> Prepared:
        """A slice as the model takes it."""
        values = self._prepared[self.protocol].slice(z)
        return self.model.seen(values[::-1, ::-1] if self.upright else values)

    def _with_targets(self, z: int, pixels: Prepared) -> Image:
        """A slice with the targets in it, for synthetic models that are made from them."""
        flat = [replace(t, mask=t.mask.slice(z), ignore=None) for t in self.volume.targets]
        shown = [replace(t, mask=t.mask.turned()) for t in flat] if self.upright else flat
        colour = np.repeat(pixels[:, :, None], 3, axis=2)
        return Image(self.volume.dataset, f"{self.volume.id} slice {z}", colour, shown)

    def _extended(self, request: Request) -> PromptHistory:
        """All prompts of a request, and those passed on; `published` has the newest first."""
        history, prompts = _state(request).history, request.prompts
        return PromptHistory(prompts, prompts if self.upright else history.newest_first(prompts))

    def _slice_requests(self, request: Request) -> dict[int, Request]:
        state, given = _state(request), self._extended(request).passed
        by_slice = grouped_pairs(flat for prompt in given for flat in flattened(prompt))
        kept = state.called if self.protocol == "published" else state.inner.keys()
        if not _only_masks(request.prompts):
            by_slice = {z: own for z, own in by_slice.items() if not _only_masks(own)}
        return {
            z: Request(self._shown(own), state.inner.get(z) if z in kept else None)
            for z, own in sorted(by_slice.items())
        }


@catalogue.models.add("slicewise", summary="a model for images on volumes, slice by slice")
@capable(OnDevice)
class Slicewise:
    """A model for volumes made from one for images.

    Parameters
    ----------
    model
        Any model that takes images, or its name.
    memory_mb
        How much memory embeddings may take before the least recently used are dropped.
    together
        How many slices are embedded at once; 0 is one on a processor, sixteen on a GPU.
    """

    def __init__(
        self,
        model: str | Model,
        weights: str | None = None,
        device: str | None = None,
        memory_mb: int = _BUDGET_MB,
        together: int = 0,
    ) -> None:
        inner: Any = model
        if isinstance(model, str):
            inner = catalogue.models.make(model, weights=weights, device=device)
        self.inner: Model = inner
        self.store = SliceStore(memory_mb << 20)
        self.together = together or (_TOGETHER if on_gpu(self.device) else 1)

    @property
    def card(self) -> ModelCard:
        inner = self.inner.card
        abilities = (inner.abilities - {"differentiable", "automatic"}) | {"volume"}
        return replace(inner, summary=f"{inner.summary}, slice by slice", abilities=abilities)

    @property
    def device(self) -> str:
        return self.inner.device if isinstance(self.inner, OnDevice) else "cpu"

    def encode(self, scene: Scene) -> SliceEncodedScene:
        """Nothing is embedded yet: that waits for the first prompt in a slice."""
        return SliceEncodedScene(self, as_volume(scene, "slicewise"))

    def in_protocol(self, encoded: EncodedScene, protocol: ProtocolName) -> EncodedScene:
        """The same embedding with predictions of a protocol."""
        if not isinstance(self.inner, ReadsSlices):
            return encoded
        scene: Any = encoded
        return scene.with_policy(self.inner.slice_policy(protocol))  # type: ignore[no-any-return]

    def seen(self, values: Values) -> Prepared:
        """Input of the inner model for a prepared slice: values, or whole numbers 0 to 255."""
        if isinstance(self.inner, EncodesValues):
            return values
        return values.round().clip(0, 255).astype(np.uint8)

    def encode_slices(self, volume: Volume, slices: Sequence[Prepared]) -> Sequence[EncodedScene]:
        """Encode slices of a volume, as `seen` gives them, with the inner model."""
        if isinstance(self.inner, EncodesValues):
            return self.inner.encode_values(slices)
        if isinstance(self.inner, EncodesTogether):
            # One channel that stands for three: only one is sent to a GPU.
            grey = [np.broadcast_to(one[:, :, None], (*one.shape, 3)) for one in slices]
            return self.inner.encode_together([_image(volume, pixels) for pixels in grey])
        colour = [np.repeat(one[:, :, None], 3, axis=2) for one in slices]
        return [self.inner.encode(_image(volume, pixels)) for pixels in colour]


def on_volumes(model: Model) -> Model:
    """A model that takes volumes: the model itself, or slice by slice."""
    return model if "volume" in model.card.abilities else Slicewise(model)


def _state(request: Request) -> SliceState:
    """The state of a request; at first the mask to start from, which slices keep until prompted."""
    if isinstance(request.state, SliceState):
        return request.state
    masks = [flattened(p) for p in request.prompts if isinstance(p, MaskHint)]
    if not masks or _only_masks(request.prompts):
        return SliceState()
    return SliceState({z: p.mask for z, p in masks[-1] if isinstance(p, MaskHint)})


def _only_masks(prompts: Sequence[Prompt]) -> bool:
    return all(isinstance(prompt, MaskHint) for prompt in prompts)


def _image(volume: Volume, pixels: Pixels) -> Image:
    return Image(volume.dataset, f"{volume.id} (a slice)", pixels, ())
