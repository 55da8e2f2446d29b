"""A JSON file of COCO's layout and its images.

Crowd regions (objects that COCO's annotators did not separate) are targets only on request.
Objects whose outline covers no pixel are skipped.

SA-Co has phrases, and the masks of all objects they name, by several annotators: the folder holds
one such file per annotator, with the same pairs of image and phrase (`text_input`) under `images`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import HasPhrases, HasVocabulary, PhraseObjects, capable
from segmeter.core.detection_ground_truth import Category, DetectionGroundTruth, TrueObject
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Scene, Target, size_in_words
from segmeter.datasets import data_roots
from segmeter.datasets.coco_files import Index, Places, index_of, outline, read_json
from segmeter.datasets.image_files import MOST_PIXELS, image_size, named_errors, read_rgb

Crowd = Literal["leave-out", "keep"]
_COCO, _LVIS = data_roots.card_of("coco"), data_roots.card_of("lvis")
Entry = Mapping[str, Any]
_SACO = data_roots.card_of("saco")


@dataclass(frozen=True, slots=True)
class _Image:
    """One image record, its place, where its file may lie, and the places of its objects."""

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
    """An image of COCO's or LVIS's that also knows what detections are scored against."""

    def __init__(self, source: CocoJson, scene: str) -> None:
        self.source_file = source.image(scene)
        self._source = source
        super().__init__(
            source.name, scene, lambda: source.pixels(scene), lambda: source.targets(scene),
            file_name=self.source_file.name,
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


class CocoJson:
    """A JSON file of COCO's layout and a folder of images; its card counts the objects.

    With `crowd="keep"` crowd regions are targets too.
    """

    recognised = ""  # what was found in a user's own folder

    def __init__(
        self, card: DatasetCard, annotations: Path, images: Path, crowd: Crowd = "leave-out"
    ) -> None:
        check_choice("crowd", crowd, ("leave-out", "keep"))
        self.name, self._card, self._crowd = card.name, card, crowd
        self._annotations, self._images = annotations, images

    @cached_property
    def card(self) -> DatasetCard:
        crowds = 0 if self._crowd == "keep" else int(self._index.crowd.sum())
        gone = [name for name in self._listed if name not in self._at_hand]
        return replace(
            self._card,
            targets=sum(len(image.things) for image in self._listed.values()),
            notes=self._card.notes + (f" {crowds} crowd regions are left out." if crowds else ""),
            missing=data_roots.lacking("images", gone, len(self._listed), self._images),
        )

    def scenes(self) -> Sequence[str]:
        """File names without suffix, in the file's order; left out are images without
        objects and those that are not available."""
        return list(self._at_hand)

    def load(self, scene: str) -> Scene:
        name = self._card.name
        data_roots.known(name, scene, self._listed)
        if scene not in self._at_hand:
            file = self._listed[scene].files[0]
            raise NotFound(f"{name}/{scene}: no image '{file}' in '{self._images}'")
        return CocoImage(self, scene)

    def image(self, scene: str) -> Path:
        return self._at_hand[scene]

    def pixels(self, scene: str) -> npt.NDArray[np.uint8]:
        return read_rgb(self.image(scene))

    def fingerprint(self) -> str:
        return data_roots.digest([self._annotations, *self._at_hand.values()])

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
        for scene in self._at_hand:
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
        real = image_size(self._at_hand[scene])
        if sorted(real) != sorted(image.size):
            raise BadInput(
                f"{self._card.name}/{scene}: '{self._annotations}' says the image is "
                f"{size_in_words(image.size)}, but it is {size_in_words(real)}; fix the file"
            )

    def _target(self, record: Mapping[str, Any], image: _Image) -> Target | None:
        mask = self._mask(record, image)
        label, groups = self._classes.get(record.get("category_id"), ("", {}))
        extent = "small" if mask.area < 32**2 else "medium" if mask.area < 96**2 else "large"
        groups = {"size": extent, **groups}
        return Target(str(record["id"]), mask, label=label, groups=groups) if mask else None

    @cached_property
    def _index(self) -> Index:
        with self._of_coco():
            return index_of(self._annotations)

    @cached_property
    def _classes(self) -> Mapping[Any, tuple[str, dict[str, str]]]:
        """Name and groups of each class, by its number."""
        kinds = ("supercategory", "frequency")
        return {
            c["id"]: (str(c["name"]), {kind: str(c[kind]) for kind in kinds if c.get(kind)})
            for c in self._index.categories
        }

    @cached_property
    def _listed(self) -> dict[str, _Image]:
        """Images that have objects, by name."""
        with self._of_coco():
            return _parse(self._index, self._crowd == "keep")

    @cached_property
    def _at_hand(self) -> dict[str, Path]:
        """The files of those images that are there; a folder is listed once."""
        listed, found = cache(data_roots.names_in), {}
        for name, image in self._listed.items():
            paths = (self._images / file for file in image.files)
            path = next((p for p in paths if p.name in listed(p.parent)), None)
            if path is not None:
                found[name] = path
        data_roots.some_at_hand(self._card.name, list(self._listed), list(found), self._images)
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
            raise ValueError(f"file name {name} leaves its folder")
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
    return CocoJson(card, file, Path(images) if images else images_beside(file), crowd)


def images_beside(annotations: Path) -> Path:
    """The folder of images that usually comes with a file of annotations."""
    part = re.search(r"(train|val|test)(20\d\d)?", annotations.name)
    year = part and (part[2] or "2017")
    root = annotations.parent.parent
    places = [root / f"{part[1]}{year}", root / "images" / f"{part[1]}{year}"] if part else []
    places += [root / "images", annotations.parent / "images"]
    return next((place for place in places if place.is_dir()), annotations.parent)


@capable(HasPhrases)
class PhraseImage(Image):
    def __init__(self, source: Saco, scene: str) -> None:
        path = source.image(scene)
        super().__init__(
            "saco", scene, lambda: read_rgb(path), lambda: source.targets(scene),
            file_name=path.name,
        )  # fmt: skip
        self._source = source

    @cached_property
    def phrases(self) -> Sequence[PhraseObjects]:
        """All phrases of the image, in the order of the first file."""
        return self._source.phrases(self.id)


@catalogue.datasets.add("saco", _SACO.summary)
class Saco:
    """SA-Co's files: `data` holds `saco`, or is that folder itself."""

    def __init__(self, data: str | Path | None = None) -> None:
        self._folder = data_roots.set_folder(_SACO, data, ("saco",), ("images",))
        self._files = sorted(self._folder.glob("*.json"))
        if not self._files:
            raise NotFound(f"dataset 'saco': no JSON file in '{self._folder}'")

    @cached_property
    def card(self) -> DatasetCard:
        gone = [name for name in self._pairs if name not in self._at_hand]
        lost = data_roots.lacking("images", gone, len(self._pairs), self._folder / "images")
        many = sum(len(self.targets(scene)) for scene in self._at_hand)
        return replace(_SACO, targets=many, missing=lost)

    def scenes(self) -> Sequence[str]:
        """Available images, by file name without suffix, in the order of the first file."""
        return list(self._at_hand)

    def load(self, scene: str) -> Scene:
        data_roots.known("saco", scene, self._pairs)
        if scene not in self._at_hand:
            raise NotFound(f"saco/{scene}: its image is not in '{self._folder / 'images'}'")
        return PhraseImage(self, scene)

    def fingerprint(self) -> str:
        return data_roots.digest([*self._files, *self._at_hand.values()])

    def image(self, scene: str) -> Path:
        return self._at_hand[scene]

    def targets(self, scene: str) -> list[Target]:
        """The objects of the first annotator, labelled by their phrases."""
        return [
            Target(f"{phrase}-{k}", mask, label=phrase)
            for phrase, _, annotators in self.phrases(scene)
            for k, mask in enumerate(annotators[0][0])
            if mask
        ]

    def phrases(self, scene: str) -> list[PhraseObjects]:
        """Phrase, whether all annotators were exhaustive, and objects and crowds of each."""
        size = image_size(self._at_hand[scene])
        found: list[PhraseObjects] = []
        for pair in self._pairs[scene]:
            exhaustive, annotators = True, []
            for file, things, entries in self._annotators:
                with named_errors(file, "is not in SA-Co's layout"):
                    entry = entries.get(pair["id"], {})
                    exhaustive &= bool(entry.get("is_instance_exhaustive", not entry))
                    drawn: tuple[list[Mask], list[Mask]] = ([], [])
                    for thing in things.get(pair["id"], ()):
                        mask = outline(thing["segmentation"], size, f"'{file}', {thing['id']}")
                        drawn[bool(thing.get("iscrowd"))].append(mask)
                    annotators.append(drawn)
            found.append((str(pair["text_input"]), exhaustive, annotators))
        return found

    @cached_property
    def _annotators(self) -> list[tuple[Path, dict[Any, list[Entry]], dict[Any, Entry]]]:
        """Per file: the objects and the entry of each pair."""
        found = []
        for file in self._files:
            content = read_json(file)
            with named_errors(file, "is not in SA-Co's layout"):
                classes = {category["id"] for category in content["categories"]}
                things = [t for t in content["annotations"] if t["category_id"] in classes]
                by_pair = grouped(things, lambda thing: thing["image_id"])
                found.append((file, by_pair, {entry["id"]: entry for entry in content["images"]}))
        return found

    @cached_property
    def _pairs(self) -> dict[str, list[Entry]]:
        """The pairs of every image, by the first file."""
        found: dict[str, list[Entry]] = {}
        file, _, entries = self._annotators[0]
        with named_errors(file, "is not in SA-Co's layout"):
            for entry in entries.values():
                name = PurePosixPath(str(entry["file_name"]))
                if ".." in name.parts or name.is_absolute() or "text_input" not in entry:
                    raise ValueError(f"pair {entry['id']} lacks a phrase or a file name")
                found.setdefault(str(name.with_suffix("")), []).append(entry)
        return found

    @cached_property
    def _at_hand(self) -> dict[str, Path]:
        folder = self._folder / "images"
        files = {name: folder / str(pairs[0]["file_name"]) for name, pairs in self._pairs.items()}
        found = {name: path for name, path in files.items() if path.is_file()}
        data_roots.some_at_hand("saco", list(self._pairs), list(found), folder)
        return found
