"""Cases: an image with its labels, read late and checked against each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import HasScanInfo, capable
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.scenes import SceneHeader, Target, Volume
from segmeter.datasets.volumes.dicom import DicomSeries, Series, read_structures
from segmeter.datasets.volumes.labels import Labelling, chosen, targets_in, whole_numbers
from segmeter.datasets.volumes.stored import Grid, Stored, open_stored

Window = tuple[float, float]

WINDOWS: Mapping[str, Window] = {
    "ct": (-160.0, 240.0),
    "lung": (-1350.0, 150.0),
    "bone": (-500.0, 1300.0),
    "brain": (0.0, 80.0),
}
"""Ranges of Hounsfield units by name; `ct` is soft tissue of the abdomen."""

_KEPT = frozenset({"uint8", "int8", "int16", "uint16", "int32", "float32"})
_MODALITIES = {
    "CT": r"(?<![a-z])(?:cb|ce|nc|ld|hr)?ct(?:a|ac)?(?![a-z])|hounsfield",
    "PT": r"(?<![a-z])(?:pet|pt|suv\w*|fdg)(?![a-z])|(?<=pet)ct",
    "MR": r"(?<![a-z])(?:mri?|t1\w*|t2\w*|flair|adc|dwi|swi|dce|bold|pdw?)(?![a-z])",
    "US": r"(?<![a-z])(?:us|ultrasound)(?![a-z])",
}
_BIDS = r"(sub-[A-Za-z0-9]+)"


def modality_of(name: str) -> str:
    """The modality in the name of a channel or file; empty if it has none or two.

    >>> [modality_of(n) for n in ("Portal venous CT", "PET", "T1w", "zscore", "PET/CT")]
    ['CT', 'PT', 'MR', '', '']
    """
    found = [kind for kind, word in _MODALITIES.items() if re.search(word, name, re.I)]
    return found[0] if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Naming:
    """Names from a dataset's own description: labels by value, regions, channels.

    `prefix` precedes classes without a name, where folders of a collection differ.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    regions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ignore: frozenset[int] = frozenset()
    channels: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    labelling: Labelling = field(default_factory=Labelling)
    channel: int | str | None = None
    window: Window | None = None
    by_shape: bool = False
    modality: str = ""
    patient: str = _BIDS


@dataclass(frozen=True, eq=False)
class Case:
    id: str
    images: tuple[Path, ...] = ()  # a file for each channel, or one with all of them
    labels: Mapping[str, Path] = field(default_factory=dict)  # by annotator, empty if unknown
    parts: Mapping[str, Path] = field(default_factory=dict)  # of one structure each, by name
    dicom: DicomSeries | None = None  # in place of images, and of labels and parts if none
    naming: Naming = field(default_factory=Naming)
    patient: str = ""  # where the data says; scans of one patient are not independent

    @cached_property
    def image(self) -> Stored:
        """The first channel; its header is read once."""
        return self.dicom.open() if self.dicom else open_stored(self.images[0])

    def files(self) -> list[Path]:
        dicom = (*self.dicom.slices, *self.dicom.structures) if self.dicom else ()
        held = (*self.images, *self.labels.values(), *self.parts.values(), *(f.path for f in dicom))
        return list(dict.fromkeys(held))


@capable(HasScanInfo)
class FileVolume(Volume):
    """A volume from files, with the grid of its image."""

    def __init__(self, case: Case, dataset: str, options: Options) -> None:
        self.case, self._options = case, options
        self.window = options.window
        super().__init__(
            dataset, case.id, self._voxels, self._targets_of_patient, header=self._head
        )

    @cached_property
    def image(self) -> Stored:
        """The file of the chosen channel."""
        images = self.case.images
        return open_stored(images[self._channel()]) if len(images) > 1 else self.case.image

    @property
    def grid(self) -> Grid:
        """The file's own: masks are written back to it."""
        return self.image.grid

    @property
    def modality(self) -> str:
        """`CT`, `MR`, ... from the option, the DICOM tag, or the name of the channel or file."""
        known, named = self._options.modality or self.case.image.modality, self.case.naming.channels
        if known or not named:
            return known or modality_of(self._file.name)
        return modality_of(dict(enumerate(named)).get(self._channel(), ""))

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        """As the files count: a series by its instance numbers, other files by index from 0."""
        return self.image.slice_numbers

    @property
    def has_frame_of_reference(self) -> bool:
        """Whether a DICOM segmentation can refer to the series; true for other files."""
        return self.case.dicom is None or bool(self.case.dicom.slices[0].frame)

    def label_value(self, target: str) -> int:
        """The value of a target in the label map, up to 65 535; 0 where it has none of its own."""
        labels = self.case.labels
        stored = [name for path in labels.values() for name in open_stored(path).names]
        rule = self._rule({name.value: name.name for name in stored})
        id = target.partition("@")[0]
        named = {name.replace("/", "_"): value for value, name in rule.names.items()}
        if rule.regions:
            named = {name.replace("/", "_"): v[0] for name, v in rule.regions.items() if not v[1:]}
        value = named.get(id, 0)
        numbered = re.search(r"-(\d+)$", id)
        if numbered and (id.startswith(rule.unnamed) or rule.kind == "instance"):
            value = int(numbered[1])
        return value if labels and not rule.components and value < 1 << 16 else 0

    @property
    def _file(self) -> Path:
        return self.case.images[0] if self.case.images else self.case.image.path

    @property
    def _channels(self) -> int:
        return len(self.case.images) if len(self.case.images) > 1 else self.case.image.channels

    def _head(self) -> SceneHeader:
        self._channel()
        return self.grid.header(self._channels)

    def _channel(self) -> int:
        count, names = self._channels, self.case.naming.channels
        listed = f" ({', '.join(names)})" if names else ""
        asked = self._options.channel
        if asked is None and count > 1:
            raise BadInput(
                f"'{self._file}' has {count} channels{listed}; choose one with channel=0 to"
                f" channel={count - 1}, as in --dataset 'DATA?channel=0'"
            )
        if isinstance(asked, str):
            found = [i for i, n in enumerate(names) if n.casefold() == asked.casefold()]
            asked = found[0] if found else -1
        channel = asked or 0
        if not 0 <= channel < count:
            raise BadInput(
                f"'{self._file}' has no channel {self._options.channel}: it has {count}{listed}"
            )
        return channel

    def _voxels(self) -> npt.NDArray[Any]:
        """The chosen channel, canonical, finite, and within the window if there is one."""
        stored, channel = self.image, 0 if len(self.case.images) > 1 else self._channel()
        voxels = stored.grid.to_scene(stored.read(channel))
        native = voxels.dtype.newbyteorder("=").name
        kind = native if native in _KEPT else "uint8" if native == "bool" else "float32"
        voxels = voxels.astype(kind, copy=False)
        if voxels.dtype.kind == "f" and not np.isfinite([voxels.min(), voxels.max()]).all():
            first = tuple(np.argwhere(~np.isfinite(voxels))[0].tolist())
            raise BadInput(
                f"'{stored.path}' holds NaN or infinite voxels, the first at (z, y, x) = {first};"
                " repair the file or leave the case out"
            )
        if self.window is not None:
            voxels = np.clip(voxels, *self.window).astype(voxels.dtype, copy=False)
        return np.ascontiguousarray(voxels)

    def _targets_of_patient(self) -> list[Target]:
        named = re.search(self._options.patient, self.id)
        patient = self.case.patient or (named[min(1, named.re.groups)] if named else "")
        known = {"patient": patient} if patient else {}
        return [replace(t, groups={**t.groups, **known}) for t in self._objects()]

    def _objects(self) -> Iterator[Target]:
        """From label maps, from a file per structure, or from DICOM segmentations."""
        case, classes = self.case, self._options.labelling.classes
        for reader, path in case.labels.items():
            for target in self._mapped(path):
                groups = {**target.groups, "reader": reader}
                own = replace(target, id=f"{target.id}@{reader}", groups=groups)
                yield own if reader else target
        for name, path in case.parts.items():
            if chosen(classes, name):
                labels = self._labels(open_stored(path), 0) != 0
                rule = replace(self._options.labelling, names={1: name}, classes=())
                yield from targets_in(labels.astype(np.uint8), rule, f"'{path}'")
        if case.dicom and not case.labels and not case.parts:
            assert isinstance(case.image, Series)
            for name, mask in read_structures(case.image, case.dicom.structures):
                if mask and chosen(classes, name):
                    yield Target(name.replace("/", "_"), mask, label=name, groups={"class": name})

    def _mapped(self, path: Path) -> list[Target]:
        stored = open_stored(path)
        rule = self._rule({label.value: label.name for label in stored.names})
        if stored.channels == 1:
            return targets_in(self._labels(stored, 0), rule, f"'{path}'")
        # Layers that overlap: a voxel belongs to a value if any layer says so.
        by_id: dict[str, Target] = {}
        for layer in range(stored.channels):
            own = {n.value: n.name for n in stored.names if n.layer == layer}
            layered = replace(rule, names={**rule.names, **own})
            for target in targets_in(self._labels(stored, layer), layered, f"'{path}'"):
                earlier = by_id.get(target.id)
                merged = target.mask if earlier is None else earlier.mask | target.mask
                by_id[target.id] = replace(target, mask=merged)
        return list(by_id.values())

    def _rule(self, in_file: Mapping[int, str]) -> Labelling:
        rule, mine = self._options.labelling, self.case.naming
        return replace(
            rule,
            names={**in_file, **mine.names, **rule.names},
            unnamed=f"{mine.prefix} {rule.unnamed}".lstrip(),
            regions=mine.regions,
            ignore=rule.ignore | mine.ignore,
        )

    def _labels(self, stored: Stored, layer: int) -> npt.NDArray[Any]:
        """One layer of a label map on the image's grid."""
        mine, theirs = self.grid, stored.grid
        labels = whole_numbers(f"'{stored.path}'", stored.read(layer))
        if self._options.by_shape and theirs.size == mine.size:
            return np.ascontiguousarray(mine.to_scene(labels))
        if theirs.same(mine):
            return np.ascontiguousarray(theirs.to_scene(labels))
        low = mine.offset_of(theirs) if stored.path.name.lower().endswith(".seg.nrrd") else None
        if low is None:
            raise BadInput(f"{_apart(mine, theirs, stored.path)} '{self.image.path.name}'")
        return _pasted(theirs.to_scene(labels), low, mine.shape, stored.path)


def _pasted(
    labels: npt.NDArray[Any], low: Sequence[int], shape: Sequence[int], path: Path
) -> npt.NDArray[Any]:
    """A cropped label map, as 3D Slicer saves it, at its place in the image."""
    whole = np.zeros(shape, labels.dtype)
    ends = [(max(0, a), min(n, a + m)) for a, n, m in zip(low, shape, labels.shape, strict=True)]
    inside = tuple(slice(a - o, b - o) for (a, b), o in zip(ends, low, strict=True))
    kept = labels[inside]
    if np.count_nonzero(kept) != np.count_nonzero(labels):
        raise BadInput(f"'{path}' labels voxels outside its image; crop it to the image")
    whole[tuple(slice(a, b) for a, b in ends)] = kept
    return whole


def _apart(mine: Grid, other: Grid, path: Path) -> str:
    here, there = (" x ".join(map(str, grid.size)) for grid in (mine, other))
    if mine.shape != other.shape:
        return f"'{path}': a label map of {there} voxels does not fit the {here} of"
    return (
        f"'{path}': its voxels lie up to {mine.distance_mm(other):.2f} mm from those of the image;"
        " if only its header is wrong, add ?grid=shape behind the dataset's name. The image is"
    )


def options_of(
    what: str,
    labelling: Labelling,
    channel: int | str | None = None,
    window: str | Sequence[float] | None = None,
    grid: str = "affine",
    modality: str = "",
    patient: str = "",
) -> Options:
    check_choice("grid", grid, ("affine", "shape"))
    try:
        re.compile(patient)
    except re.error as error:
        raise BadInput(
            f"{what}: patient={patient} is not a regular expression ({error})"
        ) from error
    ends = None if window is None else _window(what, window)
    by_shape = grid == "shape"
    return Options(labelling.check(what), channel, ends, by_shape, modality, patient or _BIDS)


def _window(what: str, window: str | Sequence[float]) -> Window:
    try:
        given = WINDOWS.get(window) or window.split(",") if isinstance(window, str) else window
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise BadInput(
            f"{what}: window={window} is not a window; use {', '.join(WINDOWS)} or -160,240"
        )
    return low, high
