"""Segmenting with a model in the loop: a person's clicks step a session on the server.

Every step is in the ledger before its mask leaves, so after a crash a session is stepped
again through the same clicks and goes on. How good a mask is never leaves the server.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.benchmarks.sessions import judge_by
from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import Model, View
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene
from segmeter.core.sessions import Round, Session
from segmeter.study import tables as t
from segmeter.study.messages import StepAsk
from segmeter.study.running import Refused, Row, RunningStudy

__all__ = ["MEASURES", "Segmenting", "run_lengths", "scene_point"]

MEASURES = ("iou", "boundary-iou")
_KEPT_VIEWS, _KEPT_SESSIONS = 24, 500


class Segmenting:
    """Models that have looked at scenes, and the sessions of people who click on them."""

    def __init__(self, study: RunningStudy, weights: Path | None = None) -> None:
        self._study = study
        self._models: dict[str, Model] = {
            name: catalogue.models.make(name, weights=weights) for name in study.plan.models
        }
        self._views: OrderedDict[tuple[str, str], View] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        # Networks answer one at a time; looking ahead waits for nobody.
        self._lock = threading.RLock()
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="look-ahead")

    def prepare(self, batch: str) -> None:
        """Look at a batch's scenes while the person still reads the instructions."""
        asked = (
            sa.select(t.tasks.c.source, t.tasks.c.scene)
            .join(t.trials, t.trials.c.task == t.tasks.c.id)
            .where(t.trials.c.batch == batch)
            .order_by(t.trials.c.place)
        )
        with self._study.ledger.reading() as connection:
            wanted = connection.execute(asked).all()
        for model, scene in wanted:
            self._ahead.submit(self._view, model, scene)

    def step(self, person: Row, trial: str, ask: StepAsk) -> dict[str, Any]:
        """Answer a click with a mask; the same click again with the same mask."""
        self._study.check_open()
        task = self._study.trial(person, trial)
        self._check(task, ask)
        with self._lock:
            session = self._session(trial, task)
            if ask.number <= len(session.rounds):
                return self._repeat(session, task, ask)
            if ask.number != len(session.rounds) + 1:
                raise Refused(409, "clicks come in their order")
            click = Click(self._point(task, ask), ask.positive)
            made = session.step(click, seconds_user=ask.user_ms / 1000)
            body = {"trial": trial, "number": ask.number, "step": _kept(made, ask)}
            try:
                with self._study.ledger.writing() as work:
                    work.record("stepped", body, person["id"])
            except BaseException:
                self._sessions.pop(trial, None)  # what is not kept did not happen
                raise
        return self._view_of(task, made)

    def _check(self, task: Row, ask: StepAsk) -> None:
        if task["state"] != "open" or task["answered"] is not None:
            raise Refused(410, "this object is finished")
        if ask.number > self._study.plan.rounds:
            raise Refused(409, "there are no clicks left for this object")
        height, width = self._study.stimuli.shown(task["scene"]).size
        if not (0 <= ask.x < width and 0 <= ask.y < height):
            raise Refused(422, "the click lies outside the picture")

    def _point(self, task: Row, ask: StepAsk) -> tuple[float, float]:
        shown = self._study.stimuli.shown(task["scene"])
        return scene_point(ask.y, ask.x, shown.size, shown.scene.shape)

    def _repeat(self, session: Session, task: Row, ask: StepAsk) -> dict[str, Any]:
        made = session.rounds[ask.number - 1]
        if made.prompts != (Click(self._point(task, ask), ask.positive),):
            raise Refused(409, "this click was made before, and elsewhere")
        return self._view_of(task, made)

    def _view_of(self, task: Row, made: Round) -> dict[str, Any]:
        shown = self._study.stimuli.shown(task["scene"])
        return {"number": made.number, **run_lengths(shown.fitted(made.mask))}

    def _session(self, trial: str, task: Row) -> Session:
        """The trial's session; after a restart it is stepped again through what was kept."""
        if trial in self._sessions:
            self._sessions.move_to_end(trial)
            return self._sessions[trial]
        view, scene = self._view(task["source"], task["scene"]), self._scene(task["scene"])
        target = next(each for each in scene.targets if each.id == task["target"])
        session = Session(scene, view, target, judge=judge_by(MEASURES))
        asked = sa.select(t.steps.c.step).where(t.steps.c.trial == trial)
        with self._study.ledger.reading() as connection:
            rows = connection.execute(asked.order_by(t.steps.c.number)).scalars().all()
        for row in rows:
            step = json.loads(row)
            session.step(
                Click((step["y"], step["x"]), step["positive"]), seconds_user=step["user_ms"] / 1000
            )
        self._sessions[trial] = session
        if len(self._sessions) > _KEPT_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _scene(self, scene: str) -> Scene:
        return self._study.stimuli.shown(scene).scene

    def _view(self, model: str, scene: str) -> View:
        key = (model, scene)
        with self._lock:
            if key not in self._views:
                self._views[key] = self._models[model].look(self._scene(scene))
            self._views.move_to_end(key)
            if len(self._views) > _KEPT_VIEWS:
                self._views.popitem(last=False)
            return self._views[key]


def scene_point(
    y: float, x: float, shown: tuple[int, int], scene: tuple[int, ...]
) -> tuple[float, float]:
    """The scene's pixel under a point of the shown picture.

    >>> scene_point(10.7, 0.2, (100, 100), (200, 200))
    (21.0, 0.0)
    """
    down, across = (int(v * s / n) for v, s, n in zip((y, x), scene, shown, strict=True))
    return float(min(down, scene[0] - 1)), float(min(across, scene[1] - 1))


def run_lengths(mask: Mask) -> dict[str, Any]:
    """A mask as alternating run lengths inside its box, row by row, empty run first.

    >>> run_lengths(Mask.box((4, 4), (1, 1), (3, 3)))
    {'top': 1, 'left': 1, 'height': 2, 'width': 2, 'runs': [0, 4]}
    """
    height, width = mask.bits.shape
    flat = np.concatenate([[False], mask.bits.ravel(), [False]])
    turns = np.flatnonzero(flat[1:] != flat[:-1])
    runs = np.diff(np.concatenate([[0], turns]))
    top, left = mask.low
    box = {"top": int(top), "left": int(left), "height": int(height), "width": int(width)}
    return {**box, "runs": [int(n) for n in runs]}


def _kept(made: Round, ask: StepAsk) -> dict[str, Any]:
    """What the ledger keeps of a step."""
    (click,) = made.prompts
    assert isinstance(click, Click)
    return {
        "y": click.point[0],
        "x": click.point[1],
        "positive": click.positive,
        "shown_y": ask.y,
        "shown_x": ask.x,
        "user_ms": ask.user_ms,
        "answer_ms": 1000 * made.seconds_answer,
        "pointer": ask.pointer,
        "scores": made.scores,
        "model_score": made.model_score,
        "candidate": made.candidate,
        "fed": made.fed,
        "mask": made.mask.to_coco()["counts"],
    }
