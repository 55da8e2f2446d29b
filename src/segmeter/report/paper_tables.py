"""Paper tables: methods down, data sets across, as the papers of a benchmark print them.

A number is bold only where its model is better than every other one on that data set and that
is established (paired on the same targets, exchange test, Holm).
"""

from __future__ import annotations

import html as escaping
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.catalogue import short
from segmeter.core.dataset_names import display_names
from segmeter.core.errors import BadInput, check_choice
from segmeter.report.exports import identifier
from segmeter.report.several import Several
from segmeter.store import Run

__all__ = ["LAYOUTS", "Layout", "PaperTable", "paper_table", "table_text", "write_table"]

Format = Literal["latex", "markdown", "csv", "html"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which statistics a paper's table has: name, heading, decimals, which direction is good."""

    benchmark: str
    columns: tuple[tuple[str, str, int, Literal["lower", "higher"]], ...]
    caption: str


LAYOUTS: Mapping[str, Layout] = {
    "noc": Layout(
        "noc",
        (
            ("noc@85", "NoC85", 2, "lower"),
            ("noc@90", "NoC90", 2, "lower"),
            ("nof@90", "NoF90", 0, "lower"),
            ("auc", "AuC", 2, "higher"),
            ("boundary-auc", "BIoU", 2, "higher"),
            ("seconds-answer", "SPC", 3, "lower"),
        ),
        "Clicks to 85 and 90 % IoU, failures, areas under IoU and Boundary IoU (%), seconds per "
        "click",
    ),
    "rclicks": Layout(
        "rclicks",
        (
            ("sample-noc", "Sample NoC", 2, "lower"),
            ("base-noc", "Base NoC", 2, "lower"),
            ("dsb-noc", "dSB", 2, "lower"),
            ("dgr-noc", "dGR", 2, "lower"),
            ("dhh-noc", "dHH", 2, "lower"),
        ),
        "Clicks under clicking groups, and the relative increases of the paper (%)",
    ),
    "tetris": Layout(
        "tetris",
        (
            ("iou-min", "Min", 2, "higher"),
            ("iou-max", "Max", 2, "higher"),
            ("iou-d", "D", 2, "lower"),
        ),
        "Area under IoU (%) of the worst and the best clicks, and their difference",
    ),
    "seism": Layout(
        "seism",
        (
            ("fb-ods", "Fb", 3, "higher"),
            ("fop-ods", "Fop", 3, "higher"),
        ),
        "Boundaries (Fb) and objects and parts (Fop), best setting for the whole data set (ODS)",
    ),
}


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
    """A table ready to be written: `heads` are data set and statistic of each column."""

    heads: Sequence[tuple[str, str]]
    identifiers: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Number]]]
    caption: str
    label: str


@runtime_checkable
class ComparesAnything(Protocol):
    """A benchmark that compares models in any of its statistics, not only in the leading ones."""

    def differences_in(self, run: Results, measures: Sequence[str]) -> list[Difference]: ...


def table_text(
    run: Run | Several, layout: str | None = None, kind: Format = "latex", reading: str = "sound"
) -> str:
    """A run's table in a paper's layout, as text."""
    name = layout or run.plan.benchmark
    check_choice("layout", name, LAYOUTS)
    check_choice("reading", reading, ("published", "sound"))
    wanted = LAYOUTS[name]
    if wanted.benchmark != run.plan.benchmark:
        raise BadInput(f"layout '{name}' is for '{wanted.benchmark}', not '{run.plan.benchmark}'")
    if isinstance(run.benchmark, ComparesAnything):
        # What a machine's seconds were is shown and never tested.
        tested = [m for m, *_ in wanted.columns if not m.startswith("seconds-")]
        found = run.benchmark.differences_in(run, tested)
    else:
        found = run.differences()
    names, rows = display_names(run.plan.datasets), run.summary()
    made = paper_table(wanted, rows, found, reading, names, run.plan.rounds, _sizes(run))
    return write_table(made, kind)


def _sizes(run: Run | Several) -> dict[str, int]:
    """How many parameters each model has, where its rows say so."""
    trails = run.provenance["subjects"]
    told = {name: str(trail.get("parameters", "")) for name, trail in trails.items()}
    return {name: int(text) for name, text in told.items() if text.isdecimal() and int(text)}


def paper_table(
    layout: Layout,
    rows: Sequence[SummaryRow],
    differences: Sequence[Difference],
    reading: str,
    names: Mapping[str, str],
    rounds: int = 0,
    sizes: Mapping[str, int] | None = None,
) -> PaperTable:
    """The table of a reading; `names` are data sets as they are shown, `sizes` parameters."""
    here = [r for r in rows if r.reading == reading]
    if not here:
        raise BadInput(f"the run has no reading '{reading}'")
    values = {(r.model, r.dataset, r.measure): r for r in here}
    datasets = list(dict.fromkeys(r.dataset for r in here))
    known = {r.measure for r in here}
    columns = [c for c in layout.columns if c[0] in known]
    if not columns:
        raise BadInput(
            f"no statistic of layout '{layout.benchmark}' is in this run; it has "
            f"{', '.join(sorted(known)[:8])}"
        )
    models = list(dict.fromkeys(r.model for r in here))
    sized = bool(sizes)
    body = [
        (
            short(model),
            [_size((sizes or {}).get(model))] * sized
            + [
                _number(values.get((model, data, name)), digits,
                        _leads(model, data, name, better, differences, len(models), reading))
                for data in datasets
                for name, _, digits, better in columns
            ],
        )
        for model in models
    ]  # fmt: skip
    counts = ", ".join(f"{names.get(d, d)}: n = {_targets(here, d)}" for d in datasets)
    played = f"{rounds} rounds, " if rounds else ""
    return PaperTable(
        [("", "Params (M)")] * sized
        + [(names.get(d, d), title) for d in datasets for _, title, _, _ in columns],
        ["parameters"] * sized
        + [identifier(f"{names.get(d, d)}_{name}") for d in datasets for name, *_ in columns],
        body,
        f"{layout.caption}. {counts}; {played}reading {reading}. Bold: better than every other "
        "model, established at 5 % (paired exchange test, Holm).",
        f"tab:{layout.benchmark}-{reading}",
    )


def _targets(rows: Sequence[SummaryRow], dataset: str) -> int:
    return max(r.targets for r in rows if r.dataset == dataset)


def _size(parameters: int | None) -> Number:
    """A model's size in millions; classical ones have none."""
    if parameters is None:
        return Number("–", None)
    return Number(f"{parameters / 1e6:.{1 if parameters >= 1e6 else 3}f}", parameters)


def _number(row: SummaryRow | None, digits: int, bold: bool) -> Number:
    if row is None:
        return Number("–", None)
    return Number(f"{row.value:.{digits}f}", row.value, row.low, row.high, bold)


def _leads(
    model: str,
    dataset: str,
    measure: str,
    better: str,
    differences: Sequence[Difference],
    models: int,
    reading: str,
) -> bool:
    """Whether a model is better than every other one, and that is established."""
    sign = 1 if better == "higher" else -1
    found = [
        sign * (d.value if d.first == model else -d.value) > 0 and d.established
        for d in differences
        if model in (d.first, d.second)
        and (d.dataset, d.measure, d.reading) == (dataset, measure, reading)
    ]
    return models > 1 and len(found) == models - 1 and all(found)


def write_table(table: PaperTable, kind: Format) -> str:
    """The table as text of a format."""
    return _WRITERS[kind](table)


def _latex(table: PaperTable) -> str:
    datasets = list(dict.fromkeys(d for d, _ in table.heads))
    spans = [sum(d == name for d, _ in table.heads) for name in datasets]
    groups = " & ".join(
        rf"\multicolumn{{{n}}}{{c}}{{{_tex(name)}}}"
        for name, n in zip(datasets, spans, strict=True)
    )
    ends, start = [], 2
    for name, span in zip(datasets, spans, strict=True):
        ends += [rf"\cmidrule(lr){{{start}-{start + span - 1}}}"] * bool(name)
        start += span
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(table.caption)}}}",
        rf"\label{{{table.label}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.heads)}}}",
        r"\toprule",
        rf" & {groups} \\",
        "".join(ends),
        " & ".join(["Method", *(_tex(title) for _, title in table.heads)]) + r" \\",
        r"\midrule",
        *(" & ".join([_tex(name), *map(_tex_cell, cells)]) + r" \\" for name, cells in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex_cell(cell: Number) -> str:
    return rf"\textbf{{{cell.text}}}" if cell.bold else _tex(cell.text)


def _tex(text: str) -> str:
    marks = {"\\": r"\textbackslash{}", "–": "--", "~": r"\textasciitilde{}", "^": r"\^{}"}
    plain = re.sub(r"[&%$#_{}]", lambda m: "\\" + m[0], text.replace("\\", "\0"))
    for mark, tex in marks.items():
        plain = plain.replace("\0" if mark == "\\" else mark, tex)
    return plain


def _markdown(table: PaperTable) -> str:
    heads = ["method", *(f"{data} {title}".strip() for data, title in table.heads)]
    lines = [heads, ["---", *["---:"] * len(table.heads)]]
    lines += [
        [name, *(f"**{c.text}**" if c.bold else c.text for c in cells)]
        for name, cells in table.rows
    ]
    text = "\n".join(
        "| " + " | ".join(v.replace("|", "\\|") for v in line) + " |" for line in lines
    )
    return f"{text}\n\n{table.caption}\n"


def _csv(table: PaperTable) -> str:
    """Identifiers as headings; numbers at their full precision, with limits."""
    wide = [name != "parameters" for name in table.identifiers]
    heads = [
        f"{name}{end}"
        for name, limits in zip(table.identifiers, wide, strict=True)
        for end in (("", "_low", "_high") if limits else ("",))
    ]
    lines = [",".join(["method", *heads])]
    for name, cells in table.rows:
        plain = [
            v
            for c, limits in zip(cells, wide, strict=True)
            for v in ((c.value, c.low, c.high) if limits else (c.value,))
        ]
        shown = ["" if v is None or v != v else repr(v) for v in plain]
        quoted = '"' + name.replace('"', '""') + '"' if re.search(r'[",\n]', name) else name
        lines.append(",".join([quoted, *shown]))
    return "\n".join(lines) + "\n"


def _html(table: PaperTable) -> str:
    def row(cells: Sequence[str], tag: str = "td") -> str:
        return "<tr>" + "".join(f"<{tag}>{c}</{tag}>" for c in cells) + "</tr>"

    heads = row(["method", *(escaping.escape(f"{d} {t}".strip()) for d, t in table.heads)], "th")
    body = [
        row([escaping.escape(n), *(f"<strong>{c.text}</strong>" if c.bold else c.text for c in cs)])
        for n, cs in table.rows
    ]
    caption = escaping.escape(table.caption)
    return f"<table><caption>{caption}</caption>\n{heads}\n" + "\n".join(body) + "\n</table>\n"


_WRITERS: Mapping[str, Callable[[PaperTable], str]] = {
    "latex": _latex,
    "markdown": _markdown,
    "csv": _csv,
    "html": _html,
}
