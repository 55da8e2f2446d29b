"""What a hostile browser may try, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.guards import Limiter
from segmeter.study.running import RunningStudy
from segmeter.study.server import study_app

HOSTILE = '<script>alert("1")</script>'
INVITED = """
kind = "clicks"
title = "<script>alert(1)</script>"
[data]
scenes = ["coffee", "rocket", "astronaut"]
[design]
modes = ["Text_Description"]
[texts]
consent = "</p><script>alert(2)</script>"
"""


@pytest.fixture
def study(begin: Callable[..., RunningStudy]) -> RunningStudy:
    return begin()


def kept(study: RunningStudy) -> int:
    with study.database.snapshot() as connection:
        asked = sa.select(sa.func.count()).where(db.trials.c.answered.is_not(None))
        return int(connection.execute(asked).scalar_one())


WRONG: list[dict[str, Any]] = [
    {"x": "12"},
    {"x": None},
    {"x": 1e9},
    {"x": -500.0},
    {"y": float(10**6)},
    {"natural_width": 1},
    {"natural_width": 2.5},
    {"pointer": "telepathy"},
    {"latency_ms": -1.0},
    {"screens": []},
    {"screens": [{"planned_ms": 1.0, "true_ms": 1.0}] * 2},
    {"screens": [{"planned_ms": 100.0, "true_ms": 1.0}] * 100},
    {"nonce": "x"},
    {"nonce": "a" * 65},
    {"nonce": HOSTILE},
    {"focus_lost": "no"},
    {"blocked_clicks": -1},
    {"pixel_ratio": 0.0},
    {"model": "sam"},
]


def test_every_field_is_checked(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    for wrong in WRONG:
        assert person.answer(trial, **wrong).status_code == 422, wrong
        assert kept(study) == 0, wrong
    assert person.answer(trial).status_code == 200


def test_numbers_that_are_none_are_refused(study: RunningStudy, visit: Any, a_click: Any) -> None:
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    for word in ("NaN", "Infinity", "-Infinity"):
        raw = json.dumps(a_click(trial, x=0.5)).replace("0.5", word, 1)
        headers = {"x-segmeter-token": person.token, "content-type": "application/json"}
        answer = person.http.post(f"/api/trials/{trial['id']}", content=raw, headers=headers)
        assert answer.status_code == 422
    assert kept(study) == 0


def test_bodies_that_are_no_json_are_refused(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    for raw in (b"", b"\xff\xfe", b"[" * 5000, b"null", b'"text"'):
        headers = {"x-segmeter-token": person.token, "content-type": "application/json"}
        answer = person.http.post(f"/api/trials/{trial['id']}", content=raw, headers=headers)
        assert answer.status_code in (400, 422), raw[:10]
    assert kept(study) == 0


def test_an_oversized_upload_is_refused_even_with_a_false_size(
    study: RunningStudy, visit: Any
) -> None:
    person = visit(study).join()
    path = f"/api/trials/{person.batch()['trials'][0]['id']}"
    headers = {"x-segmeter-token": person.token, "content-type": "application/json"}
    assert person.http.post(path, content=b" " * 100_000, headers=headers).status_code == 413
    pieces = (b" " * 10_000 for _ in range(20))
    assert person.http.post(path, content=pieces, headers=headers).status_code == 413


def test_a_change_needs_the_token_of_the_page(study: RunningStudy, visit: Any) -> None:
    person, other = visit(study).join(), visit(study).join()
    for token in ("", "0" * 64, other.token):
        answer = person.http.post("/api/batch", headers={"x-segmeter-token": token})
        assert answer.status_code == 403


def test_another_site_cannot_send_anything(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    for foreign in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        headers = {"x-segmeter-token": person.token, **foreign}
        assert person.http.post("/api/batch", headers=headers).status_code == 403


def test_a_session_cannot_be_fixed_beforehand(study: RunningStudy, visit: Any) -> None:
    person = visit(study)
    person.http.cookies.set("segmeter_session", "chosen-by-somebody-else")
    assert person.http.get("/work", follow_redirects=False).status_code == 303
    person.join()
    cookies = [c.value for c in person.http.cookies.jar if c.name == "segmeter_session"]
    assert study.person("chosen-by-somebody-else") is None
    assert any(value and len(value) > 40 for value in cookies)


def test_the_session_cookie_is_closed_to_scripts_and_secret_in_the_database(
    study: RunningStudy, visit: Any
) -> None:
    person = visit(study)
    page = person.http.get("/join/open")
    form = page.text.split('name="form" value="')[1].split('"')[0]
    answer = person.http.post(
        "/join/open", data={"form": form, "agreed": "yes"}, follow_redirects=False
    )
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    value = cookie.split("=")[1].split(";")[0]
    with study.database.snapshot() as connection:
        text = json.dumps([list(row) for row in connection.execute(sa.select(db.people))])
    assert value not in text


def test_guessed_and_foreign_trials_do_not_exist(study: RunningStudy, visit: Any) -> None:
    mine, theirs = visit(study).join(), visit(study).join()
    own, foreign = mine.batch(), theirs.batch()
    trial = foreign["trials"][0]
    assert mine.answer(trial).status_code == 404
    assert mine.http.get(f"/images/{trial['id']}/image").status_code == 404
    assert mine.post(f"/api/batches/{foreign['batch']}/finish").status_code == 404
    assert mine.answer({**own["trials"][0], "id": "A" * 22}).status_code == 404
    assert mine.http.get(f"/images/{own['trials'][0]['id']}/image").status_code == 200
    assert len(own["trials"][0]["id"]) >= 22


def test_without_a_session_there_is_nothing(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    trial = person.batch()["trials"][0]["id"]
    stranger = visit(study)
    assert stranger.http.get(f"/images/{trial}/image").status_code == 401
    assert stranger.http.get("/guidelines", follow_redirects=False).status_code == 303
    assert stranger.http.post("/api/batch").status_code == 401


def test_replayed_answers_count_once_and_changed_ones_not_at_all(
    study: RunningStudy, visit: Any, a_click: Any
) -> None:
    person = visit(study).join()
    (trial, *_) = person.batch()["trials"]
    body = a_click(trial)
    path = f"/api/trials/{trial['id']}"
    assert person.post(path, body).json() == person.post(path, body).json()
    assert person.post(path, {**body, "x": 1.0}).status_code == 409
    assert person.post(path, a_click(trial)).status_code == 409
    assert kept(study) == 1


def test_answers_come_in_their_order(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    first, second, *_ = person.batch()["trials"]
    assert person.answer(second).status_code == 409
    assert person.answer(first).status_code == 200
    assert person.answer(second).status_code == 200


def test_an_invitation_opens_the_door_once(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(INVITED)
    (token,) = study.invite(1)
    assert visit(study).http.get("/join/open").status_code == 403
    assert visit(study).http.get("/join/" + "x" * 32).status_code == 403
    visit(study).join(token)
    assert visit(study).http.get(f"/join/{token}").status_code == 403
    form = visit(study).http.get(f"/join/{study.invite(1)[0]}").text
    form = form.split('name="form" value="')[1].split('"')[0]
    late = visit(study).http.post(f"/join/{token}", data={"form": form, "agreed": "yes"})
    assert late.status_code == 403


def test_no_one_joins_without_consent(study: RunningStudy, visit: Any) -> None:
    page = visit(study).http.get("/join/open")
    form = page.text.split('name="form" value="')[1].split('"')[0]
    assert visit(study).http.post("/join/open", data={"form": form}).status_code == 422
    assert visit(study).http.post("/join/open", data={"agreed": "yes"}).status_code == 403


def test_hostile_texts_are_shown_as_texts(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin(INVITED)
    (token,) = study.invite(1)
    person = visit(study)
    for page in (
        person.http.get(f"/join/{token}?language={HOSTILE}"),
        person.http.get("/withdraw"),
        person.http.get(f"/{HOSTILE}"),
    ):
        assert "<script>" not in page.text
    form = person.http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    page = person.http.post("/withdraw", data={"form": form, "code": HOSTILE})
    assert page.status_code == 404
    assert HOSTILE not in page.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/images/..%2f..%2fetc/passwd",
        "/join/..%2f..%2fetc%2fpasswd",
    ],
)
def test_paths_do_not_lead_out(study: RunningStudy, visit: Any, path: str) -> None:
    person = visit(study).join()
    answer = person.http.get(path)
    assert answer.status_code in (404, 422)
    assert "root:" not in answer.text
    assert "study_app" not in answer.text


def test_only_planned_images_are_given_out(begin: Callable[..., RunningStudy], visit: Any) -> None:
    """In a text mode the mask must not leave the server under any name."""
    study = begin(INVITED)
    person = visit(study).join(study.invite(1)[0])
    (trial, *_) = person.batch()["trials"]
    assert person.http.get(f"/images/{trial['id']}/image").status_code == 200
    for name in ("1", "7", "99999", "cutout", "silhouette", "overlay", "view-masked", "-1"):
        assert person.http.get(f"/images/{trial['id']}/{name}").status_code == 404, name


def test_nothing_about_ground_truth_or_names_is_in_a_batch(study: RunningStudy, visit: Any) -> None:
    person = visit(study).join()
    batch = person.batch()
    text = json.dumps(batch)
    for scene, target in study.stimuli.targets():
        assert scene not in text
        assert f'"{target}"' not in text
    assert set(batch["trials"][0]) == {"id", "answered", "width", "height", "part", "screens"}
    assert "inside" not in person.answer(batch["trials"][0]).text


def test_headers_keep_the_page_to_itself(study: RunningStudy, visit: Any) -> None:
    person = visit(study)
    for path in ("/join/open", "/static/study.css", "/nowhere", "/withdraw"):
        headers = person.http.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert person.http.get("/join/open").headers["cache-control"] == "no-store"


@pytest.mark.usefixtures("still")
def test_too_many_requests_are_slowed_down(study: RunningStudy, visit: Any) -> None:
    person = visit(study, study_app(study, "password")).join()
    answers = [person.http.get("/guidelines").status_code for _ in range(160)]
    assert answers.count(200) < 150
    assert answers[-10:] == [429] * 10


@pytest.mark.usefixtures("still")
def test_codes_cannot_be_tried_by_the_thousand(study: RunningStudy, visit: Any) -> None:
    person = visit(study, study_app(study, "password"))
    form = person.http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    tries = [
        person.http.post("/withdraw", data={"form": form, "code": f"prediction{k}"}).status_code
        for k in range(15)
    ]
    assert tries == [404] * 10 + [429] * 5


def test_a_limiter_forgives_with_time() -> None:
    limiter = Limiter(per_second=1, burst=2)
    assert [limiter.allows("a", 0.0) for _ in range(3)] == [True, True, False]
    assert limiter.allows("b", 0.0)
    assert limiter.allows("a", 1.5)
    assert not limiter.allows("a", 1.5)
