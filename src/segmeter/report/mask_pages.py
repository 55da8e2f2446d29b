"""Automatic masks to look at: one page per image, and one that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from segmeter.core.masks import Mask
from segmeter.core.wording import counted
from segmeter.report.elements import as_script, data_address, filled
from segmeter.report.images import colour_of

__all__ = ["Listed", "ShownMask", "listing_page", "masks_page"]

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ShownMask:
    """A mask with the model's score of it, its stability, and the click that made it, `(y, x)`."""

    mask: Mask
    score: float
    stability: float
    point: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Listed:
    """An image in the list: its name, its page, a small image (JPEG), how many masks."""

    name: str
    page: str
    thumbnail: bytes
    masks: int


def masks_page(
    title: str, image: bytes, shape: tuple[int, int], masks: Sequence[ShownMask], facts: Facts
) -> str:
    """The page of one image, as HTML text that needs nothing else.

    Parameters
    ----------
    image
        The image as JPEG or PNG bytes.
    shape
        `(H, W)` of the masks.
    facts
        Names and values to print next to it.
    """
    data = {
        "image": data_address(image),
        "shape": shape,
        "masks": [_told(one) for one in masks],
        "colours": ["#{:02x}{:02x}{:02x}".format(*colour_of(i)) for i in range(len(masks))],
    }
    return filled("masks.html", title=title, facts=facts, data=as_script(data))


def listing_page(title: str, images: Sequence[Listed], facts: Facts) -> str:
    """The page that lists all images, each with a link to its own."""
    cards = [
        {
            "name": one.name,
            "page": quote(one.page),
            "thumbnail": data_address(one.thumbnail),
            "masks": counted(one.masks, "mask") if one.masks else "no masks",
        }
        for one in images
    ]
    return filled("mask_list.html", title=title, facts=facts, images=cards)


def _told(one: ShownMask) -> list[Any]:
    stability = None if one.stability != one.stability else round(one.stability, 4)
    y, x = one.point
    counts = one.mask.encoded()
    return [counts, one.mask.area, round(one.score, 4), stability, round(y, 2), round(x, 2)]
