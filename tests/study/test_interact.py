"""Segmenting with a model in the loop: stepped sessions, kept step by step."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan as RunPlan
from segmeter.core.prompts import Click, as_prompts
from segmeter.core.sections import Greys, Section, Slices
from segmeter.core.users import Observation
from segmeter.engine import run_plan
from segmeter.measures.judging import judge_by
from segmeter.models.synthetic import Disc
from segmeter.report.page import Page, render
from segmeter.runtime.remote_files import Roots
from segmeter.study import database as db
from segmeter.study.analyses import study_page
from segmeter.study.exports import export, step_rows
from segmeter.study.interactions import interactions, simulate_users, write_run
from segmeter.study.people import fill_with_people
from segmeter.study.preview import preview_page
from segmeter.study.records import steps_of
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import MEASURES, judge_of, model_for
from segmeter.study.server import study_app

PLAN = """
kind = "interact"
title = "Segment"
[data]
scenes = ["coffee", "rocket"]
[design]
models = ["disc"]
modes = ["Quick"]
rounds = 4
batch = 2
people = "within"
open_to_all = true
[[mode]]
name = "Quick"
screens = [{ show = "cutout", seconds = 0.1 }, { show = "image" }]
"""


def step(person: Any, trial: dict[str, Any], number: int, y: float, x: float, **more: Any) -> Any:
    body = {"number": number, "x": x, "y": y, "positive": True, "user_ms": 900.0}
    body |= {"pointer": "mouse", **more}
    return person.post(f"/api/trials/{trial['id']}/steps", body)


def content(person: Any, trial: dict[str, Any]) -> Any:
    timed = [1000.0 * screen["seconds"] for screen in trial["screens"][:-1]]
    body = {"nonce": secrets.token_hex(8), "accepted": True, "review_ms": 400.0}
    body |= {"screens": [{"planned_ms": ms, "true_ms": ms} for ms in timed], "focus_lost": False}
    return person.post(f"/api/trials/{trial['id']}", body)


def drawn(answer: dict[str, Any], shape: tuple[int, ...]) -> Mask:
    """The mask as the browser would draw it."""
    mask = answer["mask"]
    bits = np.zeros(mask["size"], dtype=bool).ravel()
    place = 0
    for k, length in enumerate(mask["runs"]):
        bits[place : place + length] = bool(k % 2)
        place += length
    return Mask.of(bits.reshape(mask["size"]), tuple(mask["low"]), shape)


def restarted(begin: Callable[..., RunningStudy], visit: Any, person: Any) -> Any:
    """The same person at a server that has just been started."""
    study = begin(PLAN)
    again = visit(study, study_app(study, "password", limited=False))
    again.http.cookies.update(person.http.cookies)
    again.token = person.token
    return again


def task_of(study: RunningStudy, trial: dict[str, Any]) -> Any:
    with study.database.snapshot() as connection:
        asked = (
            sa.select(db.tasks)
            .join(db.trials, db.trials.c.task == db.tasks.c.id)
            .where(db.trials.c.id == trial["id"])
        )
        return connection.execute(asked).mappings().one()


def test_a_simulated_person_in_the_study_repeats_the_benchmarks_session(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    person = visit(study).join()
    model = catalogue.models.make("disc")
    user = catalogue.users.make("centre-click")
    for trial in person.batch()["trials"]:
        task = task_of(study, trial)
        scene = study.stimuli.dataset.load(task["scene"])
        target = next(each for each in scene.targets if each.id == task["target"])
        judge = judge_by(MEASURES)
        simulated = SimulatedSession(target, user, "corrected")
        (record,) = simulate(scene, model.encode(scene), [simulated], 4, judge)
        for made in record.rounds:
            if not made.prompts:
                break
            (click,) = made.prompts
            assert isinstance(click, Click)
            y, x = click.point
            answer = step(person, trial, made.number, y + 0.5, x + 0.5, positive=click.positive)
            assert answer.status_code == 200, answer.text
            assert drawn(answer.json(), scene.shape) == made.mask
            assert set(answer.json()) == {"number", "mask"}  # no score leaves the server
            with study.database.snapshot() as connection:
                kept = steps_of(connection, trial["id"])[made.number - 1]
            assert kept["scores"] == made.scores
        assert content(person, trial).status_code == 200


VOLUMES = PLAN.replace('scenes = ["coffee", "rocket"]', 'dataset = "mini-volumes"')


def test_a_volume_is_segmented_slice_by_slice_as_a_simulated_user_does(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    """Clicks in upright slices are voxels; masks, scores and seconds are exported as for images."""
    study = begin(VOLUMES.replace("batch = 2", "batch = 1"))
    person = visit(study).join()
    (trial,) = person.batch()["trials"]
    task = task_of(study, trial)
    scene = study.stimuli.dataset.load(task["scene"])
    depth = scene.shape[0]
    data = trial["volume"]
    assert data["shape"] == list(scene.shape)
    assert data["greys"]["values"][0] <= scene.voxels.min()
    assert data["affine"] == [list(row) for row in scene.header.affine]
    target = next(each for each in scene.targets if each.id == task["target"])
    areas = [target.mask.slice(z).area for z in range(depth)]
    assert areas[int(data["at"][0])] == max(areas)
    assert target.mask.dense()[tuple(map(int, data["at"]))]
    mosaic = person.http.get(f"/images/{trial['id']}/volume")
    assert mosaic.status_code == 200
    person.see(trial)
    model = model_for(study.stimuli, "disc")
    user = catalogue.users.make("centre-click")
    simulated = SimulatedSession(target, user, "corrected")
    (record,) = simulate(scene, model.encode(scene), [simulated], 4, judge_of(scene))
    assert len({made.prompts[0].point[0] for made in record.rounds}) > 1  # several slices
    for made in record.rounds:
        (click,) = made.prompts
        z, y, x = click.point
        shown = (y + 0.5, x + 0.5)
        more = {"slice": int(z), "positive": click.positive}
        answer = step(person, trial, made.number, *shown, **more)
        assert answer.status_code == 200, answer.text
        assert drawn(answer.json(), scene.shape) == made.mask
    assert step(person, trial, 4, *shown, slice=depth).status_code == 422
    assert content(person, trial).status_code == 200
    with study.database.snapshot() as connection:
        rows = list(step_rows(connection, study.plan))
        export(connection, study.plan, study.stimuli, tmp_path / "out")
    points = [(row["z"], row["y"], row["x"]) for row in rows]
    assert points == [made.prompts[0].point for made in record.rounds]
    assert [{"iou": row["iou"], "dice": row["dice"]} for row in rows] == [
        made.scores for made in record.rounds
    ]
    assert all(row["user_ms"] == 900.0 and row["server_ms"] > 0 for row in rows)
    kept = pq.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    assert [(row["z"], row["y"], row["x"]) for row in kept] == points


def test_volumes_are_shown_by_the_viewer_of_reports(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    person = visit(begin(VOLUMES)).join()
    script = person.http.get("/static/slices.js").text
    shape = (4, 20, 20)
    voxels, mask = np.zeros(shape, np.uint8), Mask.box(shape, (1, 5, 5), (3, 9, 9))
    block = Slices("k", "small", voxels, [], mask, greys=Greys((0.0, 1.0, 2.0, 3.0)))
    report = render(Page("volumes", "", [], [Section("Slices", blocks=[block])]))
    assert script in report
    page = person.http.get("/work").text
    for control in ("data-plane", "data-at", "data-level", "data-width", "data-preset"):
        assert control in page
        assert control in report


def test_people_and_a_simulated_user_are_compared_on_volumes(
    begin: Callable[..., RunningStudy], tmp_path: Path
) -> None:
    study = begin(f'{VOLUMES}\n[validity]\nexclude = ["no_click"]')
    fill_with_people(study)
    with study.database.snapshot() as connection:
        found = interactions(connection, study.plan)
        others = simulate_users(found, study.plan, study.stimuli, ["centre-click"])
        page = study_page(connection, study.plan, study.stimuli, others)
    assert "Participants and simulated users on the same objects" in page
    assert "(slice " in page
    assert "until the answer" in preview_page(study.plan, study.stimuli)
    with pytest.raises(BadInput, match="compared in its report"):
        write_run(found, others, study.plan, study.stimuli, tmp_path / "run")


@pytest.mark.usefixtures("encoded_once")
def test_people_simulated_at_the_server_repeat_run_noc_with_mobilesam(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path, real_weights: Path
) -> None:
    """The user sees the server's masks only; its clicks and scores are those of the run."""
    pytest.importorskip("torch", reason="needs the extra 'models'")
    spec = Spec("centre-click")
    plan = RunPlan("noc", (Spec("mobile-sam"),), (Spec("mini"),), users=(spec,), rounds=3)
    plan = replace(plan, protocols=("corrected",), measures=MEASURES, limit=1)
    run_plan(plan, tmp_path / "run", workers=0, roots=Roots(None, real_weights))
    (part,) = (tmp_path / "run" / "jobs").glob("*.parquet")
    played = sorted(pq.read_table(part).to_pylist(), key=lambda row: row["round"])
    study = begin(PLAN.replace("disc", "mobile-sam").replace('"coffee", "rocket"', '"astronaut"'))
    person = visit(study, study_app(study, "password", weights=real_weights, limited=False)).join()
    (trial,) = person.batch()["trials"]
    task = task_of(study, trial)
    scene = study.stimuli.dataset.load(task["scene"])
    target = next(each for each in scene.targets if each.id == task["target"])
    user, view = catalogue.users.make("centre-click"), Disc().encode(scene)
    seen, said = Mask.empty(scene.shape), ()
    wanted = [row for row in played if row["target"] == target.id]
    assert [row["round"] for row in wanted] == [1, 2, 3]
    for row in wanted:
        looked = Observation(scene, target, seen, said, "corrected", view, round=row["round"])
        (click,) = as_prompts(user.next(looked, np.random.default_rng(0)))
        assert isinstance(click, Click)
        y, x = click.point
        assert (y, x, click.positive) == (row["y"], row["x"], row["positive"])
        answer = step(person, trial, row["round"], y + 0.5, x + 0.5, positive=click.positive)
        seen, said = drawn(answer.json(), scene.shape), (*said, click)
    with study.database.snapshot() as connection:
        kept = steps_of(connection, trial["id"])
    assert [each["scores"] for each in kept] == [
        {"iou": row["iou"], "boundary_iou": row["boundary_iou"]} for row in wanted
    ]
    assert [each["model_score"] for each in kept] == [row["score"] for row in wanted]


class Slow:
    """A model that encodes its first scene at once and every other only when it may."""

    card = Disc.card

    def __init__(self) -> None:
        self.first, self.may, self.encoding = "", threading.Event(), threading.Event()

    def encode(self, scene: Any) -> Any:
        self.first = self.first or scene.id
        if scene.id != self.first:
            self.encoding.set()
            assert self.may.wait(60)
        return Disc().encode(scene)


def test_a_click_on_an_encoded_image_does_not_wait_for_another_image(
    begin: Callable[..., RunningStudy], visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(PLAN)
    slow = Slow()
    monkeypatch.setattr("segmeter.study.segmenting.catalogue.models.make", lambda *_, **__: slow)
    person = visit(study).join()
    trials = person.batch()["trials"]
    try:
        assert slow.encoding.wait(60)
        by_scene = {task_of(study, trial)["scene"]: trial for trial in trials}
        first = by_scene.pop(slow.first)
        (second,) = by_scene.values()
        assert step(person, first, 1, 100.5, 100.5).status_code == 200
        assert not slow.may.is_set()
    finally:
        slow.may.set()
    assert step(person, second, 1, 100.5, 100.5).status_code == 200


def test_a_session_continues_after_a_server_restart(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    first = step(person, trial, 1, 100.5, 100.5).json()
    second = step(person, trial, 2, 40.5, 60.5).json()
    again = restarted(begin, visit, person)
    assert again.batch()["trials"][0]["clicks"] == [
        {"x": 100.5, "y": 100.5, "slice": 0, "positive": True},
        {"x": 60.5, "y": 40.5, "slice": 0, "positive": True},
    ]
    assert step(again, trial, 2, 40.5, 60.5).json() == second
    assert step(again, trial, 1, 100.5, 100.5).json() == first
    third = step(again, trial, 3, 10.5, 10.5, positive=False)
    later = restarted(begin, visit, person)
    assert third.json() == step(later, trial, 3, 10.5, 10.5, positive=False).json()


def test_clicks_come_in_order_inside_the_image_and_not_after_the_end(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    person, other = visit(study).join(), visit(study).join()
    (trial, *_) = person.batch()["trials"]
    assert step(other, trial, 1, 5.0, 5.0).status_code == 404
    assert step(person, trial, 2, 5.0, 5.0).status_code == 409
    assert step(person, trial, 1, -1.0, 5.0).status_code == 422
    assert step(person, trial, 1, 5.0, 99999.0).status_code == 422
    study.set_state("paused")
    assert step(person, trial, 1, 50.0, 50.0).status_code == 423
    study.set_state("open")
    assert step(person, trial, 1, 50.0, 50.0).status_code == 200
    assert step(person, trial, 1, 51.0, 50.0).status_code == 409
    for number in (2, 3, 4):
        assert step(person, trial, number, 50.0 + number, 50.0).status_code == 200
    assert step(person, trial, 5, 5.0, 5.0).status_code == 409
    assert content(person, trial).status_code == 200
    assert step(person, trial, 5, 5.0, 5.0).status_code == 410


def test_the_last_click_can_be_taken_back(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(PLAN)
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    first = step(person, trial, 1, 100.5, 100.5).json()
    step(person, trial, 2, 40.5, 60.5)
    undo = {"number": 2, "undo": True, "user_ms": 10.0, "pointer": "mouse"}
    path = f"/api/trials/{trial['id']}/steps"
    assert person.post(path, undo).json() == first
    assert person.post(path, undo).json() == first  # sent again, it changes nothing more
    assert person.post(path, {**undo, "number": 5}).status_code == 409
    other = step(person, trial, 2, 20.5, 20.5).json()
    again = restarted(begin, visit, person)
    assert step(again, trial, 2, 20.5, 20.5).json() == other
    assert content(again, trial).status_code == 200
    with study.database.snapshot() as connection:
        rows = [row for row in step_rows(connection, study.plan) if row["trial"] == trial["id"]]
    assert [(row["x"], row["undone"]) for row in rows] == [(100, False), (60, True), (20, False)]
