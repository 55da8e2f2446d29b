"""NRRD and MetaImage files (`.nrrd`, `.nhdr`, `.mha`, `.mhd`), read with SimpleITK."""

from __future__ import annotations

import bz2
import importlib.util
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.image_files import check_regular
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import MOST_BYTES, Named, check_claim

__all__ = ["ItkFile", "itk_grid", "open_itk"]

_HEADER = 1 << 16
_DATA_FILE = re.compile(rb"^(?:data ?file:|ElementDataFile *=)[ \t]*(\S[^\r\n]*?)[ \t]*\r?$", re.M)
_AXES = re.compile(rb"^(?:dimension:|NDims *=) *(\S*)")
_LINE = 400
_PACKED_SIZE = re.compile(rb"^CompressedDataSize *= *(\d+)", re.M)
_BZIP2 = re.compile(rb"^encoding: *bz(?:ip)?2 *$", re.M | re.I)
_SCALARS = re.compile(r"(?:vector of )?(\d+)-bit (?:un)?(?:signed integer|float)")


@dataclass(frozen=True, slots=True)
class ItkFile:
    """A file whose header has been read; `axes` counts those of its grid, layers included."""

    path: Path
    grid: Grid
    channels: int
    names: Sequence[Named]
    axes: int
    modality: str = ""

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel along the file's axes."""
        import SimpleITK

        with _refused(self.path), _plain(self.path) as file:
            reader = SimpleITK.ImageFileReader()
            reader.SetFileName(str(file))
            if self.axes == 4:
                reader.SetExtractIndex([0, 0, 0, channel])
                reader.SetExtractSize([*self.grid.size, 0])
            image = reader.Execute()
        # (z, y, x) or (z, y, x, channel), a copy: the image goes out of scope.
        voxels: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
        if image.GetNumberOfComponentsPerPixel() > 1:
            voxels = voxels[..., channel]
        return voxels.T.reshape(self.grid.size)


def open_itk(path: Path) -> ItkFile:
    """Read and check the header."""
    if importlib.util.find_spec("SimpleITK") is None:
        raise NotFound(
            f"'{path}' needs the package 'SimpleITK';"
            " install the extra: pip install 'segmeter[volumes]'"
        )
    import SimpleITK

    check_regular(path)
    data = _data_file(path)
    reader = SimpleITK.ImageFileReader()
    with _refused(path), _plain(path) as file:
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
    with _refused(path):
        fields = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
    names = tuple(_names(fields))
    return ItkFile(path, itk_grid(reader, f"'{path}'"), channels, names, len(size))


def itk_grid(image: Any, what: str) -> Grid:
    """The grid of a SimpleITK image or reader; ITK counts to the left and to the back."""
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
    _check_header(path, head)
    packed, named = _PACKED_SIZE.search(head), _DATA_FILE.search(head)
    name = named[1].decode("utf-8", "replace") if named else "LOCAL"
    data = path if name.upper() == "LOCAL" else path.parent / name
    if data != path and (Path(name).name != name or not data.is_file()):
        raise BadInput(f"'{path}': its voxel file '{name}' is not in the same folder")
    if packed and int(packed[1]) > data.stat().st_size:
        raise BadInput(f"'{path}' is cut short: {int(packed[1])} packed bytes are not there")
    return data


def _check_header(path: Path, head: bytes) -> None:
    """Refuse a damaged header that ITK would follow outside its own memory."""
    end = re.search(rb"\n\r?\n|ElementDataFile[^\n]*\n", head)
    lines = head[: end.end() if end else None].split(b"\n")
    axes = [value for line in lines for value in _AXES.findall(line)]
    long = any(len(line) > _LINE and b":=" not in line for line in lines)
    if long or not axes or any(not value.isdigit() or not 2 <= int(value) <= 5 for value in axes):
        raise BadInput(f"'{path}' does not begin with the header of its format; it is damaged")


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


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Turn an error of ITK into one sentence."""
    try:
        yield
    except (RuntimeError, OSError, EOFError, TypeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1][:200] if lines else type(error).__name__
        raise BadInput(
            f"'{path}' breaks off, is damaged or not what it is named ({reason})"
        ) from error


def _names(fields: Mapping[str, str]) -> Iterator[Named]:
    """Labels named in the header: Slicer's segments, or JSON lists of name and value."""
    for key, name in fields.items():
        segment = re.fullmatch(r"(Segment\d+)_Name", key)
        if segment:
            value, layer = (fields.get(f"{segment[1]}_{k}", "") for k in ("LabelValue", "Layer"))
            yield Named(
                int(value) if value.isdigit() else 1, name, int(layer) if layer.isdigit() else 0
            )
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
