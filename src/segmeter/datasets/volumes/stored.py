"""Stored volumes: the header and grid of a file, and its voxels when they are needed.

A grid is the position of a file's voxels in the body. A scene's axes are canonical: z to Superior,
y to Anterior, x to Right, by permutation and flips of the file's own axes; nothing is resampled.
The assignment of axes is that of nibabel, so oblique grids turn to the nearest one of the 48
orientations.

Sizes are checked before anything is unpacked: a header may not claim more than any scan has,
more than the file can hold, or more memory than a machine has.

NIfTI files are read with nibabel: the header first, voxels late, memory-mapped where plain.
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
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.scenes import SceneHeader
from segmeter.datasets.image_files import named_errors

Affine = npt.NDArray[np.float64]
_SAME = 0.1  # of the smallest voxel side: files round their affines
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
_DAMAGED = "is truncated, damaged or not of the type that its name states"
_DATA_FILE = re.compile(rb"^(?:data ?file:|ElementDataFile *=)[ \t]*(\S[^\r\n]*?)[ \t]*\r?$", re.M)
_PACKED_SIZE = re.compile(rb"^CompressedDataSize *= *(\d+)", re.M)
_BZIP2 = re.compile(rb"^encoding: *bz(?:ip)?2 *$", re.M | re.I)
_SCALARS = re.compile(r"(?:vector of )?(\d+)-bit (?:un)?(?:signed integer|float)")


@dataclass(frozen=True)
class Grid:
    """The grid of a file: voxels along its own axes `(i, j, k)`, and its affine to RAS+ mm.

    The affine maps `(i, j, k, 1)` to millimetres `(right, anterior, superior, 1)`.

    >>> grid = Grid((7, 9, 5), [[0, 0, 1, 0], [-2, 0, 0, 12], [0, 3, 0, 0], [0, 0, 0, 1]])
    >>> grid.code, grid.shape, grid.spacing_mm
    ('PSR', (9, 7, 5), (3.0, 2.0, 1.0))
    >>> grid.file_index((3, 2, 1))
    (4, 3, 1)
    """

    size: tuple[int, ...]
    affine: Affine

    def __init__(self, size: Sequence[int], affine: npt.ArrayLike) -> None:
        object.__setattr__(self, "size", tuple(map(int, size)))
        matrix = np.asarray(affine, dtype=np.float64)
        matrix.flags.writeable = False
        object.__setattr__(self, "affine", matrix)

    def check(self, what: str) -> Grid:
        """Refuse an affine that maps nowhere, and sizes that are none."""
        if min(self.size) < 1:
            raise BadInput(f"{what} has no voxels: its size is {' x '.join(map(str, self.size))}")
        if self.affine.shape != (4, 4) or not np.isfinite(self.affine).all():
            raise BadInput(f"{what}: its affine holds numbers that are not finite; fix its header")
        directions = self.affine[:3, :3]
        sides = np.linalg.norm(directions, axis=0)
        if sides.min() <= 0 or abs(np.linalg.det(directions / sides)) < 1e-6:
            raise BadInput(
                f"{what}: its affine cannot be inverted (voxel sides"
                f" {', '.join(f'{s:g}' for s in sides)} mm, axes in one plane or of no length);"
                " fix its header"
            )
        return self

    @cached_property
    def axes(self) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        """World axis (0 right, 1 anterior, 2 superior) of each file axis; which are flipped.

        The nearest rotation to the affine's directions (by SVD) is made; file axes go in order
        of their largest absolute entry, the first of equals first, and each takes the world axis
        that is still free and has its largest entry.
        """
        directions = self.affine[:3, :3]
        sides = np.linalg.norm(directions, axis=0)
        scaled = directions / np.where(sides == 0, 1, sides)
        left, strengths, right = np.linalg.svd(scaled)
        kept = strengths > strengths.max() * 3 * np.finfo(np.float64).eps
        rotation = left[:, kept] @ right[kept]
        entries = np.abs(rotation)
        world, flipped = [0, 0, 0], [False] * 3
        for axis in np.argsort(-entries.max(axis=0), kind="stable"):
            chosen = int(entries[:, axis].argmax())
            world[axis], flipped[axis] = chosen, bool(rotation[chosen, axis] < 0)
            entries[chosen] = -1  # taken
        return tuple(world), tuple(flipped)

    @property
    def code(self) -> str:
        """Directions of the file's axes, such as `LPS`."""
        world, flipped = self.axes
        return "".join(("LPI" if f else "RAS")[w] for w, f in zip(world, flipped, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """`(Z, Y, X)` of the scene."""
        return tuple(self.size[axis] for axis in self._order)

    @property
    def spacing_mm(self) -> tuple[float, ...]:
        """Distance of neighbours along `(z, y, x)`: the norms of the affine's columns."""
        sides = np.linalg.norm(self.affine[:3, :3], axis=0)
        return tuple(float(sides[axis]) for axis in self._order)

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        """For each axis `(z, y, x)`: the file's axis, its index of the first slice, the step.

        >>> Grid((7, 9, 5), np.diag([-1, 1, 2, 1])).slice_numbers
        (('k', 0, 1), ('j', 0, 1), ('i', 6, -1))
        """
        flipped = self.axes[1]
        return tuple(
            ("ijk"[a], self.size[a] - 1 if flipped[a] else 0, -1 if flipped[a] else 1)
            for a in self._order
        )

    @cached_property
    def scene_affine(self) -> Affine:
        """4 x 4, from the scene's `(z, y, x, 1)` to RAS+ mm."""
        to_file = np.zeros((4, 4))
        to_file[3, 3] = 1
        world, flipped = self.axes
        for axis, (w, f) in enumerate(zip(world, flipped, strict=True)):
            to_file[axis, 2 - w] = -1 if f else 1
            to_file[axis, 3] = self.size[axis] - 1 if f else 0
        return self.affine @ to_file

    def header(self, channels: int = 1) -> SceneHeader:
        a, b, c, d = ((float(p), float(q), float(r), float(s)) for p, q, r, s in self.scene_affine)
        return SceneHeader("volume", self.shape, self.spacing_mm, (a, b, c, d), channels)

    def to_scene(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array along the file's axes, turned to `(Z, Y, X)`; a view where it can be."""
        _, flipped = self.axes
        turned = array[tuple(slice(None, None, -1 if f else 1) for f in flipped)]
        return turned.transpose(self._order)

    def to_file(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array `(Z, Y, X)` of the scene along the file's own axes again."""
        world, flipped = self.axes
        turned = array.transpose([2 - w for w in world])
        return turned[tuple(slice(None, None, -1 if f else 1) for f in flipped)]

    def file_index(self, point: Sequence[float]) -> tuple[float, ...]:
        """The file's `(i, j, k)` of a scene's point `(z, y, x)`."""
        world, flipped = self.axes
        return tuple(
            n - 1 - point[2 - w] if f else point[2 - w]
            for n, w, f in zip(self.size, world, flipped, strict=True)
        )

    def distance_mm(self, other: Grid) -> float:
        """The largest distance between two grids' positions of the same voxel."""
        ends = [(0, n - 1) for n in self.shape]
        corners = np.array([(*corner, 1) for corner in product(*ends)], dtype=float).T
        apart = (self.scene_affine - other.scene_affine) @ corners
        return float(np.linalg.norm(apart[:3], axis=0).max())

    def same(self, other: Grid) -> bool:
        """Whether two files hold the same voxels, in any storage order."""
        if self.shape != other.shape:
            return False
        return self.distance_mm(other) <= _SAME * min(self.spacing_mm)

    def offset_of(self, other: Grid) -> tuple[int, ...] | None:
        """Offset `(z, y, x)` of another grid of the same voxels in this one; else None."""
        between = np.linalg.inv(self.scene_affine) @ other.scene_affine
        low = between[:3, 3].round().astype(int)
        reach = _SAME / max(*other.shape, 1)
        aligned = np.allclose(between[:3, :3], np.eye(3), atol=reach)
        whole = np.abs(between[:3, 3] - low).max() < _SAME
        return tuple(low.tolist()) if aligned and whole else None

    @property
    def _order(self) -> list[int]:
        """The file's axes that become z, y and x."""
        return [self.axes[0].index(world) for world in (2, 1, 0)]


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
    """Whether a file's name is that of a volume; hidden files are skipped."""
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
    """Read and check the header of a `.nii` or `.nii.gz`.

    Scaled values are float32, plain ones keep their type.
    """
    need(f"'{path}'", "nibabel")
    with named_errors(path, "cannot be read as NIfTI"):
        import nibabel

        image = nibabel.load(path)
        header, stored = image.header, image.dataobj
        size = tuple(int(n) for n in header["dim"][1 : 1 + int(header["dim"][0])])
        shape, kind = header.get_data_shape(), header.get_data_dtype()
        offset, slope, inter, affine = stored.offset, stored.slope, stored.inter, image.affine
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
        with named_errors(path, "is truncated or damaged"):
            raw = np.asarray(proxy[part] if channels > 1 else proxy)
        voxels: npt.NDArray[Any] = raw.reshape(spatial, order="F")
        if slope == 1 and not inter:
            return voxels
        return voxels.astype(np.float32) * np.float32(slope) + np.float32(inter)

    return Stored(path, Grid(spatial, affine).check(f"'{path}'"), channels, load)


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
