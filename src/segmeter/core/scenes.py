"""Scenes and targets: what is looked at, and what is to be segmented in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = ["Dataset", "DatasetCard", "Pixels", "Scene", "Target"]

Pixels = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to be segmented.

    Attributes
    ----------
    id
        Name within its scene.
    mask
        The thing itself.
    ignore
        Pixels that are not judged, such as GrabCut's unknown band.
    label
        Class name, when the data has one.
    groups
        What a breakdown may split by, such as `{"size": "small"}`.
    """

    id: str
    mask: Mask
    ignore: Mask | None = None
    label: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)


class Scene:
    """A picture `(H, W, 3)` uint8, or a volume `(Z, Y, X)`, with its targets; read late.

    Pixels and targets may be given as they are or as functions that read them. Where
    people cut the whole picture into regions, `partitions` are their label maps.
    """

    def __init__(
        self,
        dataset: str,
        id: str,
        pixels: Pixels | Callable[[], Pixels],
        targets: Sequence[Target] | Callable[[], Sequence[Target]],
        *,
        spacing_mm: tuple[float, ...] | None = None,
        orientation: str = "",
        partitions: Callable[[], Sequence[npt.NDArray[np.int32]]] | None = None,
    ) -> None:
        self.dataset = dataset
        self.id = id
        self.spacing_mm = spacing_mm
        self.orientation = orientation
        self._pixels = pixels
        self._targets = targets
        self._partitions = partitions

    @property
    def name(self) -> str:
        """`dataset/id`."""
        return f"{self.dataset}/{self.id}"

    def __repr__(self) -> str:
        return f"Scene({self.name!r})"

    @cached_property
    def pixels(self) -> Pixels:
        pixels = self._pixels() if callable(self._pixels) else self._pixels
        is_picture = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8
        if not is_picture and self.spacing_mm is None:
            raise BadInput(
                f"{self.name}: a picture is H x W x 3 of uint8, "
                f"but this is {' x '.join(map(str, pixels.shape))} of {pixels.dtype}"
            )
        return pixels

    @property
    def shape(self) -> tuple[int, ...]:
        """`(H, W)` of a picture, `(Z, Y, X)` of a volume."""
        return self.pixels.shape[:2] if self.spacing_mm is None else self.pixels.shape

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        return tuple(self._targets() if callable(self._targets) else self._targets)

    @cached_property
    def partitions(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Each person's regions as labels `(H, W)`; none where nobody drew any."""
        return tuple(self._partitions()) if self._partitions is not None else ()

    def check(self) -> None:
        """Refuse what cannot be scored: an empty target, or one of another size."""
        size = _size(self.shape)
        for target in self.targets:
            for mask in (target.mask, target.ignore):
                if mask is not None and mask.shape != self.shape:
                    raise BadInput(
                        f"{self.name}: picture is {size} but its mask is {_size(mask.shape)}; "
                        "resize the mask or leave the scene out"
                    )
            judged = target.mask if target.ignore is None else target.mask.without(target.ignore)
            if not judged:
                raise BadInput(
                    f"{self.name}: target '{target.id}' is empty; mend its mask or leave it out"
                )


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """What a person should know before using a data set.

    `targets` counts the objects of the whole set, None where it is not known; `missing`
    says which part of it is not at hand, and is empty when all is there.
    """

    name: str
    summary: str
    licence: str
    citation: str
    targets: int | None = None
    homepage: str = ""
    notes: str = ""
    missing: str = ""


@runtime_checkable
class Dataset(Protocol):
    """A collection of scenes, listed cheaply and read one by one."""

    @property
    def card(self) -> DatasetCard: ...

    def scenes(self) -> Sequence[str]:
        """The scenes' ids in their fixed order, without reading pictures."""
        ...

    def load(self, scene: str) -> Scene:
        """One scene; its pixels and targets are read when first used."""
        ...

    def fingerprint(self) -> str:
        """A digest that changes when the data changes."""
        ...


def _size(shape: Sequence[int]) -> str:
    """Width first for pictures, as people say it."""
    return " x ".join(str(n) for n in (shape[::-1] if len(shape) == 2 else shape))
