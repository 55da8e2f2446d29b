"""Grey values of slices: how voxels become what a network for images was trained on.

`published` is what IntRaBench does for each family, faults included: CT is clipped like MR,
and medical networks see only the voxels above 0. `corrected` goes by the modality of the channel:
CT is shown in a window of Hounsfield units, everything else (PET and MR too) between
percentiles of what is not background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

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


def preparation_of(family: str, protocol: ProtocolName) -> Preparation:
    """How slices are prepared for a family of networks."""
    published = PREPARATIONS.get(family, PREPARATIONS["sam"])
    if protocol == "published":
        return published
    if published.scope == "window":
        return published
    return Preparation("window", "round" if published.rounding == "round" else "none")


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
        match self.preparation.scope:
            case "volume" | "window":
                low, high = self.range
            case "slice":
                low, high = float(plane.min()), float(plane.max())
            case "positive slice":
                inside = plane[plane > 0]
                # The original fails on a slice without such voxels; here it is all dark.
                low, high = percentiles(inside) if inside.size else (0.0, 0.0)
        clipped = plane.clip(low, high)
        if self.preparation.rounding == "clip only":
            return clipped.astype(np.float32)
        if self.preparation.scope in ("positive slice", "slice"):
            low, high = float(clipped.min()), float(clipped.max())
        scaled = (clipped - low) / (high - low + self.preparation.softener or 1.0) * 255
        as_bytes = {"round": np.round, "truncate": np.trunc}.get(self.preparation.rounding)
        return (as_bytes(scaled) if as_bytes else scaled).astype(np.float32)


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

    def repeated_in(self, prompts: Several) -> bool:
        """Whether prompts begin with all that was heard, and say something new."""
        known = len(self.asked)
        return 0 < known < len(prompts) and prompts[:known] == self.asked

    def newest_first(self, prompts: Several) -> Several:
        """Those not heard yet, then what was handed on; all, when earlier ones are not said again.

        >>> from segmeter.core.prompts import Click
        >>> first, second = Click((1, 1, 1)), Click((2, 2, 2))
        >>> Heard((first,), (first,)).newest_first((first, second)) == (second, first)
        True
        """
        if not self.repeated_in(prompts):
            return prompts
        return (*prompts[len(self.asked) :], *self.passed)


def interpolated(values: Voxels, size: Sequence[int], mode: str) -> Values:
    """An array at another size by torch's interpolation, between pixel centres, no antialias."""
    import torch
    from torch.nn.functional import interpolate

    given: Any = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None, None]
    corners = None if mode == "nearest-exact" else False
    return np.asarray(interpolate(given, tuple(size), mode=mode, align_corners=corners)[0, 0])
