"""NIfTI files, read with nibabel: the header first, voxels late, memory-mapped where plain.

SimpleITK reads the other formats but not this one: it takes a file that was cut short without
an error and refuses sheared affines (`perf/volume_readers.py` shows both).
"""

from __future__ import annotations

import gzip
import importlib.util
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.image_files import check_regular
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import Named, check_claim

__all__ = ["NiftiFile", "open_nifti", "write_nifti"]

_EXTRA = "install the extra: pip install 'segmeter[volumes]'"
_MOST_EXTENSION = 1 << 24
"""Bytes between header and voxels; extensions are skipped, never read."""


@dataclass(frozen=True, slots=True)
class NiftiFile:
    """A `.nii` or `.nii.gz` whose header has been read and checked."""

    path: Path
    grid: Grid
    channels: int
    header: Any  # nibabel's
    names: Sequence[Named] = ()
    modality: str = ""

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel; scaled values are float32, plain ones keep their type."""
        from nibabel.arrayproxy import ArrayProxy

        header: Any = self.header
        layout = (header.get_data_shape(), header.get_data_dtype(), header.get_data_offset(), 1, 0)
        proxy = ArrayProxy(str(self.path), layout)
        shape: tuple[int, ...] = proxy.shape
        part = tuple(channel if axis > 2 and n > 1 else slice(None) for axis, n in enumerate(shape))
        try:
            raw = np.asarray(proxy[part] if self.channels > 1 else proxy)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            reason = str(error).split("\n")[0]
            raise BadInput(f"'{self.path}' breaks off or is damaged ({reason})") from error
        return _scaled(raw.reshape(self.grid.size, order="F"), *header.get_slope_inter())


def open_nifti(path: Path) -> NiftiFile:
    """Read and check the header; extensions behind it are not read."""
    if importlib.util.find_spec("nibabel") is None:
        raise NotFound(f"'{path}' is NIfTI, which needs the package 'nibabel'; {_EXTRA}")
    check_regular(path)
    try:
        header = _header(path)
        size = tuple(int(n) for n in header["dim"][1 : 1 + int(header["dim"][0])])
        shape, kind, offset = header.get_data_shape(), header.get_data_dtype(), _offset(header)
        affine = header.get_best_affine()
        _ = header.get_slope_inter()
    except (_header_error(), OSError, EOFError, zlib.error, ValueError, OverflowError) as error:
        reason = str(error).split("\n")[0]
        raise BadInput(f"'{path}' cannot be read as NIfTI: {reason}") from error
    if kind.kind not in "iufb":
        raise BadInput(f"'{path}': its voxels are '{kind}', not plain numbers; convert the file")
    check_claim(path, size or (0,), kind.itemsize, offset, path.suffix == ".gz")
    spatial, channels = _split(path, shape)
    return NiftiFile(path, Grid(spatial, affine).check(f"'{path}'"), channels, header)


def _header(path: Path) -> Any:
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        raw = file.read(540)
    first = int.from_bytes(raw[:4], "little"), int.from_bytes(raw[:4], "big")
    if 540 in first:
        return Nifti2Header(raw[:540])
    if 348 in first and len(raw) >= 348:
        return Nifti1Header(raw[:348])
    raise ValueError("it does not begin with a NIfTI header")


def _header_error() -> type[Exception]:
    from nibabel.spatialimages import HeaderDataError

    error: type[Exception] = HeaderDataError
    return error


def _offset(header: Any) -> int:
    offset = int(header.get_data_offset())
    if not 0 <= offset <= _MOST_EXTENSION:
        raise ValueError(f"its voxels would begin {offset} bytes into the file")
    return offset


def write_nifti(path: Path, values: npt.NDArray[Any], grid: Grid) -> None:
    """Write an array along the file's axes; viewers show it over the image it belongs to."""
    if importlib.util.find_spec("nibabel") is None:
        raise NotFound(f"writing '{path}' needs the package 'nibabel'; {_EXTRA}")
    from nibabel.nifti1 import Nifti1Image

    image = Nifti1Image(np.ascontiguousarray(values), np.asarray(grid.affine))
    image.header.set_xyzt_units("mm")
    raw = image.to_bytes()
    # No time stamp: the same masks are the same bytes.
    path.write_bytes(gzip.compress(raw, 6, mtime=0) if path.suffix == ".gz" else raw)


def _split(path: Path, shape: Sequence[int]) -> tuple[tuple[int, int, int], int]:
    """Three sizes in space, and the number of channels."""
    first, second, third, *rest = (*shape, *(1,) * (3 - len(shape)))
    more = [n for n in rest if n > 1]
    if len(more) > 1:
        raise BadInput(f"'{path}' has {len(shape)} axes; three in space and one more are read")
    return (first, second, third), (more[0] if more else 1)


def _scaled(
    stored: npt.NDArray[Any], slope: float | None, offset: float | None
) -> npt.NDArray[Any]:
    if slope is None or (slope == 1 and not offset):
        return stored
    return stored.astype(np.float32) * np.float32(slope) + np.float32(offset or 0.0)
