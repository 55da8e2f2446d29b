"""A JSON file of COCO's layout and its images.

Crowd regions (objects that COCO's annotators did not separate) are targets only on request.
Objects whose outline covers no pixel are skipped.

SA-Co has phrases, and the masks of all objects they name, by several annotators: the folder holds
one such file per annotator, with the same pairs of image and phrase (`text_input`) under `images`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import HasPhrases, HasVocabulary, PhraseObjects, capable
from segmeter.core.detection_ground_truth import Category, DetectionGroundTruth, TrueObject
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Target, size_in_words
from segmeter.datasets import data_roots
from segmeter.datasets.coco_files import Index, Places, index_of, outline, read_json
from segmeter.datasets.data_roots import SceneSet
from segmeter.datasets.image_files import MOST_PIXELS, image_size, named_errors, read_rgb

Crowd = Literal["leave-out", "keep"]
_COCO, _LVIS = data_roots.card_of("coco"), data_roots.card_of("lvis")
Entry = Mapping[str, Any]
_SACO = data_roots.card_of("saco")
_OTHER_LAYOUT = "is not in SA-Co's layout"


@dataclass(frozen=True, slots=True)
class _Image:
    """One image record, its index, the places where its file may be, its objects' indices."""

    number: int
    record: Mapping[str, Any]
    files: tuple[str, ...]
    size: tuple[int, int]
    things: Places


@dataclass(frozen=True, slots=True)
class CocoRecords:
    """Records of an annotation file, unchanged: an image, its objects by target, categories.

    `path` is where the image is below its folder.
    """

    path: str
    image: Mapping[str, Any]
    objects: Mapping[str, Mapping[str, Any]]
    categories: Sequence[Mapping[str, Any]]


@capable(HasVocabulary)
class CocoImage(Image):
    """An image of COCO or LVIS with the annotations that detections are scored against."""

    def __init__(self, source: CocoJson, scene: str) -> None:
        self.source_file = source.image(scene)
        self._source = source
        super().__init__(
            source.card.name, scene, lambda: source.pixels(scene), lambda: source.targets(scene),
            file_name=source.below(self.source_file),
        )  # fmt: skip

    @cached_property
    def detection_ground_truth(self) -> DetectionGroundTruth:
        """Classes, areas, boxes and crowd regions as the annotations state them."""
        return self._source.detection_ground_truth(self.id)

    @cached_property
    def records(self) -> CocoRecords:
        return self._source.records(self.id)

    @property
    def absent_classes(self) -> list[str]:
        """Classes without an object here; with LVIS those that the image was searched for."""
        found = self.detection_ground_truth
        there = {thing.category for thing in found.objects}
        if found.federated:
            return [c.name for c in found.categories if c.id in set(found.negative) - there]
        return [c.name for c in found.categories if c.id not in there]

    @property
    def classes_by_scene(self) -> Mapping[str, frozenset[str]]:
        """The classes of every image of the file."""
        return self._source.classes_by_scene


class CocoJson(SceneSet[Path]):
    """A JSON file of COCO's layout and a folder of images; its card counts the objects.

    Scenes are the available images that have objects, by file name without suffix, in the file's
    order. With `crowd="keep"` crowd regions are targets too.
    """

    def __init__(
        self, card: DatasetCard, annotations: Path, images: Path, crowd: Crowd = "leave-out"
    ) -> None:
        check_choice("crowd", crowd, ("leave-out", "keep"))
        self._annotations, self._images = annotations, images
        with self._of_coco():
            self._index = index_of(annotations)
            self._listed = _parse(self._index, crowd == "keep")
        found = self._available(images)
        data_roots.require_some(card.name, list(self._listed), list(found), images)
        absent = [name for name in self._listed if name not in found]
        crowds = 0 if crowd == "keep" else int(self._index.crowd.sum())
        counted = replace(
            card,
            targets=sum(len(image.things) for image in self._listed.values()),
            notes=card.notes + (f" Crowd regions left out: {crowds}." if crowds else ""),
            missing=data_roots.lacking("images", absent, len(self._listed), images),
        )
        super().__init__(
            counted,
            found,
            lambda scene, _: CocoImage(self, scene),
            lambda _, image: (annotations, image),
            {name: f"no image '{self._listed[name].files[0]}' in '{images}'" for name in absent},
        )

    def image(self, scene: str) -> Path:
        return self._sources[scene]

    def below(self, image: Path) -> str:
        """The path of an image below the folder of all; elsewhere its name."""
        inside = image.is_relative_to(self._images)
        return image.relative_to(self._images).as_posix() if inside else image.name

    def pixels(self, scene: str) -> npt.NDArray[np.uint8]:
        return read_rgb(self.image(scene))

    def coco_header(self) -> dict[str, Any]:
        """Ids and sizes of all images, and all classes, as the file has them; no object."""
        images = [
            {"id": i["id"], "height": int(i["height"]), "width": int(i["width"])}
            for i in self._index.images
        ]
        return {"images": images, "annotations": [], "categories": list(self._index.categories)}

    def detection_ground_truth(self, scene: str) -> DetectionGroundTruth:
        """All annotations of an image, crowd regions too, as the file states them."""
        image = self._listed[scene]
        record = image.record
        with self._of_coco():
            places = np.flatnonzero(self._index.image == image.number)
            objects = [self._object(r, image) for r in self._index.read(places)]
            kept = tuple(thing for thing in objects if thing.mask or thing.crowd)
            lists = ("neg_category_ids", "not_exhaustive_category_ids")
            known = int(record["id"]), image.size, self._categories, kept, lists[0] in record
            return DetectionGroundTruth(*known, *(tuple(record.get(n) or ()) for n in lists))

    def records(self, scene: str) -> CocoRecords:
        """Records of an image, its objects and all categories, as the file has them."""
        image = self._listed[scene]
        with self._of_coco():
            things = {str(r["id"]): r for r in self._index.read(image.things)}
        return CocoRecords(image.files[0], image.record, things, self._index.categories)

    @cached_property
    def classes_by_scene(self) -> dict[str, frozenset[str]]:
        """The classes of every image available."""
        names, found = {category.id: category.name for category in self._categories}, {}
        for scene in self._sources:
            classes = {r["category_id"] for r in self._index.read(self._listed[scene].things)}
            found[scene] = frozenset(names[number] for number in classes & names.keys())
        return found

    def _mask(self, record: Mapping[str, Any], image: _Image) -> Mask:
        where = f"'{self._annotations}', object {record['id']}"
        return outline(record.get("segmentation"), image.size, where)

    def _object(self, record: Mapping[str, Any], image: _Image) -> TrueObject:
        mask = self._mask(record, image)
        area, crowd = float(record.get("area", mask.area)), bool(record.get("iscrowd"))
        (top, left), (bottom, right) = mask.low, mask.high
        stated = record.get("bbox")
        x, y, width, height = (left, top, right - left, bottom - top) if stated is None else stated
        box = float(x), float(y), float(width), float(height)
        return TrueObject(int(record["category_id"]), mask, box, area, crowd)

    @cached_property
    def _categories(self) -> tuple[Category, ...]:
        return tuple(
            Category(int(c["id"]), str(c["name"]), str(c.get("frequency") or ""))
            for c in self._index.categories
        )

    def targets(self, scene: str) -> list[Target]:
        """The objects of an image; those whose outline covers no pixel are passed over."""
        image = self._listed[scene]
        self._check_claim(scene, image)
        with self._of_coco():
            records = self._index.read(image.things)
            return [target for record in records if (target := self._target(record, image))]

    def _check_claim(self, scene: str, image: _Image) -> None:
        """Refuse a claimed size that is not the image's, upright or lying, before filling it."""
        real = image_size(self.image(scene))
        if sorted(real) != sorted(image.size):
            raise BadInput(
                f"{self.card.name}/{scene}: '{self._annotations}' says the image is "
                f"{size_in_words(image.size)}, but it is {size_in_words(real)}; fix the file"
            )

    def _target(self, record: Mapping[str, Any], image: _Image) -> Target | None:
        mask = self._mask(record, image)
        label, groups = self._classes.get(record.get("category_id"), ("", {}))
        extent = "small" if mask.area < 32**2 else "medium" if mask.area < 96**2 else "large"
        groups = {"size": extent, **groups}
        return Target(str(record["id"]), mask, label=label, groups=groups) if mask else None

    @cached_property
    def _classes(self) -> Mapping[Any, tuple[str, dict[str, str]]]:
        """Name and groups of each class, by its number."""
        kinds = ("supercategory", "frequency")
        return {
            c["id"]: (str(c["name"]), {kind: str(c[kind]) for kind in kinds if c.get(kind)})
            for c in self._index.categories
        }

    def _available(self, images: Path) -> dict[str, Path]:
        """The files of those images that are there; a folder is listed once."""
        listed, found = cache(data_roots.names_in), {}
        for name, image in self._listed.items():
            paths = (images / file for file in image.files)
            path = next((p for p in paths if p.name in listed(p.parent)), None)
            if path is not None:
                found[name] = path
        return found

    def _of_coco(self) -> AbstractContextManager[None]:
        return named_errors(self._annotations, "is not a JSON file of COCO's layout")


def _parse(index: Index, keep_crowds: bool) -> dict[str, _Image]:
    places = np.flatnonzero(~index.crowd | keep_crowds)
    places = places[np.argsort(index.image[places], kind="stable")]
    ends = np.searchsorted(index.image[places], np.arange(len(index.images) + 1))
    found: dict[str, _Image] = {}
    for number, record in enumerate(index.images):
        size = (int(record["height"]), int(record["width"]))
        if min(size) < 1 or size[0] * size[1] > MOST_PIXELS:
            raise ValueError(f"image {record['id']} of {size[1]} x {size[0]}")
        things = places[ends[number] : ends[number + 1]]
        image = _Image(number, record, tuple(_files(record)), size, things)
        name = str(PurePosixPath(image.files[0]).with_suffix(""))
        if found.setdefault(name, image) is not image:
            raise ValueError(f"two images named {name}")
    return {name: image for name, image in found.items() if len(image.things)}


def _files(record: Mapping[str, Any]) -> Iterator[str]:
    """Possible paths of an image below its folder: LVIS names COCO's file only by its URL."""
    names = [str(record[key]) for key in ("coco_url", "file_name") if record.get(key)]
    if not names:
        raise ValueError(f"image {record['id']} has no file name")
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if ".." in path.parts:
            raise ValueError(f"file name {name} points outside its folder")
        if "://" not in name and not path.is_absolute():
            yield str(path)
        yield path.name
        if "://" in name:
            yield "/".join(path.parts[-2:])


@catalogue.datasets.add("coco", _COCO.summary)
def coco(
    data: str | Path | None = None,
    annotations: str | None = None,
    images: str | None = None,
    crowd: Crowd = "leave-out",
) -> CocoJson:
    """COCO from a root folder that holds `coco`, or from a file and a folder of your own."""
    return _open(_COCO, data, annotations, images, crowd, r"instances_val\d*.*\.json")


@catalogue.datasets.add("lvis", _LVIS.summary)
def lvis(
    data: str | Path | None = None, annotations: str | None = None, images: str | None = None
) -> CocoJson:
    """LVIS from a root folder that holds `coco`, or from a file and a folder of your own."""
    return _open(_LVIS, data, annotations, images, "leave-out", r"lvis_v[\d.]+_val.*\.json")


def _open(
    card: DatasetCard,
    data: str | Path | None,
    annotations: str | None,
    images: str | None,
    crowd: Crowd,
    pattern: str,
) -> CocoJson:
    if annotations is not None:
        file = Path(annotations)
    else:
        folder = data_roots.set_folder(card, data, ("coco",), ("annotations",)) / "annotations"
        named = [path for path in sorted(folder.iterdir()) if re.fullmatch(pattern, path.name)]
        if not named:
            raise NotFound(f"dataset '{card.name}': no file like '{pattern}' in '{folder}'")
        file = named[0]
    if not file.is_file():
        raise NotFound(f"dataset '{card.name}': no file '{file}'")
    usual = images_next_to(file)
    if card is _LVIS and usual.name.startswith(("train", "val")):
        usual = usual.parent  # its images are from both of COCO's folders
    return CocoJson(card, file, Path(images) if images else usual, crowd)


def images_next_to(annotations: Path) -> Path:
    """The folder of images that usually comes with a file of annotations."""
    part = re.search(r"(train|val|test)(20\d\d)?", annotations.name)
    year = part and (part[2] or "2017")
    root = annotations.parent.parent
    places = [root / f"{part[1]}{year}", root / "images" / f"{part[1]}{year}"] if part else []
    places += [root / "images", annotations.parent / "images"]
    return next((place for place in places if place.is_dir()), annotations.parent)


@capable(HasPhrases)
class PhraseImage(Image):
    """An image with its phrases, in the order of the first file."""

    def __init__(self, scene: str, path: Path, read: Callable[[], list[PhraseObjects]]) -> None:
        self._read = read
        super().__init__("saco", scene, lambda: read_rgb(path), self._first, file_name=path.name)

    @cached_property
    def phrases(self) -> Sequence[PhraseObjects]:
        return self._read()

    def _first(self) -> list[Target]:
        """The objects of the first annotator, labelled by their phrases."""
        return [
            Target(f"{phrase}-{k}", mask, label=phrase)
            for phrase, _, annotators in self.phrases
            for k, mask in enumerate(annotators[0][0])
            if mask
        ]


class _Annotator(NamedTuple):
    """One file of SA-Co: its pairs by id, and the objects of each."""

    file: Path
    pairs: dict[Any, Entry]
    objects: dict[Any, list[Entry]]


@catalogue.datasets.add("saco", _SACO.summary)
class Saco(SceneSet[Path]):
    """SA-Co's files: `data` holds `saco`, or is that folder itself.

    Scenes are the available images, by file name without suffix, in the order of the first file.
    """

    def __init__(self, data: str | Path | None = None) -> None:
        folder = data_roots.set_folder(_SACO, data, ("saco",), ("images",))
        files = sorted(folder.glob("*.json"))
        if not files:
            raise NotFound(f"dataset 'saco': no JSON file in '{folder}'")
        self._annotators = [_annotator(file) for file in files]
        self._pairs = _by_image(self._annotators[0])
        places = {n: folder / "images" / str(p[0]["file_name"]) for n, p in self._pairs.items()}
        found = {name: path for name, path in places.items() if path.is_file()}
        data_roots.require_some("saco", list(places), list(found), folder / "images")
        absent = [name for name in places if name not in found]
        lost = data_roots.lacking("images", absent, len(places), folder / "images")

        def read(scene: str, path: Path) -> PhraseImage:
            return PhraseImage(scene, path, lambda: self._phrases(scene, path))

        super().__init__(
            replace(_SACO, missing=lost),
            found,
            read,
            lambda _, image: (*files, image),
            dict.fromkeys(absent, f"its image is not in '{folder / 'images'}'"),
        )

    def _phrases(self, scene: str, image: Path) -> list[PhraseObjects]:
        """Phrase, whether all annotators were exhaustive, and objects and crowds of each."""
        size = image_size(image)
        found: list[PhraseObjects] = []
        for pair in self._pairs[scene]:
            exhaustive, annotators = True, []
            for file, pairs, objects in self._annotators:
                with named_errors(file, _OTHER_LAYOUT):
                    entry = pairs.get(pair["id"], {})
                    exhaustive &= bool(entry.get("is_instance_exhaustive", not entry))
                    drawn: tuple[list[Mask], list[Mask]] = ([], [])
                    for thing in objects.get(pair["id"], ()):
                        mask = outline(thing["segmentation"], size, f"'{file}', {thing['id']}")
                        drawn[bool(thing.get("iscrowd"))].append(mask)
                    annotators.append(drawn)
            found.append((str(pair["text_input"]), exhaustive, annotators))
        return found


def _annotator(file: Path) -> _Annotator:
    content = read_json(file)
    with named_errors(file, _OTHER_LAYOUT):
        classes = {category["id"] for category in content["categories"]}
        things = [t for t in content["annotations"] if t["category_id"] in classes]
        by_pair = grouped(things, lambda thing: thing["image_id"])
        return _Annotator(file, {entry["id"]: entry for entry in content["images"]}, by_pair)


def _by_image(annotator: _Annotator) -> dict[str, list[Entry]]:
    """The pairs of every image."""
    found: dict[str, list[Entry]] = {}
    with named_errors(annotator.file, _OTHER_LAYOUT):
        for entry in annotator.pairs.values():
            name = PurePosixPath(str(entry["file_name"]))
            if ".." in name.parts or name.is_absolute() or "text_input" not in entry:
                raise ValueError(f"pair {entry['id']} lacks a phrase or a file name")
            found.setdefault(str(name.with_suffix("")), []).append(entry)
    return found
