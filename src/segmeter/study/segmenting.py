"""Segmenting with a model in the loop: a participant's clicks drive a session on the server.

Every step is stored before its mask is sent, so a session continues after a crash by replaying
its clicks. Scores of masks never leave the server.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, Request
from segmeter.core.prompts import Click
from segmeter.core.rle import of_bits
from segmeter.core.scenes import Scene, Volume
from segmeter.core.sessions import Judge, Round, Session
from segmeter.engine.arithmetic import fix_arithmetic
from segmeter.measures.judging import judge_by
from segmeter.runtime.workers_and_devices import gpu_names
from segmeter.study import database as db
from segmeter.study.messages import Step
from segmeter.study.records import Refused, Row, server_ms_since_last, steps_of, store
from segmeter.study.running import RunningStudy
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import CLOCK_SLACK_MS

MEASURES, VOLUME_MEASURES = ("iou", "boundary-iou"), ("iou", "dice")
_KEPT_SCENES_ENCODED, _KEPT_SESSIONS = 64, 200
_AHEAD = 2
OF_ROUND = ("scores", "model_score", "mask_index", "mask_fed_back")


@dataclass(slots=True)
class _Open:
    """A participant's session with one object; `turn` serialises its clicks."""

    trial: str
    session: Session
    turn: threading.Lock = field(default_factory=threading.Lock)


class Segmenting:
    """Models, encoded scenes, and the sessions of participants who click on them."""

    def __init__(self, study: RunningStudy, weights: Path | None = None) -> None:
        # One thread, as in a run: the same digits, and less contention on a busy server
        # (105 instead of 485 ms per click, perf/study_interact.py).
        fix_arithmetic(threads=1)
        self._study = study
        judge_by((*MEASURES, *VOLUME_MEASURES))  # imports them before there are several threads
        self._models: dict[str, Model] = {
            name: model_for(study.stimuli, name, weights) for name in study.plan.design.models
        }
        self._encoded_scenes: OrderedDict[tuple[str, str], EncodedScene] = OrderedDict()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._books = threading.Lock()
        # One prediction at a time. On a CPU predictions do not wait for encoding, which takes ten
        # times as long; on a GPU encoding is short, and captured graphs need the device alone.
        self._answering = threading.Lock()
        self._encoding = self._answering if gpu_names() else threading.Lock()
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="encode-ahead")

    def prepare(self, batch: str, place: int = 0) -> None:
        """Encode a batch's next scenes while the participant is still busy."""
        self._ahead.submit(self._encode_ahead, batch, place)

    def step(self, person: Row, trial: str, request: Step) -> dict[str, Any]:
        """Reply to a click with a mask; a repeated message gets the same mask again."""
        self._study.check_open()
        now, task = time.time(), self._study.trial(person, trial)
        self._check(task, request)
        open = self._open_at(trial, task)
        with open.turn:
            session = open.session
            if request.undo:
                return self._undo(open, task, request)
            if request.number <= len(session.rounds):
                made = session.rounds[request.number - 1]
                if made.prompts != (self._click(task, request),):
                    raise Refused(409, "this click was made before at another place")
                return self._encoded_of(task, made)
            if request.number != len(session.rounds) + 1:
                raise Refused(409, "clicks are sent in their order")
            with self._answering:
                made = session.step(self._click(task, request), seconds_user=request.user_ms / 1000)
            try:
                with self._study.database.writing() as connection:
                    ms = server_ms_since_last(connection, task, now)
                    body = _kept(made, request, ms)
                    store(connection, self._study.plan, task, "step", body, time.time())
            except BaseException:
                with self._books:  # a step that is not stored did not happen
                    self._open.pop(task["batch"], None)
                raise
        if request.number == 1:
            self.prepare(task["batch"], task["place"] + 1)
        return self._encoded_of(task, made)

    def _undo(self, open: _Open, task: Row, request: Step) -> dict[str, Any]:
        """Take back the last click; sent again, it changes nothing more."""
        standing = len(open.session.rounds)
        if request.number not in (standing, standing + 1):
            raise Refused(409, "only the last click can be taken back")
        if request.number == standing:
            with self._study.database.writing() as connection:
                now = time.time()
                ms = server_ms_since_last(connection, task, now)
                late = request.user_ms > ms + CLOCK_SLACK_MS
                body = {"number": request.number, "user_ms": request.user_ms, "clock": late}
                store(connection, self._study.plan, task, "undo", body, now)
            open.session = self._replayed(task)
        rounds = open.session.rounds
        return self._encoded_of(task, rounds[-1]) if rounds else {"number": 0, "mask": None}

    def _check(self, task: Row, request: Step) -> None:
        if task["state"] != "open" or task["answered"] is not None:
            raise Refused(410, "this object is finished")
        if request.number > self._study.plan.design.rounds:
            raise Refused(409, "there are no clicks left for this object")
        shown = self._study.stimuli.shown(task["scene"])
        height, width = shown.size
        inside = 0 <= request.x < width and 0 <= request.y < height
        if not inside or request.slice >= max(1, shown.depth):
            raise Refused(422, "the click lies outside the image")

    def _click(self, task: Row, request: Step) -> Click:
        shown = self._study.stimuli.shown(task["scene"])
        point = shown.scene_point(request.y, request.x, request.slice)
        return Click(point, request.positive)

    def _encoded_of(self, task: Row, made: Round) -> dict[str, Any]:
        """The mask for a browser."""
        mask = self._study.stimuli.shown(task["scene"]).fitted(made.mask)
        return {"number": made.number, "mask": boxed(mask) if mask else None}

    def _open_at(self, trial: str, task: Row) -> _Open:
        """The participant's session with this object; one is kept per batch."""
        batch = task["batch"]
        with self._books:
            found = self._open.get(batch)
        if found is None or found.trial != trial:
            made = _Open(trial, self._replayed(task))
            with self._books:
                found = self._open.get(batch)  # another request may have been faster
                if found is None or found.trial != trial:
                    self._open[batch] = found = made
                if len(self._open) > _KEPT_SESSIONS:
                    self._open.popitem(last=False)
        return found

    def _replayed(self, task: Row) -> Session:
        """The trial's session, brought to its stored clicks."""
        encoded = self._encoded(task["source"], task["scene"])
        scene = self._study.stimuli.shown(task["scene"]).scene
        target = next(each for each in scene.targets if each.id == task["target"])
        session = Session(scene, encoded, target, judge=judge_of(scene))
        with self._study.database.snapshot() as connection:
            steps = steps_of(connection, task["id"])
        for step in steps:
            with self._answering:
                session.step(click_of(step), seconds_user=step["user_ms"] / 1000)
        return session

    def _encode_ahead(self, batch: str, place: int) -> None:
        asked = (
            sa.select(db.tasks.c.source, db.tasks.c.scene, db.tasks.c.target)
            .join(db.trials)
            .where(db.trials.c.batch == batch, db.trials.c.place >= place)
            .where(db.trials.c.answered.is_(None))
            .order_by(db.trials.c.place)
            .limit(_AHEAD)
        )
        with self._study.database.snapshot() as connection:
            wanted = connection.execute(asked).all()
        for model, scene, target in wanted:
            encoded, shown = self._encoded(model, scene), self._study.stimuli.shown(scene)
            if shown.depth:  # a slice is encoded when it is first clicked; this is the likely one
                with self._answering:
                    encoded.predict([Request((Click(shown.centre(target)),))])

    def _encoded(self, model: str, scene: str) -> EncodedScene:
        key = (model, scene)
        with self._books:
            if key in self._encoded_scenes:
                self._encoded_scenes.move_to_end(key)
                return self._encoded_scenes[key]
        with self._encoding:
            encoded = self._encoded_scenes.get(key)
            if encoded is None:
                encoded = self._models[model].encode(self._study.stimuli.shown(scene).scene)
        with self._books:
            self._encoded_scenes[key] = encoded
            if len(self._encoded_scenes) > _KEPT_SCENES_ENCODED:
                self._encoded_scenes.popitem(last=False)
        return encoded


def judge_of(scene: Scene) -> Judge:
    measures = VOLUME_MEASURES if isinstance(scene, Volume) else MEASURES
    return judge_by(measures, scene.spacing_mm)


def model_for(stimuli: Stimuli, name: str, weights: Path | None = None) -> Model:
    """A model for a study's scenes: one for images takes volumes slice by slice."""
    model: Model = catalogue.models.make(name, weights=weights)
    if stimuli.volumes and "volume" not in model.card.abilities:
        model = catalogue.models.make("slicewise", model=name, weights=weights)
    return model


def click_of(step: Mapping[str, Any]) -> Click:
    """The click of a stored step, in coordinates of the scene."""
    return Click(tuple(step["point"]), step["positive"])


def boxed(mask: Mask) -> dict[str, Any]:
    """A mask as alternating run lengths inside its box, empty run first.

    >>> boxed(Mask.box((4, 4), (1, 1), (3, 3)))
    {'low': [1, 1], 'size': [2, 2], 'runs': [0, 4]}
    """
    low, size = [int(n) for n in mask.low], [int(n) for n in mask.bits.shape]
    return {"low": low, "size": size, "runs": of_bits(mask.bits).tolist()}


def _kept(made: Round, request: Step, server_ms: float) -> dict[str, Any]:
    (click,) = made.prompts
    assert isinstance(click, Click)
    return {
        "point": list(click.point),
        "positive": click.positive,
        "shown_y": request.y,
        "shown_x": request.x,
        **{name: getattr(request, name) for name in ("slice", "user_ms", "pointer", "zoom")},
        "server_ms": round(server_ms, 1),
        "clock": request.user_ms > server_ms + CLOCK_SLACK_MS,
        "model_ms": 1000 * made.seconds_predict,
        **{name: getattr(made, name) for name in OF_ROUND},
        "mask": made.mask.encoded(),
    }
