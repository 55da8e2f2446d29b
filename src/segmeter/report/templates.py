"""Templates: the pages of the package, filled with what they show."""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from segmeter.core.errors import BadInput

__all__ = ["as_script", "data_address", "filled"]

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
