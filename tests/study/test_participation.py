"""Taking part: consent, questions, quotas, practice, platforms, assignment, the end."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.analyses import study_page
from segmeter.study.assignment import latin_square
from segmeter.study.exports import archive, export, meanings, participant_rows, trial_rows
from segmeter.study.plan import Recruiting
from segmeter.study.preview import plan_warnings, preregistration
from segmeter.study.records import heat_targets, progress
from segmeter.study.routes import platform_ids, return_link
from segmeter.study.running import RunningStudy

QUICK = """
kind = "clicks"
title = "Where do you click?"
seed = {seed}
{top}
[data]
scenes = ["coffee", "rocket", "astronaut"]
[design]
open_to_all = true
devices = ["pc"]
batch = 2
per_cell = {per_cell}
modes = [{modes}]
{design}
[[mode]]
name = "Quick"
screens = [{{ show = "cutout", seconds = 0.1 }}, {{ show = "image" }}]
[[mode]]
name = "Other"
screens = [{{ show = "overlay", seconds = 0.1 }}, {{ show = "image" }}]
{more}
"""
QUESTIONS = """
[[questions]]
name = "experience"
text = { en = "How often do you edit images?", de = "Wie oft bearbeiten Sie Bilder?" }
answers = { never = "Never", often = { en = "Often", de = "Oft" } }
screen_out = ["never"]
[[questions]]
name = "tools"
text = "Which tools?"
kind = "multiple"
answers = { a = "A", b = "B" }
optional = true
"""


def plan(
    seed: int = 1, top: str = "", per_cell: int = 3, modes: str = '"Quick"', **more: str
) -> str:
    filled = {"design": "", "more": "", **more}
    return QUICK.format(seed=seed, top=top, per_cell=per_cell, modes=modes, **filled)


def form_of(page: Any) -> str:
    return str(page.text.split('name="form" value="')[1].split('"')[0])


def consent(person: Any, query: str = "", boxes: int = 1, token: str = "open") -> Any:
    page = person.http.get(f"/join/{token}{query}")
    agreed = ["yes", *(f"box{k}" for k in range(1, boxes))]
    fields = {"form": form_of(page), "agreed": agreed}
    return person.http.post(f"/join/{token}{query}", data=fields)


def on_target(study: RunningStudy, person: Any, trial: dict[str, Any]) -> dict[str, float]:
    row = study.trial(study.person(person.http.cookies["segmeter_session"]), trial["id"])  # type: ignore[arg-type]  # it is there
    mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
    ys, xs = mask.bits.nonzero()
    return {"x": float(xs[0] + mask.low[1]) + 0.5, "y": float(ys[0] + mask.low[0]) + 0.5}


def play(study: RunningStudy, person: Any) -> Any:
    answer = None
    for trial in person.batch()["trials"]:
        answer = person.answer(trial, **on_target(study, person, trial))
        assert answer.status_code == 200, answer.text
    assert answer is not None
    return answer.json()


# Consent


def test_built_in_sections_of_the_consent_are_kept_in_addition_to_the_plans(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    texts = '[texts]\nconsent = "We study clicks. [More](https://example.org)\\n\\n- one\\n- two"\n'
    study = begin(plan(more=texts + 'data = "We keep your clicks only."'))
    page = visit(study).http.get("/join/open").text
    assert "We study clicks." in page
    assert '<a href="https://example.org" rel="noopener">More</a>' in page
    assert "<li>one</li>" in page
    assert "without giving a reason" in page  # built in
    assert "We keep your clicks only." in page
    assert "no network address" not in page  # replaced
    assert any("`[texts] data` replaces" in text for text in plan_warnings(study.plan))


def test_every_box_of_the_consent_must_be_ticked(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(plan(top='consent_boxes = ["I am 18 or older."]'))
    assert "I am 18 or older." in visit(study).http.get("/join/open").text
    assert consent(visit(study), boxes=1).status_code == 422
    assert consent(visit(study), boxes=2).status_code == 200


@pytest.mark.parametrize(("state", "said"), [("closed", "has ended"), ("paused", "paused")])
def test_a_closed_study_accepts_no_consent(
    begin: Callable[..., RunningStudy], visit: Any, state: str, said: str
) -> None:
    study = begin(plan())
    study.set_state(state)
    page = visit(study).http.get("/join/open")
    assert page.status_code == 423
    assert said in page.text
    assert "agreed" not in page.text


# Questions, quotas, the end


def test_questions_come_before_the_work_and_can_screen_out(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin(plan(more=QUESTIONS + '[recruiting]\nscreen_out_code = "OUT1"\n'))
    person = visit(study)
    page = consent(person)
    assert "How often do you edit images?" in page.text
    wrong = person.http.post("/questions/before", data={"form": form_of(page)})
    assert wrong.status_code == 422
    assert "Please answer the marked questions." in wrong.text
    bad = {"form": form_of(page), "experience": "sometimes"}
    assert person.http.post("/questions/before", data=bad).status_code == 422
    good = {"form": form_of(page), "experience": "often", "tools": ["a", "b"]}
    assert "What are you working with?" in person.http.post("/questions/before", data=good).text
    novice = visit(study)
    page = consent(novice)
    out = novice.http.post("/questions/before", data={"form": form_of(page), "experience": "never"})
    assert "you cannot take part" in out.text
    assert "OUT1" in out.text
    with study.database.snapshot() as connection:
        states = [row["state"] for row in participant_rows(connection, study.plan)]
    assert states == ["joined", "screened_out"]


def test_a_page_of_optional_questions_can_be_skipped(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    optional = "[[questions]]" + QUESTIONS.split("[[questions]]")[2]
    study = begin(plan(more=optional))
    person = visit(study)
    page = consent(person)
    assert "Which tools?" in page.text
    page = person.http.post("/questions/before", data={"form": form_of(page)})
    assert "What are you working with?" in page.text
    with study.database.snapshot() as connection:
        asked = sa.select(db.responses.c.question, db.responses.c.value)
        assert connection.execute(asked).all() == [("tools", "")]


def test_a_form_that_is_sent_twice_is_stored_once(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    """As by a double click: both requests are checked before either is stored."""
    quota = '[[design.quotas]]\nquestion = "experience"\nanswer = "often"\npeople = 1\n'
    study = begin(plan(more=quota + QUESTIONS))
    person = visit(study)
    consent(person)
    row = study.person(person.http.cookies["segmeter_session"])
    assert row is not None
    for _ in range(2):
        study.respond(row, {"experience": "often", "tools": "a"})
    with study.database.snapshot() as connection:
        assert db.count(connection, db.responses.c.person == row["id"]) == 2
    assert study.person(person.http.cookies["segmeter_session"])["state"] == ""  # type: ignore[index]  # it is there


@pytest.mark.parametrize(("question", "answer"), [("experience", "often"), ("tools", "b")])
def test_a_full_quota_turns_people_away(
    begin: Callable[..., RunningStudy], visit: Any, question: str, answer: str
) -> None:
    """Also where the answer is one of several that were chosen."""
    quota = f'[[design.quotas]]\nquestion = "{question}"\nanswer = "{answer}"\npeople = 1\n'
    study = begin(plan(more=quota + QUESTIONS + '[recruiting]\nquota_full_code = "FULL1"\n'))
    for expected in ("What are you working with?", "FULL1"):
        person = visit(study)
        fields = {"form": form_of(consent(person)), "experience": "often", "tools": ["a", "b"]}
        assert expected in person.http.post("/questions/before", data=fields).text


def test_the_end_has_questions_a_completion_code_and_the_debriefing(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    more = '[texts]\ndebriefing = "We compared two modes."\n'
    more += '[recruiting]\nplatform = "prolific"\ncompletion_code = "C1"\n'
    text = plan(top='questionnaires = ["nasa-tlx"]', design="batches_per_person = 1", more=more)
    study = begin(text)
    person = visit(study)
    page = consent(person, "?PROLIFIC_PID=5f00&STUDY_ID=s1&other=x")
    person.token = page.text.split('data-token="')[1].split('"')[0]
    person.post("/api/device", {"device": "pc"})
    assert "C1" not in person.http.get("/work").text
    assert person.post("/api/end").status_code == 409  # nothing was handed in
    assert play(study, person)["next"] == "done"
    assert person.post("/api/end").status_code == 200
    page = person.http.get("/end")
    assert "How mentally demanding was the task?" in page.text
    names = ("mental", "physical", "temporal", "performance", "effort", "frustration")
    fields = {"form": form_of(page), **{f"tlx_{name}": "21" for name in names}}
    page = person.http.post("/questions/after", data=fields)
    assert "https://app.prolific.com/submissions/complete?cc=C1" in page.text
    assert "We compared two modes." in page.text
    with study.database.snapshot() as connection:
        (row,) = participant_rows(connection, study.plan)
        files = export(connection, study.plan, study.stimuli, tmp_path / "out")
    assert (row["state"], row["payable"]) == ("finished", True)
    assert json.loads(row["platform"]) == {"PROLIFIC_PID": "5f00", "STUDY_ID": "s1"}
    (answers,) = [file for file in files if file.name == "questionnaire.csv"]
    assert {r["value"] for r in csv.DictReader(answers.open())} == {"100"}
    # The same person does not come twice.
    again = visit(study)
    page = again.http.get("/join/open?PROLIFIC_PID=5f00")
    fields = {"form": form_of(page), "agreed": "yes"}
    assert again.http.post("/join/open?PROLIFIC_PID=5f00", data=fields).status_code == 409


@pytest.mark.parametrize(
    ("platform", "query", "address"),
    [
        ("prolific", {"PROLIFIC_PID": "5f"}, "https://app.prolific.com/submissions/complete?cc="),
        ("mturk", {"workerId": "A1", "assignmentId": "3X"}, ""),
        ("sona", {"survey_code": "98"}, "https://x.sona.example/?credit=98&c="),
        ("other", {"panel": "7"}, "https://panel.example/7?c="),
    ],
)
def test_every_platform_gets_its_codes_and_its_way_back(
    platform: str, query: dict[str, str], address: str
) -> None:
    """Identifiers are kept; completion, screen-out and full quota have codes of their own."""
    urls = {
        "sona": "https://x.sona.example/?credit={survey_code}&c={code}",
        "other": "https://panel.example/{panel}?c={code}",
    }
    recruiting = Recruiting(
        platform=platform,  # type: ignore[arg-type]  # one of the four
        id_parameter="panel" if platform == "other" else "",
        return_url=urls.get(platform, ""),
        completion_code="DONE",
        screen_out_code="OUT",
        quota_full_code="FULL",
    )
    ids = platform_ids(recruiting, {**query, "unknown": "x"})
    assert ids == query
    for outcome, code in (("completed", "DONE"), ("screened_out", "OUT"), ("quota_full", "FULL")):
        wanted = (code, address + code if address else "")
        assert return_link(recruiting, outcome, json.dumps(ids)) == wanted


def test_identifiers_are_exported_only_on_request(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin(plan(more='[recruiting]\nplatform = "sona"\n'))
    person = visit(study)
    page = consent(person, "?survey_code=98765secret")
    person.token = page.text.split('data-token="')[1].split('"')[0]
    person.post("/api/device", {"device": "pc"})
    play(study, person)
    (tmp_path / "plain.zip").write_bytes(archive(study))
    (tmp_path / "named.zip").write_bytes(archive(study, identifiers=True))
    found = {}
    for name in ("plain", "named"):
        packed = zipfile.ZipFile(tmp_path / f"{name}.zip")
        found[name] = any(b"98765secret" in packed.read(file) for file in packed.namelist())
        assert json.loads(packed.read("software.json"))["versions"]["segmeter"]
    assert found == {"plain": False, "named": True}
    book = zipfile.ZipFile(tmp_path / "plain.zip").read("data/codebook.csv").decode()
    assert {row["column"] for row in csv.DictReader(io.StringIO(book))} <= meanings().keys()


# Practice, checks


def test_practice_gives_feedback_and_a_check_hides_in_the_batch(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    design = 'practice = ["coffee/cup"]\nchecks = ["rocket/rocket"]'
    study = begin(plan(design=design))
    person = visit(study).join()
    for right in (False, True):
        batch = person.batch()
        assert (batch["training"], len(batch["trials"])) == (True, 1)
        assert person.post("/api/offer").json()["training"]  # also when the page is loaded again
        (trial,) = batch["trials"]
        place = on_target(study, person, trial) if right else {"x": 0.1, "y": 0.1}
        answer = person.answer(trial, **place).json()
        assert (answer["right"], answer["passed"]) == (right, right)
    trials = person.batch()["trials"]
    for trial in trials:
        person.answer(trial, **on_target(study, person, trial))
    with study.database.snapshot() as connection:
        rows = [row for row in trial_rows(connection, study.plan) if not row["training"]]
        now, clicked = progress(connection), heat_targets(connection)
        page = study_page(connection, study.plan, study.stimuli)
    assert [row["check"] for row in rows].count(True) == 1
    assert f"of {len(rows) - 1} clicks of 1 participant are valid" in page, "a check is no click"
    assert {row["scene"] for row in rows if not row["check"]} == {"astronaut"}
    assert [row["counts"] for row in rows if row["check"]] == [False]
    # The conductor's page leaves the two practice clicks out.
    assert sum(row["answers"] for row in now["seconds"]) == len(rows)
    assert sum(row["clicks"] for row in clicked) == len(rows)


def test_failing_the_practice_too_often_ends_the_participation(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(plan(design='practice = ["coffee/cup"]', more="[validity]\npractice_tries = 2"))
    person = visit(study).join()
    after = [person.answer(person.batch()["trials"][0], x=0.1, y=0.1).json() for _ in range(2)]
    assert [each["next"] for each in after] == ["work", "screened_out"]
    assert "cannot take part" in person.http.get("/work").text


# Assignment


def conditions(study: RunningStudy) -> str:
    with study.database.snapshot() as connection:
        asked = sa.select(db.people.c.condition).order_by(db.people.c.number)
        return "".join(name[0] for name in connection.execute(asked).scalars())


def test_assignment_is_random_and_follows_the_seed(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    found = []
    for seed in (1, 1, 2, 3):
        text = plan(seed=seed, per_cell=50, modes='"Quick", "Other"')
        study = begin(text, f"sqlite:///{tmp_path}/{len(found)}.db")
        for _ in range(8):
            visit(study).join()
        found.append(conditions(study))
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert any("QQ" in each and "OO" in each for each in found)  # not in turn


@pytest.mark.parametrize("assignment", ["blocked", "latin-square"])
def test_blocks_hold_every_condition_once(
    begin: Callable[..., RunningStudy], visit: Any, assignment: str
) -> None:
    design = f'assignment = "{assignment}"'
    study = begin(plan(per_cell=50, modes='"Quick", "Other"', design=design))
    for _ in range(8):
        visit(study).join()
    found = conditions(study)
    assert [sorted(found[k : k + 2]) for k in range(0, 8, 2)] == [["O", "Q"]] * 4


def test_a_latin_square_orders_conditions_within_participants(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    design = 'people = "within"\nassignment = "latin-square"'
    study = begin(plan(per_cell=50, modes='"Quick", "Other"', design=design))
    for _ in range(4):
        visit(study).join().batch()
    with study.database.snapshot() as connection:
        rows = list(trial_rows(connection, study.plan))
    orders = Counter(
        "".join(r["condition"][0] for r in rows if r["person_number"] == n) for n in range(4)
    )
    assert orders == {"QO": 2, "OQ": 2}


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_latin_squares_are_balanced(size: int) -> None:
    rows = latin_square(size)
    for column in range(size):
        assert set(Counter(row[column] for row in rows).values()) == {len(rows) // size}
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(follows) == size * (size - 1)
    assert len(set(follows.values())) == 1


def test_more_answers_can_be_requested_later(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin(plan(per_cell=1))
    while visit(study).http.get("/join/open").status_code == 200:
        play(study, visit(study).join())
    assert "has ended" in visit(study).http.get("/join/open").text
    study = begin(plan(per_cell=2))
    assert visit(study).join().post("/api/offer").json()["state"] == "work"


def test_the_preregistration_states_design_rules_and_tests(
    begin: Callable[..., RunningStudy],
) -> None:
    design = 'assignment = "blocked"\nchecks = ["rocket/rocket"]'
    study = begin(plan(modes='"Quick", "Other"', design=design))
    text = preregistration(study.plan, study.stimuli)
    for words in ("Quick, Other", "permuted blocks", "seed 1", "`too_fast`", "energy distance"):
        assert words in text
    assert study.plan.hash in text
