"""Slices of a volume as images: prompts by slice, a store of encodings, and their grey values.

Scene axes run to the front and to the right, so row 0 of a slice is at the back. Radiologists
see the front at the top and the patient's right on the left: the slice turned by 180 degrees.

Grey values, how voxels become what a network for images was trained on: `published` is what
IntRaBench does for each family, faults included: CT is clipped like MR, and medical networks see
only the voxels above 0. `corrected` uses the modality of the channel: CT is shown in a window of
Hounsfield units, everything else (PET and MR too) between percentiles of what is not background.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import HasScanInfo, capability
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.models import EncodedScene, ProtocolName
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, moved
from segmeter.core.scenes import Image, Volume

Several: TypeAlias = tuple[Prompt, ...]
Values = npt.NDArray[np.float32]
Voxels = npt.NDArray[Any]
Scope = Literal["volume", "positive slice", "slice", "window"]
Rounding = Literal["round", "truncate", "none", "clip only"]


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


@capability
class ReadsSlices(Protocol):
    """A model whose predictions on slices differ between the protocols.

    Its encoded scenes have `with_policy`, which predicts by a policy from the same embedding.
    """

    def slice_policy(self, protocol: ProtocolName) -> Any: ...


def flattened(prompt: Prompt) -> Iterator[tuple[int, Prompt]]:
    """A prompt `(z, y, x)` as prompts `(y, x)`, each with its slice.

    >>> list(flattened(Box((1, 4, 5), (2, 8, 9))))
    [(1, Box(low=(4, 5), high=(8, 9))), (2, Box(low=(4, 5), high=(8, 9)))]
    """
    match prompt:
        case Click((z, y, x), positive):
            yield round(z), Click((y, x), positive)
        case Box((z0, y0, x0), (z1, y1, x1)):
            for z in range(round(z0), round(z1) + 1):
                yield z, Box((y0, x0), (y1, x1))
        case Scribble(points, positive):  # in each slice a stroke of its own, or a click
            for z, stroke in grouped_pairs((round(z), (y, x)) for z, y, x in points).items():
                one = len(stroke) == 1
                yield z, Click(stroke[0], positive) if one else Scribble(tuple(stroke), positive)
        case MaskHint(mask):
            for z in range(mask.low[0], mask.high[0]):
                flat = mask.slice(z)
                if flat:
                    yield z, MaskHint(flat)
        case _:
            raise BadInput(f"a {type(prompt).__name__.lower()} does not lie in slices of a volume")


def turned(prompt: Prompt, shape: tuple[int, int]) -> Prompt:
    """A prompt `(y, x)` in the slice turned by 180 degrees.

    >>> turned(Box((0, 1), (2, 3)), (10, 20))
    Box(low=(7, 16), high=(9, 18))
    """

    def there(point: Sequence[float]) -> tuple[float, ...]:
        return tuple(n - 1 - c for n, c in zip(shape, point, strict=True))

    match prompt:
        case Box(low, high):
            return Box(there(high), there(low))
        case MaskHint(mask):
            return MaskHint(mask.turned())
    return moved(prompt, there)


class SliceStore:
    """Encoded scenes by content; the least recently used is dropped when the budget is full.

    The key is the slice as its model sees it, so that no slice uses the embedding of another
    patient, and two protocols with the same preprocessing share it.

    `encodings` counts the slices that were encoded, for tests and speed tables.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.encodings = 0
        self._kept: OrderedDict[str, EncodedScene] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def encoded_scenes(
        self, keys: Sequence[str], encode: Callable[[Sequence[int]], Sequence[EncodedScene]]
    ) -> list[EncodedScene]:
        """The encoded scene of each key; `encode` makes those that are not cached."""
        found = {key: self._kept[key] for key in keys if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        lacking = {key: place for place, key in enumerate(keys) if key not in found}
        if lacking:
            self.encodings += len(lacking)
            made = dict(zip(lacking, encode(list(lacking.values())), strict=True))
            self._kept |= made
            self.used_bytes += sum(map(_bytes, made.values()))
            while self.used_bytes > self.budget_bytes and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self.used_bytes -= _bytes(dropped)
            found |= made
        return [found[key] for key in keys]


def _bytes(encoded: EncodedScene) -> int:
    """Its size, or that of an embedding of SAM where it has none."""
    return int(getattr(encoded, "nbytes", 4 << 20))


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
    """Preprocessing of slices for a family of networks."""
    published = PREPARATIONS.get(family, PREPARATIONS["sam"])
    if protocol == "published":
        return published
    if published.scope == "window":
        return published
    return Preparation("window", "round" if published.rounding == "round" else "none")


class PreparedSlices:
    """A volume's slices as 0..255; a slice is prepared when it is needed.

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
        """From the data, or CT by the voxel values; empty if unknown."""
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
        whole: Mapping[str, Any] = {"round": np.round, "truncate": np.trunc}
        as_bytes = whole.get(self.preparation.rounding, np.asarray)
        return np.asarray(as_bytes(scaled), dtype=np.float32)


def prepared(volume: Volume, family: str, protocol: ProtocolName) -> PreparedSlices:
    """A volume's slices as a family of networks sees them; by its modality and window."""
    scan = (volume.modality, volume.window) if isinstance(volume, HasScanInfo) else ("", None)
    return PreparedSlices(volume.voxels, preparation_of(family, protocol), *scan)


def percentiles(values: Voxels) -> tuple[float, float]:
    """The 0.5 and 99.5 percentiles, linear between values."""
    low, high = np.percentile(values, (_LOW, _HIGH))
    return float(low), float(high)


def looks_like_ct(voxels: Voxels) -> bool:
    """Whether values are those of CT: air far below zero."""
    return bool(voxels.dtype.kind != "u" and voxels.min() <= _AIR)


@dataclass(frozen=True, slots=True)
class PromptHistory:
    """Prompts that a session's last prediction was given.

    Attributes
    ----------
    asked
        Its prompts as they were requested, oldest first.
    passed
        The same as they were passed on: IntRaBench's code lists the newest round first.
    """

    asked: Several = ()
    passed: Several = ()

    def repeated_in(self, prompts: Several) -> bool:
        """Whether prompts begin with all earlier ones, and add new ones."""
        known = len(self.asked)
        return 0 < known < len(prompts) and prompts[:known] == self.asked

    def newest_first(self, prompts: Several) -> Several:
        """The new ones, then those passed on; all, if earlier ones are not repeated.

        >>> from segmeter.core.prompts import Click
        >>> first, second = Click((1, 1, 1)), Click((2, 2, 2))
        >>> PromptHistory((first,), (first,)).newest_first((first, second)) == (second, first)
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
