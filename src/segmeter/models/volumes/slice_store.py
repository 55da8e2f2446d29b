"""Slices that were looked at, kept while memory lasts.

The key is the content of a slice as its model sees it, so that no slice is ever answered on the
embedding of another patient, and two protocols that prepare a slice alike share it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.models import EncodedScene
from segmeter.core.seeds import fingerprint

__all__ = ["SliceStore", "content_key"]

_UNKNOWN = 4 << 20  # an embedding of SAM; of views that do not say how large they are


class SliceStore:
    """Views by content, the least recently used dropped first when the budget is full.

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
        """The view of each key; `encode` makes those that are not kept, by their places."""
        found = {key: self._kept[key] for key in keys if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        lacking = {key: place for place, key in enumerate(keys) if key not in found}
        if lacking:
            self.looks += len(lacking)
            made = dict(zip(lacking, encode(list(lacking.values())), strict=True))
            for key, encoded in made.items():
                self._keep(key, encoded)
            found |= made
        return [found[key] for key in keys]

    def _keep(self, key: str, encoded: EncodedScene) -> None:
        self._kept[key] = encoded
        self.used_bytes += _bytes(encoded)
        while self.used_bytes > self.budget_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self.used_bytes -= _bytes(dropped)


def content_key(seen: npt.NDArray[Any], *more: object) -> str:
    """A digest of a slice's type, shape and values, and of anything else that matters."""
    return fingerprint(seen.dtype.str, *seen.shape, np.ascontiguousarray(seen).tobytes(), *more)


def _bytes(encoded: EncodedScene) -> int:
    return encoded.nbytes if isinstance(encoded, _Sized) else _UNKNOWN


@runtime_checkable
class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...
