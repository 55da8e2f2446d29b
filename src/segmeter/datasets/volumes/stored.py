"""Stored volumes: the header of a file, and its voxels when they are needed.

Sizes are checked before anything is unpacked: a header may not claim more than any scan has,
more than the file can hold, or more memory than a machine has.

NIfTI files, read with nibabel: the header first, voxels late, memory-mapped where plain.

SimpleITK reads the other formats but not this one: it takes a file that was cut short without
an error and refuses sheared affines (`perf/volume_readers.py` shows both).
"""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.volumes.grids import Grid

_LABEL_SUFFIXES = (".in.nrrd", ".seg.nrrd")
_NIFTI = (".nii.gz", ".nii")
_ITK = (".nrrd", ".nhdr", ".mha", ".mhd")
SUFFIXES = (*_NIFTI, *_ITK)
MOST_VOXELS = 1 << 30
"""A gigavoxel per channel: six times a CT of 512 x 512 x 600."""
MOST_BYTES = 4 << 30
"""Unpacked bytes of one channel, in the file's own type."""

_BEST_DEFLATE = 1040  # no deflate stream unpacks to more than 1032 times its size
_HEADER = 1 << 16
_DAMAGED = "breaks off, is damaged or not what it is named"
_DATA_FILE = re.compile(rb"^(?:data ?file:|ElementDataFile *=)[ \t]*(\S[^\r\n]*?)[ \t]*\r?$", re.M)
_PACKED_SIZE = re.compile(rb"^CompressedDataSize *= *(\d+)", re.M)
_BZIP2 = re.compile(rb"^encoding: *bz(?:ip)?2 *$", re.M | re.I)
_SCALARS = re.compile(r"(?:vector of )?(\d+)-bit (?:un)?(?:signed integer|float)")


class Named(NamedTuple):
    """A label named in the file itself: its value, and its layer where there are several."""

    value: int
    name: str
    layer: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A volume whose header has been read and checked.

    `read` gives a channel, or a layer, along the file's axes; the first by default.
    """

    path: Path
    grid: Grid
    channels: int
    read: Callable[..., npt.NDArray[Any]]
    names: Sequence[Named] = ()
    modality: str = ""

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        """As the file counts its slices."""
        return self.grid.slice_numbers


def open_stored(path: Path) -> Stored:
    """Read the header of a NIfTI, NRRD or MetaImage file."""
    name = path.name.lower()
    if not path.exists():
        raise NotFound(f"no volume '{path}'")
    if name.endswith(_NIFTI):
        return open_nifti(path)
    if name.endswith(_ITK):
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
    check_bytes(path, channel * item)


def check_bytes(path: Path, count: int) -> None:
    """Refuse what unpacks to more bytes than are read."""
    if count > MOST_BYTES:
        raise BadInput(
            f"'{path}' unpacks to {count / (1 << 30):.1f} GiB, and at most"
            f" {MOST_BYTES >> 30} GiB are read; crop it or store it as int16 or float32"
        )


def need(what: str, *packages: str) -> None:
    """Refuse what a missing package of the extra `volumes` is needed for."""
    if any(importlib.util.find_spec(package) is None for package in packages):
        named = " and ".join(f"'{package}'" for package in packages)
        raise NotFound(f"{what} needs {named}; pip install 'segmeter[volumes]'")


def open_nifti(path: Path) -> Stored:
    """Read and check the header of a `.nii` or `.nii.gz`; extensions behind it are not read.

    Scaled values are float32, plain ones keep their type.
    """
    need(f"'{path}'", "nibabel")
    with named_errors(path, "cannot be read as NIfTI"):
        header = _header(path)
        size = tuple(int(n) for n in header["dim"][1 : 1 + int(header["dim"][0])])
        shape, kind = header.get_data_shape(), header.get_data_dtype()
        offset, affine = int(header.get_data_offset()), header.get_best_affine()
        slope, inter = header.get_slope_inter()
    if kind.kind not in "iufb":
        raise BadInput(f"'{path}': its voxels are '{kind}', not plain numbers; convert the file")
    check_claim(path, size or (0,), kind.itemsize, offset, path.suffix == ".gz")
    spatial, more = (*shape, 1, 1)[:3], [n for n in shape[3:] if n > 1]
    if len(more) > 1:
        raise BadInput(f"'{path}' has {len(shape)} axes; three in space and one more are read")
    channels = more[0] if more else 1

    def load(channel: int = 0) -> npt.NDArray[Any]:
        from nibabel.arrayproxy import ArrayProxy

        proxy = ArrayProxy(str(path), (shape, kind, offset, 1, 0))
        part = tuple(channel if axis > 2 and n > 1 else slice(None) for axis, n in enumerate(shape))
        with named_errors(path, "breaks off or is damaged"):
            raw = np.asarray(proxy[part] if channels > 1 else proxy)
        voxels: npt.NDArray[Any] = raw.reshape(spatial, order="F")
        if slope is None or (slope == 1 and not inter):
            return voxels
        return voxels.astype(np.float32) * np.float32(slope) + np.float32(inter or 0.0)

    return Stored(path, Grid(spatial, affine).check(f"'{path}'"), channels, load)


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


def write_nifti(path: Path, values: npt.NDArray[Any], grid: Grid) -> None:
    """Write an array along the file's axes; viewers show it over the image it belongs to."""
    need(f"writing '{path}'", "nibabel")
    from nibabel.nifti1 import Nifti1Image

    image = Nifti1Image(np.ascontiguousarray(values), np.asarray(grid.affine))
    image.header.set_xyzt_units("mm")
    raw = image.to_bytes()
    # No time stamp: the same masks are the same bytes.
    path.write_bytes(gzip.compress(raw, 6, mtime=0) if path.suffix == ".gz" else raw)


def open_itk(path: Path) -> Stored:
    """Read and check the header; layers are components of a voxel or a fourth axis."""
    need(f"'{path}'", "SimpleITK")
    import SimpleITK

    data = _data_file(path)
    reader = SimpleITK.ImageFileReader()
    with named_errors(path, _DAMAGED), _plain(path) as file:
        reader.SetFileName(str(file))
        reader.ReadImageInformation()
    kind = SimpleITK.GetPixelIDValueAsString(reader.GetPixelID())
    bits = _SCALARS.fullmatch(kind)
    if bits is None:
        raise BadInput(f"'{path}': its voxels are '{kind}', not plain numbers; convert the file")
    size, layers = reader.GetSize(), reader.GetNumberOfComponents()
    if not 2 <= len(size) <= 4 or (len(size) == 4 and layers > 1):
        raise BadInput(f"'{path}' has {len(size)} axes; three in space and one more are read")
    check_claim(data, (*size, layers), int(bits[1]) // 8, 0, packed=True)
    channels = size[3] if len(size) == 4 else layers
    with named_errors(path, _DAMAGED):
        fields = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
    grid = _itk_grid(reader, f"'{path}'")

    def load(channel: int = 0) -> npt.NDArray[Any]:
        with named_errors(path, _DAMAGED), _plain(path) as file:
            reader = SimpleITK.ImageFileReader()
            reader.SetFileName(str(file))
            if len(size) == 4:
                reader.SetExtractIndex([0, 0, 0, channel])
                reader.SetExtractSize([*grid.size, 0])
            image = reader.Execute()
        # (z, y, x) or (z, y, x, channel), a copy: the image goes out of scope.
        voxels: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
        if image.GetNumberOfComponentsPerPixel() > 1:
            voxels = voxels[..., channel]
        return voxels.T.reshape(grid.size)

    return Stored(path, grid, channels, load, tuple(_names(fields)))


def _itk_grid(image: Any, what: str) -> Grid:
    """The grid of a SimpleITK reader; ITK counts to the left and to the back."""
    axes = min(3, image.GetDimension())
    affine = np.eye(4)
    turn = np.reshape(image.GetDirection(), (image.GetDimension(), -1))[:axes, :axes]
    affine[:axes, :axes] = turn * np.array(image.GetSpacing()[:axes])
    affine[:axes, 3] = image.GetOrigin()[:axes]
    affine[:2] *= -1
    return Grid((*image.GetSize()[:axes], *(1,) * (3 - axes)), affine).check(what)


def _data_file(path: Path) -> Path:
    """The file with the voxels: this one, or one in the same folder."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
    packed, named = _PACKED_SIZE.search(head), _DATA_FILE.search(head)
    name = named[1].decode("utf-8", "replace") if named else "LOCAL"
    data = path if name.upper() == "LOCAL" else path.parent / name
    if data != path and (Path(name).name != name or not data.is_file()):
        raise BadInput(f"'{path}': its voxel file '{name}' is not in the same folder")
    if packed and int(packed[1]) > data.stat().st_size:
        raise BadInput(f"'{path}' is cut short: {int(packed[1])} packed bytes are not there")
    return data


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """The file itself; one that is packed with bzip2, which ITK does not read, as a raw copy."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
        end = head.find(b"\n\n") + 2
        encoding = _BZIP2.search(head, 0, end) if head.startswith(b"NRRD") else None
        if encoding is None:
            yield path
            return
        file.seek(end)
        voxels = bz2.BZ2File(file).read(MOST_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        raw = head[: encoding.start()] + b"encoding: raw" + head[encoding.end() : end]
        copy.write_bytes(raw + voxels)
        yield copy


def _names(fields: Mapping[str, str]) -> Iterator[Named]:
    """Labels named in the header: Slicer's segments, or JSON lists of name and value."""
    for key, name in fields.items():
        segment = re.fullmatch(r"(Segment\d+)_Name", key)
        if segment:
            value, layer = (fields.get(f"{segment[1]}_{k}", "") for k in ("LabelValue", "Layer"))
            value, layer = (value if value.isdigit() else "1", layer if layer.isdigit() else "0")
            yield Named(int(value), name, int(layer))
        elif name.lstrip()[:1] in ("[", "{"):
            yield from _named_in_json(name)


def _named_in_json(text: str) -> Iterator[Named]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return
    layers = next(iter(content.values()), []) if isinstance(content, dict) else content
    for layer, labels in enumerate(layers if isinstance(layers, list) else []):
        for label in labels if isinstance(labels, list) else [labels]:
            match label:
                case {"name": name, "value": int(value)}:
                    yield Named(value, str(name), layer)
