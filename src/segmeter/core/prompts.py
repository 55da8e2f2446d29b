"""Prompts: what a person tells a segmenter.

Coordinates are pixel centres in scene axes, `(y, x)` or `(z, y, x)`: the first pixel is
`(0, 0)`. Each adapter converts them to its network's convention, and nobody else does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = [
    "Box",
    "Click",
    "MaskHint",
    "Point",
    "Prompt",
    "Scribble",
    "Words",
    "from_json",
    "signs",
    "to_json",
]

Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Click:
    """One click: on the object when positive, on what is not the object otherwise."""

    point: Point
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its first and last pixel, both inside."""

    low: Point
    high: Point


@dataclass(frozen=True, slots=True)
class Scribble:
    """A stroke through pixel centres, in drawing order."""

    points: tuple[Point, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class MaskHint:
    """A mask to start from."""

    mask: Mask


@dataclass(frozen=True, slots=True)
class Words:
    """A phrase that names the object."""

    text: str


Prompt = Click | Box | Scribble | MaskHint | Words


def signs(prompts: Iterable[Prompt]) -> tuple[int, int]:
    """How many positive and how many negative clicks there are.

    >>> signs([Click((0, 0)), Click((1, 1), positive=False), Box((0, 0), (2, 2))])
    (1, 1)
    """
    clicks = [p.positive for p in prompts if isinstance(p, Click)]
    return sum(clicks), len(clicks) - sum(clicks)


def to_json(prompt: Prompt) -> str:
    """One line of JSON that `from_json` reads back.

    >>> to_json(Click((3, 4), positive=False))
    '{"click": [3, 4], "positive": false}'
    """
    match prompt:
        case Click(point, positive):
            return json.dumps({"click": _plain(point), "positive": positive})
        case Box(low, high):
            return json.dumps({"box": [_plain(low), _plain(high)]})
        case Scribble(points, positive):
            return json.dumps({"scribble": [_plain(p) for p in points], "positive": positive})
        case MaskHint(mask):
            return json.dumps({"mask": mask.to_coco()})
        case Words(text):
            return json.dumps({"words": text})


def from_json(text: str) -> Prompt:
    """Read a prompt that `to_json` wrote."""
    try:
        match json.loads(text):
            case {"click": point, "positive": bool(positive)}:
                return Click(_point(point), positive)
            case {"box": [low, high]}:
                return Box(_point(low), _point(high))
            case {"scribble": points, "positive": bool(positive)}:
                return Scribble(tuple(_point(p) for p in points), positive)
            case {"mask": mask}:
                return MaskHint(Mask.from_coco(mask))
            case {"words": str(words)}:
                return Words(words)
    except (ValueError, TypeError) as error:
        raise BadInput(f"prompt {text[:80]!r} cannot be read: {error}") from error
    raise BadInput(f"prompt {text[:80]!r} is none of click, box, scribble, mask, words")


def _plain(point: Sequence[float]) -> list[float]:
    return [int(c) if float(c).is_integer() else float(c) for c in point]


def _point(values: Sequence[float]) -> Point:
    return tuple(values)
