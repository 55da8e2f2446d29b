"""Segmenting with a model in the loop: a person's clicks step a session on the server.

Every step is in the ledger before its mask leaves, so after a crash a session is stepped
again through the same clicks and goes on. How good a mask is never leaves the server.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
from segmeter.engine.arithmetic import steady_arithmetic
from segmeter.runtime.devices import has_cuda
from segmeter.study import tables as t
from segmeter.study.lookups import Row
from segmeter.study.messages import StepAsk
from segmeter.study.refusals import Refused
from segmeter.study.running import RunningStudy

__all__ = ["MEASURES", "Segmenting", "run_lengths", "scene_point"]

MEASURES = ("iou", "boundary-iou")
_KEPT_VIEWS, _KEPT_SESSIONS = 64, 200
_AHEAD = 2


@dataclass(slots=True)
class _Open:
    """The object that a person is at; `turn` keeps their clicks one after the other."""

    trial: str
    session: Session
    turn: threading.Lock = field(default_factory=threading.Lock)


class Segmenting:
    """Models that have looked at scenes, and the sessions of people who click on them."""

    def __init__(self, study: RunningStudy, weights: Path | None = None) -> None:
        # One thread, as in a run: the same digits, and threads that wait for each other cost
        # a busy server five times as much (485 for 105 ms per click, perf/study_interact.py).
        steady_arithmetic(threads=1)
        self._study = study
        self._models: dict[str, Model] = {
            name: catalogue.models.make(name, weights=weights) for name in study.plan.models
        }
        self._views: OrderedDict[tuple[str, str], View] = OrderedDict()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._books = threading.Lock()
        # Networks answer one at a time. On a processor nobody's click waits for a look, which
        # takes ten times as long; on a GPU looks are short, and captured graphs want it alone.
        self._answering = threading.Lock()
        self._looking = self._answering if has_cuda() else threading.Lock()
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="look-ahead")

    def prepare(self, batch: str, place: int = 0) -> None:
        """Look at a batch's next scenes while the person still looks or reads."""
        self._ahead.submit(self._look_ahead, batch, place)

    def step(self, person: Row, trial: str, ask: StepAsk) -> dict[str, Any]:
        """Answer a click with a mask; the same click again with the same mask."""
        self._study.check_open()
        task = self._study.trial(person, trial)
        self._check(task, ask)
        open = self._open_at(trial, task)
        with open.turn:
            session = open.session
            if ask.number <= len(session.rounds):
                return self._repeat(session, task, ask)
            if ask.number != len(session.rounds) + 1:
                raise Refused(409, "clicks come in their order")
            click = Click(self._point(task, ask), ask.positive)
            with self._answering:
                made = session.step(click, seconds_user=ask.user_ms / 1000)
            body = {"trial": trial, "number": ask.number, "step": _kept(made, ask)}
            try:
                with self._study.ledger.writing() as work:
                    work.record("stepped", body, person["id"])
            except BaseException:
                self._forget(task["batch"])  # what is not kept did not happen
                raise
        if ask.number == 1:
            self.prepare(task["batch"], task["place"] + 1)
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

    def _open_at(self, trial: str, task: Row) -> _Open:
        """The person's session with this object; of each person one is held."""
        batch = task["batch"]
        with self._books:
            found = self._open.get(batch)
        if found is None or found.trial != trial:
            view = self._view(task["source"], task["scene"])
            made = _Open(trial, self._stepped_again(trial, task, view))
            with self._books:
                found = self._open.get(batch)
                if found is None or found.trial != trial:
                    self._open[batch] = found = made
        with self._books:
            if batch in self._open:
                self._open.move_to_end(batch)
            if len(self._open) > _KEPT_SESSIONS:
                self._open.popitem(last=False)
        return found

    def _forget(self, batch: str) -> None:
        with self._books:
            self._open.pop(batch, None)

    def _stepped_again(self, trial: str, task: Row, view: View) -> Session:
        """The trial's session, through the clicks that the ledger has of it."""
        scene = self._scene(task["scene"])
        target = next(each for each in scene.targets if each.id == task["target"])
        session = Session(scene, view, target, judge=judge_by(MEASURES))
        asked = sa.select(t.steps.c.step).where(t.steps.c.trial == trial)
        with self._study.ledger.reading() as connection:
            rows = connection.execute(asked.order_by(t.steps.c.number)).scalars().all()
        for step in map(json.loads, rows):
            click = Click((step["y"], step["x"]), step["positive"])
            with self._answering:
                session.step(click, seconds_user=step["user_ms"] / 1000)
        return session

    def _scene(self, scene: str) -> Scene:
        return self._study.stimuli.shown(scene).scene

    def _look_ahead(self, batch: str, place: int) -> None:
        asked = (
            sa.select(t.tasks.c.source, t.tasks.c.scene)
            .join(t.trials, t.trials.c.task == t.tasks.c.id)
            .where(t.trials.c.batch == batch, t.trials.c.place >= place)
            .where(t.trials.c.answered.is_(None))
            .order_by(t.trials.c.place)
            .limit(_AHEAD)
        )
        with self._study.ledger.reading() as connection:
            wanted = connection.execute(asked).all()
        for model, scene in wanted:
            self._view(model, scene)

    def _view(self, model: str, scene: str) -> View:
        key = (model, scene)
        with self._books:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        with self._looking:
            view = self._views.get(key) or self._models[model].look(self._scene(scene))
        with self._books:
            self._views[key] = view
            if len(self._views) > _KEPT_VIEWS:
                self._views.popitem(last=False)
        return view


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
