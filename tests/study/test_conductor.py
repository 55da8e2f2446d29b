"""The conductor's page: behind a password, apart from people's links."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from segmeter.study.running import RunningStudy
from segmeter.study.server import study_app


def login(visitor: Any, password: str = "password") -> Any:
    return visitor.http.post("/conduct/login", data={"password": password})


def form_of(page: Any) -> str:
    return str(page.text.split('name="form" value="')[1].split('"')[0])


def test_only_the_password_opens_it(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin()
    person = visit(study).join()
    for http in (person.http, visit(study).http):
        assert "Password" in http.get("/conduct").text
        assert http.get("/conduct/export").status_code == 403
        assert http.get("/conduct/heat?scene=coffee&target=cup").status_code == 403
        assert http.post("/conduct/state", data={"state": "closed"}).status_code == 403
        assert http.post("/conduct/invite", data={"count": 1}).status_code == 403
    assert login(visit(study), "wrong").status_code == 403
    visitor = visit(study)
    for forged in ("9999999999.0", "9999999999." + "0" * 64, "x", "."):
        visitor.http.cookies.set("segmeter_conductor", forged)
        assert visitor.http.get("/conduct/export").status_code == 403
    assert study.state() == "open"


@pytest.mark.usefixtures("still")
def test_passwords_cannot_be_tried_by_the_thousand(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    visitor = visit(study, study_app(study, "password"))
    tries = [login(visitor, f"prediction{k}").status_code for k in range(15)]
    assert tries == [403] * 10 + [429] * 5


def test_a_conductor_sees_steers_invites_and_takes_away(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join()
    trials = person.batch()["trials"]
    for trial in trials:
        person.answer(trial)
    visitor = visit(study)
    page = login(visitor)
    assert page.status_code == 200
    assert "Clicks so far" in page.text
    assert "clicks on the target" in page.text
    form = form_of(page)
    scene, target = next(iter(study.stimuli.targets()))
    heat = visitor.http.get("/conduct/heat", params={"scene": scene, "target": target})
    assert heat.headers["content-type"].startswith("image/")
    assert visitor.http.get("/conduct/heat?scene=../x&target=y").status_code == 404
    answer = visitor.http.post("/conduct/invite", data={"form": form, "count": 3})
    links = [line for line in answer.text.splitlines() if "/join/" in line]
    assert len(links) == 3
    packed = zipfile.ZipFile(io.BytesIO(visitor.http.get("/conduct/export").content))
    names = {"plan.toml", "software.json", "data/codebook.csv", "data/trials.parquet"}
    assert names <= set(packed.namelist())
    assert visitor.http.post("/conduct/state", data={"state": "paused"}).status_code == 403
    visitor.http.post("/conduct/state", data={"form": form, "state": "paused"})
    assert study.state() == "paused"
    assert person.post("/api/batch").status_code == 423
    assert "paused" in person.http.get("/work").text
    assert visitor.http.post("/conduct/state", data={"form": form, "state": "x"}).status_code == 422
