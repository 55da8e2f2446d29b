"""NIfTI files: the header at once, the voxels late, memory-mapped where they lie plain."""

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
from segmeter.datasets.pictures import check_regular
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import Named, check_claim, plain_numbers

__all__ = ["NiftiFile", "open_nifti", "write_nifti"]

_EXTRA = "install the extra: pip install 'segmeter[volumes]'"


@dataclass(frozen=True, slots=True)
class NiftiFile:
    """A `.nii` or `.nii.gz` whose header was read and believed."""

    path: Path
    grid: Grid
    channels: int
    image: Any  # nibabel's image; it holds no voxels
    names: Sequence[Named] = ()
    modality: str = ""

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel; scaled values are float32, plain ones keep their type."""
        import nibabel.arrayproxy

        stored, proxy = self.image.dataobj, nibabel.arrayproxy
        unscaled = _untyped(proxy).ArrayProxy(
            stored.file_like, (stored.shape, stored.dtype, stored.offset, 1, 0)
        )
        place = tuple(channel if axis > 2 and n > 1 else slice(None) for axis, n in self._axes())
        try:
            raw = np.asarray(unscaled[place] if self.channels > 1 else unscaled)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            reason = str(error).split("\n")[0]
            raise BadInput(f"'{self.path}' breaks off or is damaged ({reason})") from error
        return _scaled(raw.reshape(self.grid.size, order="F"), stored.slope, stored.inter)

    def _axes(self) -> list[tuple[int, int]]:
        return list(enumerate(self.image.shape))


def open_nifti(path: Path) -> NiftiFile:
    """Read and check the header."""
    if importlib.util.find_spec("nibabel") is None:
        raise NotFound(f"'{path}' is NIfTI, which needs the package 'nibabel'; {_EXTRA}")
    import nibabel
    from nibabel.filebasedimages import ImageFileError
    from nibabel.spatialimages import HeaderDataError

    check_regular(path)
    try:
        image: Any = nibabel.load(path)
        size = tuple(int(n) for n in image.header["dim"][1 : 1 + int(image.header["dim"][0])])
        shape, kind = image.shape, image.get_data_dtype()
    except (ImageFileError, HeaderDataError, OSError, EOFError, zlib.error, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise BadInput(f"'{path}' cannot be read as NIfTI: {reason}") from error
    plain_numbers(path, kind)
    packed = path.suffix == ".gz"
    check_claim(path, size or (0,), kind.itemsize, int(image.dataobj.offset), packed)
    spatial, channels = _split(path, shape)
    return NiftiFile(path, Grid(spatial, image.affine).check(f"'{path}'"), channels, image)


def write_nifti(path: Path, values: npt.NDArray[Any], grid: Grid) -> None:
    """Write an array along the file's axes; viewers show it over the image it belongs to."""
    if importlib.util.find_spec("nibabel") is None:
        raise NotFound(f"writing '{path}' needs the package 'nibabel'; {_EXTRA}")
    import nibabel

    image = _untyped(nibabel).Nifti1Image(np.ascontiguousarray(values), np.asarray(grid.affine))
    image.header.set_xyzt_units("mm")
    raw = image.to_bytes()
    # No time stamp: the same masks are the same bytes.
    path.write_bytes(gzip.compress(raw, 6, mtime=0) if path.suffix == ".gz" else raw)


def _untyped(thing: Any) -> Any:
    """nibabel says it is typed, but most of it is not."""
    return thing


def _split(path: Path, shape: Sequence[int]) -> tuple[tuple[int, int, int], int]:
    """Three sizes in space, and how many channels there are beside them."""
    first, second, third, *rest = (*shape, *(1,) * (3 - len(shape)))
    more = [n for n in rest if n > 1]
    if len(more) > 1:
        raise BadInput(f"'{path}' has {len(shape)} axes; three in space and one more will do")
    return (first, second, third), (more[0] if more else 1)


def _scaled(stored: npt.NDArray[Any], slope: float, offset: float) -> npt.NDArray[Any]:
    if slope == 1 and offset == 0:
        return stored
    return stored.astype(np.float32) * np.float32(slope) + np.float32(offset)
