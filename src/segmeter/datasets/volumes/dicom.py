"""DICOM: series of slices as volumes, with their segmentations and structure sets.

Folders are walked as a PACS exports them: any depth, with or without `.dcm`, several series in
one folder. Files are read with pydicom; SimpleITK unpacks compressed pixels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.masks import Bits, Mask
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.volumes.stored import Grid, Stored, check_bytes, check_claim, need

_SEGMENTATION = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
_STRUCTURES = "1.2.840.10008.5.1.4.1.1.481.3"
_DAMAGED = "holds DICOM that cannot be read"
_UNEVEN = 0.1  # of the usual gap: tables of positions are rounded to hundredths
_RESCALE = {"Slope": 1, "Intercept": 0}
Objects = Iterator[tuple[str, Bits]]


@dataclass(frozen=True, slots=True)
class DicomFile:
    """Header of one file; `refers` are the series that a segmentation belongs to."""

    path: Path
    series: str
    study: str
    patient: str
    frame: str
    kind: str  # "slice", "structures", or why it is not used
    refers: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: Path) -> DicomFile:
        with named_errors(path, _DAMAGED):
            record = _record(path, stop_before_pixels=True)
            words = ("SeriesInstanceUID", "StudyInstanceUID", "PatientID", "FrameOfReferenceUID")
            series, study, patient, frame = (str(record.get(word, "") or "") for word in words)
            refers = frozenset(_referenced(record))
            return cls(path, series, study, patient, frame, _kind(record), refers)


@dataclass(frozen=True, slots=True)
class DicomSeries:
    """The slices of one series, in any folder, and the files that segment it."""

    slices: tuple[DicomFile, ...]
    structures: tuple[DicomFile, ...] = ()

    @property
    def folder(self) -> Path:
        return self.slices[0].path.parent

    @property
    def patient(self) -> str:
        return self.slices[0].patient

    def open(self) -> Series:
        """Order the slices; their headers are read, no pixel is."""
        with named_errors(self.folder, _DAMAGED):
            records = [(f.path, _record(f.path, stop_before_pixels=True)) for f in self.slices]
            return _ordered(self.folder, records)


@dataclass(frozen=True, slots=True)
class Series(Stored):
    """Slices of one series in order along their normal; the grid's axes are column, row, slice."""

    files: tuple[Path, ...] = ()
    instances: tuple[int, ...] = ()  # InstanceNumber of each slice, where all have one

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        """As for other files, but instance numbers along the normal where they are even."""
        steps = set(np.diff(self.instances).tolist())
        if len(steps) != 1:
            return self.grid.slice_numbers
        return tuple(
            ("instance", self.instances[first], step * next(iter(steps)))
            if axis == "k"
            else (axis, first, step)
            for axis, first, step in self.grid.slice_numbers
        )

    def headers(self) -> list[Any]:
        with named_errors(self.path, _DAMAGED):
            return [_record(file, stop_before_pixels=True) for file in self.files]


def _voxels(folder: Path, size: Sequence[int], files: Sequence[Path]) -> npt.NDArray[Any]:
    """All slices, in the scanner's units (HU for CT)."""
    with named_errors(folder, _DAMAGED):
        whole = np.empty(size, np.float32)
        for k, file in enumerate(files):
            pixels = _plane(file)
            if pixels.shape != (size[1], size[0]):
                raise BadInput(f"'{file}': {pixels.shape} pixels are not what its header states")
            whole[:, :, k] = pixels.T
    # Whole numbers of 16 bits, as CT has them; NaN is none.
    fits = bool(whole.min() >= -32768 and whole.max() <= 32767)
    return whole.astype(np.int16) if fits and np.array_equal(whole, np.trunc(whole)) else whole


def _plane(file: Path) -> npt.NDArray[Any]:
    """One slice; GDCM (in SimpleITK) unpacks JPEG and applies slope and intercept itself."""
    record = _record(file)
    if record.file_meta.TransferSyntaxUID.is_encapsulated:
        import SimpleITK

        found = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(file)))
        return np.asarray(found[0] if len(found) == 1 else found)
    slope, offset = (float(record.get(f"Rescale{w}", d)) for w, d in _RESCALE.items())
    return np.asarray(record.pixel_array * np.float32(slope) + np.float32(offset))


def is_dicom(path: Path) -> bool:
    """By its name, or by the mark behind 128 bytes; DICOMDIR only lists the others."""
    if path.name.lower().endswith(".dcm"):
        return True
    other = path.suffix.lower() in (".json", ".csv", ".txt", ".png")
    if path.name[0] == "." or other or path.name.upper() == "DICOMDIR":
        return False
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def walk_dicom(files: Iterable[Path]) -> tuple[list[DicomSeries], list[DicomFile]]:
    """Series with their segmentations, by folder; and files of no series."""
    need("DICOM", "pydicom", "SimpleITK")
    found = [DicomFile.read(path) for path in files]
    slices = [file for file in found if file.kind == "slice"]
    by_series = grouped(slices, lambda file: (file.path.parent, file.series))
    series = [DicomSeries(tuple(own)) for own in by_series.values()]
    structures = [file for file in found if file.kind == "structures"]
    owned = grouped(structures, lambda file: _owner(file, series))
    left = [file for file in found if file.kind not in ("slice", "structures")]
    left += owned.get(None, [])
    return [DicomSeries(s.slices, tuple(owned.get(i, ()))) for i, s in enumerate(series)], left


def _owner(file: DicomFile, series: Sequence[DicomSeries]) -> int | None:
    """The one series that a segmentation names; else that of its frame, folder or study."""
    rules = (
        lambda s: s.slices[0].series in file.refers,
        lambda s: file.frame != "" and s.slices[0].frame == file.frame,
        lambda s: s.folder == file.path.parent,
        lambda s: file.study != "" and s.slices[0].study == file.study,
    )
    for rule in rules:
        fitting = [i for i, one in enumerate(series) if rule(one)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def read_structures(series: Series, files: Sequence[DicomFile]) -> Iterator[tuple[str, Mask]]:
    """The named objects of DICOM-SEG and RTSTRUCT files, as masks of the series' scene."""
    for file in files:
        with named_errors(file.path, _DAMAGED):
            record = _record(file.path)
            read = _contoured if record.get("SOPClassUID") == _STRUCTURES else _segments
            for name, bits in read(series, file.path, record):
                yield name, Mask.of(series.grid.to_scene(bits))


def _record(file: Path, *, stop_before_pixels: bool = False) -> Any:
    import pydicom

    return pydicom.dcmread(file, stop_before_pixels=stop_before_pixels)


def _kind(record: Any) -> str:
    where = str(record.get("SOPClassUID", ""))
    if where in (*_SEGMENTATION, _STRUCTURES):
        return "structures"
    if "ImagePositionPatient" in record and "ImageOrientationPatient" in record:
        return "slice"
    if int(record.get("NumberOfFrames") or 1) > 1:
        return "multi-frame image; split it into slices"
    return "without a position in the patient"


def _referenced(record: Any) -> Iterator[str]:
    for one in record.get("ReferencedSeriesSequence", []):
        yield str(one.get("SeriesInstanceUID", ""))
    for frame in record.get("ReferencedFrameOfReferenceSequence", []):
        for study in frame.get("RTReferencedStudySequence", []):
            for one in study.get("RTReferencedSeriesSequence", []):
                yield str(one.get("SeriesInstanceUID", ""))


def _ordered(folder: Path, slices: list[tuple[Path, Any]]) -> Series:
    """Slices by their place along the normal; refuses uneven gaps and doubled places."""
    first = slices[0][1]
    row, column = np.reshape(np.asarray(first.ImageOrientationPatient, float), (2, 3))
    for file, record in slices:
        for word, usual in _RESCALE.items():  # GDCM takes "-10x4" for -10
            float(record.get(f"Rescale{word}", usual))
        turned = np.subtract(record.ImageOrientationPatient, first.ImageOrientationPatient)
        extent = (record.Rows, record.Columns)
        if extent != (first.Rows, first.Columns) or not np.allclose(turned, 0, atol=1e-3):
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
    check_claim(files[0], size[:2], 1, 0, packed=True)
    check_bytes(folder, 4 * math.prod(size))
    grid = Grid(size, affine).check(f"'{folder}'")
    numbers = [slices[i][1].get("InstanceNumber") for i in order]
    known = tuple(int(n) for n in numbers if n is not None)
    instances = known if len(known) == len(files) else ()
    modality = str(first.get("Modality", ""))
    return Series(folder, grid, 1, lambda _=0: _voxels(folder, size, files), (), modality, files,
                  instances)  # fmt: skip


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
            f"'{folder}': several slices of one series have one position; keep one phase per series"
        )
    if odd.size:
        at = int(odd[0])
        raise BadInput(
            f"'{folder}': a slice is missing between '{files[at].name}' and"
            f" '{files[at + 1].name}' ({gaps[at]:.2f} mm apart where {usual:.2f} mm is usual)"
        )
    return usual


def _segments(series: Series, file: Path, record: Any) -> Objects:
    """DICOM-SEG: each frame is placed by its position."""
    check_bytes(file, int(record.NumberOfFrames) * int(record.Rows) * int(record.Columns))
    frames = record.pixel_array
    frames = frames[None] if frames.ndim == 2 else frames
    if frames.shape[1:] != series.grid.size[1::-1]:
        raise BadInput(f"'{file}': its frames are not of the size of its series")
    labelled = str(record.get("SegmentationType", "")) == "LABELMAP"
    shared = record.get("SharedFunctionalGroupsSequence", [None])[0]
    placed: dict[int, list[tuple[int, npt.NDArray[Any]]]] = defaultdict(list)
    for bits, groups in zip(frames, record.PerFrameFunctionalGroupsSequence, strict=True):
        place = groups.PlanePositionSequence[0].ImagePositionPatient
        index = _indices(series, np.asarray([place], float))[0]
        level = round(float(index[2]))
        if np.abs(index - (0, 0, level)).max() > 0.5 or not 0 <= level < series.grid.size[2]:
            raise BadInput(f"'{file}': a frame has a position where its series has no slice")
        segment = groups if "SegmentIdentificationSequence" in groups else shared
        identity = None if labelled else segment.SegmentIdentificationSequence[0]
        number = int(identity.ReferencedSegmentNumber) if identity else 0
        placed[number].append((level, bits.T))
    for segment in record.SegmentSequence:
        number = int(segment.SegmentNumber)
        mask = np.zeros(series.grid.size, bool)
        for level, bits in placed[0 if labelled else number]:
            mask[:, :, level] |= bits == number if labelled else bits > 0
        yield str(segment.SegmentLabel), mask


def _contoured(series: Series, file: Path, record: Any) -> Objects:
    """RTSTRUCT: voxels whose centre is inside or on a contour; one within another cuts a hole."""
    names = {int(r.ROINumber): str(r.ROIName) for r in record.StructureSetROISequence}
    for region in record.ROIContourSequence:
        inside, edges = np.zeros((2, *series.grid.size), bool)
        for contour in region.get("ContourSequence", []):
            points = np.asarray(contour.ContourData, float).reshape(-1, 3)
            _fill(series, file, points, inside, edges)
        yield names[int(region.ReferencedROINumber)], inside | edges


def _fill(
    series: Series, file: Path, points: npt.NDArray[np.float64], inside: Bits, edges: Bits
) -> None:
    from skimage import measure

    places = _indices(series, points)
    level = round(float(places[:, 2].mean()))
    if np.ptp(places[:, 2]) > 0.5 or not 0 <= level < series.grid.size[2]:
        raise BadInput(f"'{file}': a contour has a position where its series has no slice")
    # Files round to micrometres: a contour drawn through voxel centres lies on them again.
    flat = places[:, :2].round(2)
    low = np.clip(np.floor(flat.min(axis=0)), 0, series.grid.size[:2]).astype(int)
    high = np.clip(np.ceil(flat.max(axis=0)) + 1, low, series.grid.size[:2]).astype(int)
    in_polygon: Any = measure.grid_points_in_poly  # untyped; 1 inside, 2 vertex, 3 edge
    kinds = in_polygon(tuple(high - low), flat - low, binarize=False)
    part = (slice(low[0], high[0]), slice(low[1], high[1]), level)
    inside[part] ^= kinds == 1
    edges[part] |= kinds > 1


def _indices(series: Series, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Patient coordinates of DICOM `(n, 3)` as indices along the series' axes."""
    ras = points * (-1, -1, 1)
    inverse = np.linalg.inv(series.grid.affine)
    found: npt.NDArray[np.float64] = ras @ inverse[:3, :3].T + inverse[:3, 3]
    return found
