"""Marks: colour, dash and shape of each name, the same in every chart of a page.

Colours are CSS classes, so that dark mode and print may change them; dashes and shapes tell
the names apart where colours do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from segmeter.report.elements import element, path

__all__ = ["Palette", "Style"]

_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2")
_SHAPES = ("disc", "square", "triangle", "diamond", "ring", "cross")
_COLOURS = 6


@dataclass(frozen=True, slots=True)
class Style:
    """How one name is drawn."""

    place: int

    @property
    def colour(self) -> str:
        """CSS class."""
        return f"c{self.place % _COLOURS}"

    @property
    def dash(self) -> str | None:
        return _DASHES[self.place % len(_DASHES)] or None

    def dot(self, x: float, y: float, size: float = 4.0) -> Markup:
        """The name's own shape at a place."""
        shape = _SHAPES[self.place % len(_SHAPES)]
        classes = f"dot {self.colour} {'hollow' if shape in ('ring', 'cross') else 'full'}"
        if shape in ("disc", "ring"):
            return element("circle", cx=x, cy=y, r=size, class_=classes)
        return element("path", d=_outline(shape, x, y, size), class_=classes)

    def key(self) -> Markup:
        """A piece of the curve's line with its marker, shown next to its name in a table."""
        line = element("path", d="M1 6H21", class_=f"curve {self.colour}")
        return element(
            "svg",
            line,
            self.dot(11, 6),
            viewBox="0 0 22 12",
            width=22,
            height=12,
            class_="mark-key",
            aria_hidden="true",
        )


class Palette:
    """Gives each name its style, in the order in which names come."""

    def __init__(self) -> None:
        self._styles: dict[str, Style] = {}

    def __getitem__(self, name: str) -> Style:
        return self._styles.setdefault(name, Style(len(self._styles)))

    def known(self, name: str) -> Style | None:
        """The style of a name that some chart of the page draws, else None."""
        return self._styles.get(name)


def _outline(shape: str, x: float, y: float, r: float) -> str:
    if shape == "cross":
        a = r * 0.8
        return path([(x - a, y - a), (x + a, y + a)]) + path([(x - a, y + a), (x + a, y - a)])
    if shape == "square":
        a = r * 0.88
        corners = [(x - a, y - a), (x + a, y - a), (x + a, y + a), (x - a, y + a)]
    elif shape == "triangle":
        turns = (-90, 30, 150)
        reach = r * 1.2
        corners = [
            (x + reach * math.cos(math.radians(t)), y + reach * math.sin(math.radians(t)))
            for t in turns
        ]
    else:
        a = r * 1.2
        corners = [(x, y - a), (x + a, y), (x, y + a), (x - a, y)]
    return path(corners, closed=True)
