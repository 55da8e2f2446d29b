"""Cases: an image with its labels, read late and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Header, Target, Volume
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Labelling, targets_in, whole_numbers
from segmeter.datasets.volumes.stored import Stored, open_stored

__all__ = ["WINDOWS", "Case", "FileVolume", "Options", "Window", "options_of"]

Window = tuple[float, float]

WINDOWS: Mapping[str, Window] = {
    "ct": (-160.0, 240.0),
    "lung": (-1350.0, 150.0),
    "bone": (-500.0, 1300.0),
    "brain": (0.0, 80.0),
}
"""Ranges of Hounsfield units by name; `ct` is the abdomen's soft tissue."""

_KEPT = frozenset({"uint8", "int8", "int16", "uint16", "int32", "float32"})


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose for all cases of a folder."""

    labelling: Labelling = field(default_factory=Labelling)
    channel: int | None = None
    window: Window | None = None
    by_shape: bool = False
    modality: str = ""


class FileVolume(Volume):
    """A volume that knows the grid of the file it came from.

    Attributes
    ----------
    grid
        The file's own: masks are written back to it.
    modality
        `CT`, `MR`, ... as the data says; empty where it does not.
    window
        The range of values that was asked for, None when all were.
    """

    def __init__(self, case: Case, dataset: str, options: Options) -> None:
        self._case, self._options = case, options
        super().__init__(
            dataset,
            case.id,
            lambda: case.voxels(options),
            lambda: case.targets(options),
            header=lambda: case.header(options),
        )

    @property
    def grid(self) -> Grid:
        return self._case.image.grid

    @property
    def modality(self) -> str:
        return self._options.modality or self._case.image.modality

    @property
    def window(self) -> Window | None:
        return self._options.window


@dataclass(frozen=True, eq=False)
class Case:
    """Where one case lies: its image, a file for each channel perhaps, and its labels.

    `parts` are files of one structure each, by name; `structures` is a folder that may hold a
    DICOM segmentation.
    """

    id: str
    images: tuple[Path, ...]
    labels: Path | None = None
    parts: Mapping[str, Path] = field(default_factory=dict)
    structures: Path | None = None

    @cached_property
    def image(self) -> Stored:
        """The first channel's file; its header is read once."""
        return open_stored(self.images[0])

    def header(self, options: Options) -> Header:
        """From the image's header alone."""
        self._channel(options)
        return self.image.grid.header(self.channels)

    @property
    def channels(self) -> int:
        return len(self.images) if len(self.images) > 1 else self.image.channels

    def voxels(self, options: Options) -> npt.NDArray[Any]:
        """The chosen channel, canonical, finite, and within the window if there is one."""
        channel = self._channel(options)
        several = len(self.images) > 1
        stored = open_stored(self.images[channel]) if several else self.image
        voxels = stored.grid.to_scene(stored.read(0 if several else channel))
        voxels = voxels.astype(_kind(voxels), copy=False)
        _finite(stored.path, voxels)
        if options.window is not None:
            voxels = np.clip(voxels, *options.window).astype(voxels.dtype, copy=False)
        return np.ascontiguousarray(voxels)

    def targets(self, options: Options) -> list[Target]:
        """From a label map, from a file per structure, or from a DICOM segmentation."""
        if self.labels is not None:
            return self._mapped(self.labels, options)
        if self.parts:
            return [t for name, path in self.parts.items() for t in self._part(name, path, options)]
        return self._structured()

    def files(self) -> list[Path]:
        """All files, DICOM slices too."""
        found: list[Path] = []
        for path in (*self.images, self.labels, *self.parts.values(), self.structures):
            if path is not None:
                found += sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
        return list(dict.fromkeys(found))

    def _channel(self, options: Options) -> int:
        count = self.channels
        if options.channel is None and count > 1:
            raise BadInput(
                f"'{self.images[0]}' has {count} channels; choose one with channel=0"
                f" to channel={count - 1}"
            )
        channel = options.channel or 0
        if not 0 <= channel < count:
            raise BadInput(f"'{self.images[0]}' has no channel {channel}: it has {count}")
        return channel

    def _mapped(self, path: Path, options: Options) -> list[Target]:
        stored = self._on_my_grid(path, options)
        rule = options.labelling
        named = {label.value: label.name for label in stored.names}
        rule = replace(rule, names={**named, **rule.names})
        if stored.channels == 1:
            return targets_in(_labels(stored, 0), rule)
        # Layers that overlap: a voxel belongs to a value if any layer says so.
        by_id: dict[str, Target] = {}
        for layer in range(stored.channels):
            own = {n.value: n.name for n in stored.names if n.layer == layer}
            layered = replace(rule, names={**rule.names, **own})
            for target in targets_in(_labels(stored, layer), layered):
                earlier = by_id.get(target.id)
                merged = target.mask if earlier is None else earlier.mask | target.mask
                by_id[target.id] = replace(target, mask=merged)
        return list(by_id.values())

    def _part(self, name: str, path: Path, options: Options) -> list[Target]:
        stored = self._on_my_grid(path, options)
        rule = replace(options.labelling, names={1: name})
        whole = _labels(stored, 0) != 0
        return targets_in(whole.astype(np.uint8), rule)

    def _structured(self) -> list[Target]:
        from segmeter.datasets.volumes.dicom import Series, open_structures

        series = self.image
        assert isinstance(series, Series)
        found = open_structures(series, self.structures or series.path)
        if found is None:
            raise BadInput(f"'{series.path}' has no DICOM segmentation or structure set beside it")
        masks = [(name, Mask.of(series.grid.to_scene(bits))) for name, bits in found.masks]
        return [Target(n, m, label=n, groups={"class": n}) for n, m in masks if m]

    def _on_my_grid(self, path: Path, options: Options) -> Stored:
        stored, mine = open_stored(path), self.image.grid
        if options.by_shape and stored.grid.size == mine.size:
            return replace(stored, grid=mine)  # type: ignore[type-var]  # all readers are dataclasses
        if stored.grid.same(mine):
            return stored
        raise BadInput(f"{_apart(mine, stored.grid, path)}, the grid of '{self.images[0].name}'")


def _apart(mine: Grid, other: Grid, path: Path) -> str:
    sizes = (" x ".join(map(str, grid.size)) for grid in (mine, other))
    here, there = sizes
    if mine.shape != other.shape:
        return f"'{path}': a label map of {there} voxels does not fit {here}"
    return (
        f"'{path}': a label map that lies up to {mine.distance_mm(other):.2f} mm away (if only its"
        f" header is wrong, say grid=shape) does not fit {here}"
    )


def _labels(stored: Stored, layer: int) -> npt.NDArray[Any]:
    labels = whole_numbers(f"'{stored.path}'", stored.read(layer))
    return np.ascontiguousarray(stored.grid.to_scene(labels))


def _kind(voxels: npt.NDArray[Any]) -> str:
    native = voxels.dtype.newbyteorder("=").name
    return native if native in _KEPT else "uint8" if native == "bool" else "float32"


def _finite(path: Path, voxels: npt.NDArray[Any]) -> None:
    if voxels.dtype.kind != "f":
        return
    # Plane by plane: the table of a whole CT would take as much memory again.
    for z, plane in enumerate(voxels):
        odd = np.flatnonzero(~np.isfinite(plane))
        if odd.size:
            y, x = divmod(int(odd[0]), plane.shape[1])
            raise BadInput(
                f"'{path}' holds voxels that are no finite numbers, the first at (z, y, x) ="
                f" ({z}, {y}, {x}); mend the file or leave the case out"
            )


def options_of(
    what: str,
    labelling: Labelling,
    channel: int | None = None,
    window: str | Sequence[float] | None = None,
    grid: str = "affine",
    modality: str = "",
) -> Options:
    """What a user wrote, checked."""
    if grid not in ("affine", "shape"):
        raise BadInput(f"{what}: grid={grid} is neither affine nor shape")
    chosen = _window(what, window)
    return Options(labelling.check(what), channel, chosen, grid == "shape", modality)


def _window(what: str, window: str | Sequence[float] | None) -> Window | None:
    if window is None:
        return None
    ends = WINDOWS.get(window) if isinstance(window, str) else tuple(window)
    if isinstance(window, str) and ends is None:
        parts = window.split(",")
        ends = tuple(float(p) for p in parts) if all(map(_number, parts)) else None
    if ends is None or len(ends) != 2 or not ends[0] < ends[1]:
        raise BadInput(
            f"{what}: window={window} is no window; say {', '.join(WINDOWS)} or -160,240"
        )
    return float(ends[0]), float(ends[1])


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
