"""Detection ground truth: annotations of an image beyond its targets.

A detector is scored against more than targets: classes as the dataset numbers them, areas
and boxes as it states them, crowd regions, and, with LVIS, which classes an image was
searched for at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol, runtime_checkable

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask


@dataclass(frozen=True, slots=True)
class Category:
    """A class; `frequency` is LVIS's letter: f frequent, c common, r rare."""

    id: int
    name: str
    frequency: str = ""


@dataclass(frozen=True, slots=True)
class TrueObject:
    """One annotation: `box` is left, top, width, height; `area` as the annotation states it."""

    category: int
    mask: Mask
    box: tuple[float, float, float, float]
    area: float
    crowd: bool = False


@dataclass(frozen=True, slots=True)
class DetectionGroundTruth:
    """All that detections of one image are scored against.

    `negative` are classes that are known not to be there, `not_exhaustive` those of which not
    every object is outlined; `federated` means that only these and the classes of objects
    were annotated (LVIS).
    """

    image: int
    shape: tuple[int, int]
    categories: tuple[Category, ...]
    objects: tuple[TrueObject, ...]
    federated: bool = False
    negative: tuple[int, ...] = ()
    not_exhaustive: tuple[int, ...] = ()

    def to_json(self) -> str:
        """One line that `from_json` reads back; classes of other images are left out."""
        named = {o.category for o in self.objects} | {*self.negative, *self.not_exhaustive}
        facts = ("image", "shape", "federated", "negative", "not_exhaustive")
        data = {name: getattr(self, name) for name in facts}
        data["categories"] = [astuple(c) for c in self.categories if c.id in named]
        data["objects"] = [
            [o.category, o.mask.to_coco()["counts"], o.box, o.area, o.crowd] for o in self.objects
        ]
        return json.dumps(data)

    @classmethod
    def from_json(cls, text: str) -> DetectionGroundTruth:
        try:
            data = json.loads(text)
            shape = (int(data["shape"][0]), int(data["shape"][1]))
            categories = tuple(Category(_id(first), *rest) for first, *rest in data["categories"])
            objects = tuple(_object(entry, shape) for entry in data["objects"])
            known = (tuple(map(_id, data[name])) for name in ("negative", "not_exhaustive"))
            federated = bool(data["federated"])
            return cls(_id(data["image"]), shape, categories, objects, federated, *known)
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"ground truth of an image cannot be read: {error}") from error


@runtime_checkable
class WithDetectionGroundTruth(Protocol):
    """A scene with the complete annotations that detections are scored against."""

    @property
    def detection_ground_truth(self) -> DetectionGroundTruth: ...


def coco_layout(ground_truths: Iterable[DetectionGroundTruth]) -> dict[str, Any]:
    """Ground truth of many images as COCO's and LVIS's JSON has it; masks as run lengths.

    >>> sorted(coco_layout([]))
    ['annotations', 'categories', 'images']
    """
    images: list[Mapping[str, Any]] = []
    annotations: list[Mapping[str, Any]] = []
    known: dict[int, Category] = {}
    for ground_truth in ground_truths:
        known |= {category.id: category for category in ground_truth.categories}
        height, width = ground_truth.shape
        image: dict[str, Any] = {"id": ground_truth.image, "height": height, "width": width}
        if ground_truth.federated:
            image["neg_category_ids"] = list(ground_truth.negative)
            image["not_exhaustive_category_ids"] = list(ground_truth.not_exhaustive)
        images.append(image)
        annotations += [
            {
                "id": number,
                "image_id": ground_truth.image,
                "category_id": thing.category,
                "segmentation": thing.mask.to_coco(),
                "bbox": list(thing.box),
                "area": thing.area,
                "iscrowd": int(thing.crowd),
            }
            for number, thing in enumerate(ground_truth.objects, len(annotations) + 1)
        ]
    named = [
        {"id": c.id, "name": c.name} | ({"frequency": c.frequency} if c.frequency else {})
        for _, c in sorted(known.items())
    ]
    return {"images": images, "annotations": annotations, "categories": named}


def _id(value: Any) -> int:
    """The number of an image or class, as evaluators take it."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"{value!r:.40} is not a number of an image or class")
    return value


def _object(entry: Sequence[Any], shape: tuple[int, int]) -> TrueObject:
    category, counts, box, area, crowd = entry
    mask = Mask.from_coco({"size": shape, "counts": counts})
    x, y, width, height = (float(n) for n in box)
    return TrueObject(_id(category), mask, (x, y, width, height), float(area), bool(crowd))
