"""Automatic masks to look at: one page per picture, and one that lists them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import quote

from segmeter.core.masks import Mask
from segmeter.report.overlays import colour_of

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
    """A picture in the list: its name, its page, a small picture (JPEG), how many masks."""

    name: str
    page: str
    thumbnail: bytes
    masks: int


def masks_page(
    title: str, picture: bytes, shape: tuple[int, int], masks: Sequence[ShownMask], facts: Facts
) -> str:
    """The page of one picture, as HTML text that needs nothing else.

    Parameters
    ----------
    picture
        The picture as JPEG or PNG bytes.
    shape
        `(H, W)` of the masks.
    facts
        Names and values to print beside it.
    """
    data = {
        "shape": list(shape),
        "masks": [_told(one) for one in masks],
        "colours": ["#{:02x}{:02x}{:02x}".format(*colour_of(i)) for i in range(len(masks))],
    }
    return _filled(
        "masks.html",
        {
            "TITLE": _escaped(title),
            "PICTURE": _address(picture),
            "FACTS": _listed(facts),
            "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        },
    )


def listing_page(title: str, pictures: Sequence[Listed], facts: Facts) -> str:
    """The page that lists all pictures, each with a link to its own."""
    cards = "".join(
        f'<li><a href="{_escaped(quote(one.page))}"><img src="{_address(one.thumbnail)}" alt="">'
        f"<span>{_escaped(one.name)}</span></a> <span class=soft>{_count(one.masks)}</span></li>"
        for one in pictures
    )
    return _filled(
        "mask_list.html",
        {"TITLE": _escaped(title), "FACTS": _listed(facts), "CARDS": cards},
    )


def _filled(template: str, texts: Mapping[str, str]) -> str:
    """Every mark replaced in one pass: what a text holds is never taken for a mark."""
    page = resources.files("segmeter.report").joinpath(f"assets/{template}").read_text()
    style = resources.files("segmeter.report").joinpath("assets/masks.css").read_text()
    known = {**texts, "STYLE": style}
    return re.sub(r"%([A-Z]+)%", lambda found: known.get(found[1], found[0]), page)


def _told(one: ShownMask) -> list[Any]:
    stability = None if one.stability != one.stability else round(one.stability, 4)
    y, x = one.point
    counts = one.mask.encoded()
    return [counts, one.mask.area, round(one.score, 4), stability, round(y, 2), round(x, 2)]


def _listed(facts: Facts) -> str:
    return "".join(
        f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd></div>" for name, value in facts
    )


def _count(masks: int) -> str:
    return {0: "no masks", 1: "1 mask"}.get(masks, f"{masks} masks")


def _escaped(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))


def _address(picture: bytes) -> str:
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
