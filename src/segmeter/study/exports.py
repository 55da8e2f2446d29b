"""Exports: a study's answers as the files that everything else reads."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.datasets.recorded_clicks import COLUMNS
from segmeter.study import tables as t
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

__all__ = ["click_rows", "export", "full_stem", "rating_rows", "trial_rows"]

RATING_COLUMNS = (
    "job",
    "dataset",
    "scene",
    "target",
    "model",
    "rater",
    "role",
    "score",
    "seconds",
    "order",
    "at",
    "changes",
    "plan",
)


def export(connection: sa.Connection, plan: Plan, stimuli: Stimuli, folder: Path) -> list[Path]:
    """Write all files that the study's kind has; each is written whole or not at all.

    Clicks: `clicks.csv` in RClicks' columns (counted clicks only), and with several modes
    `previews.csv`, where the mode stands in place of the data set. Ratings: `ratings.csv`.
    Always: `trials.parquet` with every answer, counted or not, and its flags.
    """
    trials = list(trial_rows(connection, plan))
    if not trials:
        raise BadInput("nobody has been given anything yet: there is nothing to export")
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write_parquet(folder / "trials.parquet", trials)]
    if plan.clicks:
        rows = list(click_rows(connection, plan, stimuli))
        written.append(_write_csv(folder / "clicks.csv", COLUMNS, rows))
        if len(plan.modes) > 1:
            by_mode = list(click_rows(connection, plan, stimuli, by_mode=True))
            written.append(_write_csv(folder / "previews.csv", COLUMNS, by_mode))
    if plan.kind == "rate":
        ratings = list(rating_rows(connection, plan))
        written.append(_write_csv(folder / "ratings.csv", RATING_COLUMNS, ratings))
    return written


def full_stem(image: str, object: str, source: str, part: str) -> str:
    """The unique key of what was clicked, as RClicks writes it.

    >>> full_stem("dog", "3", "", "first"), full_stem("dog", "", "sam", "fn")
    ('dog_______3', 'dog_sam_fn')
    """
    stem = f"{image}_______{object}" if object else image
    return stem if part == "first" else f"{stem}_{source}_{part}"


def click_rows(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli, *, by_mode: bool = False
) -> Iterator[dict[str, Any]]:
    """Counted clicks in RClicks' columns; coordinates are rounded down to the pixel hit."""
    from segmeter.users.replay import NAMES

    name = NAMES.get(stimuli.dataset.card.name, stimuli.dataset.card.name)
    for row in _trials(connection):
        if row["counts"] != 1:
            continue
        answer = json.loads(row["answer"])
        several = len(stimuli.shown(row["scene"]).targets) > 1
        object = row["target"] if several else ""
        yield {
            "dataset": row["task_condition"] if by_mode else name,
            "image_stem": row["scene"],
            "object_stem": object,
            "model_type": row["source"],
            "click_type": row["part"],
            "full_stem": full_stem(row["scene"], object, row["source"], row["part"]),
            "device": row["device"],
            "x": math.floor(answer["x"]),
            "y": math.floor(answer["y"]),
            "w": answer["natural_width"],
            "h": answer["natural_height"],
        }


def rating_rows(connection: sa.Connection, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every rating that stands; `order` counts a rater's answers, `changes` earlier scores.

    Practice, masks with known answers and batches that failed them are left out.
    """
    asked = sa.select(t.answers.c.trial, sa.func.count()).group_by(t.answers.c.trial)
    given = {row[0]: row[1] for row in connection.execute(asked)}
    order: dict[str, int] = {}
    for row in _trials(connection):
        practice = row["batch_role"] == "training" or row["task_role"] == "gold"
        if row["answered"] is None or practice or row["state"] == "dropped":
            continue
        answer = json.loads(row["answer"])
        order[row["person"]] = order.get(row["person"], 0) + 1
        yield {
            "job": row["task"],
            "dataset": plan.dataset,
            "scene": row["scene"],
            "target": row["target"],
            "model": row["task_condition"],
            "rater": row["person"],
            "role": row["person_role"],
            "score": answer["score"],
            "seconds": answer["seconds"],
            "order": order[row["person"]],
            "at": row["answered"],
            "changes": given[row["id"]] - 1,
            "plan": row["plan"],
        }


def trial_rows(connection: sa.Connection, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every trial with all its columns; what does not apply is empty."""
    for row in _trials(connection):
        answer = json.loads(row["answer"]) if row["answer"] else {}
        flags = json.loads(row["flags"]) if row["flags"] else {}
        screens = answer.pop("screens", [])
        answer.pop("nonce", None)
        yield {
            "person": row["person"],
            "person_role": row["person_role"],
            "batch": row["batch"],
            "batch_state": row["state"],
            "batch_reason": row["reason"],
            "trial": row["place"],
            "training": row["batch_role"] == "training",
            "dataset": plan.dataset,
            "scene": row["scene"],
            "target": row["target"],
            "condition": row["task_condition"],
            "part": row["part"],
            "source": row["source"],
            "device": row["person_device"],
            "counts": row["counts"] == 1,
            "answered": row["answered"],
            "planned_ms": [float(screen["planned_ms"]) for screen in screens],
            "true_ms": [float(screen["true_ms"]) for screen in screens],
            **{f"flag_{name}": value for name, value in flags.items()},
            **answer,
            "plan": row["plan"],
        }


def _trials(connection: sa.Connection) -> Sequence[sa.RowMapping]:
    asked = (
        sa.select(
            t.trials,
            *t.TASK_COLUMNS,
            t.tasks.c.condition.label("task_condition"),
            t.batches.c.person,
            t.batches.c.device,
            t.batches.c.role.label("batch_role"),
            t.batches.c.state,
            t.batches.c.reason,
            t.people.c.role.label("person_role"),
            t.people.c.device.label("person_device"),
        )
        .join(t.tasks, t.tasks.c.id == t.trials.c.task)
        .join(t.batches, t.batches.c.id == t.trials.c.batch)
        .join(t.people, t.people.c.id == t.batches.c.person)
        .order_by(t.batches.c.opened, t.batches.c.id, t.trials.c.place)
    )
    return connection.execute(asked).mappings().all()


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Path:
    part = path.with_name(f"{path.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([row[name] for name in columns] for row in rows)
    part.replace(path)
    return path


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    part = path.with_name(f"{path.name}.part")
    pq.write_table(pa.table(columns), part)
    part.replace(path)
    return path
