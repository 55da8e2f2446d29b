"""Measures and their cards: range, direction, and the value for empty masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Generic, Literal, ParamSpec

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.morphology import fill_ignored

Better = Literal["higher", "lower"]
Given = ParamSpec("Given")
_MASK = (Mask, Mask | None, "Mask", "Mask | None")
_GIVEN = (Mask, type(None))


@dataclass(frozen=True)
class Measure(Generic[Given]):
    """A pure function with a card; call it like the function.

    Where the function takes a `Mask`, an array or a tensor of 0 and 1 does as well.

    `both_empty` and `one_empty` are the values when both masks, or just one of them,
    hold no pixel; None means that the formula itself answers. `dimensions` are those it is
    defined for: 2 for images, 3 for volumes. `units` are those of its values in images and in
    volumes, empty for shares.
    """

    id: str
    function: Callable[Given, float]
    range: tuple[float, float]
    better: Better
    cite: str
    both_empty: float | None = None
    one_empty: float | None = None
    dimensions: tuple[int, ...] = (2, 3)
    units: tuple[str, str] = ("", "")
    parameters: tuple[str, ...] = field(init=False, repr=False, compare=False)
    masks: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.function.__doc__)
        object.__setattr__(self, "__wrapped__", self.function)
        known = signature(self.function).parameters
        object.__setattr__(self, "parameters", tuple(known))
        masks = tuple(n for n, p in known.items() if p.annotation in _MASK)
        object.__setattr__(self, "masks", masks)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> float:
        given: dict[str, object] = dict(zip(self.parameters, args, strict=False))
        given.update(kwargs)
        raw = [n for n in self.masks if not isinstance(given.get(n), _GIVEN)]
        if raw:
            masked: Any = {**given, **{name: Mask.of(_as_array(given[name])) for name in raw}}
            again: Callable[..., float] = self
            return again(**masked)
        pair = [m for name in self.parameters[:2] if isinstance(m := given.get(name), Mask)]
        if len(pair) == 2:
            pair[0].check_frame(pair[1])  # also where one is empty and nothing is compared
            ignore = given.get("ignore", args[2] if len(args) > 2 else None)
            judged = [m.area > m.overlap(ignore) if isinstance(ignore, Mask) else m for m in pair]
            filled = sum(map(bool, judged))
            if filled == 0 and self.both_empty is not None:
                return self.both_empty
            if filled == 1 and self.one_empty is not None:
                return self.one_empty
        return self.function(*args, **kwargs)

    @property
    def summary(self) -> str:
        """The docstring's first sentence."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def stream(self, dimensions: int | None = None) -> Stream:
        """A running mean of this measure, updated pair by pair or batch by batch.

        `dimensions` are those of one pair: 2 for images (the default where the measure is defined
        for images), 3 for volumes. Arrays with one axis more are batches.
        """
        return Stream(self, dimensions or min(self.dimensions))

    def __reduce__(self) -> Any:
        """Pickled by its name, so that streams can be sent between processes."""
        return _registered, (self.id,)


def _registered(id: str) -> Measure[Any]:
    made: Measure[Any] = catalogue.measures.make(id)
    return made


@dataclass(slots=True)
class Stream:
    """A running mean of a measure: `update` with pairs or batches, `compute` at any time.

    A pair is two masks, arrays or tensors with as many axes as `dimensions`. A batch has one axis
    more, `(N, H, W)`, or also a channel, `(N, 1, H, W)`, and counts as N pairs.

    >>> from segmeter.core import catalogue
    >>> running = catalogue.measures.make("iou").stream()
    >>> running.update(np.array([[1, 1]]), np.array([[1, 0]]))
    0.5
    >>> running.update(np.array([[1, 1]]), np.array([[1, 1]]))
    1.0
    >>> running.update(preds=np.ones((2, 1, 4, 4)), target=np.ones((2, 1, 4, 4)))
    1.0
    >>> running.compute(), running.count
    (0.875, 4)
    """

    measure: Measure[Any]
    dimensions: int = 2
    values: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.values)

    def update(
        self,
        ground_truth: Any = None,
        prediction: Any = None,
        ignore: Any = None,
        *,
        target: Any = None,
        preds: Any = None,
    ) -> float:
        """Add a pair or a batch and return its (mean) value.

        `target` and `preds` are other names of `ground_truth` and `prediction`, as in torchmetrics.
        """
        ground_truth = target if ground_truth is None else ground_truth
        prediction = preds if prediction is None else prediction
        if ground_truth is None or prediction is None:
            raise BadInput("update needs ground_truth and prediction (or target and preds)")
        pairs = [self._pairs(one) for one in (ground_truth, prediction, ignore) if one is not None]
        if len({len(one) for one in pairs}) > 1:
            sizes = " and ".join(str(len(one)) for one in pairs)
            raise BadInput(f"ground truth and prediction differ in their number of masks: {sizes}")
        judged: MaskMeasure = self.measure
        if ignore is not None and "spacing_mm" in self.measure.parameters:
            judged = mask_measure(self.measure.id, (1.0,) * self.dimensions)
        found = [judged(*given) for given in zip(*pairs, strict=True)]
        self.values += found
        return math.fsum(found) / len(found) if found else math.nan

    def _pairs(self, given: Any) -> list[Mask]:
        """The masks of one argument: one, or as many as the batch has."""
        if isinstance(given, Mask):
            return [given]
        array = _as_array(given)
        if array.ndim == self.dimensions + 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == self.dimensions:
            return [Mask.of(array)]
        if array.ndim != self.dimensions + 1:
            raise BadInput(
                f"'{self.measure.id}' got an array of shape {array.shape}; a pair has "
                f"{self.dimensions} axes and a batch one more: choose stream(dimensions=2) for "
                "images, stream(dimensions=3) for volumes"
            )
        return [Mask.of(one) for one in array]

    def compute(self) -> float:
        """The mean so far."""
        if not self.values:
            raise BadInput(f"'{self.measure.id}' has no pair yet; give some to update()")
        return math.fsum(self.values) / len(self.values)

    def merge(self, other: Stream) -> None:
        """Take over what another stream of the same measure has seen, as of another process."""
        if other.measure.id != self.measure.id:
            raise BadInput(f"cannot merge '{other.measure.id}' into '{self.measure.id}'")
        self.values += other.values

    def reset(self) -> None:
        """Forget every pair."""
        self.values.clear()


def _as_array(value: Any) -> npt.NDArray[Any]:
    """An array, also of a tensor on any device."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    plain = value.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray(plain.float() if plain.is_floating_point() else plain)


MaskMeasure = Measure[[Mask, Mask, Mask | None]]


def measure(
    id: str,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    better: Better = "higher",
    cite: str = "",
    both_empty: float | None = None,
    one_empty: float | None = None,
    dimensions: tuple[int, ...] = (2, 3),
    units: tuple[str, str] = ("", ""),
) -> Callable[[Callable[Given, float]], Measure[Given]]:
    """Give a function its card, and the catalogue the measure.

    The first docstring line is the measure's summary.

    >>> halves = measure("halves", range=(0, 1))(lambda ground_truth, prediction, ignore=None: 0.5)
    >>> halves.id, halves(Mask.box((2, 2), (0, 0), (1, 1)), Mask.empty((2, 2)))
    ('halves', 0.5)
    >>> catalogue.measures.drop("halves")
    """

    def card(function: Callable[Given, float]) -> Measure[Given]:
        made = Measure(id, function, range, better, cite, both_empty, one_empty, dimensions, units)
        catalogue.measures.put(id, made, made.summary)
        return made

    return card


def mask_measure(name: str, spacing_mm: Sequence[float] | None = None) -> MaskMeasure:
    """The measure of a name, refused unless it compares two masks: it is tried on a square.

    One that measures in millimetres, as volumes are, is tried on a cube and measures on the
    grid of `spacing_mm`; ignored pixels take the value of the nearest judged one.

    >>> square = Mask.box((8, 8), (2, 2), (6, 6))
    >>> mask_measure('iou')(square, square, None)
    1.0
    >>> cube, shifted = (Mask.box((8, 8, 8), (z, 2, 2), (z + 4, 6, 6)) for z in (2, 3))
    >>> mask_measure('hd95', (5.0, 1.0, 1.0))(cube, shifted, None)
    5.0
    """
    found = catalogue.measures.make(name)
    if not isinstance(found, Measure):
        raise BadInput(f"'{name}' is not a measure: write @measure(...) above the function")
    made: MaskMeasure = found
    if "spacing_mm" in found.parameters:
        made = _on_grid(found, tuple(spacing_mm or (1.0, 1.0, 1.0)))
    axes = len(spacing_mm or ())
    sides = axes if axes in found.dimensions else min(found.dimensions)
    square = Mask.box((8,) * sides, (2,) * sides, (6,) * sides)
    try:
        made(square, square, None)
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise BadInput(
            f"measure '{name}' does not compare two masks ({error}); iou and dice do"
        ) from error
    return made


def _on_grid(found: Measure[Any], spacing_mm: tuple[float, ...]) -> MaskMeasure:
    """A measure in millimetres, all of contours, as one of two masks and what is not judged."""

    def measured(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
        pair = (fill_ignored(mask, ignore, spacing_mm) for mask in (ground_truth, prediction))
        return float(found.function(*pair, spacing_mm))

    return replace(found, function=measured)
