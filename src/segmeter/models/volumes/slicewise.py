"""`slicewise`: any model for pictures on a volume, axial slice by axial slice.

A slice is looked at when the first prompt falls into it, and never again while memory
lasts: not for another target, user, step or reading that prepares it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, RendersTogether
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Model, ModelCard, Prediction, Reading, View
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Picture, Pixels, Scene, Volume
from segmeter.models.volumes.preparation import PreparedSlices, Values, preparation_of
from segmeter.models.volumes.prompt_order import Heard
from segmeter.models.volumes.slice_capabilities import (
    AnswersBeside,
    KnowsItsScan,
    LooksAtValues,
    LooksTogether,
    OfAView,
    ReadsSlices,
    SliceAsk,
    TakesPolicy,
)
from segmeter.models.volumes.slice_prompts import flattened
from segmeter.models.volumes.slice_store import SliceStore, content_key

__all__ = ["SliceMemory", "SliceView", "Slicewise", "SlicewisePrediction", "on_volumes"]

Previous = Literal["with", "without"]
Seen = npt.NDArray[Any]
_BUDGET_MB = 2048
_FIRST, _TOGETHER = 4, 16
"""Slices that a GPU embeds first, and those that it embeds and answers at once."""


@dataclass(frozen=True, slots=True)
class SliceMemory:
    """What a session knows of its slices.

    Attributes
    ----------
    masks
        The newest mask of every slice that was predicted.
    inner
        What the inner model wants back, of the same slices.
    called
        Slices of the last answer: the published loop remembers those only.
    heard
        The prompts that went into the answers so far.
    """

    masks: Mapping[int, Mask] = field(default_factory=dict)
    inner: Mapping[int, Any] = field(default_factory=dict)
    called: frozenset[int] = frozenset()
    heard: Heard = field(default_factory=Heard)


@dataclass(frozen=True)
class SlicewisePrediction:
    """Slices that were predicted now, over those of earlier answers."""

    view: SliceView
    answers: Mapping[int, Prediction]
    earlier: SliceMemory
    heard: Heard
    shown: int = 0

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """One candidate; its score is the mean of what the slices shown score themselves."""
        own = [float(a.scores[a.shown]) for a in self.answers.values()]
        return np.array([np.mean(own) if own else 0.0], dtype=np.float32)

    @cached_property
    def slices(self) -> Mapping[int, Mask]:
        """All masks by slice, rendered when first asked for."""
        return {**self.earlier.masks, **self.view.render_slices(self.answers)}

    @property
    def memory(self) -> SliceMemory:
        inner = {**self.earlier.inner, **{z: a.memory for z, a in self.answers.items()}}
        return SliceMemory(self.slices, inner, frozenset(self.answers), self.heard)

    def mask(self, candidate: int | None = None) -> Mask:
        slices, shape = dict(self.slices), self.view.shape
        return Mask.stack(slices, shape[0]) if slices else Mask.empty(shape)


class _Prepared:
    """A volume's slices in both readings, as a model sees them, each named by its content."""

    def __init__(self, volume: Volume, model: Slicewise) -> None:
        self._volume, self._model = volume, model
        self._slices: dict[Reading, PreparedSlices] = {}
        self._keys: dict[tuple[Reading, int], str] = {}
        self._fresh: dict[tuple[Reading, int], Seen] = {}

    def key(self, reading: Reading, z: int) -> str:
        """The slice's content as a key; preparing it again costs more than keeping that."""
        place = (reading, z)
        if place not in self._keys:
            self._fresh[place] = self._seen(reading, z)
            self._keys[place] = content_key(self._fresh[place])
        return self._keys[place]

    def slice(self, reading: Reading, z: int) -> Seen:
        """What the model sees of a slice; not prepared again right after its key."""
        fresh = self._fresh.pop((reading, z), None)
        return self._seen(reading, z) if fresh is None else fresh

    def settle(self) -> None:
        """Let go of slices that were keyed and need no look."""
        self._fresh.clear()

    def _seen(self, reading: Reading, z: int) -> Seen:
        if reading not in self._slices:
            preparation = preparation_of(self._model.inner.card.family, reading)
            scan = _scan_of(self._volume)
            self._slices[reading] = PreparedSlices(self._volume.voxels, preparation, *scan)
        return self._model.seen(self._slices[reading].slice(z))


class SliceView:
    """A volume of which slices are looked at when they are first asked for."""

    def __init__(
        self,
        model: Slicewise,
        volume: Volume,
        reading: Reading = "sound",
        previous: Previous = "with",
        prepared: _Prepared | None = None,
    ) -> None:
        self.model, self.volume = model, volume
        self.reading: Reading = reading
        self.previous: Previous = previous
        self._prepared = prepared or _Prepared(volume, model)

    @property
    def shape(self) -> tuple[int, int, int]:
        depth, height, width = self.volume.shape
        return depth, height, width

    def in_reading(self, reading: Reading, previous: Previous | None = None) -> SliceView:
        """The same volume in a reading; embeddings are shared where slices agree."""
        previous = previous or self.previous
        if (reading, previous) == (self.reading, self.previous):
            return self
        return SliceView(self.model, self.volume, reading, previous, self._prepared)

    def answer(self, asks: Sequence[Ask]) -> list[Prediction]:
        """One prediction per ask; slices of all asks are answered slice by slice, together."""
        wanted: list[SliceAsk] = []
        owners: list[int] = []
        for index, ask in enumerate(asks):
            own = list(self._slice_asks(ask))
            wanted += own
            owners += [index] * len(own)
        answers: list[dict[int, Prediction]] = [{} for _ in asks]
        for owner, part, found in zip(owners, wanted, self.answer_slices(wanted), strict=True):
            answers[owner][part.z] = found
        return [
            SlicewisePrediction(self, own, _memory(ask), self._heard(ask))
            for own, ask in zip(answers, asks, strict=True)
        ]

    def answer_slices(self, asks: Sequence[SliceAsk]) -> list[Prediction]:
        """One prediction of a slice per ask, in order; slices go through the decoder together.

        While a GPU works on some slices, the next are prepared and the masks of the last made.
        """
        answers: dict[int, Prediction] = {}
        mine, finish = self._begun(asks, [])
        for part in _parts(sorted({ask.z for ask in asks}), self.model.together):
            begun = self._begun(asks, part)
            answers |= zip(mine, finish(), strict=True)
            mine, finish = begun
        answers |= zip(mine, finish(), strict=True)
        return [answers[i] for i in range(len(asks))]

    def _begun(
        self, asks: Sequence[SliceAsk], slices: Sequence[int]
    ) -> tuple[list[int], Callable[[], Sequence[Prediction]]]:
        """Which asks lie in some slices, and what waits for their answers."""
        views = dict(zip(slices, self._looked_at(slices), strict=True))
        mine = [i for i, ask in enumerate(asks) if ask.z in views]
        inner = [Ask(asks[i].prompts, asks[i].memory) for i in mine]
        return mine, _start_answers([views[asks[i].z] for i in mine], inner)

    def render_slices(self, answers: Mapping[int, Prediction]) -> dict[int, Mask]:
        """The shown masks of slices that were predicted; one view renders for all it can."""
        shown = list(answers.values())
        first = shown[0].view if shown and isinstance(shown[0], OfAView) else None
        if isinstance(first, RendersTogether):
            return dict(zip(answers, first.render(shown), strict=True))
        return {z: answer.mask() for z, answer in answers.items()}

    def keeps_memory(self, prompts: tuple[Prompt, ...], reading: Reading) -> bool:
        """Always: which slice's memory goes back is settled slice by slice."""
        return True

    def _looked_at(self, slices: Sequence[int]) -> list[View]:
        for z in slices:
            if not 0 <= z < self.shape[0]:
                raise BadInput(f"{self.volume.name} has no slice {z}: it has {self.shape[0]}")
        views: list[View] = []
        for some in _growing(slices, self.model.first, self.model.together):
            keys = [self._prepared.key(self.reading, z) for z in some]
            views += self.model.store.views(keys, partial(self._looks, some))
            self._prepared.settle()
        return [self.model.in_reading(view, self.reading) for view in views]

    def _looks(self, slices: Sequence[int], places: Sequence[int]) -> Sequence[View]:
        seen = [self._prepared.slice(self.reading, slices[i]) for i in places]
        return self.model.look_at(self.volume, seen)

    def _heard(self, ask: Ask) -> Heard:
        """All prompts of an ask, and those handed on; published lists the newest round first."""
        heard = _memory(ask).heard
        if self.previous == "without":
            return Heard(ask.prompts, heard.new(ask.prompts))
        newest_first = self.reading == "published"
        return Heard(ask.prompts, heard.newest_first(ask.prompts) if newest_first else ask.prompts)

    def _slice_asks(self, ask: Ask) -> Iterator[SliceAsk]:
        memory, given = _memory(ask), self._heard(ask).passed
        by_slice: dict[int, list[Prompt]] = {}
        for prompt in given:
            for z, flat in flattened(prompt):
                by_slice.setdefault(z, []).append(flat)
        kept = memory.called if self.reading == "published" else memory.inner.keys()
        for z, prompts in sorted(by_slice.items()):
            inner = memory.inner.get(z) if z in kept else None
            yield SliceAsk(z, tuple(prompts), inner)


class Slicewise:
    """A model for volumes made from one for pictures.

    Parameters
    ----------
    inner
        Any model that looks at pictures.
    memory_mb
        How much memory embeddings may take before the least recently used are dropped.
    together
        How many slices are embedded at once; 0 is one on a processor, sixteen on a GPU.
    """

    def __init__(self, inner: Model, memory_mb: int = _BUDGET_MB, together: int = 0) -> None:
        self.inner = inner
        self.store = SliceStore(memory_mb << 20)
        self.together = together or (_TOGETHER if _on_gpu(self.device) else 1)
        self.first = min(self.together, _FIRST)

    @property
    def card(self) -> ModelCard:
        inner = self.inner.card
        abilities = (inner.abilities - {"differentiable", "automatic"}) | {"volume"}
        return replace(inner, summary=f"{inner.summary}, slice by slice", abilities=abilities)

    @property
    def device(self) -> str:
        return self.inner.device if isinstance(self.inner, OnDevice) else "cpu"

    def look(self, scene: Scene) -> SliceView:
        """Nothing is embedded yet: that waits for the first prompt in a slice."""
        if not isinstance(scene, Volume):
            raise BadInput(f"{scene.name} is a picture, and slices are cut from volumes")
        return SliceView(self, scene)

    def in_reading(self, view: View, reading: Reading) -> View:
        """A view whose answers follow a reading; the embedding stays."""
        if isinstance(self.inner, ReadsSlices) and isinstance(view, TakesPolicy):
            return view.with_policy(self.inner.slice_policy(reading))
        return view

    def seen(self, values: Values) -> Seen:
        """What the inner model gets of a prepared slice: values, or whole numbers 0 to 255."""
        if isinstance(self.inner, LooksAtValues):
            return values
        return values.round().clip(0, 255).astype(np.uint8)

    def look_at(self, volume: Volume, slices: Sequence[Seen]) -> Sequence[View]:
        """Look at slices of a volume, as `seen`, with the inner model."""
        if isinstance(self.inner, LooksAtValues):
            return self.inner.look_values(slices)
        if isinstance(self.inner, LooksTogether):
            # One channel that stands for three: only one is sent to a GPU.
            grey = [np.broadcast_to(one[:, :, None], (*one.shape, 3)) for one in slices]
            return self.inner.look_together([_picture(volume, pixels) for pixels in grey])
        colour = [np.repeat(one[:, :, None], 3, axis=2) for one in slices]
        return [self.inner.look(_picture(volume, pixels)) for pixels in colour]


@catalogue.models.add("slicewise", summary="a model for pictures on volumes, slice by slice")
def _slicewise(
    model: str,
    weights: str | None = None,
    device: str | None = None,
    memory_mb: int = _BUDGET_MB,
    together: int = 0,
) -> Slicewise:
    given = {} if device is None else {"device": device}
    inner = catalogue.models.make(model, weights=weights, **given)
    return Slicewise(inner, memory_mb, together)


def on_volumes(model: Model, memory_mb: int = _BUDGET_MB) -> Model:
    """A model that looks at volumes: the model itself, or slice by slice."""
    return model if "volume" in model.card.abilities else Slicewise(model, memory_mb)


def _start_answers(
    views: Sequence[View], asks: Sequence[Ask]
) -> Callable[[], Sequence[Prediction]]:
    """Begin an answer per ask on its own view: all in one go where the views can."""
    if views and isinstance(views[0], AnswersBeside):
        return views[0].start_beside(views, asks)
    found = _answered(views, asks)
    return lambda: found


def _answered(views: Sequence[View], asks: Sequence[Ask]) -> list[Prediction]:
    """An answer per ask on its own view, view by view."""
    by_view: dict[int, list[int]] = {}
    for index, view in enumerate(views):
        by_view.setdefault(id(view), []).append(index)
    answers: dict[int, Prediction] = {}
    for mine in by_view.values():
        found = views[mine[0]].answer([asks[i] for i in mine])
        answers |= zip(mine, found, strict=True)
    return [answers[i] for i in range(len(asks))]


def _on_gpu(device: str) -> bool:
    """Whether a model runs on a GPU; `auto` does where torch sees one."""
    if device != "auto":
        return device != "cpu"
    from segmeter.models.sam._networks import pick_device

    return pick_device(device).type != "cpu"


def _memory(ask: Ask) -> SliceMemory:
    return ask.memory if isinstance(ask.memory, SliceMemory) else SliceMemory()


def _parts(slices: Sequence[int], together: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(slices), together):
        yield slices[start : start + together]


def _growing(slices: Sequence[int], first: int, most: int) -> Iterator[Sequence[int]]:
    """A few first, then twice as many each time: a GPU begins while the next are prepared.

    >>> [list(part) for part in _growing(range(9), first=2, most=4)]
    [[0, 1], [2, 3, 4, 5], [6, 7, 8]]
    """
    start = 0
    while start < len(slices):
        yield slices[start : start + first]
        start, first = start + first, min(2 * first, most)


def _picture(volume: Volume, pixels: Pixels) -> Picture:
    return Picture(volume.dataset, f"{volume.id} (a slice)", pixels, ())


def _scan_of(volume: Volume) -> tuple[str, tuple[float, float] | None]:
    """Modality and window, of volumes that know them."""
    return (volume.modality, volume.window) if isinstance(volume, KnowsItsScan) else ("", None)
