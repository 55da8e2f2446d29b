"""The page: sections become one HTML file that needs nothing outside itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from segmeter.core.sections import (
    Bars,
    Block,
    Chart,
    Gallery,
    Illustration,
    Label,
    Multiples,
    Replay,
    Section,
    Slices,
    Table,
)
from segmeter.report.charts import bars_svg, chart_svg
from segmeter.report.elements import distinct, filled, protocol_note
from segmeter.report.exports import WRITERS, Format
from segmeter.report.images import Album, css_colour, image_svg
from segmeter.report.plot_frames import Palette
from segmeter.report.replays import replay_view, slices_view
from segmeter.report.tables import table_view

_WIDE, _NARROW, _SMALL = (760, 400), (380, 290), (520, 320)
_DOWNLOADS: dict[Format, tuple[str, str]] = {
    "csv": ("CSV", "text/csv"),
    "md": ("Markdown", "text/markdown"),
    "tex": ("LaTeX", "application/x-tex"),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Contents of a page: a title, a line of facts, sections.

    With `choose`, one section is shown at a time, under that label for their difference; prints,
    and browsers without scripts, show all of them. `back` is the page of all sessions, where this
    is one of them.
    """

    title: str
    subtitle: str
    facts: Sequence[str]
    sections: Sequence[Section]
    choose: str = ""
    back: str = ""


def render(page: Page) -> str:
    drawing = _Drawing(page.sections)
    stems = (re.sub(r"[^a-z0-9]+", "-", s.title.lower()).strip("-") for s in page.sections)
    ids = distinct((stem or "section" for stem in stems), "-")
    sections = [drawing.section(*pair) for pair in zip(page.sections, ids, strict=True)]
    return filled(
        "page.html",
        page=page,
        sections=sections,
        album=drawing.album.defs(),
        protocols={name: note for name, note in protocol_note.items() if name in drawing.protocols},
    )


class _Drawing:
    """Turns blocks into what the template shows; one palette and album a page."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self.palette = Palette()
        for name in _curve_names(sections):
            self.palette[name]  # named here, in reading order, so that tables above know it too
        self.album = Album()
        self.protocols: set[str] = set()

    def section(self, section: Section, id: str) -> dict[str, Any]:
        blocks = [self._block(block) for block in _grouped(section.blocks)]
        return {"id": id, "section": section, "blocks": blocks}

    def _block(self, block: Block | list[Replay]) -> dict[str, Any]:
        """A block and, where the template cannot show it as it is, what is drawn of it."""
        kind: str = type(block).__name__.lower()
        drawn: Any = None
        match block:
            case list():
                drawn = [replay_view(replay, self.album) for replay in block]
            case Table():
                cells = [cell for row in block.rows for cell in row]
                self.protocols |= {cell.protocol for cell in cells if isinstance(cell, Label)}
                drawn = table_view(block, self.palette), _links(block)
            case Chart():
                drawn = [self._chart(block, *size) for size in (_WIDE, _NARROW)]
            case Bars():
                kind, drawn = "chart", [bars_svg(block, width) for width, _ in (_WIDE, _NARROW)]
            case Multiples():
                drawn = [
                    (c, [self._chart(c, *size) for size in (_SMALL, _NARROW)]) for c in block.charts
                ]
            case Gallery():
                drawn = [(one, image_svg(one, self.album), _key(one)) for one in block.images]
            case Slices():
                drawn = slices_view(block, self.album)
        return {"kind": kind, "of": block, "drawn": drawn}

    def _chart(self, chart: Chart, width: int, height: int) -> Markup:
        return chart_svg(chart, self.palette, width, height)


def _curve_names(sections: Sequence[Section]) -> Iterator[str]:
    """Names of the curves on a page, in page order."""
    for section in sections:
        for block in section.blocks:
            charts = block.charts if isinstance(block, Multiples) else [block]
            for chart in charts:
                if isinstance(chart, Chart):
                    yield from (mark.name for mark in chart.data)


def _grouped(blocks: Sequence[Block]) -> list[Block | list[Replay]]:
    """Replays that follow each other, as one list."""
    found: list[Any] = []
    for replays, some in groupby(blocks, lambda block: isinstance(block, Replay)):
        inside = list(some)
        found += [inside] if replays else inside
    return found


def _links(table: Table) -> list[dict[str, str]]:
    """The table as files, inside the page."""
    return [
        {
            "name": name,
            "file": f"{table.name}.{kind}",
            "href": f"data:{mime};base64,"
            + base64.b64encode(WRITERS[kind](table).encode()).decode(),
        }
        for kind, (name, mime) in _DOWNLOADS.items()
    ]


def _key(image: Illustration) -> list[tuple[str, str]]:
    """Colours and names of the classes outlined in an image."""
    named = {o.colour: o.name for o in image.outlines if o.colour is not None}
    return [(css_colour(place), name) for place, name in named.items()]
