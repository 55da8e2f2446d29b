"""What people and the conductor are told, in their language, on the pages they open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from segmeter.core.errors import SegmeterError
from segmeter.study.running import RunningStudy
from segmeter.study.server import study_app

RATED = '[[masks]]\nname = "ground_truth"\n'
BROWSER = {"accept": "text/html,application/xhtml+xml"}


def test_another_language_can_be_chosen_after_joining(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    person = visit(begin()).join(language="en")
    assert "Click on the object" in person.http.get("/work").text
    assert "Klicken Sie auf das Objekt" in person.http.get("/work?language=de").text
    assert "Klicken Sie auf das Objekt" in person.http.get("/work").text
    assert "Klicken Sie" in person.http.get("/work?language=xx").text


def test_people_find_their_code_where_they_delete_their_answers(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study).join(language="de")
    page = person.http.get("/withdraw").text
    assert f'value="{person.person()}"' in page
    assert "Alles löschen" in page
    assert 'name="code" value=""' in visit(study).http.get("/withdraw").text


def test_the_session_cookie_is_deleted_under_its_path(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    person = visit(study)
    person.http = TestClient(study_app(study, limited=False), root_path="/study")
    page = person.http.get("/study/join/open").text
    form = page.split('name="form" value="')[1].split('"')[0]
    person.http.post("/study/join/open", data={"form": form, "agreed": "yes"})
    form = person.http.get("/study/withdraw").text.split('name="form" value="')[1].split('"')[0]
    gone = person.http.post("/study/withdraw", data={"form": form, "code": person.person()})
    assert "Path=/study" in gone.headers["set-cookie"]
    assert "segmeter_session" not in person.http.cookies
    assert person.http.post("/study/api/batch").status_code == 401


def test_browsers_get_a_page_where_scripts_get_json(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    http = visit(begin()).http
    german = {**BROWSER, "accept-language": "de"}
    assert "Hier ist nichts" in http.get("/nowhere", headers=german).text
    late = http.post("/join/open", data={"form": "old", "agreed": "yes"}, headers=german)
    assert late.status_code == 403
    assert "öffnen Sie Ihren Link noch einmal" in late.text
    assert http.get("/nowhere").json() == {"error": "there is nothing here"}


def test_the_conductor_reads_why_something_is_refused(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    http = visit(begin()).http
    german = {**BROWSER, "accept-language": "de"}
    wrong = http.post("/conduct/login", data={"password": "prediction"}, headers=german)
    assert wrong.status_code == 403
    assert "That is not the password." in wrong.text
    assert 'html lang="en"' in wrong.text
    http.post("/conduct/login", data={"password": "password"})
    empty = http.get("/conduct/export", headers=BROWSER)
    assert empty.status_code == 409
    assert "there is nothing to export" in empty.text


def test_mixed_modes_are_not_announced_as_one(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    plan = """
    kind = "clicks"
    [design]
    open_to_all = true
    people = "within"
    modes = ["Object_CutOut", "Silhouette_Mask"]
    """
    page = visit(begin(plan)).join().http.get("/work").text
    assert "in different ways</li>" in page
    assert "<li>The object on grey" not in page


def test_a_title_may_have_languages(begin: Callable[..., RunningStudy], visit: Any) -> None:
    plan = """
    kind = "clicks"
    title = "Clicks"
    [design]
    open_to_all = true
    [texts]
    title = { en = "Where do you click?", de = "Wohin klicken Sie?" }
    """
    http = visit(begin(plan)).http
    assert "Wohin klicken Sie?" in http.get("/join/open?language=de").text
    assert "Where do you click?" in http.get("/join/open?language=en").text


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ('[data]\nscenes = ["cofee"]', "no scene 'cofee'; did you mean 'coffee'?"),
        ('[data]\ntargets = ["coffee/cap"]', "did you mean 'coffee/cup'?"),
        ('[descriptions]\n"coffee/cap" = "the cup"', "[descriptions]: no scene that is shown"),
        ('[data]\ndataset = "mini-volumes"', "the other kinds images only"),
        (f'{RATED}[[rating.gold]]\nscene = "tea"\nmasks = "ground_truth"', "has no target 'tea/'"),
        (f'{RATED}[[masks]]\nname = "a"\nsource = "run"\nrun = "none"\nmodel = "a"', "none"),
    ],
)
def test_names_that_the_data_lacks_are_refused(
    begin: Callable[..., RunningStudy], plan: str, said: str
) -> None:
    with pytest.raises(SegmeterError) as error:
        begin(f'kind = "{"rate" if "masks" in plan else "clicks"}"\n{plan}')
    assert said in str(error.value)
    assert not str(error.value).endswith(";")


def test_a_missing_model_is_reported_before_participants_come(
    begin: Callable[..., RunningStudy], tmp_path: Path
) -> None:
    with pytest.raises(SegmeterError, match="no model 'dics'; did you mean 'disc'"):
        begin('kind = "interact"\n[design]\nmodels = ["dics"]')


def test_participants_with_a_phone_are_instructed_to_tap(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    for device, shown in (("pc", [True, False]), ("mobile", [False, True])):
        page = visit(study).join(device=device).http.get("/work").text
        assert [f"now one {verb}</li>" in page for verb in ("click", "tap")] == shown
