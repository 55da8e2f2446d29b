"""Measures and their cards: range, direction, and the value for empty masks."""

from __future__ import annotations

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
            masked: Any = {**given, **{name: Mask.of(as_array(given[name])) for name in raw}}
            again: Callable[..., float] = self
            return again(**masked)
        pair = [m for name in self.parameters[:2] if isinstance(m := given.get(name), Mask)]
        if len(pair) == 2:
            pair[0].check_frame(pair[1])  # also where one is empty and nothing is compared
            if len(pair[0].shape) > max(self.dimensions):
                raise BadInput(
                    f"'{self.id}' compares masks of images, not of volumes; nsd and hd95 do"
                )
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

    def __reduce__(self) -> Any:
        """Pickled by its name: the function is not found under its own."""
        return _registered, (self.id,)


def _registered(id: str) -> Measure[Any]:
    made: Measure[Any] = catalogue.measures.make(id)
    return made


def as_array(value: Any) -> npt.NDArray[Any]:
    """An array, also of a tensor on any device.

    >>> as_array([[0, 1]]).shape
    (1, 2)
    """
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
            f"measure '{name}' fails for two masks ({error}); a measure of masks takes "
            "(ground_truth, prediction, ignore=None)"
        ) from error
    return made


def _on_grid(found: Measure[Any], spacing_mm: tuple[float, ...]) -> MaskMeasure:
    """A measure in millimetres, all of contours, as one of two masks and what is not judged."""

    def measured(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
        pair = (fill_ignored(mask, ignore, spacing_mm) for mask in (ground_truth, prediction))
        return float(found.function(*pair, spacing_mm))

    return replace(found, function=measured)
