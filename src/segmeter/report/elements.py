"""Elements: HTML and SVG escaped by construction, and the templates of pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from segmeter.core.errors import BadInput


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


_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"RIFF": "webp"}


def filled(template: str, **values: Any) -> str:
    """A template of the package with its values; text is escaped unless it is `Markup`."""
    page: str = _environment().get_template(template).render(**values)
    return page.lstrip()


def as_script(value: object) -> Markup:
    r"""Data for a script of the page; no text in it can end the element that holds it.

    >>> print(as_script(["</script>"]))
    ["\u003c/script>"]
    """
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def data_address(image: bytes) -> str:
    """An image as an address that holds the image itself.

    >>> data_address(b"\\xff\\xd8\\xff")
    'data:image/jpeg;base64,/9j/'
    """
    kind = next((kind for start, kind in _KINDS.items() if image.startswith(start)), None)
    if kind is None:
        raise BadInput("a page shows PNG, JPEG and WebP images, and this is none of them")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("segmeter.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["asset"] = _asset
    return made


def _asset(name: str) -> Markup:
    """A style sheet or a script of the package, unchanged."""
    return Markup((files("segmeter.report") / "assets" / name).read_text("utf-8"))
