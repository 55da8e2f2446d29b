"""NRRD files: images, label maps, and layers of labels that overlap (`.in.nrrd`, `.seg.nrrd`)."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.pictures import check_regular
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import Named, check_claim, plain_numbers

__all__ = ["NrrdFile", "open_nrrd"]

_TYPES = {
    **dict.fromkeys(("signed char", "int8", "int8_t"), "i1"),
    **dict.fromkeys(("uchar", "unsigned char", "uint8", "uint8_t"), "u1"),
    **dict.fromkeys(("short", "short int", "signed short", "int16", "int16_t"), "i2"),
    **dict.fromkeys(("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"), "u2"),
    **dict.fromkeys(("int", "signed int", "int32", "int32_t"), "i4"),
    **dict.fromkeys(("uint", "unsigned int", "uint32", "uint32_t"), "u4"),
    **dict.fromkeys(("longlong", "long long", "int64", "int64_t"), "i8"),
    **dict.fromkeys(("ulonglong", "unsigned long long", "uint64", "uint64_t"), "u8"),
    "float": "f4",
    "double": "f8",
}
_SPACES = {
    "right-anterior-superior": (1, 1, 1),
    "ras": (1, 1, 1),
    "left-anterior-superior": (-1, 1, 1),
    "las": (-1, 1, 1),
    "left-posterior-superior": (-1, -1, 1),
    "lps": (-1, -1, 1),
}
_UNSAID = (-1, -1, 1)  # a file that names no space is left-posterior-superior, as ITK has it
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class NrrdFile:
    """An NRRD file whose header was read; `layer_axis` is where several channels lie."""

    path: Path
    grid: Grid
    channels: int
    names: Sequence[Named]
    sizes: tuple[int, ...]
    layer_axis: int | None
    kind: np.dtype[Any]
    encoding: str
    data: tuple[Path, int]  # the file with the voxels, and where in it they begin
    modality: str = ""

    def read(self, channel: int = 0) -> npt.NDArray[Any]:
        """One channel along the file's axes; memory-mapped where it lies plain."""
        whole = self._voxels().reshape(self.sizes, order="F")
        part = whole if self.layer_axis is None else whole.take(channel, axis=self.layer_axis)
        return part.reshape(self.grid.size, order="F")

    def _voxels(self) -> npt.NDArray[Any]:
        path, offset = self.data
        count = int(np.prod(self.sizes))
        if self.encoding == "raw":
            return np.memmap(path, self.kind, "r", offset, (count,))
        wanted = count * self.kind.itemsize
        with path.open("rb") as file:
            file.seek(offset)
            raw = _unpacked(path, file, self.encoding, wanted)
        return np.frombuffer(raw, self.kind, count)


def open_nrrd(path: Path) -> NrrdFile:
    """Read and check the header."""
    header, offset = _header(path)
    try:
        return _described(path, header, offset)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        reason = str(error).split("\n")[0]
        raise BadInput(f"'{path}': its header makes no sense: {reason}") from error


def _described(path: Path, header: Mapping[str, Any], offset: int) -> NrrdFile:
    sizes, kind = _sizes(path, header), _kind(path, header)
    encoding = _encoding(path, header)
    data = _data(path, header, offset)
    packed = encoding != "raw"
    check_claim(data[0], _largest_last(sizes), kind.itemsize, data[1], packed)
    directions, layer_axis = _directions(path, header, len(sizes))
    spatial = [n for axis, n in enumerate(sizes) if axis != layer_axis]
    signs = _SPACES.get(str(header.get("space", "")).lower(), _UNSAID)
    affine = np.eye(4)
    affine[:3, :3] = directions.T
    affine[:3, 3] = _origin(header)
    affine[:3] *= np.array(signs)[:, None]
    grid = Grid((*spatial, *(1,) * (3 - len(spatial))), affine).check(f"'{path}'")
    channels = 1 if layer_axis is None else sizes[layer_axis]
    names = tuple(_names(header))
    return NrrdFile(path, grid, channels, names, sizes, layer_axis, kind, encoding, data)


def _header(path: Path) -> tuple[Mapping[str, Any], int]:
    if importlib.util.find_spec("nrrd") is None:
        raise NotFound(
            f"'{path}' is NRRD, which needs the package 'pynrrd';"
            " install the extra: pip install 'segmeter[volumes]'"
        )
    import nrrd

    check_regular(path)
    try:
        with path.open("rb") as file:
            header = nrrd.read_header(file)
            return header, file.tell()
    except (nrrd.NRRDError, OSError, ValueError, KeyError, IndexError, StopIteration) as error:
        reason = str(error).split("\n")[0]
        raise BadInput(f"'{path}' cannot be read as NRRD: {reason}") from error


def _sizes(path: Path, header: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in header.get("sizes", ()))
    if not 2 <= len(sizes) <= 4:
        raise BadInput(f"'{path}' has {len(sizes)} axes; three in space and one more will do")
    return sizes


def _kind(path: Path, header: Mapping[str, Any]) -> np.dtype[Any]:
    name = str(header.get("type", ""))
    if name not in _TYPES:
        raise BadInput(f"'{path}': its voxels are '{name}', not plain numbers; convert the file")
    order = ">" if header.get("endian") == "big" else "<"
    kind: np.dtype[Any] = np.dtype(order + _TYPES[name])
    plain_numbers(path, kind)
    return kind


def _encoding(path: Path, header: Mapping[str, Any]) -> str:
    encoding = str(header.get("encoding", "raw")).lower()
    known = {"raw": "raw", "gzip": "gzip", "gz": "gzip", "bzip2": "bzip2", "bz2": "bzip2"}
    if encoding not in known:
        raise BadInput(f"'{path}' is written as '{encoding}'; raw, gzip and bzip2 are read")
    return known[encoding]


def _data(path: Path, header: Mapping[str, Any], offset: int) -> tuple[Path, int]:
    """The file with the voxels: this one, or one beside it; never one elsewhere."""
    if any(header.get(key, 0) for key in ("line skip", "lineskip", "byte skip", "byteskip")):
        raise BadInput(f"'{path}' skips lines or bytes before its voxels; convert the file")
    named = header.get("data file", header.get("datafile"))
    if named is None:
        return path, offset
    beside = path.parent / str(named)
    if Path(str(named)).name != str(named) or not beside.is_file():
        raise BadInput(f"'{path}': its voxels, '{named}', are not in a file beside it")
    return beside, 0


def _directions(
    path: Path, header: Mapping[str, Any], axes: int
) -> tuple[npt.NDArray[np.float64], int | None]:
    """A row of millimetres for each axis in space, and which axis holds layers."""
    rows = header.get("space directions")
    kinds = [str(k) for k in header.get("kinds", [])]
    missing = [i for i, row in enumerate(_rows(rows)) if row is None or not np.isfinite(row).any()]
    named = [i for i, k in enumerate(kinds) if k not in ("domain", "space", "time", "???", "none")]
    layers = missing or named or ([0] if axes == 4 else [])
    if len(layers) > 1 or axes - len(layers) > 3:
        raise BadInput(f"'{path}' has more than one axis that does not lie in space")
    layer = layers[0] if layers else None
    if rows is None:
        spacings = [float(s) for s in header.get("spacings", [1.0] * axes)]
        found = [s if np.isfinite(s) else 1.0 for i, s in enumerate(spacings) if i != layer]
        return np.diag([*found, *(1.0,) * (3 - len(found))]), layer
    found_rows = [row for i, row in enumerate(_rows(rows)) if i != layer]
    if len(found_rows) != 3:
        raise BadInput(f"'{path}' has {len(found_rows)} axes in space; three are needed")
    return np.array(found_rows, dtype=float), layer


def _rows(rows: Any) -> list[Any]:
    return [] if rows is None else [None if row is None else np.asarray(row) for row in rows]


def _origin(header: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    origin = header.get("space origin")
    return np.zeros(3) if origin is None else np.asarray(origin, dtype=float)[:3]


def _largest_last(sizes: Sequence[int]) -> list[int]:
    """With the axis of the layers behind those in space: it is the smallest."""
    return sorted(sizes, reverse=True)


def _unpacked(path: Path, file: BinaryIO, encoding: str, wanted: int) -> bytearray:
    """As many bytes as the header promised; what comes after them is never unpacked."""
    stream = gzip.GzipFile(fileobj=file) if encoding == "gzip" else bz2.BZ2File(file)
    raw = bytearray()
    try:
        while len(raw) < wanted:
            piece = stream.read(min(_PIECE, wanted - len(raw)))
            if not piece:
                break
            raw += piece
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise BadInput(f"'{path}' breaks off or is damaged ({error})") from error
    if len(raw) < wanted:
        raise BadInput(f"'{path}' breaks off: {len(raw)} of {wanted} bytes of voxels are there")
    return raw


def _names(header: Mapping[str, Any]) -> Iterator[Named]:
    """Labels that the header names: Slicer's segments, or JSON lists of name and value."""
    for key, name in header.items():
        segment = re.fullmatch(r"(Segment\d+)_Name", str(key))
        if segment:
            value = int(header.get(f"{segment[1]}_LabelValue", 1))
            yield Named(value, str(name), int(header.get(f"{segment[1]}_Layer", 0)))
        elif isinstance(name, str) and name.lstrip()[:1] in ("[", "{"):
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
