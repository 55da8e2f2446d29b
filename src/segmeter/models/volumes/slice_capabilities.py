"""What models and views of pictures can do with slices beyond `look` and `answer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.models import Ask, Prediction, Reading, View
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Picture

__all__ = [
    "AnswersBeside",
    "AnswersSlices",
    "KnowsItsScan",
    "LooksAtValues",
    "LooksTogether",
    "OfAView",
    "ReadsSlices",
    "SliceAsk",
    "TakesPolicy",
]


@dataclass(frozen=True, slots=True)
class SliceAsk:
    """Prompts `(y, x)` in one slice, and the memory of that slice's last prediction."""

    z: int
    prompts: tuple[Prompt, ...]
    memory: Any = None


@runtime_checkable
class AnswersSlices(Protocol):
    """A view of a volume that can be asked slice by slice, as propagation does."""

    def answer_slices(self, asks: Sequence[SliceAsk]) -> Sequence[Prediction]: ...


@runtime_checkable
class LooksAtValues(Protocol):
    """A model for pictures that takes slices of values that are not whole numbers."""

    def look_values(self, values: Sequence[npt.NDArray[np.float32]]) -> Sequence[View]: ...


@runtime_checkable
class LooksTogether(Protocol):
    """A model that embeds several pictures of one size at once."""

    def look_together(self, pictures: Sequence[Picture]) -> Sequence[View]: ...


@runtime_checkable
class AnswersBeside(Protocol):
    """A view that answers for several views of one network in one pass."""

    def start_beside(
        self, views: Sequence[View], asks: Sequence[Ask]
    ) -> Callable[[], Sequence[Prediction]]:
        """Begin; what comes back waits for a prediction per ask, each on the view beside it."""
        ...


@runtime_checkable
class TakesPolicy(Protocol):
    """A view that can answer by other rules on the same embedding."""

    def with_policy(self, policy: Any) -> View: ...


@runtime_checkable
class ReadsSlices(Protocol):
    """A SAM kind whose answers on slices differ between the readings."""

    def slice_policy(self, reading: Reading) -> Any: ...


@runtime_checkable
class OfAView(Protocol):
    """A prediction that knows the view which made it."""

    @property
    def view(self) -> object: ...


@runtime_checkable
class KnowsItsScan(Protocol):
    """A volume that knows how it was scanned and in which window it is read."""

    @property
    def modality(self) -> str: ...

    @property
    def window(self) -> tuple[float, float] | None: ...
