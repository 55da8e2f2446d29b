"""What models and views of images can do with slices beyond `encode` and `answer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import capability
from segmeter.core.models import EncodedScene, Prediction, ProtocolName, Request
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Image

__all__ = [
    "EncodesTogether",
    "EncodesValues",
    "OfAnEncodedScene",
    "PredictsConcurrently",
    "PredictsSlices",
    "ReadsSlices",
    "ReadsTargets",
    "SliceRequest",
    "TakesPolicy",
]


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """Prompts `(y, x)` in one slice, and the memory of that slice's last prediction."""

    z: int
    prompts: tuple[Prompt, ...]
    state: Any = None


@capability
class PredictsSlices(Protocol):
    """A view of a volume that can be asked slice by slice, as propagation does."""

    def predict_slices(self, requests: Sequence[SliceRequest]) -> Sequence[Prediction]: ...


@capability
class EncodesValues(Protocol):
    """A model for images that takes slices of values that are not whole numbers."""

    def encode_values(
        self, values: Sequence[npt.NDArray[np.float32]]
    ) -> Sequence[EncodedScene]: ...


@capability
class EncodesTogether(Protocol):
    """A model that embeds several images of one size at once."""

    def encode_together(self, images: Sequence[Image]) -> Sequence[EncodedScene]: ...


@capability
class ReadsTargets(Protocol):
    """A synthetic model that looks at the targets of a scene, not only at its pixels."""

    @property
    def reads_targets(self) -> bool: ...


@capability
class PredictsConcurrently(Protocol):
    """A view that answers for several views of one network in one pass."""

    def start_beside(
        self, encoded_scenes: Sequence[EncodedScene], requests: Sequence[Request]
    ) -> Callable[[], Sequence[Prediction]]:
        """Begin; what comes back waits for a prediction per ask, each on the view beside it."""
        ...


@capability
class TakesPolicy(Protocol):
    """A view that can answer by other rules on the same embedding."""

    def with_policy(self, policy: Any) -> EncodedScene: ...


@capability
class ReadsSlices(Protocol):
    """A SAM kind whose answers on slices differ between the protocols."""

    def slice_policy(self, protocol: ProtocolName) -> Any: ...


@capability
class OfAnEncodedScene(Protocol):
    """A prediction that knows the view which made it."""

    @property
    def encoded(self) -> object: ...
