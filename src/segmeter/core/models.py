"""Models: encode a scene once, then predict masks from prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import FollowsProtocol, KeepsState, RendersTogether
from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Scene

ProtocolName = Literal["published", "corrected"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Metadata of a model: name, prompts it accepts, licence, citation.

    `abilities` are the prompts that it accepts (`click`, `box`, `scribble`, `mask`, `text`) and
    other abilities (`automatic`, `differentiable`, `volume`).

    >>> import segmeter
    >>> sorted(segmeter.load_model("random-walker").card.abilities)
    ['box', 'click', 'scribble']
    """

    name: str
    summary: str
    abilities: frozenset[str]
    licence: str = ""
    citation: str = ""
    family: str = ""
    fingerprint: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """All prompts of a session so far, and the state of its last prediction.

    >>> from segmeter.core.prompts import Click
    >>> Request((Click((40, 60)), Click((5, 5), positive=False))).prompts[0].positive
    True
    """

    prompts: tuple[Prompt, ...]
    state: Any = None  # private to the adapter that made it


@runtime_checkable
class Prediction(Protocol):
    """A model's reply to a request: candidate masks with its scores, and the one it would show.

    Masks are upsampled to the scene's size only when read.
    """

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """The model's own score of each candidate."""

    @property
    def shown(self) -> int:
        """The candidate that the model shows."""

    @property
    def state(self) -> Any:
        """State that the model gets back with the next request of this session."""

    def mask(self, candidate: int | None = None) -> Mask:
        """A candidate at the scene's size; the shown one by default."""


@dataclass(frozen=True, slots=True)
class MaskPrediction:
    """A prediction with one mask, or with a function that makes it when it is read.

    Enough for most models of your own.

    >>> MaskPrediction(Mask.box((40, 50), (10, 20), (30, 40)), score=0.9).mask().area
    400
    """

    result: Mask | Callable[[], Mask]
    score: float = 1.0
    state: Any = None
    shown: int = 0

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        return np.array([self.score], dtype=np.float32)

    def mask(self, candidate: int | None = None) -> Mask:
        return self.result() if callable(self.result) else self.result


@runtime_checkable
class EncodedScene(Protocol):
    """A scene encoded by a model; `core.capabilities` lists optional abilities."""

    def predict(self, requests: Sequence[Request]) -> Sequence[Prediction]:
        """One prediction per request, in order; requests are independent."""


@runtime_checkable
class Model(Protocol):
    """A promptable segmenter."""

    @property
    def card(self) -> ModelCard: ...

    def encode(self, scene: Scene) -> EncodedScene:
        """The expensive part, once per scene."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Output of a method: one of a partition, a hierarchy, an edge map or proposals.

    `levels` are the strengths of each finest-level boundary, an ultrametric contour map.
    """

    labels: npt.NDArray[np.int32] | None = None  # partition, `(H, W)`
    levels: npt.NDArray[np.float32] | None = None  # hierarchy, `(2H + 1, 2W + 1)`
    edges: npt.NDArray[np.float32] | None = None  # edge map, `(H, W)` in 0..1
    proposals: tuple[Mask, ...] | None = None  # best first


@runtime_checkable
class Method(Protocol):
    """A segmenter without a user."""

    @property
    def card(self) -> ModelCard: ...

    def segment(self, scene: Scene) -> Segmentation: ...


def render(encoded: EncodedScene, predictions: Sequence[Prediction]) -> list[Mask]:
    """The shown masks, in one call where the encoded scene can.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene(); encoded = Disc(radius=5).encode(scene)
    >>> [mask.area for mask in render(encoded, encoded.predict([Request((Click((40, 60)),))]))]
    [81]
    """
    if isinstance(encoded, RendersTogether):
        return list(encoded.render(predictions))
    return [prediction.mask() for prediction in predictions]


def in_protocol(encoded: EncodedScene, protocol: ProtocolName) -> EncodedScene:
    """The encoded scene in a protocol: itself, unless its predictions depend on the protocol.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> encoded = Disc(radius=5).encode(drawn_scene())
    >>> in_protocol(encoded, 'published') is encoded
    True
    """
    return encoded.in_protocol(protocol) if isinstance(encoded, FollowsProtocol) else encoded


def keeps_state(encoded: EncodedScene, prompts: tuple[Prompt, ...], protocol: ProtocolName) -> bool:
    """Whether the last state is passed to the model with these prompts.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene(); encoded = Disc(radius=5).encode(scene)
    >>> keeps_state(encoded, (Click((40, 60)),), 'corrected')
    True
    """
    return not isinstance(encoded, KeepsState) or bool(encoded.keeps_state(prompts, protocol))
