"""Exports: the tables of a report as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Literal

from segmeter.core.rows import measure_column
from segmeter.core.scores_by_step import quoted
from segmeter.core.sections import Cell, Column, Label, Section, Table, Value
from segmeter.core.wording import printable
from segmeter.report.elements import amount, cell_text, distinct, spread
from segmeter.store import Run

Format = Literal["csv", "md", "tex", "html"]
"""How a file of it ends."""

_LATEX = {  # braces stay balanced for BibTeX
    **{c: f"\\{c}" for c in "&%#_$"},
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": r"$-$",
    "–": r"--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def to_csv(table: Table, *, limits: bool = True) -> str:
    """Full numbers in their own units; a column with intervals always becomes three.

    Headings are identifiers, which programs take as names: `clicks_to_90`, `clicks_to_90_low`.
    """
    wide = [
        any(isinstance(cell := row[k], Value) and cell.low is not None for row in table.rows)
        for k in range(len(table.columns))
    ]
    names = distinct((identifier(_heading(column)) for column in table.columns), "_")
    heads: list[object] = []
    for name, three in zip(names, wide, strict=True):
        heads += [name, f"{name}_low", f"{name}_high"] if three else [name]
    lines = [heads]
    for row in table.rows:
        cells: list[object] = []
        for cell, three, column in zip(row, wide, table.columns, strict=True):
            cells += _fields(cell, three, column)
        lines.append([harmless(cell) for cell in cells])
    return _lines(lines)


def _lines(lines: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def identifier(text: str) -> str:
    """A name that a program takes.

    >>> identifier("GrabCut noc@90"), identifier("IoU (%)"), identifier("90")
    ('grabcut_noc90', 'iou_percent', 'n90')
    """
    plain = text.lower().replace("@", "").replace("%", " percent").replace("Δ".lower(), "delta ")
    name = re.sub(r"[^0-9a-z]+", "_", plain).strip("_") or "column"
    return name if name[0].isalpha() else f"n{name}"


def to_markdown(table: Table, *, limits: bool = True) -> str:
    """A pipe table; intervals are in brackets, the best numbers are bold."""
    heads = [markdown_text(_heading(c)) for c in table.columns]
    rules = ["---:" if c.digits is not None else "---" for c in table.columns]
    lines = [heads, rules, *_cells(table, limits, markdown_text, "**{}**")]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    caption = markdown_text(table.caption)
    if not limits:
        return f"{text}\n\n{caption}\n"
    return (f"{caption}\n\n" if caption else "") + text + "\n"


def to_latex(table: Table, *, limits: bool = True) -> str:
    """A booktabs table, its columns under their groups; intervals follow numbers in small type."""
    layout = "".join("r" if c.digits is not None else "l" for c in table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.caption)}}}" if table.caption else "",
        rf"\label{{tab:{_stem(table.name)}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        *_group_heads(table.columns),
        " & ".join(latex_text(_titled(c)) for c in table.columns) + r" \\",
        r"\midrule",
        *(
            " & ".join(_latex_cell(v, c, limits) for v, c in zip(row, table.columns, strict=True))
            + r" \\"
            for row in table.rows
        ),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _group_heads(columns: Sequence[Column]) -> list[str]:
    """The names of the groups over their columns, with a rule under each."""
    if not any(column.group for column in columns):
        return []
    heads, rules, start = [], "", 1
    for name, members in groupby(columns, lambda column: column.group):
        span = len(list(members))
        heads.append(rf"\multicolumn{{{span}}}{{c}}{{{latex_text(name)}}}")
        rules += rf"\cmidrule(lr){{{start}-{start + span - 1}}}" if name else ""
        start += span
    return [" & ".join(heads) + r" \\", rules]


def to_html(table: Table, *, limits: bool = True) -> str:
    """A plain table; the best numbers are strong."""
    heads = "".join(f'<th scope="col">{escape(_heading(c))}</th>' for c in table.columns)
    cells = _cells(table, limits, escape, "<strong>{}</strong>")
    return "\n".join(
        [
            f"<table><caption>{escape(table.caption)}</caption>",
            f"<thead><tr>{heads}</tr></thead>",
            "<tbody>",
            *(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in cells),
            "</tbody></table>\n",
        ]
    )


def _cells(
    table: Table, limits: bool, written: Callable[[str], str], best: str
) -> Iterator[list[str]]:
    """The cells of each row as text of a language; `best` marks the best numbers."""
    for row in table.rows:
        texts = []
        for cell, column in zip(row, table.columns, strict=True):
            plain = cell.value if isinstance(cell, Value) and not limits else cell
            text = written(cell_text(plain, column))
            texts.append(best.format(text) if isinstance(cell, Value) and cell.best else text)
        yield texts


WRITERS: Mapping[Format, Callable[..., str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
}
"""A table as text; with `limits` (the default) its intervals too."""


def exported(sections: Sequence[Section], kinds: Sequence[Format]) -> dict[str, str]:
    """Every table in every requested format, in reading order, by file name."""
    tables = [block for s in sections for block in s.blocks if isinstance(block, Table)]
    return {f"{_stem(t.name)}.{kind}": WRITERS[kind](t) for t in tables for kind in kinds}


def harmless(cell: object) -> object:
    """A text that no spreadsheet mistakes for a formula; numbers stay numbers.

    >>> harmless("=1+1"), harmless(-2.5)
    ("'=1+1", -2.5)
    """
    if not isinstance(cell, str):
        return cell
    spelled = printable(cell)
    return f"'{spelled}" if spelled.lstrip().startswith(("=", "+", "-", "@")) else spelled


def markdown_text(text: str) -> str:
    """A text in which Markdown finds no HTML, no link and no end of a cell."""
    plain = printable(text.replace("\n", " ")).replace("<", "&lt;")
    return plain.replace("|", "\\|").replace("](", "]\\(")


def _stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "table"


def _heading(column: Column) -> str:
    """Group, title and unit in one line."""
    return f"{column.group} {_titled(column)}".strip()


def _titled(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


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


def _latex_cell(cell: Cell, column: Column, limits: bool) -> str:
    if not isinstance(cell, Value):
        return latex_text(cell_text(cell, column))
    text = latex_text(amount(cell.value, column.digits, column.percent))
    text = rf"\textbf{{{text}}}" if cell.best else text
    shown = spread(cell, column) if limits else ""
    return rf"{text} {{\scriptsize [{latex_text(shown)}]}}" if shown else text


def latex_text(text: str) -> str:
    r"""A text escaped for TeX; the texts of a received run are not trusted.

    >>> print(latex_text(r"5 % & \input{x}"))
    5 \% \& \textbackslash{}input\textbraceleft{}x\textbraceright{}
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))


_KEY = ("model", "dataset", "user", "protocol", "scene", "target")
_GOALS = (80, 85, 90, 95)


def objects_csv(run: Run) -> str | None:
    """One line per object, model, user and protocol, as CSV; None where there are no sessions.

    Headings are identifiers. `noc_90` is the first round at 90 % IoU, empty where it never came;
    `iou_3` is IoU after round three, of 1; every measure has its value in the best round by IoU
    (`iou_best`) and in the last (`iou_last`).
    """
    known = run.columns("rows")
    if not {"iou", "target", "round"} <= set(known):
        return None
    rows = run.sql(_query(run, known)).to_pylist(maps_as_pydicts="lossy")
    names = [name for name in rows[0] if name != "groups"] if rows else []
    groups = sorted({name for row in rows for name in row["groups"] or {}})
    lines: list[Sequence[object]] = [[*names, *(f"group_{k}" for k in map(identifier, groups))]]
    for row in rows:
        held = row["groups"] or {}
        cells = [row[name] for name in names] + [held.get(name) for name in groups]
        plain = (json.dumps(v) if isinstance(v, list) else v for v in cells)
        lines.append(["" if v is None else harmless(v) for v in plain])
    return _lines(lines)


# The first round of the highest IoU; seconds added up in the order of rounds.
_BEST = "case when iou is not null then (iou, -round) end"
_WAITED = "list_sum(list(seconds_predict order by round)) as seconds_predict"


def _query(run: Run, known: list[str]) -> str:
    key = ", ".join(f'"{name}"' for name in _KEY)
    facts = [n for n in ("label", "cluster", "area", "outline_px", "shape") if n in known]
    measures = [n for n in map(measure_column, run.plan.measures) if n in known]
    goals = [f"min(case when iou >= {goal / 100} then round end) as noc_{goal}" for goal in _GOALS]
    after = [
        f"max(case when round = {k} then iou end) as iou_{k}" for k in (1, 3, 5, 10)
        if k <= run.plan.rounds
    ]  # fmt: skip
    ends = [
        f"arg_max({quoted(m)}, {by}) as {quoted(f'{m}_{name}')}"
        for m in measures
        for by, name in ((_BEST, "best"), ("round", "last"))
    ]
    groups = "arg_min(groups, round) as groups" if "groups" in known else "null as groups"
    columns = [
        *(f"min({name}) as {name}" for name in facts), "max(round) as rounds", *goals,
        *after, *ends, _WAITED, groups,
    ]  # fmt: skip
    return f"select {key}, {', '.join(columns)} from rows group by {key} order by {key}"
