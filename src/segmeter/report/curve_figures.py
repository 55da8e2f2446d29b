"""Curve figures for papers: one panel per data set and user, one line with its band per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.benchmarks import Curves, Results
from segmeter.core.catalogue import short
from segmeter.core.dataset_names import display_names
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.rows import measure_column
from segmeter.core.tables import load_tables

__all__ = ["draw_curves"]

# Okabe and Ito's colours, told apart by colour-blind eyes, each with a dash of its own.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def draw_curves(run: Results, measure: str, protocol: str, path: Path) -> None:
    """Mean over targets after each round, with 95 % bands from resampling images."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _check_measure(run, measure)
    column = measure_column(measure)
    found = [
        Curves(*t.key, t.keys, t.clusters, t.table(column))
        for t in load_tables(run, [column])
        if t.protocol == protocol
    ]
    if not found:
        raise BadInput(f"the run has no '{measure}' in protocol '{protocol}'")
    panels = list(dict.fromkeys((c.dataset, c.user) for c in found))
    names = display_names(run.plan.datasets)
    with plt.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "font.size": 8}):
        drawn, axes = plt.subplots(
            1, len(panels), figsize=(3.3 * len(panels), 2.4), squeeze=False, layout="constrained"
        )
        for axis, (dataset, user) in zip(axes[0], panels, strict=True):
            here = [c for c in found if (c.dataset, c.user) == (dataset, user)]
            _panel(axis, here, measure)
            many, scenes = len(here[0].keys), len(set(here[0].clusters))
            shown = names.get(dataset, dataset)
            axis.set_title(_text(f"{shown}, {user} (n = {many} in {scenes})"), fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, metadata={} if path.suffix == ".png" else {"Date": None} if
                      path.suffix == ".svg" else {"CreationDate": None})  # fmt: skip
        plt.close(drawn)


def _text(name: str) -> str:
    """A name as text: matplotlib takes what stands between dollars for a formula.

    >>> print(_text("cost_$5_and_$6"))
    cost_\\$5_and_\\$6
    """
    return "".join(c if c.isprintable() else "?" for c in name).replace("$", r"\$")


def _check_measure(run: Results, measure: str) -> None:
    """Refuse a measure that was not taken in every round, and runs that have none."""
    if run.plan.kind == "method":
        raise BadInput(
            f"a figure shows a measure over rounds, which runs of '{run.plan.benchmark}' have not; "
            "'segmeter report RUN' draws their curves"
        )
    columns = set(run.sql("select * from rows limit 0").column_names)
    if measure_column(measure) in columns:
        return
    taken = [entry.name for entry in catalogue.measures if measure_column(entry.name) in columns]
    raise NotFound(
        f"the run has no measure '{measure}';{suggestion(measure, taken)} it has "
        f"{', '.join(taken)}, and 'segmeter score' adds others"
    )


def _panel(axis: Any, curves: Sequence[Curves], measure: str) -> None:
    from segmeter.stats.intervals import Resampling

    for k, one in enumerate(curves):
        rounds = np.arange(1, one.values.shape[1] + 1)
        colour, dash = _COLOURS[k % len(_COLOURS)], _DASHES[k % len(_DASHES)]
        axis.plot(
            rounds, one.values.mean(axis=0), color=colour, ls=dash, label=_text(short(one.model))
        )
        low, high = Resampling(one.clusters, seed=one.dataset).limits(one.values)
        if not np.isnan(low).any():
            axis.fill_between(rounds, low, high, color=colour, alpha=0.18, lw=0)
    axis.set_xlabel("round")
    axis.set_ylabel(_text(measure))
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
