"""Stored volumes: what a file says of itself, and its voxels when they are wanted.

A header is believed only as far as its file can bear it: a claim of more voxels than any
scanner makes, or of more bytes than the file can hold even if it were all zeros before it
was compressed, is refused before memory is taken. Never more is unpacked than was claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.volumes.grids import Grid

__all__ = [
    "MOST_VOXELS",
    "SUFFIXES",
    "Named",
    "Stored",
    "case_name",
    "check_claim",
    "is_volume",
    "open_stored",
    "plain_numbers",
]

SUFFIXES = (".nii.gz", ".nii", ".nrrd", ".nhdr")
MOST_VOXELS = 1 << 30
"""A gigavoxel: six times a CT of 512 x 512 x 600, with one channel."""

_BEST_DEFLATE = 1040  # no deflate stream unpacks to more than 1032 times its size


@dataclass(frozen=True, slots=True)
class Named:
    """A label that the file itself names: its value, and its layer where there are several."""

    value: int
    name: str
    layer: int = 0


class Stored(Protocol):
    """A volume in a file, of which only the header was read."""

    @property
    def path(self) -> Path: ...

    @property
    def grid(self) -> Grid: ...

    @property
    def channels(self) -> int: ...

    @property
    def names(self) -> Sequence[Named]:
        """Labels that the file names itself."""
        ...

    @property
    def modality(self) -> str: ...

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel along the file's own axes."""
        ...


def open_stored(path: Path) -> Stored:
    """Read a file's header; which reader by the end of its name, a folder is a DICOM series."""
    if not path.exists():
        raise NotFound(f"no volume '{path}'")
    if path.is_dir():
        from segmeter.datasets.volumes.dicom import open_series

        return open_series(path)
    if path.name.lower().endswith((".nii", ".nii.gz")):
        from segmeter.datasets.volumes.nifti import open_nifti

        return open_nifti(path)
    if path.name.lower().endswith((".nrrd", ".nhdr")):
        from segmeter.datasets.volumes.nrrd import open_nrrd

        return open_nrrd(path)
    raise BadInput(f"'{path.name}' is no volume; {', '.join(SUFFIXES)} or a DICOM folder will do")


def is_volume(path: Path) -> bool:
    """Whether a file's name is that of a volume; hidden files are passed over."""
    return path.name[:1] != "." and path.name.lower().endswith(SUFFIXES)


def case_name(path: Path) -> str:
    """A file's name without what its format adds.

    >>> case_name(Path("labelsTr/case_7.in.nrrd")), case_name(Path("sub-1.5T.nii.gz"))
    ('case_7', 'sub-1.5T')
    """
    name = path.name
    for suffix in (".in.nrrd", ".seg.nrrd", *SUFFIXES):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def check_claim(path: Path, size: Sequence[int], item: int, offset: int, packed: bool) -> None:
    """Refuse a header that claims what its file cannot hold; `item` bytes a voxel."""
    count = math.prod(int(n) for n in size)
    claimed = " x ".join(str(int(n)) for n in size)
    if count < 1 or min(size) < 1:
        raise BadInput(f"'{path}' has no voxels: its header says {claimed}")
    if count > MOST_VOXELS * 16 or math.prod(int(n) for n in size[:3]) > MOST_VOXELS:
        raise BadInput(
            f"'{path}': its header claims {claimed} voxels, more than any scan has; it is damaged"
        )
    room = path.stat().st_size * (_BEST_DEFLATE if packed else 1)
    if offset + count * item > room:
        raise BadInput(
            f"'{path}': its header claims {claimed} voxels, more than the file can hold;"
            " it is damaged or cut short"
        )


def plain_numbers(path: Path, kind: np.dtype[Any]) -> None:
    """Refuse voxels that are colours, complex numbers or anything but plain numbers."""
    if kind.kind not in "iufb":
        raise BadInput(f"'{path}': its voxels are '{kind}', not plain numbers; convert the file")
