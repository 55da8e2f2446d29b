"""Masks kept as images of ids: labels, instances, ADE20K's colours, HDF5.

A reader lists the items of two folders, of images and of masks (or of one that holds both).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.datasets.data_roots import by_name, images_below, images_in
from segmeter.datasets.image_files import MOST_PIXELS, named_errors, read_values
from segmeter.datasets.mask_files import masks_of_values, one_number
from segmeter.datasets.zeroshot.listed import Item, Size


def label_png(
    images: Path,
    masks: Path,
    *,
    image_end: str = "",
    mask_end: str = "",
    ignore: Collection[int] = (),
    labels: Mapping[int, str] | None = None,
) -> dict[str, Item]:
    """A label image an image: a mask for each value but 0 and those ignored.

    Files are paired by their path inside the two folders, without suffix and without the
    given ends. Colours count as one number each.
    """

    def read(file: Path, size: Size) -> Iterator[Target]:
        for number, mask in masks_of_values(
            one_number(read_values(file)), f"'{file}'", {0, *ignore}
        ):
            yield Target(str(number), mask, label=(labels or {}).get(number, ""))

    return _pairs(_by_name(images, image_end), _by_name(masks, mask_end), read)


def id_png(
    images: Path,
    masks: Path,
    *,
    image_end: str = "",
    mask_end: str = "",
    stuff: Mapping[int, str],
    things: Mapping[int, str],
) -> dict[str, Item]:
    """Instance ids of 16 bits, as Cityscapes has them.

    An id below 1000 is a class that is not counted (stuff), others are class * 1000 + number.
    Classes that are named in neither list (void) are left out, and so are regions of
    countable classes without separate instances (id below 1000).
    """

    def read(file: Path, size: Size) -> Iterator[Target]:
        for number, mask in masks_of_values(one_number(read_values(file)), f"'{file}'", ()):
            kind, names = (number, stuff) if number < 1000 else (number // 1000, things)
            if kind in names:
                yield Target(str(number), mask, label=names[kind])

    return _pairs(_by_name(images, image_end), _by_name(masks, mask_end), read)


def folder_of_masks(images: Path, masks: Path) -> dict[str, Item]:
    """A folder per scene, with `images` that hold one image and `masks` of one object each."""
    found: dict[str, Item] = {}
    for folder in sorted(p for p in images.iterdir() if (p / "masks").is_dir()):
        inside = images_in(folder / "images")
        if len(inside) != 1:
            raise BadInput(f"'{folder / 'images'}' holds {len(inside)} images instead of one")
        files = tuple(images_in(folder / "masks"))
        found[folder.name] = Item(inside[0], partial(_file_masks, files), files)
    return found


def _file_masks(files: tuple[Path, ...], size: Size) -> Iterator[Target]:
    for file in files:
        yield Target(file.stem, Mask.of(one_number(read_values(file)) > 0))


def ade_png(images: Path, masks: Path) -> dict[str, Item]:
    """ADE20K: `NAME.jpg` with `NAME_seg.png`, `NAME_parts_1.png` and so on.

    Red and green encode the class, (R // 10) * 256 + G, blue the instance; class 0 is background.
    Parts are masks of their own.
    """
    found: dict[str, Item] = {}
    for file in sorted(images.rglob("*_seg.png")):
        name = file.name.removesuffix("_seg.png")
        image = file.with_name(f"{name}.jpg")
        if image.is_file():
            parts = sorted(file.parent.glob(f"{name}_parts_*.png"), key=_number)
            found[name] = Item(image, partial(_ade_masks, (file, *parts)), (file, *parts))
    return found


def _ade_masks(files: tuple[Path, ...], size: Size) -> Iterator[Target]:
    for level, file in enumerate(files):
        values = read_values(file)
        if values.ndim != 3:
            raise BadInput(f"'{file}' is grey; ADE20K codes classes in red and green")
        blue, green, red = np.moveaxis(values.astype(np.int64), 2, 0)
        kinds = (red // 10) * 256 + green
        for number, mask in masks_of_values(
            np.where(kinds > 0, kinds * 256 + blue, 0), f"'{file}'"
        ):
            kind, rank = divmod(number, 256)
            part = f"part{level}-" if level else ""
            yield Target(f"{part}{kind}-{rank}", mask, label=str(kind))


def hdf5_ids(images: Path, masks: Path) -> dict[str, Item]:
    """Hypersim's id image in an HDF5 file per image; -1 is nothing.

    `scene_cam_00_geometry_hdf5/frame.0000.semantic_instance.hdf5` shows what
    `scene_cam_00_final_preview/frame.0000.tonemap.jpg` does.
    """
    found: dict[str, Item] = {}
    end = ".semantic_instance.hdf5"
    for file in sorted(masks.glob(f"**/*{end}")):
        preview = file.parent.name.removesuffix("_geometry_hdf5") + "_final_preview"
        frame = file.name.removesuffix(end)
        image = file.parent.parent / preview / f"{frame}.tonemap.jpg"
        if image.is_file():
            found[_name_in(images, image)] = Item(image, partial(_hdf5_masks, file), (file,))
    return found


def _hdf5_masks(file: Path, size: Size) -> Iterator[Target]:
    for number, mask in masks_of_values(_read_hdf5(file, "dataset"), f"'{file}'", {-1}):
        yield Target(str(number), mask)


def _read_hdf5(file: Path, key: str) -> npt.NDArray[np.int64]:
    try:
        import h5py
    except ImportError as error:
        raise NotFound(f"'{file}' needs 'h5py': pip install 'segmeter[hdf5]'") from error
    with named_errors(file, "is not a complete HDF5 file"), h5py.File(file, "r") as opened:
        if key not in opened:
            raise BadInput(f"'{file}' has no '{key}'; it has {', '.join(opened) or 'nothing'}")
        stored = opened[key]
        if stored.ndim != 2 or stored.size > MOST_PIXELS or stored.dtype.kind not in "iu":
            raise BadInput(f"'{file}': '{key}' is not a map of whole numbers, one per pixel")
        return np.asarray(stored[()], dtype=np.int64)


def _pairs(
    images: Mapping[str, Path],
    masks: Mapping[str, Path],
    read: Callable[[Path, Size], Iterator[Target]],
) -> dict[str, Item]:
    return {
        name: Item(image, partial(read, masks[name]), (masks[name],))
        for name, image in images.items()
        if name in masks
    }


def _by_name(folder: Path, end: str) -> dict[str, Path]:
    """Images anywhere under a folder, by path without suffix and end."""
    ending = [p for p in images_below(folder) if p.stem.endswith(end)]
    return by_name(ending, lambda p: _name_in(folder, p).removesuffix(end), "have one name")


def _name_in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _number(path: Path) -> int:
    found = re.search(r"(\d+)\.png$", path.name)
    return int(found[1]) if found else 0
