"""Slices of a volume as images: what models can do, prompts by slice, a store of encodings.

Scene axes run to the front and to the right, so row 0 of a slice is at the back. Radiologists
see the front at the top and the patient's right on the left: the slice turned by 180 degrees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import capability
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, ProtocolName
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, moved
from segmeter.core.scenes import Image


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """Prompts `(y, x)` in one slice, and the memory of that slice's last prediction."""

    z: int
    prompts: tuple[Prompt, ...]
    state: Any = None


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
class TakesPolicy(Protocol):
    """An encoded scene that can predict by another policy from the same embedding."""

    def with_policy(self, policy: Any) -> EncodedScene: ...


@capability
class ReadsSlices(Protocol):
    """A SAM whose predictions on slices differ between the protocols."""

    def slice_policy(self, protocol: ProtocolName) -> Any: ...


@capability
class OfAnEncodedScene(Protocol):
    """A prediction with the encoded scene that made it."""

    @property
    def encoded(self) -> object: ...


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
            for z, flat in grouped_pairs((round(z), (y, x)) for z, y, x in points).items():
                one = len(flat) == 1
                yield z, Click(flat[0], positive) if one else Scribble(tuple(flat), positive)
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
            return MaskHint(turned_mask(mask))
    return moved(prompt, there)


def turned_mask(mask: Mask) -> Mask:
    """A mask `(H, W)` of the slice turned by 180 degrees."""
    low = tuple(n - high for n, high in zip(mask.shape, mask.high, strict=True))
    return Mask.of(mask.bits[::-1, ::-1], low, mask.shape) if mask else mask


class SliceStore:
    """Encoded scenes by content; the least recently used is dropped when the budget is full.

    The key is the slice as its model sees it, so that no slice is ever answered on the embedding
    of another patient, and two protocols that prepare a slice alike share it.

    `looks` counts how often a slice was looked at: tests and speed tables ask for it.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.looks = 0
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
            self.looks += len(lacking)
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
