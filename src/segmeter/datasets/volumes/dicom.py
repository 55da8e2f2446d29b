"""DICOM: a series of slices as one volume, with a segmentation or structure set beside it."""

from __future__ import annotations

import importlib.util
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import Named, check_claim

__all__ = ["Series", "Structures", "open_series", "open_structures"]

_SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
_STRUCTURES = "1.2.840.10008.5.1.4.1.1.481.3"
_DEFLATED = "1.2.840.10008.1.2.1.99"
_DAMAGED = (AttributeError, EOFError, IndexError, KeyError, NotImplementedError, OSError,
            OverflowError, RecursionError, RuntimeError, TypeError, ValueError, struct.error,
            ZeroDivisionError)  # fmt: skip
_UNEVEN = 0.1  # of the usual gap: tables of positions are rounded to hundredths


@dataclass(frozen=True, slots=True)
class Series:
    """Slices of one series, in order along their normal, of which only headers were read."""

    path: Path
    grid: Grid  # axes: column, row, slice
    files: tuple[Path, ...]
    modality: str
    channels: int = 1
    names: Sequence[Named] = ()

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """All slices, in the scanner's units (HU for CT)."""
        with _refused(self.path):
            return self._read()

    def _read(self) -> npt.NDArray[Any]:
        planes = [self._plane(file) for file in self.files]
        whole = np.stack(planes, axis=2)
        return whole.astype(np.int16) if _fits(whole) else whole

    def _plane(self, file: Path) -> npt.NDArray[Any]:
        record = _record(file)
        try:
            pixels = record.pixel_array
        except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise BadInput(f"'{file}': its pixels cannot be decoded ({reason})") from error
        if pixels.shape != self.grid.size[1::-1]:
            raise BadInput(f"'{file}': {pixels.shape} pixels are not those its header claims")
        slope = float(record.get("RescaleSlope", 1))
        offset = float(record.get("RescaleIntercept", 0))
        turned = pixels.T
        if slope == 1 and offset == 0:
            return np.asarray(turned)
        return np.asarray(turned.astype(np.float32) * np.float32(slope) + np.float32(offset))


@dataclass(frozen=True, slots=True)
class Structures:
    """Objects that a DICOM file names, as masks along the axes of a series."""

    path: Path
    masks: tuple[tuple[str, npt.NDArray[np.bool_]], ...]


def open_series(folder: Path) -> Series:
    """The one series of images in a folder; its headers are read, no pixel is."""
    with _refused(folder):
        return _opened(folder)


def _opened(folder: Path) -> Series:
    slices = [record for record in _records(folder) if "ImagePositionPatient" in record[1]]
    by_series = defaultdict(list)
    for file, record in slices:
        by_series[str(record.SeriesInstanceUID)].append((file, record))
    if not by_series:
        raise BadInput(f"'{folder}' holds no DICOM slices that say where they lie")
    if len(by_series) > 1:
        raise BadInput(f"'{folder}' holds {len(by_series)} DICOM series; put each in its folder")
    return _ordered(folder, next(iter(by_series.values())))


def open_structures(series: Series, folder: Path) -> Structures | None:
    """The DICOM-SEG or RTSTRUCT file beside a series, on that series' grid; None without one."""
    with _refused(folder):
        return _structures(series, folder)


def _structures(series: Series, folder: Path) -> Structures | None:
    for file, record in _records(folder):
        if record.get("SOPClassUID") == _SEGMENTATION:
            return Structures(file, tuple(_segments(series, file)))
        if record.get("SOPClassUID") == _STRUCTURES:
            return Structures(file, tuple(_contoured(series, file)))
    return None


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """What a damaged file makes of numbers and fields, as a sentence."""
    try:
        yield
    except _damage() as error:
        reason = str(error).split("\n")[0][:200] or type(error).__name__
        raise BadInput(f"'{path}' holds DICOM that cannot be read ({reason})") from error


def _damage() -> tuple[type[Exception], ...]:
    if importlib.util.find_spec("pydicom") is None:
        return _DAMAGED
    from pydicom.errors import BytesLengthException, InvalidDicomError

    return (*_DAMAGED, BytesLengthException, InvalidDicomError)


def _record(file: Path, *, stop_before_pixels: bool = False) -> Any:
    """One file; a deflated one is refused, for nobody knows what it unpacks to."""
    import pydicom

    syntax = pydicom.filereader.read_file_meta_info(file).get("TransferSyntaxUID")
    if syntax == _DEFLATED:
        raise BadInput(f"'{file}' is deflated DICOM, which is not read; unpack it with its tool")
    return pydicom.dcmread(file, stop_before_pixels=stop_before_pixels)


def _records(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Headers of all DICOM files of a folder, by name; other files are passed over."""
    if importlib.util.find_spec("pydicom") is None:
        raise NotFound(
            f"'{folder}' is read as DICOM, which needs the package 'pydicom';"
            " install the extra: pip install 'segmeter[volumes]'"
        )
    from pydicom.errors import InvalidDicomError

    for file in sorted(p for p in folder.iterdir() if p.is_file() and p.name[0] != "."):
        try:
            yield file, _record(file, stop_before_pixels=True)
        except InvalidDicomError:
            continue


def _ordered(folder: Path, slices: list[tuple[Path, Any]]) -> Series:
    """Slices by their place along the normal; refuses uneven gaps and doubled places."""
    first = slices[0][1]
    row, column = np.reshape(np.asarray(first.ImageOrientationPatient, float), (2, 3))
    for file, record in slices:
        same = (record.Rows, record.Columns) == (first.Rows, first.Columns)
        if not same or not np.allclose(
            record.ImageOrientationPatient, first.ImageOrientationPatient, atol=1e-3
        ):
            raise BadInput(f"'{file}' has another size or direction than '{slices[0][0].name}'")
    normal = np.cross(row, column)
    places = np.array([np.dot(r.ImagePositionPatient, normal) for _, r in slices])
    order = np.argsort(places, kind="stable")
    gap = _even_gap(folder, places[order], [slices[i][0] for i in order], first)
    start = np.asarray(slices[order[0]][1].ImagePositionPatient, float)
    down, across = (float(v) for v in first.PixelSpacing)
    affine = np.eye(4)
    affine[:3, :3] = np.stack([row * across, column * down, normal * gap], axis=1)
    affine[:3, 3] = start
    affine[:2] *= -1  # DICOM counts to the left and to the back
    size = (int(first.Columns), int(first.Rows), len(slices))
    files = tuple(slices[i][0] for i in order)
    check_claim(files[0], (size[0], size[1]), 1, 0, packed=True)
    grid = Grid(size, affine).check(f"'{folder}'")
    return Series(folder, grid, files, str(first.get("Modality", "")))


def _even_gap(
    folder: Path, places: npt.NDArray[np.float64], files: Sequence[Path], record: Any
) -> float:
    if len(places) == 1:
        return float(record.get("SliceThickness") or 1.0)
    gaps = np.diff(places)
    usual = float(np.median(gaps))
    odd = np.flatnonzero(np.abs(gaps - usual) > _UNEVEN * abs(usual) + 1e-6)
    if usual <= 1e-6:
        raise BadInput(
            f"'{folder}': several slices lie in one place; put each series in its folder"
        )
    if odd.size:
        at = int(odd[0])
        raise BadInput(
            f"'{folder}': a slice is missing between '{files[at].name}' and"
            f" '{files[at + 1].name}' ({gaps[at]:.2f} mm apart where {usual:.2f} mm is usual)"
        )
    return usual


def _segments(series: Series, file: Path) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """DICOM-SEG: frames are put where they say they lie."""
    record = _record(file)
    frames = record.pixel_array
    frames = frames[None] if frames.ndim == 2 else frames
    if frames.shape[1:] != series.grid.size[1::-1]:
        raise BadInput(f"'{file}': its frames are not of the size of the series beside it")
    names = {int(s.SegmentNumber): str(s.SegmentLabel) for s in record.SegmentSequence}
    masks = {number: np.zeros(series.grid.size, bool) for number in names}
    shared = record.get("SharedFunctionalGroupsSequence", [None])[0]
    for bits, groups in zip(frames, record.PerFrameFunctionalGroupsSequence, strict=True):
        place = groups.PlanePositionSequence[0].ImagePositionPatient
        segment = groups if "SegmentIdentificationSequence" in groups else shared
        number = int(segment.SegmentIdentificationSequence[0].ReferencedSegmentNumber)
        masks[number][:, :, _slice_of(series, file, place)] |= bits.T > 0
    yield from ((names[n], mask) for n, mask in masks.items())


def _slice_of(series: Series, file: Path, place: Sequence[float]) -> int:
    index = _indices(series, np.asarray([place], float))[0]
    nearest = round(float(index[2]))
    if np.abs(index - (0, 0, nearest)).max() > 0.5 or not 0 <= nearest < series.grid.size[2]:
        raise BadInput(f"'{file}': a frame lies where the series beside it has no slice")
    return nearest


def _contoured(series: Series, file: Path) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """RTSTRUCT: a contour within another cuts a hole, as treatment planning has it."""
    record = _record(file)
    names = {int(r.ROINumber): str(r.ROIName) for r in record.StructureSetROISequence}
    for region in record.ROIContourSequence:
        mask = np.zeros(series.grid.size, bool)
        for contour in region.get("ContourSequence", []):
            _fill(series, file, np.asarray(contour.ContourData, float).reshape(-1, 3), mask)
        yield names[int(region.ReferencedROINumber)], mask


def _fill(
    series: Series, file: Path, points: npt.NDArray[np.float64], mask: npt.NDArray[np.bool_]
) -> None:
    from skimage import draw

    places = _indices(series, points)
    level = round(float(places[:, 2].mean()))
    if np.ptp(places[:, 2]) > 0.5 or not 0 <= level < series.grid.size[2]:
        raise BadInput(f"'{file}': a contour lies where the series beside it has no slice")
    polygon: Any = draw.polygon  # untyped
    rows, columns = polygon(places[:, 0], places[:, 1], series.grid.size[:2])
    mask[rows, columns, level] ^= True


def _indices(series: Series, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Patient coordinates of DICOM `(n, 3)` as indices along the series' axes."""
    ras = points * (-1, -1, 1)
    inverse = np.linalg.inv(series.grid.affine)
    found: npt.NDArray[np.float64] = ras @ inverse[:3, :3].T + inverse[:3, 3]
    return found


def _fits(whole: npt.NDArray[Any]) -> bool:
    """Whether values are whole numbers of 16 bits, as CT has them."""
    if whole.size == 0 or not np.isfinite(whole).all():
        return False
    low, high = whole.min(), whole.max()
    return bool(low >= -32768 and high <= 32767 and np.array_equal(whole, np.trunc(whole)))
