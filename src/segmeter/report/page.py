"""The page: sections become one HTML file that needs nothing outside itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from segmeter.core.sections import (
    Answer,
    Bars,
    Block,
    Chart,
    Gallery,
    Label,
    Line,
    Multiples,
    Note,
    Points,
    Replay,
    Section,
    Slices,
    Table,
)
from segmeter.report.bars import bars_svg
from segmeter.report.charts import chart_svg
from segmeter.report.elements import filled, marked, paragraphs, protocol_note, told
from segmeter.report.exports import formats
from segmeter.report.images import Album, image_svg
from segmeter.report.plot_frames import Palette
from segmeter.report.replays import replay_view
from segmeter.report.slices import Stack, slices_view
from segmeter.report.tables import table_view

__all__ = ["Page", "render"]

_WIDE, _NARROW, _SMALL = (760, 400), (380, 290), (520, 320)
_MIME = {"csv": "text/csv", "md": "text/markdown", "tex": "application/x-tex"}
_FORMAT_NAMES = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}


@dataclass(frozen=True, slots=True)
class Page:
    """Contents of a page: a title, a line of facts, sections.

    With `choose`, one section is looked at at a time, under that word for what they differ in;
    paper, and a browser without scripts, show all of them. `back` is the page of all sessions,
    where this is one of them.
    """

    title: str
    subtitle: str
    facts: Sequence[str]
    sections: Sequence[Section]
    choose: str = ""
    back: str = ""


def render(page: Page) -> str:
    """The page as HTML text."""
    drawing = _Drawing(page.sections)
    sections = [drawing.section(section) for section in page.sections]
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
        self.stack = Stack()
        self.protocols: set[str] = set()
        self._ids: set[str] = set()

    def section(self, section: Section) -> dict[str, Any]:
        return {
            "id": self._id(section.title),
            "title": section.title,
            "text": paragraphs(section.text),
            "folded": section.folded,
            "blocks": [self._block(block) for block in _grouped(section.blocks)],
        }

    def _block(self, block: Block | list[Replay]) -> dict[str, Any]:
        match block:
            case list():
                return {"kind": "replays", "replays": [replay_view(r, self.album) for r in block]}
            case Answer():
                return {
                    "kind": "answer",
                    "sentence": told(block.parts),
                    "detail": paragraphs(block.detail),
                }
            case Note():
                return {"kind": "note", "role": block.role, "text": paragraphs(block.text)}
            case Table():
                return self._table(block)
            case Chart():
                wide, narrow = (self._chart(block, w, h) for w, h in (_WIDE, _NARROW))
                return _plot(block, wide, narrow)
            case Bars():
                return _plot(block, bars_svg(block, _WIDE[0]), bars_svg(block, _NARROW[0]))
            case Multiples():
                charts = [
                    _plot(c, self._chart(c, *_SMALL), self._chart(c, *_NARROW))
                    for c in block.charts
                ]
                return {"kind": "multiples", "caption": marked(block.caption), "charts": charts}
            case Gallery():
                return {
                    "kind": "gallery",
                    "caption": marked(block.caption),
                    "images": [
                        {
                            "svg": image_svg(p, self.album),
                            "link": p.link,
                            "caption": marked(p.caption),
                        }
                        for p in block.images
                    ],
                }
            case Replay():
                return self._block([block])
            case Slices():
                return {"kind": "slices", "slices": slices_view(block, self.stack, self.album)}

    def _table(self, table: Table) -> dict[str, Any]:
        self._note_protocols(table)
        view = table_view(table, self.palette)
        return {
            "kind": "table",
            "table": view,
            "downloads": _links(table),
            "caption": marked(table.caption),
            "note": marked(view.note),
        }

    def _chart(self, chart: Chart, width: int, height: int) -> Markup:
        return chart_svg(chart, self.palette, width, height)

    def _note_protocols(self, table: Table) -> None:
        cells = [cell for row in table.rows for cell in row]
        self.protocols |= {cell.protocol for cell in cells if isinstance(cell, Label)}

    def _id(self, title: str) -> str:
        stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        name, k = stem, 2
        while name in self._ids:
            name, k = f"{stem}-{k}", k + 1
        self._ids.add(name)
        return name


def _plot(block: Chart | Bars, wide: Markup, narrow: Markup) -> dict[str, Any]:
    """A figure in two widths: the style sheet shows the one that fits."""
    caption = marked(block.caption)
    return {
        "kind": "chart",
        "title": block.title,
        "caption": caption,
        "wide": wide,
        "narrow": narrow,
    }


def _curve_names(sections: Sequence[Section]) -> Iterator[str]:
    """Names of the curves on a page, in page order."""
    for section in sections:
        for block in section.blocks:
            charts = block.charts if isinstance(block, Multiples) else [block]
            for chart in charts:
                if isinstance(chart, Chart):
                    yield from (m.name for m in chart.marks if _has_style(m))


def _has_style(mark: Line | Points) -> bool:
    return isinstance(mark, Points) or mark.role != "guide"


def _grouped(blocks: Sequence[Block]) -> list[Block | list[Replay]]:
    """Replays that follow each other, as one list."""
    grouped: list[Block | list[Replay]] = []
    for block in blocks:
        if not isinstance(block, Replay):
            grouped.append(block)
        elif grouped and isinstance(grouped[-1], list):
            grouped[-1].append(block)
        else:
            grouped.append([block])
    return grouped


def _links(table: Table) -> list[dict[str, str]]:
    """The table as files, inside the page."""
    links = []
    for kind, write in formats.items():
        data = base64.b64encode(write(table).encode()).decode()
        links.append(
            {
                "name": _FORMAT_NAMES[kind],
                "file": f"{table.name}.{kind}",
                "href": f"data:{_MIME[kind]};base64,{data}",
            }
        )
    return links
