"""Objects: one line per session of a run, for use in other programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from segmeter.core.rows import measure_column
from segmeter.report.exports import harmless, identifier
from segmeter.store import Run
from segmeter.store.scanning import quoted

__all__ = ["objects_csv"]

_KEY = ("model", "dataset", "user", "protocol", "scene", "target")
_GOALS = (80, 85, 90, 95)


def objects_csv(run: Run) -> str | None:
    """One line per object, model, user and reading, as CSV; None where there are no sessions.

    Headings are identifiers. `noc_90` is the first round at 90 % IoU, empty where it never came;
    `iou_3` is IoU after round three, of 1; every measure stands as it was in the best round by
    IoU (`iou_best`) and in the last (`iou_last`).
    """
    known = run.sql("select * from rows limit 0").column_names
    if not {"iou", "target", "round"} <= set(known):
        return None
    rows = run.sql(_query(run, known)).to_pylist(maps_as_pydicts="lossy")
    names = [name for name in rows[0] if name != "groups"] if rows else []
    groups = sorted({name for row in rows for name in row["groups"] or {}})
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*names, *(f"group_{k}" for k in map(identifier, groups))])
    for row in rows:
        held = row["groups"] or {}
        cells = [row[name] for name in names] + [held.get(name) for name in groups]
        writer.writerow(["" if v is None else harmless(_text(v)) for v in cells])
    return file.getvalue()


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


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value
