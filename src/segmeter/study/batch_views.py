"""Batch views: what a browser learns about its work; no names of models, scenes or targets."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from segmeter.study import tables as t
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

__all__ = ["batch_view"]


def batch_view(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli, batch: str, language: str
) -> dict[str, Any]:
    """A batch with its trials in their order."""
    asked = (
        sa.select(t.trials, t.tasks, t.trials.c.id.label("trial"))
        .join(t.tasks, t.tasks.c.id == t.trials.c.task)
        .where(t.trials.c.batch == batch)
        .order_by(t.trials.c.place)
    )
    rows = connection.execute(asked).mappings().all()
    role = connection.execute(sa.select(t.batches.c.role).where(t.batches.c.id == batch))
    trials = [_trial_view(connection, plan, stimuli, row, language) for row in rows]
    return {"batch": batch, "training": role.scalar_one() == "training", "trials": trials}


def _trial_view(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli, row: sa.RowMapping, language: str
) -> dict[str, Any]:
    height, width = stimuli.shown(row["scene"]).size
    view: dict[str, Any] = {
        "id": row["trial"],
        "answered": row["answered"] is not None,
        "width": width,
        "height": height,
        "part": row["part"],
        "screens": [],
    }
    if plan.kind == "rate":
        view["score"] = json.loads(row["answer"])["score"] if row["answer"] else None
        return view
    if plan.kind == "interact":
        view["clicks"] = _clicks_so_far(connection, row["trial"])
    for number, screen in enumerate(plan.mode(row["condition"]).screens):
        shown: dict[str, Any] = {"seconds": screen.seconds, "blocked": screen.blocked}
        if screen.show == "text":
            shown["text"] = stimuli.label(row["scene"], row["target"], language)
        else:
            shown["image"] = "image" if screen.show == "image" else str(number)
        view["screens"].append(shown)
    return view


def _clicks_so_far(connection: sa.Connection, trial: str) -> list[dict[str, Any]]:
    """Clicks of a session that a reloaded page goes on with."""
    asked = sa.select(t.steps.c.step).where(t.steps.c.trial == trial).order_by(t.steps.c.number)
    kept = [json.loads(step) for step in connection.execute(asked).scalars()]
    return [
        {"x": step["shown_x"], "y": step["shown_y"], "positive": step["positive"]} for step in kept
    ]
