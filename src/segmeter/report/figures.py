"""Figures for papers: any chart drawn by matplotlib, as PDF, SVG or PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.catalogue import short
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.grouping import grouped
from segmeter.core.plans import display_names, in_order
from segmeter.core.rows import SESSION_ROWS, measure_column
from segmeter.core.scores_by_step import Tables, to_the_end
from segmeter.core.sections import Axis, Chart, Line, Points
from segmeter.stats.statistics import resampling
from segmeter.store.local import write_file

# Okabe and Ito's colours, which colour-blind readers can tell apart, each with its own dash.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
# Files do not say when they were written, so that equal figures are equal files.
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def draw_charts(charts: Sequence[Chart], path: Path, columns: int = 0) -> None:
    """Charts side by side, `columns` in a row; marks of one name share colour and dash."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    across = columns or len(charts)
    rows = -(-len(charts) // across)
    with plt.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "font.size": 8}):
        figure, panels = plt.subplots(
            rows, across, figsize=(3.3 * across, 2.4 * rows), squeeze=False, layout="constrained"
        )
        for panel, chart in zip(panels.ravel(), charts, strict=False):
            _draw(panel, chart)
        for panel in panels.ravel()[len(charts) :]:
            panel.set_axis_off()
        held = io.BytesIO()
        figure.savefig(held, format=path.suffix[1:], metadata=_METADATA.get(path.suffix, {}))
        write_file(path, held.getvalue())
        plt.close(figure)


def draw_measure(run: Results, measure: str, protocol: str, path: Path) -> None:
    """A measure after each round, with 95 % bands; a panel for each dataset and user."""
    _check_measure(run, measure)
    found = [t for t in Tables.load(run, [measure_column(measure)]) if t.protocol == protocol]
    if not found:
        raise BadInput(f"the run has no '{measure}' in protocol '{protocol}'")
    names = display_names(run.plan.datasets)
    lines = {table.key: _mean_line(table, measure_column(measure)) for table in found}
    held = [np.asarray(part) for line in lines.values() for part in (line.y, line.low, line.high)
            if part is not None]  # fmt: skip
    low, high = (float(bound(list(map(bound, held)))) for bound in (np.nanmin, np.nanmax))
    room = 0.05 * (high - low) or 0.05  # one range for all panels
    y = Axis(f"mean {measure.replace('iou', 'IoU')}", low - room, high + room)
    charts = []
    for (dataset, user), here in grouped(
        in_order(found, run.plan), lambda t: (t.dataset, t.user)
    ).items():
        objects, images = len(here[0].keys), len(set(here[0].clusters))
        title = f"{names.get(dataset, dataset)}, {user} ({objects} objects, {images} images)"
        charts.append(Chart(title, Axis("round"), y, [lines[t.key] for t in here]))
    draw_charts(charts, path)


def _mean_line(tables: Tables, column: str) -> Line:
    values = to_the_end(tables.table(column))
    low, high = resampling(tables).limits(values)
    known = not np.isnan(low).any()
    rounds = np.arange(1, values.shape[1] + 1)
    band = (low, high) if known else (None, None)
    return Line(short(tables.model), rounds, values.mean(axis=0), *band)


def _draw(panel: Any, chart: Chart) -> None:
    names = list(dict.fromkeys(mark.name for mark in chart.data))
    named: set[str] = set()
    for mark in chart.marks:
        if isinstance(mark, Line) and mark.role == "guide":
            panel.plot(mark.x, mark.y, color="#bbbbbb", lw=0.6)
            continue
        place = names.index(mark.name)
        colour = _COLOURS[place % len(_COLOURS)]
        label = "_" if mark.name in named else _text(mark.name)
        named.add(mark.name)
        if isinstance(mark, Points):
            _dots(panel, mark, colour, label)
            continue
        dash = _DASHES[place % len(_DASHES)]
        drawn = panel.step if mark.role == "step" else panel.plot
        drawn(mark.x, mark.y, color=colour, ls=dash, label=label)
        if mark.low is not None and mark.high is not None:
            panel.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=0.18, lw=0)
    _axes(panel, chart)
    if any(names):
        panel.legend(frameon=False, fontsize=7)


def _dots(panel: Any, mark: Points, colour: str, label: str) -> None:
    y = np.asarray(mark.y, dtype=float)
    limits = None
    if mark.low is not None and mark.high is not None:
        limits = np.abs(np.stack([np.asarray(mark.low) - y, np.asarray(mark.high) - y]))
    panel.errorbar(mark.x, y, limits, fmt="o", ms=4, color=colour, label=label)
    for x, height, text in zip(mark.x, y, mark.labels, strict=False):
        panel.annotate(_text(text), (x, height), fontsize=6, xytext=(3, 3),
                       textcoords="offset points")  # fmt: skip


def _axes(panel: Any, chart: Chart) -> None:
    panel.set_title(_text(chart.title), fontsize=8)
    for axis, side in ((chart.x, "x"), (chart.y, "y")):
        panel.set(**{f"{side}label": _text(axis.title), f"{side}scale": axis.scale,
                     f"{side}lim": (axis.low, axis.high)})  # fmt: skip
        if axis.ticks is not None:
            panel.set(**{f"{side}ticks": list(axis.ticks)})


def _text(name: str) -> str:
    """A name as text: matplotlib renders text between dollar signs as a formula.

    >>> print(_text("cost_$5_and_$6"))
    cost_\\$5_and_\\$6
    """
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")


def _check_measure(run: Results, measure: str) -> None:
    """Refuse a measure that was not taken in every round, and runs without rounds."""
    if run.objects != "sessions":
        raise BadInput(
            f"runs of '{run.plan.benchmark}' have no rounds for a figure; 'segmeter report RUN' "
            "shows their curves"
        )
    columns = {*run.columns("rows")}.difference(SESSION_ROWS.names)
    if measure_column(measure) in columns:
        return
    taken = [entry.name for entry in catalogue.measures if measure_column(entry.name) in columns]
    raise NotFound(
        f"the run has no measure '{measure}';{suggestion(measure, taken)} it has "
        f"{', '.join(taken)}, and 'segmeter score' adds others"
    )
