"""Exports: the tables of a report as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from segmeter.core.sections import Cell, Column, Label, Section, Table, Value
from segmeter.report.wording import amount, cell_text, spread

__all__ = [
    "Format",
    "exported",
    "formats",
    "harmless",
    "identifier",
    "latex_text",
    "markdown_text",
    "tables_of",
    "to_csv",
    "to_latex",
    "to_markdown",
]

Format = Literal["csv", "md", "tex"]
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": r"$-$",
    "–": r"--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def to_csv(table: Table) -> str:
    """Full numbers in their own units; a column with intervals becomes three.

    Headings are identifiers, which programs take as names: `clicks_to_90`, `clicks_to_90_low`.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    wide = [_has_limits(table, k) for k in range(len(table.columns))]
    heads: list[str] = []
    for name, limits in zip(_names(table.columns), wide, strict=True):
        heads += [name, f"{name}_low", f"{name}_high"] if limits else [name]
    writer.writerow(heads)
    for row in table.rows:
        cells: list[object] = []
        for cell, limits, column in zip(row, wide, table.columns, strict=True):
            cells += _fields(cell, limits, column)
        writer.writerow([harmless(cell) for cell in cells])
    return file.getvalue()


def identifier(text: str) -> str:
    """A name that a program takes.

    >>> identifier("GrabCut noc@90"), identifier("IoU (%)"), identifier("90")
    ('grabcut_noc90', 'iou_percent', 'n90')
    """
    plain = text.lower().replace("@", "").replace("%", " percent").replace("Δ".lower(), "delta ")
    name = re.sub(r"[^0-9a-z]+", "_", plain).strip("_") or "column"
    return name if name[0].isalpha() else f"n{name}"


def _names(columns: Sequence[Column]) -> list[str]:
    """An identifier for each column, no two the same."""
    names: list[str] = []
    for column in columns:
        name, k = identifier(_heading(column)), 2
        while name in names:
            name, k = f"{identifier(_heading(column))}_{k}", k + 1
        names.append(name)
    return names


def to_markdown(table: Table) -> str:
    """A pipe table; intervals stand in brackets."""
    heads = [markdown_text(_heading(c)) for c in table.columns]
    rules = ["---:" if c.digits is not None else "---" for c in table.columns]
    lines = [heads, rules] + [
        [
            markdown_text(cell_text(cell, column))
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return (f"{markdown_text(table.caption)}\n\n" if table.caption else "") + text + "\n"


def to_latex(table: Table) -> str:
    """A booktabs table; intervals stand small behind their numbers."""
    layout = "".join("r" if c.digits is not None else "l" for c in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.caption)}}}" if table.caption else "",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        " & ".join(latex_text(_heading(c)) for c in table.columns) + r" \\",
        r"\midrule",
        *(
            " & ".join(_latex_cell(v, c) for v, c in zip(row, table.columns, strict=True)) + r" \\"
            for row in table.rows
        ),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


formats = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def tables_of(sections: Sequence[Section]) -> Iterator[Table]:
    """All tables, in reading order."""
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Table):
                yield block


def exported(sections: Sequence[Section], kinds: Sequence[Format]) -> dict[str, str]:
    """Every table in every format asked for, by the name of its file."""
    return {
        f"{_stem(table.name)}.{kind}": formats[kind](table)
        for table in tables_of(sections)
        for kind in kinds
    }


def harmless(cell: object) -> object:
    """A text that no spreadsheet takes for a formula; numbers stay numbers.

    >>> harmless("=1+1"), harmless(-2.5)
    ("'=1+1", -2.5)
    """
    if not isinstance(cell, str):
        return cell
    spelled = _spelled(cell)
    return f"'{spelled}" if spelled.lstrip().startswith(("=", "+", "-", "@")) else spelled


def markdown_text(text: str) -> str:
    """A text in which Markdown finds no HTML, no link and no end of a cell."""
    plain = _spelled(text.replace("\n", " ")).replace("<", "&lt;")
    return plain.replace("|", "\\|").replace("](", "]\\(")


def _spelled(text: str) -> str:
    """A text with its control characters spelled out."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "replace").decode()
        for c in text
    )


def _stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "table"


def _heading(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


def _has_limits(table: Table, k: int) -> bool:
    cells = [row[k] for row in table.rows]
    return any(isinstance(cell, Value) and cell.low is not None for cell in cells)


def _fields(cell: Cell, limits: bool, column: Column) -> list[object]:
    scale = 100 if column.percent else 1

    def plain(value: float | None) -> object:
        return "" if value is None else value * scale

    match cell:
        case Value(value, low, high):
            return [plain(value), plain(low), plain(high)] if limits else [plain(value)]
        case Label() | str() | None:
            shown: object = "" if cell is None else cell_text(cell, column)
        case _:
            shown = plain(float(cell)) if column.digits is not None else cell
    return [shown, "", ""] if limits else [shown]


def _latex_cell(cell: Cell, column: Column) -> str:
    if isinstance(cell, Value):
        limits = spread(cell, column)
        text = latex_text(amount(cell.value, column.digits, column.percent))
        return rf"{text} {{\scriptsize [{latex_text(limits)}]}}" if limits else text
    return latex_text(cell_text(cell, column))


def latex_text(text: str) -> str:
    r"""A text in which TeX finds no command.

    >>> print(latex_text("AUC_90 of 5 %"))
    AUC\_90 of 5 \%
    """
    return "".join(_LATEX.get(c, c) for c in _spelled(text))
