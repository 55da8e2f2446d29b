"""Rating: blind, leased, overlapping, changeable until handed in."""

from __future__ import annotations

import csv
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click
from segmeter.study import database as db
from segmeter.study.assignment import Task, cells_of
from segmeter.study.drawing import VIEWS, zoom_window
from segmeter.study.exports import export, rating_rows
from segmeter.study.plan import Validity, parse_plan
from segmeter.study.running import RunningStudy

PLAN = """
kind = "rate"
title = "How good?"
[data]
scenes = ["coffee", "rocket", "astronaut"]
[design]
open_to_all = true
batch = 5
[validity]
least_seconds = 0
[rating]
overlap = 0.2
spot_checks = 0.2
[[masks]]
name = "ground_truth"
[[masks]]
name = "secret-model"
source = "ground_truth"
"""
TRAINED = (
    PLAN
    + """
[[rating.training]]
scene = "coffee"
target = "{target}"
masks = "ground_truth"
low = 9
high = 10
"""
)


def rate(person: Any, trial: dict[str, Any], score: int) -> Any:
    person.see(trial)
    body = {"nonce": secrets.token_hex(8), "score": score, "seconds": 0.5}
    body |= {"pointer": "mouse", "focus_lost": False}
    return person.post(f"/api/trials/{trial['id']}", body)


def rate_all(study: RunningStudy, visit: Any) -> None:
    """People come until nothing is left."""
    while visit(study).http.get("/join/open").status_code == 200:
        person = visit(study).join()
        batch = person.batch()
        while batch is not None:
            for trial in batch["trials"]:
                assert rate(person, trial, 7).status_code == 200
            assert person.post(f"/api/batches/{batch['batch']}/finish").status_code == 200
            batch = person.batch()


def test_every_job_is_rated_as_often_as_planned(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin(PLAN)
    rate_all(study, visit)
    with study.database.snapshot() as connection:
        cells = connection.execute(sa.select(db.cells)).mappings().all()
        rows = list(rating_rows(connection, study.plan))
        files = export(connection, study.plan, study.stimuli, tmp_path / "out")
    wanted = {cell["task"]: cell["wanted"] for cell in cells if cell["device"] == "any"}
    jobs = [row["job"] for row in rows]
    assert {job: jobs.count(job) for job in wanted} == wanted
    assert sorted(set(wanted.values())) == [1, 2]
    assert sum(count == 2 for count in wanted.values()) >= 0.2 * len(wanted)
    # Nobody rated the same job twice.
    assert len({(row["job"], row["rater"]) for row in rows}) == len(rows)
    with next(f for f in files if f.name == "ratings.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)


@pytest.mark.parametrize(("share", "tasks"), [(0.07, 7), (0.071, 8), (0.0, 0), (1.0, 100)])
def test_a_share_of_the_masks_is_rounded_up(share: float, tasks: int) -> None:
    plan = parse_plan(
        f'kind = "rate"\n[[masks]]\nname = "a"\n[rating]\noverlap = {share}\nspot_checks = {share}',
        Path(),
    )
    cells = cells_of(plan, [Task(str(n), "1", "a", "mask") for n in range(100)])
    assert sum(wanted == 2 for _, _, wanted in cells) == tasks
    assert sum(device == "tester" for _, device, _ in cells) == tasks


def test_two_masks_of_one_target_are_not_in_one_batch(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    batch = visit(study).join().batch()
    with study.database.snapshot() as connection:
        ids = [trial["id"] for trial in batch["trials"]]
        asked = (
            sa.select(db.tasks.c.scene, db.tasks.c.target)
            .join(db.trials, db.trials.c.task == db.tasks.c.id)
            .where(db.trials.c.id.in_(ids))
        )
        found = connection.execute(asked).all()
    assert len(set(found)) == len(found) == 5


def test_participants_cannot_infer_the_model_of_a_mask(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    person = visit(study).join()
    batch = person.batch()
    trial = batch["trials"][0]
    said = [json.dumps(batch), person.http.get("/work").text, person.http.get("/guidelines").text]
    for view in VIEWS:
        answer = person.http.get(f"/images/{trial['id']}/{view}")
        assert answer.status_code == 200
        said.append(str(dict(answer.headers)) + answer.content.decode("latin-1"))
    for text in said:
        assert "secret-model" not in text
    for name in ("image", "cutout", "silhouette", "0"):
        assert person.http.get(f"/images/{trial['id']}/{name}").status_code == 404


def test_a_score_may_change_until_the_batch_is_submitted_and_its_history_is_kept(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(PLAN)
    person = visit(study).join()
    batch = person.batch()
    finish = f"/api/batches/{batch['batch']}/finish"
    first = batch["trials"][0]
    assert rate(person, first, 3).status_code == 200
    assert person.post(finish).status_code == 409
    assert rate(person, first, 8).status_code == 200
    for trial in batch["trials"][1:]:
        assert rate(person, trial, 5).status_code == 200
    assert person.post(finish).status_code == 200
    assert rate(person, first, 1).status_code == 410
    assert person.post(finish).status_code == 200
    with study.database.snapshot() as connection:
        asked = sa.select(db.answers.c.body).where(db.answers.c.trial == first["id"])
        history = [
            json.loads(text)["given"]["score"] for text in connection.execute(asked).scalars()
        ]
        (row,) = [row for row in rating_rows(connection, study.plan) if row["score"] == 8]
    assert history == [3, 8]
    assert row["changes"] == 1


@pytest.mark.parametrize("score", [0, 11, 5.5, "7", None, True])
def test_scores_off_the_scale_are_refused(
    begin: Callable[..., RunningStudy], visit: Any, score: Any
) -> None:
    person = visit(begin(PLAN)).join()
    assert rate(person, person.batch()["trials"][0], score).status_code == 422


def test_practice_comes_first_and_has_to_be_passed(
    begin: Callable[..., RunningStudy], visit: Any, revalidated: Any
) -> None:
    target = "cup"
    study = begin(PLAN)
    target = next(name for scene, name in study.stimuli.targets() if scene == "coffee")
    study.database.engine.dispose()
    Path(study.database.engine.url.database or "").unlink()
    study = begin(TRAINED.format(target=target))
    person = visit(study).join()
    for score, passed in ((2, False), (10, True)):
        batch = person.batch()
        assert batch["training"]
        assert len(batch["trials"]) == 1
        assert rate(person, batch["trials"][0], score).status_code == 200
        answer = person.post(f"/api/batches/{batch['batch']}/finish").json()
        assert answer == {"passed": passed, "next": "work"}
    assert revalidated(study, Validity(batch_minimum=0)) == 0  # rules about clicks change nothing
    assert not person.batch()["training"]
    with study.database.snapshot() as connection:
        assert list(rating_rows(connection, study.plan)) == []


def test_a_batch_that_gets_known_masks_wrong_does_not_count(
    begin: Callable[..., RunningStudy], visit: Any, revalidated: Any
) -> None:
    gold = TRAINED.replace("rating.training", "rating.gold")
    target = next(t.id for t in catalogue.datasets.make("mini").load("coffee").targets)
    study = begin(gold.format(target=target))

    def rated(score: int) -> int:
        person = visit(study).join()
        batch = person.batch()
        assert len(batch["trials"]) == 6  # one more than asked for, and nothing tells which
        assert len({frozenset(trial) for trial in batch["trials"]}) == 1
        for trial in batch["trials"]:
            assert rate(person, trial, score).status_code == 200
        assert person.post(f"/api/batches/{batch['batch']}/finish").json()["passed"] is None
        with study.database.snapshot() as connection:
            return len(list(rating_rows(connection, study.plan)))

    def dropped() -> list[str]:
        with study.database.snapshot() as connection:
            asked = sa.select(db.batches.c.reason).where(db.batches.c.state == "dropped")
            return list(connection.execute(asked).scalars())

    assert (rated(2), dropped()) == (0, ["0 of 1 checks right"])
    assert (rated(9), dropped()) == (5, ["0 of 1 checks right"])
    # The rule belongs to the plan and can be run again.
    assert revalidated(study, study.plan.validity.model_copy(update={"checks": 0.0})) == 5
    with study.database.snapshot() as connection:
        assert len(list(rating_rows(connection, study.plan))) == 10
        filled = sa.select(sa.func.sum(db.cells.c.valid))
        assert connection.execute(filled).scalar_one() == 10


def test_testers_check_a_share_of_the_jobs(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(PLAN)
    tester = visit(study).join(study.invite(1, "tester")[0])
    batch = tester.batch()
    with study.database.snapshot() as connection:
        asked = sa.select(sa.func.count()).where(db.cells.c.device == "tester")
        planned = connection.execute(asked).scalar_one()
    assert 0 < len(batch["trials"]) <= min(5, planned)
    for trial in batch["trials"]:
        assert rate(tester, trial, 4).status_code == 200
    assert tester.post(f"/api/batches/{batch['batch']}/finish").status_code == 200
    with study.database.snapshot() as connection:
        roles = {row["role"] for row in rating_rows(connection, study.plan)}
        ordinary = sa.select(sa.func.sum(db.cells.c.valid)).where(db.cells.c.device == "any")
        assert connection.execute(ordinary).scalar_one() == 0
    assert roles == {"tester"}


def test_the_zoom_shows_mask_and_prompt_with_room_around() -> None:
    mask = Mask.box((400, 600), (100, 200), (200, 400))
    rows, columns = zoom_window(mask, Click((150.0, 300.0)))
    assert (rows.start, rows.stop) == (70, 230)
    assert (columns.start, columns.stop) == (140, 460)
    small = Mask.box((400, 600), (0, 0), (4, 4))
    rows, columns = zoom_window(small, Box((0.0, 0.0), (3.0, 3.0)))
    assert (rows.stop - rows.start, columns.stop - columns.start) == (64, 64)
    assert rows.start == columns.start == 0
    empty = zoom_window(Mask.empty((50, 40)), Click((10.0, 10.0)))
    assert (empty[0].stop, empty[1].stop) == (50, 40)


def test_the_mask_alone_is_yellow_on_purple() -> None:
    mask = Mask.box((8, 8), (2, 2), (5, 5))
    view = VIEWS["view-alone"](np.zeros((8, 8, 3), np.uint8), mask, Click((3.0, 3.0)))
    assert tuple(view[3, 3]) == (253, 231, 37)
    assert tuple(view[0, 0]) == (68, 1, 84)
