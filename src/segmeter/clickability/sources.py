"""Click sources: what gives the map of where people would click in a session.

`prior` is the embedded click model, `uniform` and `distance` the baselines, `saliency` and
`saliency-crop` a saliency network, and `network` a trained clickability network. The first
round's map depends on picture and target only and is kept, for all groups and models.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Protocol

from segmeter.clickability import maps
from segmeter.clickability.maps import ClickMap
from segmeter.clickability.prior import prior
from segmeter.core.errors import NotFound, suggestion
from segmeter.core.masks import Mask
from segmeter.core.models import Reading
from segmeter.core.scenes import Scene, Target

__all__ = ["NAMES", "ClickSource", "FirstRounds", "check_source", "source"]

NAMES = ("prior", "uniform", "distance", "saliency", "saliency-crop", "network")
_TRAINED = NAMES[3:]
_MOST_KEPT = 512


class ClickSource(Protocol):
    """Gives the map of a mistake; `first` when nothing was segmented yet."""

    @property
    def name(self) -> str: ...

    def map(
        self, scene: Scene, target: Target, mistake: Mask, first: bool, reading: Reading
    ) -> ClickMap: ...


class FirstRounds:
    """A source that remembers the maps of first rounds."""

    def __init__(self, inner: ClickSource) -> None:
        self.inner = inner
        self._kept: OrderedDict[tuple[str, str, str], ClickMap] = OrderedDict()
        self._lock = Lock()  # eleven players ask at once; the first one makes the map

    @property
    def name(self) -> str:
        return self.inner.name

    def map(
        self, scene: Scene, target: Target, mistake: Mask, first: bool, reading: Reading
    ) -> ClickMap:
        """The mistake's map, restricted to it."""
        if not first:
            return self.inner.map(scene, target, mistake, first, reading).on(mistake)
        key = (scene.name, target.id, reading)
        with self._lock:
            known = self._kept.get(key)
            if known is None:
                known = self.inner.map(scene, target, mistake, first, reading).on(mistake)
                self._kept[key] = known
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return known


class _Shape:
    """A source that looks at the mistake's shape only."""

    def __init__(self, name: str, make: Callable[[Mask, bool, Reading], ClickMap]) -> None:
        self.name = name
        self._make = make

    def map(
        self, scene: Scene, target: Target, mistake: Mask, first: bool, reading: Reading
    ) -> ClickMap:
        return self._make(mistake, first, reading)


def check_source(name: str, checkpoint: Path | None = None) -> None:
    """Refuse a source that could not be made, without making it."""
    if name not in NAMES:
        hint = suggestion(name, NAMES)
        raise NotFound(f"no click map '{name}';{hint} there are {', '.join(NAMES)}")
    if name in _TRAINED and not _needed(name, checkpoint).exists():
        raise NotFound(f"the click map '{name}' has no weights at '{checkpoint}'")


@lru_cache(maxsize=8)
def source(name: str = "prior", checkpoint: Path | None = None) -> FirstRounds:
    """A source by name; one object a name, so that what it learnt or kept is shared."""
    return FirstRounds(_made(name, checkpoint))


def _made(name: str, checkpoint: Path | None) -> ClickSource:
    check_source(name, checkpoint)
    match name:
        case "prior":
            return _Shape(name, lambda m, first, _: prior(m, round="first" if first else "later"))
        case "uniform":
            return _Shape(name, lambda m, _, __: maps.uniform(m))
        case "distance":
            return _Shape(name, lambda m, _, reading: maps.distance(m, reading))
        case "saliency" | "saliency-crop":
            from segmeter.clickability.saliency import SaliencySource

            return SaliencySource(_needed(name, checkpoint), cut_out=name == "saliency")
        case _:
            from segmeter.clickability.network import NetworkSource

            return NetworkSource(_needed(name, checkpoint))


def _needed(name: str, checkpoint: Path | None) -> Path:
    if checkpoint is None:
        raise NotFound(f"the click map '{name}' needs weights; add checkpoint=FILE to the user")
    return checkpoint
