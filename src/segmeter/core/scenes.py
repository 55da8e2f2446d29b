"""Scenes and targets: images, volumes and videos, and the objects to segment in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

Pixels = npt.NDArray[Any]
Affine = tuple[tuple[float, float, float, float], ...]
Given = TypeVar("Given")
Lazy: TypeAlias = Given | Callable[[], Given]


@dataclass(frozen=True, slots=True)
class Target:
    """One object to segment.

    Attributes
    ----------
    id
        Name within its scene.
    mask
        The ground truth.
    ignore
        Pixels that are not scored, such as GrabCut's unknown band.
    label
        Class name, when the data has one.
    groups
        Attributes that results can be split by, such as `{"size": "small"}`.

    Examples
    --------
    >>> Target("cat", Mask.box((40, 50), (10, 20), (30, 40)), label="animal").mask.area
    400
    """

    id: str
    mask: Mask
    ignore: Mask | None = None
    label: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SceneHeader:
    """Facts about a scene that are known before its pixels are read.

    Attributes
    ----------
    kind
        An image, a volume or a video.
    shape
        `(H, W)` of an image, `(Z, Y, X)` of a volume, `(T, H, W)` of a video.
    spacing_mm
        Distance of neighbouring voxels along each axis of `shape`; None for images.
    affine
        4 x 4, from a voxel's index `(z, y, x, 1)` to millimetres `(x, y, z, 1)`, where x grows
        to the patient's right, y to the front and z to the head.
    channels
        Values of a pixel or voxel.
    frame_rate
        Frames per second of a video; None where it is not known.

    Examples
    --------
    >>> SceneHeader("volume", (20, 256, 256), spacing_mm=(5.0, 1.0, 1.0)).dimensions
    3
    """

    kind: Literal["image", "volume", "video"]
    shape: tuple[int, ...]
    spacing_mm: tuple[float, ...] | None = None
    affine: Affine | None = None
    channels: int = 1
    frame_rate: float | None = None

    @property
    def dimensions(self) -> int:
        return len(self.shape)


class read_once(cached_property[Given]):
    """A cached property without the lock that Python 3.11 holds for all objects of a class.

    An image's header is read from its pixels, a volume's pixels are checked by its header: two
    threads would wait for each other.
    """

    def __init__(self, function: Callable[[Any], Given]) -> None:
        super().__init__(function)
        self.lock = nullcontext()


class Scene:
    """One image or volume with its targets: an `Image` or a `Volume`.

    Header, pixels and targets may be given as they are or as functions that read them; each is read
    once, when first needed. `file_name` is the name of the file that the pixels come from, as
    exports state it; empty where there is none.
    """

    def __init__(
        self,
        dataset: str,
        id: str,
        pixels: Lazy[Pixels],
        targets: Lazy[Sequence[Target]],
        *,
        header: Lazy[SceneHeader] | None = None,
        partitions: Callable[[], Sequence[npt.NDArray[np.int32]]] | None = None,
        file_name: str = "",
    ) -> None:
        self.dataset = dataset
        self.id = id
        self.file_name = file_name
        self._pixels = _weak(pixels, self)
        self._targets = _weak(targets, self)
        self._header = None if header is None else _weak(header, self)
        self._partitions = partitions

    @property
    def name(self) -> str:
        """`dataset/id`."""
        return f"{self.dataset}/{self.id}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @read_once
    def header(self) -> SceneHeader:
        """Kind, shape and spacing, read without pixels where the reader can."""
        return self._of_pixels() if self._header is None else _read(self._header)

    @read_once
    def pixels(self) -> Pixels:
        """An image's pixels, a volume's voxels."""
        pixels = _read(self._pixels)
        self._check_pixels(pixels)
        return pixels

    @property
    def shape(self) -> tuple[int, ...]:
        """`(H, W)` of an image, `(Z, Y, X)` of a volume."""
        return self.header.shape

    @property
    def spacing_mm(self) -> tuple[float, ...] | None:
        """Distance of neighbouring voxels along each axis; None for an image."""
        return self.header.spacing_mm

    @read_once
    def targets(self) -> tuple[Target, ...]:
        return tuple(_read(self._targets))

    @read_once
    def partitions(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Label maps of annotators who partitioned the whole scene; empty if there are none."""
        return tuple(self._partitions()) if self._partitions is not None else ()

    def check(self) -> None:
        """Refuse what cannot be scored: an empty target, one of another size, two of one name."""
        size = size_in_words(self.shape)
        for target in self.targets:
            for mask in (target.mask, target.ignore):
                if mask is not None and mask.shape != self.shape:
                    turned = self.header.dimensions == 2 and mask.shape == self.shape[::-1]
                    turn, resize = "turn the mask as the image's EXIF turns it", "resize the mask"
                    advice = turn if turned else f"{resize} or leave the scene out"
                    raise BadInput(
                        f"{self.name}: {self.header.kind} is {size} but its mask is "
                        f"{size_in_words(mask.shape)}; {advice}"
                    )
            judged = target.mask if target.ignore is None else target.mask - target.ignore
            if not judged:
                raise BadInput(
                    f"{self.name}: target '{target.id}' is empty; fix its mask or leave it out"
                )
        # Rows are identified by the ids of targets.
        twice = [id for id, count in Counter(t.id for t in self.targets).items() if count > 1]
        if twice:
            raise BadInput(
                f"{self.name}: two targets are called '{twice[0]}'; give each its own id"
            )

    def _of_pixels(self) -> SceneHeader:
        """The header derived from pixels, for kinds of scenes that allow it."""
        raise NotImplementedError(f"{type(self).__name__} needs a header")

    def _check_pixels(self, pixels: Pixels) -> None:
        """Refuse pixels that are not those of such a scene."""


class Image(Scene):
    """An image `(H, W, 3)` of uint8; `partitions` are label maps `(H, W)`.

    >>> Image("mine", "1", np.zeros((4, 6, 3), np.uint8), []).shape
    (4, 6)
    """

    def _of_pixels(self) -> SceneHeader:
        return SceneHeader("image", self.pixels.shape[:2], channels=3)

    def _check_pixels(self, pixels: Pixels) -> None:
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise BadInput(
                f"{self.name}: an image is H x W x 3 of uint8, "
                f"but this is {' x '.join(map(str, pixels.shape))} of {pixels.dtype}"
            )


class Volume(Scene):
    """A volume `(Z, Y, X)` of numbers, z to the head, y to the front, x to the right.

    >>> header = SceneHeader("volume", (2, 4, 6), spacing_mm=(5.0, 1.0, 1.0))
    >>> Volume("mine", "1", np.zeros((2, 4, 6), np.float32), [], header=header).spacing_mm
    (5.0, 1.0, 1.0)
    """

    def __init__(
        self,
        dataset: str,
        id: str,
        voxels: Lazy[Pixels],
        targets: Lazy[Sequence[Target]],
        *,
        header: Lazy[SceneHeader],
    ) -> None:
        super().__init__(dataset, id, voxels, targets, header=header)

    @property
    def voxels(self) -> Pixels:
        """The values, `(Z, Y, X)`."""
        return self.pixels

    def _check_pixels(self, pixels: Pixels) -> None:
        if pixels.shape != self.shape:
            raise BadInput(
                f"{self.name}: its header says {size_in_words(self.shape)} voxels, "
                f"but it holds {size_in_words(pixels.shape)}"
            )


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """Metadata of a dataset: name, size, licence, citation.

    `targets` is the number of objects of the complete dataset, None if unknown; `missing` names
    the parts that are not available, and is empty if the dataset is complete.

    >>> import segmeter
    >>> segmeter.load_dataset("mini").card.targets
    34
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
        """The scenes' ids in their fixed order, without reading images."""

    def load(self, scene: str) -> Scene:
        """One scene; its pixels and targets are read when first used."""

    def fingerprint(self) -> str:
        """A digest that changes when the data changes."""


def size_in_words(shape: Sequence[int]) -> str:
    """Size in words, width first for images.

    >>> size_in_words((321, 481))
    '481 x 321'
    """
    return " x ".join(str(n) for n in (shape[::-1] if len(shape) == 2 else shape))


def _weak(given: Lazy[Given], scene: Scene) -> Lazy[Given]:
    """A method of the scene without a reference to it: in a cycle, pixels would be freed late."""
    if getattr(given, "__self__", None) is not scene:
        return given
    method: Any = WeakMethod(given)
    return lambda: method()()


def _read(given: Lazy[Given]) -> Given:
    return given() if callable(given) else given
