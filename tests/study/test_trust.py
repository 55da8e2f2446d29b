"""Trust in the data: reservations, clocks, checks, devices; what a careless client cannot do."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from segmeter.core.errors import BadInput
from segmeter.study import database as db
from segmeter.study import server
from segmeter.study.analyses import study_page
from segmeter.study.exports import click_rows, csv_text, participant_rows, rating_rows, trial_rows
from segmeter.study.interactions import interactions
from segmeter.study.plan import read_plan
from segmeter.study.running import RunningStudy
from segmeter.study.server import default_url, open_study, study_app

SLOW = """
kind = "clicks"
[data]
scenes = ["coffee", "rocket", "astronaut"]
[design]
open_to_all = true
devices = ["pc", "mobile"]
batch = 3
"""
INTERACT = """
kind = "interact"
[data]
scenes = ["coffee"]
[design]
models = ["disc"]
modes = ["Quick"]
batch = 1
per_cell = 9
open_to_all = true
[[mode]]
name = "Quick"
screens = [{ show = "cutout", seconds = 0.1 }, { show = "image" }]
"""
RATE = """
kind = "rate"
[data]
scenes = ["coffee", "rocket"]
[design]
open_to_all = true
batch = 3
[rating]
overlap = 0.0
[[masks]]
name = "model"
[[masks]]
name = "known"
rated = false
[[rating.gold]]
scene = "coffee"
target = "cup"
masks = "known"
low = 8
"""


def rows_of(study: RunningStudy) -> list[dict[str, Any]]:
    with study.database.snapshot() as connection:
        return [r for r in trial_rows(connection, study.plan) if r["answered"] is not None]


def rate(person: Any, trial: dict[str, Any], score: int, **more: Any) -> Any:
    person.see(trial)
    body = {"nonce": secrets.token_hex(8), "score": score, "seconds": 0.1, "pointer": "mouse"}
    return person.post(f"/api/trials/{trial['id']}", {**body, "focus_lost": False, **more})


# Reservations


def test_opening_the_page_reserves_nothing(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin()
    for _ in range(5):
        person = visit(study).join()
        assert person.http.get("/work").status_code == 200
        assert person.post("/api/offer").json()["state"] == "work"
    with study.database.snapshot() as connection:
        assert connection.execute(sa.select(db.batches)).first() is None


def test_a_flooding_visitor_changes_nothing_for_the_others(
    begin: Callable[..., RunningStudy], visit: Any, still: None
) -> None:
    """One address takes every place and all its requests; people elsewhere work as before."""
    study = begin()
    app = study_app(study, "password")
    taken = 0
    for _ in range(40):
        flooder = visit(study)
        flooder.http = TestClient(app, client=("6.6.6.6", 1))
        taken += flooder.join().batch() is not None
    assert taken > 3
    while app.state.site.limits.addresses.allows("6.6.6.6"):
        pass  # as if it had sent requests until it is slowed down
    assert flooder.http.get("/").status_code == 429
    person = visit(study)
    person.http = TestClient(app, client=("1.2.3.4", 1))
    assert person.join().post("/api/offer").json()["state"] == "work"
    trials = person.batch()["trials"]
    assert len(trials) == 10
    assert [person.answer(trial).status_code for trial in trials] == [200] * 10


def test_full_at_the_moment_differs_from_done(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    for _ in range(3):
        visit(study).join().batch()
    late = visit(study).join()
    while late.batch() is not None and late.post("/api/offer").json()["state"] == "work":
        late = visit(study).join()
    assert visit(study).join().post("/api/offer").json() == {"state": "full"}
    # Abandoned places come back soon; a batch without an answer has four minutes.
    with study.database.snapshot() as connection:
        b = db.batches.c
        lasts = connection.execute(sa.select(b.deadline - b.opened)).scalars().all()
    assert max(lasts) <= 240
    with study.database.writing() as connection:
        connection.execute(sa.update(db.batches).values(deadline=1.0))
    assert visit(study).join().post("/api/offer").json()["state"] == "work"


def test_a_closed_page_gives_its_places_back(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join()
    batch = person.batch()
    person.answer(batch["trials"][0])
    assert person.post(f"/api/batches/{batch['batch']}/leave").status_code == 200
    with study.database.snapshot() as connection:
        deadline = connection.execute(sa.select(db.batches.c.deadline)).scalar_one()
    assert deadline < time.time() + 121
    again = person.batch()  # opened again, it continues, and the reload is noted
    assert again["batch"] == batch["batch"]
    person.answer(again["trials"][1])
    assert [row["flag_bad"] for row in rows_of(study)] == [[], ["shown_again"]]


# Clocks


def test_answers_faster_than_their_screens_do_not_count(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(SLOW)
    person = visit(study).join()
    for trial in person.batch()["trials"]:
        assert person.answer(trial, latency_ms=0.0).status_code == 200
    for row in rows_of(study):
        assert {"too_fast", "clock"} <= set(row["flag_bad"])
        assert not row["counts"]
        assert row["server_ms"] < 5000


def test_the_browser_cannot_claim_more_time_than_passed(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    assert person.answer(trial, latency_ms=86_400_000.0).status_code == 200
    assert "clock" in rows_of(study)[0]["flag_bad"]


def test_images_that_were_never_fetched_are_flagged(
    begin: Callable[..., RunningStudy], visit: Any, a_click: Any
) -> None:
    study = begin()
    person = visit(study).join()
    first, second, *_ = person.batch()["trials"]
    person.post(f"/api/trials/{first['id']}", a_click(first))
    for name in {screen["image"] for screen in second["screens"]}:
        assert person.http.get(f"/images/{second['id']}/{name}").status_code == 200
    person.post(f"/api/trials/{second['id']}", a_click(second))
    assert [row["flag_bad"] for row in rows_of(study)] == [["unseen"], []]


def test_a_pointer_that_contradicts_the_device_is_flagged(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join(device="mobile")
    for trial, pointer in zip(person.batch()["trials"], ("mouse", "touch", "pen"), strict=False):
        person.answer(trial, pointer=pointer)
    assert [row["flag_bad"] for row in rows_of(study)] == [["wrong_device"], [], []]


def test_with_a_model_the_same_flags_count(begin: Callable[..., RunningStudy], visit: Any) -> None:
    """Leaving the page, late screens, forged times, no click: none of these sessions counts."""
    study = begin(INTERACT)

    def session(clicks: int = 1, user_ms: float = 100.0, **more: Any) -> None:
        person = visit(study).join()
        (trial,) = person.batch()["trials"]
        person.see(trial)
        for number in range(1, clicks + 1):
            step = {"number": number, "x": 50.5, "y": 50.5, "user_ms": user_ms, "pointer": "mouse"}
            assert person.post(f"/api/trials/{trial['id']}/steps", step).status_code == 200
        body = {"nonce": secrets.token_hex(8), "accepted": True, "review_ms": 10.0}
        body |= {"focus_lost": False, "screens": [{"planned_ms": 100.0, "true_ms": 100.0}], **more}
        assert person.post(f"/api/trials/{trial['id']}", body).status_code == 200

    session()
    session(focus_lost=True)
    session(screens=[{"planned_ms": 100.0, "true_ms": 990.0}])
    session(user_ms=86_400_000.0)
    session(clicks=0)
    found = [row["flag_bad"] for row in rows_of(study)]
    assert found == [[], ["left_page"], ["late"], ["clock"], ["no_click"]]
    assert [row["counts"] for row in rows_of(study)] == [True] + [False] * 4
    with study.database.snapshot() as connection:
        assert len(interactions(connection, study.plan)) == 1


# Ratings


@pytest.mark.parametrize("handed_in", [True, False])
def test_a_wrong_check_counts_whether_or_not_the_round_is_submitted(
    begin: Callable[..., RunningStudy], visit: Any, handed_in: bool
) -> None:
    study = begin(RATE + "[validity]\nleast_seconds = 0\n")
    person = visit(study).join()
    batch = person.batch()
    for trial in batch["trials"]:
        assert rate(person, trial, 2).status_code == 200
    if handed_in:
        assert person.post(f"/api/batches/{batch['batch']}/finish").status_code == 200
    else:
        with study.database.writing() as connection:
            connection.execute(sa.update(db.batches).values(deadline=1.0))
        visit(study).join().batch()
    with study.database.snapshot() as connection:
        assert list(rating_rows(connection, study.plan)) == []
        (reason,) = connection.execute(
            sa.select(db.batches.c.reason).where(db.batches.c.id == batch["batch"])
        ).scalars()
    assert reason == "0 of 1 checks right"


def test_ratings_in_a_moment_do_not_count(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(RATE)
    person = visit(study).join()
    batch = person.batch()
    for trial in batch["trials"]:
        rate(person, trial, 9)
    person.post(f"/api/batches/{batch['batch']}/finish")
    assert {flag for row in rows_of(study) for flag in row["flag_bad"]} == {"too_fast"}
    with study.database.snapshot() as connection:
        assert list(rating_rows(connection, study.plan)) == []


def test_masks_for_checks_are_no_model_and_no_check_comes_twice(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(RATE + "[validity]\nleast_seconds = 0\n")
    assert study.plan.conditions == ("model",)
    person = visit(study).join()
    checks = 0
    while (batch := person.batch()) is not None:
        for trial in batch["trials"]:
            rate(person, trial, 9)
        person.post(f"/api/batches/{batch['batch']}/finish")
    for row in rows_of(study):
        checks += row["check"]
    assert checks == 1
    with study.database.snapshot() as connection:
        assert {row["model"] for row in rating_rows(connection, study.plan)} == {"model"}


def test_the_same_score_again_is_no_change(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(RATE.split('[[masks]]\nname = "known"')[0] + "[validity]\nleast_seconds = 0\n")
    person = visit(study).join()
    batch = person.batch()
    for score in (4, 4, 6):
        rate(person, batch["trials"][0], score)
    for trial in batch["trials"][1:]:
        rate(person, trial, 5)
    person.post(f"/api/batches/{batch['batch']}/finish")
    with study.database.snapshot() as connection:
        changes = sorted(row["changes"] for row in rating_rows(connection, study.plan))
    assert changes[-1] == 1


# The conductor, proxies, files


@pytest.mark.usefixtures("still")
def test_wrong_passwords_do_not_lock_out_a_browser_that_logged_in_before(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    app = study_app(study, "password")
    conductor, stranger = visit(study, app).http, visit(study, app).http
    assert conductor.post("/conduct/login", data={"password": "password"}).status_code == 200
    tries = [stranger.post("/conduct/login", data={"password": f"{k}"}) for k in range(15)]
    assert tries[-1].status_code == 429
    conductor.cookies.delete("segmeter_conductor")
    assert conductor.post("/conduct/login", data={"password": "password"}).status_code == 200


def test_an_untrusted_proxy_is_pointed_out(begin: Callable[..., RunningStudy], visit: Any) -> None:
    http = visit(begin()).http
    page = http.post("/conduct/login", data={"password": "password"})
    assert "--behind" not in page.text
    assert "--behind" in http.get("/conduct", headers={"x-forwarded-for": "1.1.1.1"}).text


def test_new_links_are_shown_once_and_not_made_again_on_reload(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    http = visit(study).http
    page = http.post("/conduct/login", data={"password": "password"}).text
    form = page.split('name="form" value="')[1].split('"')[0]
    made = http.post("/conduct/invite", data={"form": form, "count": 2, "label": "wave 1"})
    assert made.text.count("/join/") == 2
    assert "/join/" not in http.get(str(made.url)).text
    with study.database.snapshot() as connection:
        rows = connection.execute(sa.select(db.invitations.c.label)).scalars().all()
    assert rows == ["wave 1"] * 2


def test_there_is_a_health_page_and_head_is_answered(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    http = visit(begin()).http
    assert http.get("/health").json() == {"state": "open"}
    for path in ("/health", "/join/open", "/static/study.css"):
        answer = http.head(path)
        assert answer.status_code == 200
        assert answer.content == b""


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    rows = [{"image_stem": "=cmd|calc", "x": -3, "note": "@a", "list": [1.0]}]
    text = csv_text(("image_stem", "x", "note", "list"), rows)
    assert text.splitlines()[1] == "'=cmd|calc,-3,'@a,[1.0]"


def test_exported_devices_are_those_of_the_batch(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join(device="pc")
    for trial in person.batch()["trials"]:
        person.answer(trial)
    person.post("/api/device", {"device": "mobile"})
    assert {row["device"] for row in rows_of(study)} == {"pc"}
    with study.database.snapshot() as connection:
        assert list(click_rows(connection, study.plan, study.stimuli)) is not None


def test_a_nul_in_a_form_is_refused_before_the_database(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    http = visit(study).http
    form = http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    assert http.post("/withdraw", data={"form": form, "code": "x\0y"}).status_code == 422
    assert http.post("/conduct/login", data={"password": "password"}).status_code == 200
    form = http.get("/conduct").text.split('name="form" value="')[1].split('"')[0]
    made = http.post("/conduct/invite", data={"form": form, "count": 1, "label": "a\0"})
    assert made.status_code == 422
    assert http.get("/conduct/heat?scene=a%00&target=b").status_code in (400, 422)


def test_a_command_with_another_plan_writes_nothing_next_to_the_database(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    """The same database under another plan: refused, and answers stay in one place."""
    study = begin()
    person = visit(study).join()
    person.answer(person.batch()["trials"][0])
    before = {path.name for path in tmp_path.iterdir()}
    other = tmp_path / "other.toml"
    other.write_text(study.plan.text.replace("seed = 3", "seed = 4"))
    with pytest.raises(BadInput, match="design differs"):
        open_study(read_plan(other), default_url(tmp_path / "plan.toml"))
    assert {path.name for path in tmp_path.iterdir()} - before == {"other.toml"}


def test_a_second_tab_reads_that_the_round_is_open_elsewhere(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    """409 for a trial that another tab answered; 410 once the round was given back."""
    study = begin()
    person = visit(study).join()
    first, second, *_ = person.batch()["trials"]
    assert person.answer(first).status_code == 200
    assert person.answer(first).status_code == 409
    with study.database.writing() as connection:
        connection.execute(sa.update(db.batches).values(deadline=1.0))
    assert person.answer(second).status_code == 410
    rounds = (Path(server.__file__).parent / "static" / "rounds.js").read_text()
    assert '409: "elsewhere", 410: "over"' in rounds


def test_giving_up_is_no_accepted_mask(begin: Callable[..., RunningStudy], visit: Any) -> None:
    """The mean of clicks is that of accepted masks only."""
    study = begin(INTERACT)
    for clicks, accepted in ((1, True), (3, False)):
        person = visit(study).join()
        (trial,) = person.batch()["trials"]
        person.see(trial)
        for number in range(1, clicks + 1):
            step = {"number": number, "x": 50.5, "y": 50.5, "user_ms": 5.0, "pointer": "mouse"}
            assert person.post(f"/api/trials/{trial['id']}/steps", step).status_code == 200
        body = {"nonce": secrets.token_hex(8), "accepted": accepted, "review_ms": 10.0}
        body |= {"focus_lost": False, "screens": [{"planned_ms": 100.0, "true_ms": 100.0}]}
        assert person.post(f"/api/trials/{trial['id']}", body).status_code == 200
    with study.database.snapshot() as connection:
        page = study_page(connection, study.plan, study.stimuli)
    assert "after <b>1.0</b> clicks" in page.replace("strong>", "b>")
    assert "(1 of 2 sessions)" in page


def test_the_note_of_an_invitation_is_listed_and_a_round_of_one_is_announced_as_one(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(INTERACT.replace("open_to_all = true", ""))
    (token,) = study.invite(1, label="first wave")
    person = visit(study).join(token)
    assert "10 images" not in person.http.get("/work").text
    with study.database.snapshot() as connection:
        (row,) = participant_rows(connection, study.plan)
    assert (row["label"], row["person"]) == ("first wave", person.person())
