"""Paper tables as text: LaTeX, Markdown, CSV and HTML."""

from __future__ import annotations

import csv
import html as escaping
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from segmeter.report.exports import harmless, latex_text, markdown_text

__all__ = ["Format", "Head", "Number", "PaperTable", "write_table"]

Format = Literal["latex", "markdown", "csv", "html"]


@dataclass(frozen=True, slots=True)
class Head:
    """A column: data set and statistic as they are printed, its name for programs.

    `dataset` is empty for what does not depend on data; `limits` says whether its numbers have
    intervals.
    """

    dataset: str
    title: str
    identifier: str
    limits: bool = True

    @property
    def words(self) -> str:
        return f"{self.dataset} {self.title}".strip()


@dataclass(frozen=True, slots=True)
class Number:
    """A cell: its value as it is printed, and whether it is set bold."""

    text: str
    value: float | None
    low: float | None = None
    high: float | None = None
    bold: bool = False


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table ready to be written: a row has the method's name and a number per column."""

    heads: Sequence[Head]
    rows: Sequence[tuple[str, Sequence[Number]]]
    caption: str
    label: str


def write_table(table: PaperTable, kind: Format) -> str:
    """The table as text of a format."""
    return _WRITERS[kind](table)


def _latex(table: PaperTable) -> str:
    """A booktabs table, its columns grouped by data set."""
    groups = [(name, len(list(heads))) for name, heads in groupby(table.heads, _dataset)]
    titles = [rf"\multicolumn{{{span}}}{{c}}{{{latex_text(name)}}}" for name, span in groups]
    rows = [[latex_text(name), *map(_latex_cell, cells)] for name, cells in table.rows]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.caption)}}}",
        rf"\label{{{table.label}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.heads)}}}",
        r"\toprule",
        rf" & {' & '.join(titles)} \\",
        _rules(groups),
        " & ".join(["Method", *(latex_text(head.title) for head in table.heads)]) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _dataset(head: Head) -> str:
    return head.dataset


def _rules(groups: Sequence[tuple[str, int]]) -> str:
    """A rule under the name of each data set."""
    rules, start = "", 2
    for name, span in groups:
        rules += rf"\cmidrule(lr){{{start}-{start + span - 1}}}" if name else ""
        start += span
    return rules


def _latex_cell(cell: Number) -> str:
    return rf"\textbf{{{cell.text}}}" if cell.bold else latex_text(cell.text)


def _markdown(table: PaperTable) -> str:
    lines = [
        ["method", *(markdown_text(head.words) for head in table.heads)],
        ["---", *["---:"] * len(table.heads)],
        *([markdown_text(name), *map(_markdown_cell, cells)] for name, cells in table.rows),
    ]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def _markdown_cell(cell: Number) -> str:
    return f"**{cell.text}**" if cell.bold else cell.text


def _csv(table: PaperTable) -> str:
    """Identifiers as headings; numbers at their full precision, with limits."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    ends = [("", "_low", "_high") if head.limits else ("",) for head in table.heads]
    names = [head.identifier for head in table.heads]
    headings = [f"{name}{end}" for name, all_ in zip(names, ends, strict=True) for end in all_]
    writer.writerow(["method", *headings])
    for name, cells in table.rows:
        numbers = [
            number
            for cell, all_ in zip(cells, ends, strict=True)
            for number in (cell.value, cell.low, cell.high)[: len(all_)]
        ]
        writer.writerow([harmless(name), *("" if v is None or v != v else v for v in numbers)])
    return file.getvalue()


def _html(table: PaperTable) -> str:
    heads = "".join(_html_head(text) for text in ("method", *(head.words for head in table.heads)))
    rows = [
        f'<tr><th scope="row">{escaping.escape(name)}</th>{"".join(map(_html_cell, cells))}</tr>'
        for name, cells in table.rows
    ]
    return "\n".join(
        [
            f"<table><caption>{escaping.escape(table.caption)}</caption>",
            f"<thead><tr>{heads}</tr></thead>",
            "<tbody>",
            *rows,
            "</tbody></table>\n",
        ]
    )


def _html_head(text: str) -> str:
    return f'<th scope="col">{escaping.escape(text)}</th>'


def _html_cell(cell: Number) -> str:
    return f"<td><strong>{cell.text}</strong></td>" if cell.bold else f"<td>{cell.text}</td>"


_WRITERS: Mapping[str, Callable[[PaperTable], str]] = {
    "latex": _latex,
    "markdown": _markdown,
    "csv": _csv,
    "html": _html,
}
