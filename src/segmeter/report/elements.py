"""Elements of pages: HTML from templates, and how numbers and names are written."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import chain, count
from typing import Any

from markupsafe import Markup, escape

from segmeter.core.errors import BadInput
from segmeter.core.sections import Cell, Column, Label, Phrase, Quantity, Value
from segmeter.core.wording import counted


def number(value: float) -> str:
    """A coordinate in as few characters as a tenth of a pixel needs.

    >>> number(12.04), number(3.26)
    ('12', '3.3')
    """
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def path(points: Iterable[tuple[float, float]]) -> str:
    """A route through places as SVG writes it.

    >>> path([(0, 0), (2.5, 1)])
    'M0 0L2.5 1'
    """
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def distinct(names: Iterable[str], mark: str) -> list[str]:
    """Names of which no two are equal: one that is taken gets a number after a mark.

    >>> distinct(["a", "a-2", "a"], "-")
    ['a', 'a-2', 'a-3']
    """
    found: dict[str, None] = {}
    for name in names:
        numbered = chain([name], (f"{name}{mark}{k}" for k in count(2)))
        found[next(one for one in numbered if one not in found)] = None
    return list(found)


_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"RIFF": "webp"}


def filled(template: str, **values: Any) -> str:
    """A template of the package with its values; text is escaped unless it is `Markup`."""
    page: str = _environment().get_template(template).render(**values)
    return page.lstrip()


def drawn(macro: str, *values: object) -> Markup:
    draw = getattr(_environment().get_template("drawings.html").module, macro)
    return Markup(str(draw(*values)).strip())


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


def templates(*places: str, autoescape: bool = True, keep_trailing_newline: bool = False) -> Any:
    """Templates in folders of packages, as `package/folder`; an unknown name is an error."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(*place.split("/")) for place in places]),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=keep_trailing_newline,
    )


@cache
def _environment() -> Any:
    assets = files("segmeter.report") / "assets"
    made = templates("segmeter.report/assets", keep_trailing_newline=True)
    made.filters |= {"path": path, "px": number}
    made.globals |= {
        "asset": lambda name: Markup((assets / name).read_text("utf-8")),  # unchanged
        "counted": counted,
        "data_address": data_address,
        "marked": marked,
        "paragraphs": paragraphs,
        "rendered": rendered,
    }
    return made


_MARK = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")

protocol_note = {
    "published": "as the authors' code computes it, flaws included",
    "corrected": "as published, but without the known flaws",
    "paper": "as the paper's text says",
}


def amount(
    value: float | None, digits: int | None, percent: bool = False, least: float = 0.0
) -> str:
    """A number with its decimals and a true minus sign; a dash where there is none.

    Without `digits`, a whole number has no decimals and any other three significant digits.

    >>> amount(-0.1234, 1, percent=True), amount(None, 2), amount(0.00002, 3, least=0.001)
    ('−12.3', '–', '<0.001')
    """
    if value is None or math.isnan(value):
        return "–"
    if 0 <= value < least:
        return f"<{least:g}"
    scaled = value * 100 if percent else value
    if math.isinf(scaled):
        return "∞" if scaled > 0 else "−∞"
    if digits is None:
        whole = float(scaled).is_integer()
        digits = 0 if whole else max(0, 2 - math.floor(math.log10(abs(scaled))))
    text = f"{scaled:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def spread(value: Value, column: Column) -> str:
    """The interval of a value, or nothing; one of no width only means that all values were equal.

    >>> spread(Value(1.5, 1.25, 1.75), Column("clicks", digits=2))
    '1.25–1.75'
    >>> spread(Value(0.0, 0.0, 0.0), Column("clicks", digits=2))
    ''
    """
    if value.low is None or value.high is None:
        return ""
    if math.isnan(value.low) or math.isnan(value.high) or value.low == value.high:
        return ""
    low, high = (amount(v, column.digits, column.percent) for v in (value.low, value.high))
    if low == high:
        return ""
    return f"{low} to {high}" if "−" in low + high else f"{low}–{high}"


def cell_text(cell: Cell, column: Column) -> str:
    """A cell as plain text, for exports."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case Label(text, protocol):
            return f"{text} ({protocol})" if protocol else text
        case Value():
            limits = spread(cell, column)
            text = amount(cell.value, column.digits, column.percent)
            return f"{text} [{limits}]" if limits else text
        case _:
            return amount(float(cell), column.digits, column.percent, column.least)


def marked(text: str) -> Markup:
    """Escaped text in which `code` and **strong** are set as such.

    >>> marked("a < **b**")
    Markup('a &lt; <strong>b</strong>')
    """
    plain = str(escape(text))
    return Markup(
        _MARK.sub(lambda m: f"<code>{m[1]}</code>" if m[1] else f"<strong>{m[2]}</strong>", plain)
    )


def rendered(sentence: Phrase) -> Markup:
    """A sentence with its intervals set quieter than the numbers they follow.

    >>> rendered(("needs ", Quantity("9.7 s", Value(9.7, 6.5, 16.1), "(6.5–16.1)")))
    Markup('needs 9.7 s <span class="limits">(6.5–16.1)</span>')
    """
    written = Markup("")
    for part in sentence:
        written += marked(part.text if isinstance(part, Quantity) else part)
        if isinstance(part, Quantity) and part.limits:
            written += Markup(' <span class="limits">{}</span>').format(part.limits)
    return written


def paragraphs(text: str) -> Markup:
    """Paragraphs, parted by blank lines."""
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    return Markup("\n").join(Markup("<p>{}</p>").format(marked(part)) for part in parts)
