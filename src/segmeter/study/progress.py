"""Progress of a study, cell by cell, as the conductor sees it."""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.drawing import encoded
from segmeter.study.stimuli import Stimuli


def progress(connection: sa.Connection) -> dict[str, Any]:
    """Counts now: `cells` by condition and device, `dropped` the last dropped batches."""
    cells = _cells(connection)
    states = sa.select(db.batches.c.state, sa.func.count()).group_by(db.batches.c.state)
    batches = {row[0]: row[1] for row in connection.execute(states)}
    used = db.count(connection, db.invitations.c.person.is_not(None))
    return {
        "state": connection.execute(sa.select(db.study.c.state)).scalar_one(),
        "people": db.count(connection, db.people.c.number >= 0),
        "working": batches.get("open", 0),
        **{name: sum(cell[name] for cell in cells) for name in ("wanted", "valid", "open")},
        "batches": batches,
        "cells": cells,
        "dropped": _dropped(connection),
        "seconds": _seconds(connection),
        "invitations": (used, db.count(connection, db.invitations.c.made > 0)),
    }


def heat_targets(connection: sa.Connection, most: int = 24) -> list[dict[str, Any]]:
    """The targets with the most clicks so far."""
    asked = (
        sa.select(db.tasks.c.scene, db.tasks.c.target, sa.func.count().label("clicks"))
        .join(db.trials)
        .where(db.trials.c.answered.is_not(None), db.tasks.c.role != "training")
        .group_by(db.tasks.c.scene, db.tasks.c.target)
        .order_by(sa.func.count().desc(), db.tasks.c.scene, db.tasks.c.target)
        .limit(most)
    )
    return [dict(row) for row in connection.execute(asked).mappings()]


def is_shown(connection: sa.Connection, scene: str, target: str) -> bool:
    """Whether the study has such a target at all."""
    return bool(db.count(connection, db.tasks.c.scene == scene, db.tasks.c.target == target))


def heat_image(connection: sa.Connection, stimuli: Stimuli, scene: str, target: str) -> bytes:
    """A target's clicks as a heat map over the image, with each click as a dot."""
    last = db.latest_answers()
    asked = sa.select(last.c.body).select_from(db.ALL.join(last, last.c.trial == db.trials.c.id))
    asked = asked.where(db.tasks.c.scene == scene, db.tasks.c.target == target)
    answers = [json.loads(text)["given"] for text in connection.execute(asked).scalars()]
    shown = stimuli.shown(scene)
    heat: npt.NDArray[np.float32] = np.zeros(shown.size, dtype=np.float32)
    spots = [(int(each["y"]), int(each["x"])) for each in answers if "x" in each]
    for y, x in spots:
        heat[np.clip(y, 0, heat.shape[0] - 1), np.clip(x, 0, heat.shape[1] - 1)] += 1
    width = max(3.0, 0.02 * float(np.hypot(*shown.size)))
    heat = np.asarray(cv2.GaussianBlur(heat, (0, 0), width), dtype=np.float32)
    heat /= max(float(heat.max()), 1e-9)
    warm = np.asarray((255, 80, 0), dtype=np.float32)
    grey = shown.pixels.mean(axis=2, keepdims=True).repeat(3, axis=2) * 0.8
    drawn = (grey * (1 - 0.75 * heat[..., None]) + 0.75 * warm * heat[..., None]).astype(np.uint8)
    for y, x in spots:
        cv2.circle(drawn, (x, y), max(2, int(width / 4)), (255, 255, 255), -1, cv2.LINE_AA)
    outline = shown.targets[target].mask.dense().astype(np.uint8)
    contours, _ = cv2.findContours(outline, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(drawn, contours, -1, (125, 180, 230), max(1, int(width / 6)))
    return encoded(drawn, image=True)


def _cells(connection: sa.Connection) -> list[dict[str, Any]]:
    c = db.cells.c
    asked = (
        sa.select(
            db.tasks.c.condition,
            c.device,
            sa.func.count().label("targets"),
            sa.func.sum(c.wanted).label("wanted"),
            sa.func.sum(c.valid).label("valid"),
            sa.func.sum(c.open).label("open"),
            sa.func.min(c.valid).label("least"),
            sa.func.max(c.valid).label("most"),
        )
        .join(db.tasks)
        .group_by(db.tasks.c.condition, c.device)
        .order_by(db.tasks.c.condition, c.device)
    )
    return [dict(row) for row in connection.execute(asked).mappings()]


def _dropped(connection: sa.Connection) -> list[dict[str, Any]]:
    b = db.batches.c
    asked = sa.select(b.person, b.device, b.condition, b.state, b.reason, b.closed)
    asked = asked.where(b.state.in_(["dropped", "returned"])).order_by(b.closed.desc()).limit(20)
    return [dict(row) for row in connection.execute(asked).mappings()]


def _seconds(connection: sa.Connection) -> list[dict[str, Any]]:
    """Median seconds per answer, by condition: latency of clicks, else the server's time."""
    last = db.latest_answers()
    asked = sa.select(db.tasks.c.condition, last.c.body).where(db.tasks.c.role != "training")
    asked = asked.select_from(db.ALL.join(last, last.c.trial == db.trials.c.id))
    found: dict[str, list[float]] = {}
    for condition, text in connection.execute(asked):
        body = json.loads(text)
        ms = body["given"].get("latency_ms", body["server"]["total_ms"])
        found.setdefault(condition, []).append(ms / 1000)
    return [
        {"condition": name, "answers": len(values), "median": float(np.median(values))}
        for name, values in sorted(found.items())
    ]
