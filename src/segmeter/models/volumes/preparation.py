"""Grey values of slices: how voxels become what a network for images was trained on.

`published` is what IntRaBench does for each family, faults included: CT is clipped like MR,
and medical networks see only the voxels above 0. `corrected` goes by the modality of the channel:
CT is shown in a window of Hounsfield units, everything else (PET and MR too) between
percentiles of what is not background.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import KnowsItsScan
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Volume

Values = npt.NDArray[np.float32]
Voxels = npt.NDArray[Any]
Scope = Literal["volume", "positive slice", "slice", "window"]
Rounding = Literal["round", "truncate", "none", "clip only"]

CT_WINDOW = (-160.0, 240.0)
"""Soft tissue in Hounsfield units, unless a window was asked for."""

_LOW, _HIGH = 0.5, 99.5
_AIR = -500  # no MR is so dark, and nearly every CT has air around or in the body


@dataclass(frozen=True, slots=True)
class Preparation:
    """A family's way with a slice.

    Attributes
    ----------
    scope
        Where the range comes from: percentiles of the `volume`, percentiles of the voxels
        above 0 in a `positive slice`, smallest and largest value of a `slice`, or a `window`
        that knows the modality.
    rounding
        Values 0..255 are rounded, truncated or left as they are; `clip only` does not scale.
    softener
        Added to the range before dividing by it.
    """

    scope: Scope
    rounding: Rounding
    softener: float = 1e-10


PREPARATIONS: Mapping[str, Preparation] = {
    "sam": Preparation("volume", "round"),
    "medsam": Preparation("positive slice", "clip only"),
    "sam-med2d": Preparation("positive slice", "round", 1e-6),
    "scribbleprompt": Preparation("slice", "none"),
    "litemedsam": Preparation("window", "truncate", 0.0),  # 1e-10 would cut 51 to 50
}
"""Published preparation of each family; others are prepared as SAM is."""

_CORRECTED = Preparation("window", "round")
_CORRECTED_FINE = Preparation("window", "none")


def preparation_of(family: str, protocol: ProtocolName) -> Preparation:
    """How slices are prepared for a family of networks."""
    published = PREPARATIONS.get(family, PREPARATIONS["sam"])
    if protocol == "published":
        return published
    fine = published.rounding in ("none", "clip only")
    return published if published.scope == "window" else _CORRECTED_FINE if fine else _CORRECTED


class PreparedSlices:
    """A volume's slices as 0..255; a slice is prepared when it is asked for.

    >>> voxels = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    >>> PreparedSlices(voxels, Preparation("slice", "round")).slice(1)[0]
    array([ 0., 23., 46., 70.], dtype=float32)
    """

    def __init__(
        self,
        voxels: Voxels,
        preparation: Preparation,
        modality: str = "",
        window: tuple[float, float] | None = None,
    ) -> None:
        self.voxels, self.preparation = voxels, preparation
        self._modality, self._window = modality, window

    @property
    def modality(self) -> str:
        """As the data says, or CT where the voxels tell; empty where nothing does."""
        return self._modality or ("CT (by its voxels)" if looks_like_ct(self.voxels) else "")

    @property
    def shared_range(self) -> tuple[float, float] | None:
        """Darkest and brightest value of all slices; None where each slice has its own."""
        return self.range if self.preparation.scope in ("volume", "window") else None

    @cached_property
    def range(self) -> tuple[float, float]:
        """Darkest and brightest value, of volumes whose slices share them."""
        if self.preparation.scope == "volume":
            return percentiles(self.voxels)
        if self._window is not None:
            return self._window
        if self._modality.upper() == "CT" or (not self._modality and looks_like_ct(self.voxels)):
            return CT_WINDOW
        if self.preparation.rounding == "truncate":  # as LiteMedSAM's own script
            return percentiles(self.voxels)
        inside = self.voxels[self.voxels > self.voxels.min()]  # background is not tissue
        return percentiles(inside if inside.size else self.voxels)

    def slice(self, z: int) -> Values:
        """One slice `(Y, X)`, float32."""
        plane = np.asarray(self.voxels[z], dtype=np.float64)
        low, high = self._ends(plane)
        clipped = plane.clip(low, high)
        if self.preparation.rounding == "clip only":
            return clipped.astype(np.float32)
        if self.preparation.scope in ("positive slice", "slice"):
            low, high = float(clipped.min()), float(clipped.max())
        scaled = (clipped - low) / (high - low + self.preparation.softener or 1.0) * 255
        match self.preparation.rounding:
            case "round":
                scaled = scaled.round()
            case "truncate":
                scaled = np.trunc(scaled)
        return scaled.astype(np.float32)

    def _ends(self, plane: npt.NDArray[np.float64]) -> tuple[float, float]:
        match self.preparation.scope:
            case "volume" | "window":
                return self.range
            case "slice":
                return float(plane.min()), float(plane.max())
            case "positive slice":
                inside = plane[plane > 0]
                # The original fails on a slice without such voxels; here it is all dark.
                return percentiles(inside) if inside.size else (0.0, 0.0)


def prepared(volume: Volume, family: str, protocol: ProtocolName) -> PreparedSlices:
    """A volume's slices as a family of networks sees them; by its modality and window."""
    scan = (volume.modality, volume.window) if isinstance(volume, KnowsItsScan) else ("", None)
    return PreparedSlices(volume.voxels, preparation_of(family, protocol), *scan)


def percentiles(values: Voxels) -> tuple[float, float]:
    """The 0.5 and 99.5 percentiles, linear between values."""
    low, high = np.percentile(values, (_LOW, _HIGH))
    return float(low), float(high)


def looks_like_ct(voxels: Voxels) -> bool:
    """Whether values are those of CT: air far below zero."""
    return bool(voxels.dtype.kind != "u" and voxels.min() <= _AIR)


Key = TypeVar("Key")
Made = TypeVar("Made")
Several: TypeAlias = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """Prompts that a session's last prediction was given.

    Attributes
    ----------
    asked
        Its prompts as they were asked, oldest first.
    passed
        The same as they were handed on: IntRaBench's code lists the newest round first.
    """

    asked: Several = ()
    passed: Several = ()

    def new(self, prompts: Several) -> Several:
        """Those that were not heard; all of them when earlier ones are not said again.

        >>> from segmeter.core.prompts import Click
        >>> first, second = Click((1, 1, 1)), Click((2, 2, 2))
        >>> Heard((first,), (first,)).new((first, second)) == (second,)
        True
        """
        return prompts[len(self.asked) :] if self.repeated_in(prompts) else prompts

    def repeated_in(self, prompts: Several) -> bool:
        """Whether prompts begin with all that was heard, and say something new."""
        known = len(self.asked)
        return 0 < known < len(prompts) and prompts[:known] == self.asked

    def newest_first(self, prompts: Several) -> Several:
        """The new ones, then what was handed on before."""
        earlier = self.passed if self.repeated_in(prompts) else ()
        return (*self.new(prompts), *earlier)


def kept_last(
    kept: OrderedDict[Key, Made], key: Key, make: Callable[[Key], Made], most: int
) -> Made:
    """The value of a key, made where it is lacking; those used last are kept, so many at most.

    >>> kept = OrderedDict()
    >>> [kept_last(kept, key, len, 2) for key in ("a", "bc", "a", "def")], list(kept)
    ([1, 2, 1, 3], ['a', 'def'])
    """
    if key not in kept:
        kept[key] = make(key)
        if len(kept) > most:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


Size = tuple[int, int, int]
_ANISOTROPIC = 3.0


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube of a volume by its first voxel on each axis; it may reach past the volume."""

    begin: Size
    side: int

    def cut(self, values: Values) -> Values:
        """The cube's values; zeros where it reaches past the volume."""
        found = np.zeros((self.side,) * 3, values.dtype)
        here, there = self._both(values.shape)
        found[here] = values[there]
        return found

    def paste(self, cube: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Put a cube's values back into the volume."""
        here, there = self._both(into.shape)
        into[there] = cube[here]

    def holds(self, point: Sequence[float]) -> bool:
        return all(b <= p < b + self.side for b, p in zip(self.begin, point, strict=True))

    def _both(self, shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The overlap of cube and volume, as slices of each."""
        low = [max(b, 0) for b in self.begin]
        high = [min(b + self.side, n) for b, n in zip(self.begin, shape, strict=True)]
        here = tuple(
            slice(a - b, max(c - b, a - b)) for a, c, b in zip(low, high, self.begin, strict=True)
        )
        return here, tuple(slice(a, max(c, a)) for a, c in zip(low, high, strict=True))


def cube_around(points: Sequence[Sequence[int]], side: int = 128) -> Cube:
    """The cube around the middle of all points; half a voxel is rounded down.

    >>> cube_around([(100, 90, 80)]).begin
    (36, 26, 16)
    """
    low, high = np.min(points, axis=0), np.max(points, axis=0) + 1
    x, y, z = (int(n) // 2 - side // 2 for n in low + high)
    return Cube((x, y, z), side)


def resampled_size(size: Sequence[int], spacing_mm: Sequence[float], to_mm: float) -> Size:
    """Voxels on each axis at another spacing, at least one."""
    x, y, z = (max(1, round(n * s / to_mm)) for n, s in zip(size, spacing_mm, strict=True))
    return x, y, z


def resampled(values: Values, size: Sequence[int], spacing_mm: Sequence[float]) -> Values:
    """A volume at another size, linear between voxel centres, without antialias.

    Along the one axis of much larger spacing (three times the smallest) the nearest voxel
    counts: nothing lies between slices that far apart.
    """
    axis = _coarse_axis(spacing_mm)
    if axis is None:
        return interpolated(values, size, "trilinear")
    within = [n if i != axis else values.shape[i] for i, n in enumerate(size)]
    return interpolated(interpolated(values, within, "trilinear"), size, "nearest-exact")


def interpolated(values: Voxels, size: Sequence[int], mode: str) -> Values:
    """An array at another size by torch's interpolation, between pixel centres, no antialias."""
    import torch
    from torch.nn.functional import interpolate

    given: Any = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None, None]
    corners = None if mode == "nearest-exact" else False
    return np.asarray(interpolate(given, tuple(size), mode=mode, align_corners=corners)[0, 0])


def _coarse_axis(spacing_mm: Sequence[float]) -> int | None:
    """The single axis of the largest spacing, if spacings differ by more than three times."""
    if max(spacing_mm) / min(spacing_mm) <= _ANISOTROPIC:
        return None
    largest = [i for i, s in enumerate(spacing_mm) if s == max(spacing_mm)]
    return largest[0] if len(largest) == 1 else None
