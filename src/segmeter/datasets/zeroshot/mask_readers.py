"""Mask readers: images of ids (labels, instances, ADE20K's colours, HDF5) and outlines in JSON.

A reader lists the items of two places, of images and of masks (or of one that holds both). Outlines
are those of COCO, YouTube-VIS, VISOR, VIA, or of one file per image; every polygon is filled by
COCO's even-odd rule, and the parts of an object are united.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.coco_files import fill, outline, read_json
from segmeter.datasets.coco_json import CocoJson
from segmeter.datasets.data_roots import by_name, images_below, images_in
from segmeter.datasets.image_files import MOST_PIXELS, named_errors, read_values
from segmeter.datasets.mask_files import masks_of_values, one_number

Size = tuple[int, int]
Shape = tuple[str, str, Any]
"""Name, class and outline of an object."""
_OTHER = "is of another layout"
_NO_CARD = DatasetCard("coco", "", "", "")
_LISTS = ("annotation", "annotations", "objects", "shapes", "instances", "labels")
_OUTLINES = ("segmentation", "polygon", "points", "vertices")
_CLASSES = ("label", "tags", "class", "category", "name")


@dataclass(frozen=True, slots=True)
class Item:
    """One image; `masks` reads its targets, given its `(H, W)`, from `files`."""

    image: Path
    masks: Callable[[Size], Iterable[Target]]
    files: tuple[Path, ...] = ()


def label_png(
    images: Path,
    masks: Path,
    *,
    image_end: str = "",
    mask_end: str = "",
    ignore: Collection[int] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Item]:
    """A label image an image: a mask for each value but 0 and those ignored.

    Files are paired by their path inside the two folders, without suffix and without the
    given ends. Colours count as one number each; `labels` are classes by number.
    """

    def read(file: Path, size: Size) -> Iterator[Target]:
        values = one_number(read_values(file))
        for number, mask in masks_of_values(values, f"'{file}'", {0, *ignore}):
            yield Target(str(number), mask, label=(labels or {}).get(str(number), ""))

    return _pairs(_by_name(images, image_end), _by_name(masks, mask_end), read)


def id_png(
    images: Path,
    masks: Path,
    *,
    image_end: str = "",
    mask_end: str = "",
    stuff: Mapping[str, str],
    things: Mapping[str, str],
) -> dict[str, Item]:
    """Instance ids of 16 bits, as Cityscapes has them.

    An id below 1000 is a class that is not counted (stuff), others are class * 1000 + number.
    Classes that are named in neither list (void) are left out, and so are regions of
    countable classes without separate instances (id below 1000).
    """

    def read(file: Path, size: Size) -> Iterator[Target]:
        for number, mask in masks_of_values(one_number(read_values(file)), f"'{file}'", ()):
            kind, names = (number, stuff) if number < 1000 else (number // 1000, things)
            if str(kind) in names:
                yield Target(str(number), mask, label=names[str(kind)])

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
        numbers = np.where(kinds > 0, kinds * 256 + blue, 0)
        for number, mask in masks_of_values(numbers, f"'{file}'"):
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
    key = "dataset"
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
        values = np.asarray(stored[()], dtype=np.int64)
    for number, mask in masks_of_values(values, f"'{file}'", {-1}):
        yield Target(str(number), mask)


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


def coco_json(images: Path, annotations: Path) -> dict[str, Item]:
    """COCO's layout: a mask an annotation, its parts united; crowd regions are left out."""
    data = CocoJson(_NO_CARD, annotations, images)

    def masks(scene: str, size: Size) -> Iterable[Target]:
        return data.targets(scene)

    return {
        scene: Item(data.image(scene), partial(masks, scene), (annotations,))
        for scene in data.scenes()
    }


def ytvis_json(images: Path, annotations: Path) -> dict[str, Item]:
    """YouTube-VIS: for each track a mask a frame, null where it is absent.

    A scene is a frame with a mask; frames of one video share the group `image`.
    """
    data = read_json(annotations)
    found: dict[str, Item] = {}
    with named_errors(annotations, _OTHER):
        names = {c["id"]: str(c["name"]) for c in data.get("categories", ())}
        tracks = grouped(data["annotations"] or (), lambda track: track["video_id"])
        for video in data["videos"]:
            for t, file in enumerate(video["file_names"]):
                path = PurePosixPath(str(file))
                shapes = [
                    (str(k["id"]), names.get(k["category_id"], ""), k["segmentations"][t])
                    for k in tracks.get(video["id"], ())
                    if k["segmentations"][t] is not None
                ]
                image = images / str(file)
                if shapes and ".." not in path.parts and image.is_file():
                    group = path.parts[0] if len(path.parts) > 1 else str(video["id"])
                    masks = partial(_masks, annotations, shapes, outline, group)
                    found[str(path.with_suffix(""))] = Item(image, masks, (annotations,))
    return found


def visor_json(images: Path, annotations: Path) -> dict[str, Item]:
    """VISOR: a JSON file a video, with frames and the polygons of each entity there."""
    found: dict[str, Item] = {}
    files_by_name = _by_file_name(images)
    for file in sorted(annotations.rglob("*.json")):
        data = read_json(file)
        with named_errors(file, _OTHER):
            for frame in data["video_annotations"]:
                name = str(frame["image"]["name"])
                video = str(frame["image"].get("video") or name)
                shapes = [
                    (str(entity.get("id", place)), str(entity.get("name", "")),
                     entity.get("segments"))
                    for place, entity in enumerate(frame["annotations"], start=1)
                ]  # fmt: skip
                if name in files_by_name:
                    masks = partial(_masks, file, shapes, _united, video)
                    found[PurePosixPath(name).stem] = Item(files_by_name[name], masks, (file,))
    return found


def polygon_json(images: Path, annotations: Path) -> dict[str, Item]:
    """A JSON file per image, of the same name, with a list of objects and their polygons.

    The list is under one of annotation, annotations, objects, shapes, instances or labels
    (perhaps under the image's name first); a polygon under segmentation, polygon, points or
    vertices, as pairs or flat, or as a list of those.
    """

    def masks(file: Path, size: Size) -> Iterator[Target]:
        data = read_json(file)
        with named_errors(file, _OTHER):
            shapes = [_shape(file, k, one) for k, one in enumerate(_objects(data, file.stem), 1)]
        return _masks(file, shapes, _united, "", size)

    files_by_name = {path.stem: path for path in _by_file_name(images).values()}
    return {
        file.stem: Item(files_by_name[file.stem], partial(masks, file), (file,))
        for file in sorted(annotations.rglob("*.json"))
        if file.stem in files_by_name
    }


def via_json(images: Path, annotations: Path) -> dict[str, Item]:
    """VGG Image Annotator: regions with `all_points_x` and `all_points_y` for each image."""
    files = [annotations] if annotations.is_file() else sorted(annotations.rglob("*.json"))
    files_by_name = _by_file_name(images)
    found: dict[str, Item] = {}
    for file in files:
        data = read_json(file)
        with named_errors(file, _OTHER):
            for entry in data.get("_via_img_metadata", data).values():
                regions, name = entry["regions"], str(entry["filename"])
                listed = regions.values() if isinstance(regions, Mapping) else regions
                shapes = list(_regions(listed))
                if name in files_by_name and listed:
                    masks = partial(_masks, file, shapes, _united, "")
                    found[PurePosixPath(name).stem] = Item(files_by_name[name], masks, (file,))
    return found


def _masks(
    file: Path, shapes: Iterable[Shape], fill: Callable[..., Mask], group: str, size: Size
) -> Iterator[Target]:
    """The objects of an image; `group` is the video that it is a frame of."""
    for name, label, corners in shapes:
        mask = fill(corners, size, f"'{file}', object {name}")
        yield Target(name, mask, label=label, groups={"image": group} if group else {})


def _shape(file: Path, place: int, entry: Mapping[str, Any]) -> Shape:
    corners = next((entry[key] for key in _OUTLINES if key in entry), None)
    if corners is None:
        raise BadInput(f"'{file}', object {place} has no outline: none of {', '.join(_OUTLINES)}")
    label = next((entry[key] for key in _CLASSES if entry.get(key)), "")
    label = label[0] if isinstance(label, list) else label
    return str(entry.get("id", place)), str(label), corners


def _objects(data: Any, stem: str) -> list[Mapping[str, Any]]:
    """The list of objects, at any of the known places."""
    if isinstance(data, Mapping):
        inner = next((v for k, v in data.items() if PurePosixPath(str(k)).stem == stem), None)
        if inner is not None:
            return _objects(inner, "")
        data = next((data[key] for key in _LISTS if isinstance(data.get(key), list)), None)
    if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
        raise ValueError(f"no list of objects under any of {', '.join(_LISTS)}")
    return data


def _regions(regions: Iterable[Mapping[str, Any]]) -> Iterator[Shape]:
    """The polygons among the regions of VIA, by their places."""
    for place, region in enumerate(regions, start=1):
        shape = region.get("shape_attributes") or {}
        if shape.get("name") in ("polygon", "polyline"):
            attributes = region.get("region_attributes") or {}
            label = next((str(value) for value in attributes.values() if value), "")
            corners = zip(shape["all_points_x"], shape["all_points_y"], strict=True)
            yield str(place), label, [list(corners)]


def _united(outlines: Any, size: Size, where: str) -> Mask:
    """The union of polygons, each a flat list or one of pairs; or of one such polygon."""
    try:
        # Fewer than three corners enclose nothing.
        return fill([polygon for polygon in _polygons(outlines) if len(polygon) >= 6], size)
    except (BadInput, TypeError, ValueError, KeyError, IndexError) as error:
        raise BadInput(f"{where}: its outline cannot be read: {str(error)[:120]}") from error


def _polygons(outlines: Any) -> Iterable[list[float]]:
    if not outlines:
        return []
    first = outlines[0]
    if not isinstance(first, list | tuple):
        return [[float(n) for n in outlines]]
    if first and isinstance(first[0], list | tuple):
        return [[float(n) for pair in polygon for n in pair] for polygon in outlines]
    if len(first) == 2:
        return [[float(n) for pair in outlines for n in pair]]
    return [[float(n) for n in polygon] for polygon in outlines]


def _by_file_name(folder: Path) -> dict[str, Path]:
    return by_name(images_below(folder), lambda path: path.name, "have one name")
