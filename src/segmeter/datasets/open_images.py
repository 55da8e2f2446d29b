"""Open Images' masks: one file per object, named in a table, as the fairness study uses them.

MIAP's people joined with the masks of Open Images: groups for the fairness study.

MIAP says how each person in a box presents; Open Images has masks in boxes of its own. Both
are tables of relative coordinates. A person's mask is used if its box agrees with a MIAP box;
a piece of clothing if its box lies inside a person's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.grouping import grouped, grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.datasets.data_roots import card_of, images_below, set_folder
from segmeter.datasets.groups import read_table
from segmeter.datasets.image_files import named_errors, read_values
from segmeter.datasets.zeroshot.mask_readers import Item
from segmeter.datasets.zeroshot.suite import Listed, Selection, resized

_TABLE = "test-annotations-object-segmentation.csv"
_CARD = card_of("open-images")
MARGIN = 0.01
PERSONS = frozenset({"/m/01g317", "/m/04yx4", "/m/03bt1vf", "/m/01bl7v", "/m/05r655"})
"""Person, Man, Woman, Boy, Girl."""
_UNKNOWN = "Unknown"
_SLACK = 1e-9
_ATTRIBUTES = {"gender": "GenderPresentation", "age": "AgePresentation"}


@catalogue.datasets.add("open-images", _CARD.summary)
def open_images(
    data: str | Path | None = None,
    table: str = _TABLE,
    sample: int | None = None,
    least_area: int = 0,
    most_side: int = 0,
    split: str | None = None,
    category: str | None = None,
) -> Listed:
    """Open Images from a root folder that holds `open-images`."""
    folder = set_folder(_CARD, data, ("open-images", "openimages"), ("images", "masks", table))
    rows = read_table(folder / table, "table of masks", "MaskPath", "ImageID", "LabelName")
    images = {path.stem: path for path in images_below(folder / "images")}
    files = {path.stem: path for path in images_below(folder / "masks")}
    named = ((row, row["MaskPath"].removesuffix(".png")) for row in rows)
    drawn = grouped_pairs(
        (row["ImageID"], (name, row["LabelName"], files[name]))
        for row, name in named
        if row["ImageID"] in images and name in files
    )
    items = {
        image: Item(images[image], partial(_masks, entries), tuple(e[2] for e in entries))
        for image, entries in drawn.items()
    }
    if not items:
        raise NotFound(f"dataset 'open-images': none of its images is in '{folder / 'images'}'")
    return Listed(_CARD, items, Selection(sample, least_area, most_side, split, category))


def _masks(entries: Sequence[tuple[str, str, Path]], size: tuple[int, int]) -> Iterator[Target]:
    for name, label, file in entries:
        values = read_values(file)
        bits = (values if values.ndim == 2 else values.max(axis=2)) > 0
        yield Target(name, resized(Mask.of(bits), size), label=label)


@dataclass(frozen=True, slots=True)
class RelativeBox:
    """A box relative to its image's sides, with the other columns of its line."""

    image: str
    left: float
    top: float
    right: float
    bottom: float
    row: Mapping[str, str]

    @property
    def area(self) -> float:
        return max(0.0, self.right - self.left) * max(0.0, self.bottom - self.top)

    def iou(self, other: RelativeBox) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        both = max(0.0, wide) * max(0.0, high)
        whole = self.area + other.area - both
        return both / whole if whole > 0 else 0.0


def read_boxes(path: Path, prefix: str = "") -> list[RelativeBox]:
    """The boxes of a table; Open Images' mask table has `Box` before its coordinates."""
    columns = ("ImageID", *(f"{prefix}{end}" for end in ("XMin", "YMin", "XMax", "YMax")))
    found = []
    for number, row in enumerate(read_table(path, "table of boxes", *columns), start=2):
        image, *ends = (row[column] for column in columns)
        with named_errors(f"{path}, line {number}", f"has no number under {columns[1]}"):
            left, top, right, bottom = map(float, ends)
        found.append(RelativeBox(image, left, top, right, bottom, row))
    return found


def person_groups(
    people: Sequence[RelativeBox], masks: Sequence[RelativeBox], labels: Collection[str] = PERSONS
) -> dict[str, dict[str, str]]:
    """Groups of person masks whose box agrees with a person's within 1 % of its sides.

    Of several the pair with the highest IoU; a mask has one person and a person one mask.
    Ties go to the earlier mask, then the earlier person. What is unknown is left empty.
    """
    chosen = [mask for mask in masks if mask.row.get("LabelName") in labels]
    by_image = grouped(range(len(people)), lambda person: people[person].image)
    pairs = sorted(
        (-people[person].iou(mask), place, person)
        for place, mask in enumerate(chosen)
        for person in by_image.get(mask.image, ())
        if max(map(abs, _outside(people[person], mask))) <= 1
    )
    groups: dict[int, dict[str, str]] = {}
    taken: set[int] = set()
    for _, mask, person in pairs:
        if mask not in groups and person not in taken:
            taken.add(person)
            groups[mask] = _groups(people[person])
    return {_name(chosen[mask]): groups[mask] for mask in sorted(groups)}


def clothing_groups(
    people: Sequence[RelativeBox], masks: Sequence[RelativeBox], labels: Collection[str]
) -> dict[str, dict[str, str]]:
    """Groups of clothing masks: those of the smallest person box that holds the mask's box.

    `labels` are the classes under Clothing in Open Images' hierarchy; a box is held when it
    reaches out by no more than 1 % of the person's sides.
    """
    by_image = grouped(people, lambda person: person.image)
    found: dict[str, dict[str, str]] = {}
    for mask in masks:
        if mask.row.get("LabelName") not in labels:
            continue
        near = by_image.get(mask.image, ())
        holders = [person for person in near if max(_outside(person, mask)) <= 1]
        if holders:
            found[_name(mask)] = _groups(min(holders, key=lambda box: box.area))
    return found


def _outside(person: RelativeBox, mask: RelativeBox) -> tuple[float, float, float, float]:
    """How far each side of a mask's box is outside a person's, in margins."""
    wide = MARGIN * (person.right - person.left) + _SLACK
    high = MARGIN * (person.bottom - person.top) + _SLACK
    return (
        (person.left - mask.left) / wide,
        (mask.right - person.right) / wide,
        (person.top - mask.top) / high,
        (mask.bottom - person.bottom) / high,
    )


def _groups(person: RelativeBox) -> dict[str, str]:
    stated = {name: person.row.get(column, "") for name, column in _ATTRIBUTES.items()}
    return {name: "" if value == _UNKNOWN else value for name, value in stated.items()}


def _name(mask: RelativeBox) -> str:
    """`scene/target`: the image, and the mask's file without its suffix."""
    path = mask.row.get("MaskPath", "")
    if not path:
        raise BadInput("the table of masks has no 'MaskPath'; give Open Images' own")
    return f"{mask.image}/{path.removesuffix('.png')}"
