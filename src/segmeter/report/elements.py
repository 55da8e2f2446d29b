"""Elements: HTML and SVG made in Python, escaped by construction."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

__all__ = ["element", "joined", "number", "path"]


def element(name: str, *children: object, **attributes: object) -> Markup:
    """One element; `class_` is `class`, `font_size` is `font-size`, None is left out.

    >>> element("text", "a < b", x=1.50, class_="label")
    Markup('<text x="1.5" class="label">a &lt; b</text>')
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    # Names of elements and attributes come from our own code, never from data.
    return Markup(f"<{name}{pairs}>{joined(children)}</{name}>")


def joined(children: object) -> Markup:
    """Children one after the other; text is escaped."""
    if isinstance(children, list | tuple):
        return Markup("").join(joined(child) for child in children)
    return escape("" if children is None else _plain(children))


def number(value: float) -> str:
    """A coordinate in as few characters as a tenth of a pixel needs.

    >>> number(12.04), number(3.26)
    ('12', '3.3')
    """
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """A route through places as SVG writes it.

    >>> path([(0, 0), (2.5, 1)]), path([(0, 0), (2, 1), (0, 1)], closed=True)
    ('M0 0L2.5 1', 'M0 0L2 1L0 1Z')
    """
    route = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{route}Z" if closed else f"M{route}"


def _plain(value: object) -> object:
    return number(value) if isinstance(value, float) else value
