"""Stored volumes: the header of a file, and its voxels when they are needed.

Sizes are checked before anything is unpacked: a header may not claim more than any scan has,
more than the file can hold, or more memory than a machine has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.volumes.grids import Grid

__all__ = [
    "MOST_BYTES",
    "MOST_VOXELS",
    "SUFFIXES",
    "Named",
    "Stored",
    "case_name",
    "check_claim",
    "is_volume",
    "open_stored",
]

_LABEL_SUFFIXES = (".in.nrrd", ".seg.nrrd")
_NIFTI = (".nii.gz", ".nii")
_ITK = (".nrrd", ".nhdr", ".mha", ".mhd")
SUFFIXES = (*_NIFTI, *_ITK)
MOST_VOXELS = 1 << 30
"""A gigavoxel per channel: six times a CT of 512 x 512 x 600."""
MOST_BYTES = 4 << 30
"""Unpacked bytes of one channel, in the file's own type."""

_BEST_DEFLATE = 1040  # no deflate stream unpacks to more than 1032 times its size


@dataclass(frozen=True, slots=True)
class Named:
    """A label named in the file itself: its value, and its layer where there are several."""

    value: int
    name: str
    layer: int = 0


class Stored(Protocol):
    """A volume in a file of which only the header has been read."""

    @property
    def path(self) -> Path: ...

    @property
    def grid(self) -> Grid: ...

    @property
    def channels(self) -> int: ...

    @property
    def names(self) -> Sequence[Named]:
        """Labels named in the file."""
        ...

    @property
    def modality(self) -> str: ...

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel along the file's own axes."""
        ...


def open_stored(path: Path) -> Stored:
    """Read the header of a NIfTI, NRRD or MetaImage file."""
    name = path.name.lower()
    if not path.exists():
        raise NotFound(f"no volume '{path}'")
    if name.endswith(_NIFTI):
        from segmeter.datasets.volumes.nifti import open_nifti

        return open_nifti(path)
    if name.endswith(_ITK):
        from segmeter.datasets.volumes.itk_files import open_itk

        return open_itk(path)
    raise BadInput(f"'{path.name}' is not a volume; {', '.join(SUFFIXES)} are read")


def is_volume(path: Path) -> bool:
    """Whether a file's name is that of a volume; hidden files are passed over."""
    return path.name.lower().endswith(SUFFIXES) and path.name[0] != "." and path.is_file()


def case_name(path: Path) -> str:
    """A file's name without the ending of its format.

    >>> [case_name(Path(name)) for name in ("a/liver.nii.gz", "ct.seg.nrrd", "v1.5T.mha")]
    ['liver', 'ct', 'v1.5T']
    """
    name = path.name
    for suffix in (*_LABEL_SUFFIXES, *SUFFIXES):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def check_claim(path: Path, size: Sequence[int], item: int, offset: int, packed: bool) -> None:
    """Refuse a header that claims too much; `size` has space first, `item` is bytes per voxel."""
    count = math.prod(int(n) for n in size)
    claimed = " x ".join(str(int(n)) for n in size)
    if count < 1 or min(size) < 1:
        raise BadInput(f"'{path}' has no voxels: its header says {claimed}")
    channel = math.prod(int(n) for n in size[:3])
    if count > MOST_VOXELS * 16 or channel > MOST_VOXELS:
        raise BadInput(
            f"'{path}': its header claims {claimed} voxels, more than any scan has; it is damaged"
        )
    room = path.stat().st_size * (_BEST_DEFLATE if packed else 1)
    if offset + count * item > room:
        raise BadInput(
            f"'{path}': its header claims {claimed} voxels, more than the file can hold;"
            " it is damaged or cut short"
        )
    if channel * item > MOST_BYTES:
        raise BadInput(
            f"'{path}' unpacks to {channel * item / (1 << 30):.1f} GiB, and at most"
            f" {MOST_BYTES >> 30} GiB are read; crop it or store it as int16 or float32"
        )
