"""Masks kept as outlines in JSON: COCO, YouTube-VIS, VISOR, one file per image, VIA.

Every polygon is filled by COCO's even-odd rule, and the parts of an object are united.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.coco_json import CocoJson
from segmeter.datasets.coco_outlines import fill, outline
from segmeter.datasets.data_roots import images_below
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.zeroshot.listed import Item

Size = tuple[int, int]
Made = TypeVar("Made")
_NO_CARD = DatasetCard("coco", "", "", "")
_LISTS = ("annotation", "annotations", "objects", "shapes", "instances", "labels")
_OUTLINES = ("segmentation", "polygon", "points", "vertices")
_CLASSES = ("label", "tags", "class", "category", "name")


def coco_json(annotations: Path, images: Path) -> dict[str, Item]:
    """COCO's layout: a mask an annotation, its parts united; crowd regions are left out."""
    data = CocoJson(_NO_CARD, annotations, images)
    return {
        scene: Item(data.image(scene), partial(_coco_masks, data, scene), (annotations,))
        for scene in data.scenes()
    }


def ytvis_json(annotations: Path, images: Path) -> dict[str, Item]:
    """YouTube-VIS: for each track a mask a frame, null where it is absent.

    A scene is a frame with a mask; frames of one video share the group `image`.
    """
    data = _loaded(annotations)
    return _parsed(annotations, lambda: _frames(data, annotations, images))


def visor_json(annotations: Path, images: Path) -> dict[str, Item]:
    """VISOR: a JSON file a video, with frames and the polygons of each entity there."""
    found: dict[str, Item] = {}
    files_by_name = _by_file_name(images)
    for file in sorted(annotations.rglob("*.json")):
        entries = _parsed(file, partial(_visor_frames, _loaded(file)))
        for name, video, entities in entries:
            if name in files_by_name:
                masks = partial(_entity_masks, entities, file)
                item = Item(files_by_name[name], masks, (file,), {"image": video})
                found[PurePosixPath(name).stem] = item
    return found


def polygon_json(annotations: Path, images: Path) -> dict[str, Item]:
    """A JSON file per image, of the same name, with a list of objects and their polygons.

    The list is under one of annotation, annotations, objects, shapes, instances or labels
    (perhaps under the image's name first); a polygon under segmentation, polygon, points or
    vertices, as pairs or flat, or as a list of those.
    """
    files_by_name = {path.stem: path for path in _by_file_name(images).values()}
    return {
        file.stem: Item(files_by_name[file.stem], partial(_polygon_masks, file), (file,))
        for file in sorted(annotations.rglob("*.json"))
        if file.stem in files_by_name
    }


def via_json(annotations: Path, images: Path) -> dict[str, Item]:
    """VGG Image Annotator: regions with `all_points_x` and `all_points_y` for each image."""
    files = [annotations] if annotations.is_file() else sorted(annotations.rglob("*.json"))
    files_by_name = _by_file_name(images)
    found: dict[str, Item] = {}
    for file in files:
        for name, regions in _parsed(file, partial(_via_images, _loaded(file))):
            if name in files_by_name and regions:
                masks = partial(_via_masks, regions, file)
                found[PurePosixPath(name).stem] = Item(files_by_name[name], masks, (file,))
    return found


def _coco_masks(data: CocoJson, scene: str, size: Size) -> Iterator[Target]:
    for target in data.load(scene).targets:
        if target.mask.shape != size:
            raise BadInput(f"{scene}: object {target.id} is not of its image's size")
        yield target


def _frames(data: Any, annotations: Path, images: Path) -> dict[str, Item]:
    names = {c["id"]: str(c["name"]) for c in data.get("categories", ())}
    tracks: dict[Any, list[Mapping[str, Any]]] = {}
    for track in data["annotations"] or ():
        tracks.setdefault(track["video_id"], []).append(track)
    found: dict[str, Item] = {}
    for video in data["videos"]:
        for t, file in enumerate(video["file_names"]):
            path = PurePosixPath(str(file))
            shown = [
                (str(k["id"]), names.get(k["category_id"], ""), k["segmentations"][t])
                for k in tracks.get(video["id"], ())
                if k["segmentations"][t] is not None
            ]
            image = images / str(file)
            if shown and ".." not in path.parts and image.is_file():
                masks = partial(_track_masks, shown, annotations)
                groups = {"image": path.parts[0] if len(path.parts) > 1 else str(video["id"])}
                found[str(path.with_suffix(""))] = Item(image, masks, (annotations,), groups)
    return found


def _track_masks(shown: Sequence[tuple[str, str, Any]], file: Path, size: Size) -> Iterator[Target]:
    for name, label, segmentation in shown:
        mask = outline(segmentation, size, f"'{file}', track {name}")
        if mask.shape != size:
            raise BadInput(f"'{file}', track {name}: its mask is not of its frame's size")
        yield Target(name, mask, label=label)


def _visor_frames(data: Any) -> list[tuple[str, str, list[Mapping[str, Any]]]]:
    return [
        (
            str(frame["image"]["name"]),
            str(frame["image"].get("video") or frame["image"]["name"]),
            list(frame["annotations"]),
        )
        for frame in data["video_annotations"]
    ]


def _entity_masks(
    entities: Sequence[Mapping[str, Any]], file: Path, size: Size
) -> Iterator[Target]:
    for place, entity in enumerate(entities, start=1):
        mask = _united(entity.get("segments"), size, f"'{file}', entity {place}")
        yield Target(str(entity.get("id", place)), mask, label=str(entity.get("name", "")))


def _polygon_masks(file: Path, size: Size) -> Iterator[Target]:
    entries = _parsed(file, lambda: _objects(_loaded(file), file.stem))
    for place, entry in enumerate(entries, start=1):
        where = f"'{file}', object {place}"
        corners = next((entry[key] for key in _OUTLINES if key in entry), None)
        if corners is None:
            raise BadInput(f"{where} has no outline: none of {', '.join(_OUTLINES)}")
        label = next((entry[key] for key in _CLASSES if entry.get(key)), "")
        label = label[0] if isinstance(label, list) else label
        mask = _united(corners, size, where)
        yield Target(str(entry.get("id", place)), mask, label=str(label))


def _objects(data: Any, stem: str) -> list[Mapping[str, Any]]:
    """The list of objects, wherever it stands."""
    if isinstance(data, Mapping):
        inner = next((v for k, v in data.items() if PurePosixPath(str(k)).stem == stem), None)
        if inner is not None:
            return _objects(inner, "")
        data = next((data[key] for key in _LISTS if isinstance(data.get(key), list)), None)
    if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
        raise ValueError(f"no list of objects under any of {', '.join(_LISTS)}")
    return data


def _via_images(data: Any) -> list[tuple[str, list[Mapping[str, Any]]]]:
    entries = data.get("_via_img_metadata", data)
    found = []
    for entry in entries.values():
        regions = entry["regions"]
        listed = list(regions.values()) if isinstance(regions, Mapping) else list(regions)
        found.append((str(entry["filename"]), listed))
    return found


def _via_masks(regions: Sequence[Mapping[str, Any]], file: Path, size: Size) -> Iterator[Target]:
    for place, region in enumerate(regions, start=1):
        shape = region.get("shape_attributes") or {}
        if shape.get("name") not in ("polygon", "polyline"):
            continue
        corners = _parsed(file, partial(_pairs, shape))
        attributes = region.get("region_attributes") or {}
        label = next((str(value) for value in attributes.values() if value), "")
        mask = _united([corners], size, f"'{file}', region {place}")
        yield Target(str(place), mask, label=label)


def _pairs(shape: Mapping[str, Any]) -> list[tuple[float, float]]:
    return list(zip(shape["all_points_x"], shape["all_points_y"], strict=True))


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


def _loaded(file: Path) -> Any:
    with named_errors(file, "is not JSON"):
        return json.loads(file.read_bytes())


def _parsed(file: Path, parse: Callable[[], Made]) -> Made:
    with named_errors(file, "is of another layout"):
        return parse()


def _by_file_name(folder: Path) -> dict[str, Path]:
    """Images anywhere under a folder, by file name."""
    found: dict[str, Path] = {}
    for path in images_below(folder):
        if found.setdefault(path.name, path) is not path:
            raise BadInput(
                f"'{found[path.name]}' and '{path}' have one name; move one of them away"
            )
    return found
