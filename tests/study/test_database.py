"""The database: nothing acknowledged is lost, answers are kept once, copies are exact."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from segmeter.core.errors import BadInput, NotFound
from segmeter.study import database as db
from segmeter.study.database import Database, backup, copy_study, open_engine
from segmeter.study.plan import Validity
from segmeter.study.running import RunningStudy


def contents(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database."""
    with engine.connect() as connection:
        found = {}
        for table in db.METADATA.sorted_tables:
            rows = connection.execute(sa.select(table)).all()
            found[table.name] = sorted((tuple(row) for row in rows), key=repr)
    return found


def check_counters(engine: sa.Engine) -> None:
    """Cells hold what the trials add up to."""
    with engine.connect() as connection:
        asked = sa.select(db.trials.c.task, db.batches.c.device, db.trials.c.counts).join(
            db.batches, db.batches.c.id == db.trials.c.batch
        )
        rows = connection.execute(asked).all()
        for cell in connection.execute(sa.select(db.cells)).mappings():
            own = [row[2] for row in rows if (row[0], row[1]) == (cell["task"], cell["device"])]
            assert (cell["valid"], cell["open"]) == (own.count(1), own.count(-1))


def on_target(study: RunningStudy, person: Any, trial: dict[str, Any]) -> dict[str, float]:
    """A click in the middle of a pixel of the trial's target."""
    row = study.trial(study.person(person.http.cookies["segmeter_session"]), trial["id"])  # type: ignore[arg-type]  # it is there
    mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
    ys, xs = mask.bits.nonzero()
    return {"x": float(xs[0] + mask.low[1]) + 0.5, "y": float(ys[0] + mask.low[0]) + 0.5}


def play(study: RunningStudy, person: Any, *, right: int = 10) -> int:
    """A whole batch, so many clicks of it on their targets; returns the number of answers."""
    trials = person.batch()["trials"]
    for number, trial in enumerate(trials):
        place = on_target(study, person, trial) if number < right else {"x": 0.1, "y": 0.1}
        answer = person.answer(trial, **place)
        assert answer.status_code == 200, answer.text
    return len(trials)


def states(study: RunningStudy) -> list[tuple[str, str]]:
    with study.database.snapshot() as connection:
        asked = sa.select(db.batches.c.state, db.batches.c.reason).order_by(db.batches.c.opened)
        return [(row[0], row[1]) for row in connection.execute(asked)]


def answers_in(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        asked = sa.select(sa.func.count()).select_from(db.answers)
        return int(connection.execute(asked).scalar_one())


def test_a_backup_and_its_restore_are_the_same_database(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin()
    play(study, visit(study).join())
    play(study, visit(study).join(), right=3)
    gone = visit(study).join(device="mobile")
    play(study, gone)
    study.invite(2, label="the second wave")
    visit(study).join().batch()
    assert study.withdraw(gone.person())
    study.set_state("paused")
    assert states(study) == [
        ("done", ""),
        ("dropped", "3 of 10 clicks on the target"),
        ("open", ""),
    ]
    check_counters(study.database.engine)
    kept = tmp_path / "kept.db"
    assert backup(study.database, kept) == 20
    assert [path.name for path in tmp_path.glob("kept.db*")] == ["kept.db"]
    again = f"sqlite:///{tmp_path}/again.db"
    copy_study(Database(f"sqlite:///{kept}"), open_engine(again))
    assert contents(open_engine(again)) == contents(study.database.engine)
    with pytest.raises(BadInput, match="not empty"):
        copy_study(Database(f"sqlite:///{kept}"), open_engine(again))
    own = Path(study.database.engine.url.database or "")
    with pytest.raises(BadInput, match="is the study's own database; choose another file"):
        backup(study.database, own)
    # The restored study continues.
    restored = begin(url=again)
    restored.set_state("open")
    play(restored, visit(restored).join())


def test_a_backup_of_a_running_study_is_consistent(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    """Counters of cells agree with trials in every copy made while people answer."""
    study = begin()
    person = visit(study).join()
    worker = threading.Thread(target=lambda: play(study, person))
    worker.start()
    made = 0
    while worker.is_alive() or not made:
        path = tmp_path / f"copy{made}.db"
        backup(study.database, path)
        check_counters(open_engine(f"sqlite:///{path}"))
        made += 1
    worker.join()
    backup(study.database, tmp_path / "last.db")
    assert answers_in(open_engine(f"sqlite:///{tmp_path}/last.db")) == 10


def test_commands_during_a_running_server_lose_and_double_nothing(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    """Other processes open the same database, invite and withdraw while people answer."""
    study = begin()
    people = [visit(study).join() for _ in range(3)]
    given: list[int] = []
    workers = [
        threading.Thread(target=lambda p=person: given.append(play(study, p))) for person in people
    ]
    for worker in workers:
        worker.start()
    links: list[str] = []
    while any(worker.is_alive() for worker in workers) or not links:
        links += begin().invite(1)
    for worker in workers:
        worker.join()
    assert answers_in(study.database.engine) == sum(given) > 20
    with study.database.snapshot() as connection:
        asked = sa.select(sa.func.count()).select_from(db.invitations)
        assert connection.execute(asked).scalar_one() == len(links)
    check_counters(study.database.engine)


def test_answers_are_never_changed(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin()
    play(study, visit(study).join())
    with (
        pytest.raises(sa.exc.DatabaseError, match="append-only"),
        study.database.writing() as connection,
    ):
        connection.execute(sa.update(db.answers).values(body="{}"))


def test_only_the_owner_can_read_the_files(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        study = begin()
        play(study, visit(study).join())
        backup(study.database, tmp_path / "kept.db")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.iterdir() if ".db" in path.name]
    assert len(files) >= 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_withdrawing_leaves_no_trace(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin()
    stays, goes = visit(study).join(), visit(study).join()
    play(study, stays)
    play(study, goes)
    code = goes.person()
    form = goes.http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    typed = code.replace("-", " ").lower()
    assert goes.http.post("/withdraw", data={"form": form, "code": typed}).status_code == 200
    assert code not in json.dumps(contents(study.database.engine))
    assert stays.person() in json.dumps(contents(study.database.engine))
    assert goes.post("/api/batch").status_code == 401
    assert not study.withdraw(code)
    check_counters(study.database.engine)


def test_an_invitation_stays_used_when_its_person_withdraws(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin('kind = "clicks"')
    (token,) = study.invite(1)
    person = visit(study).join(token)
    study.withdraw(person.person())
    assert not study.may_join(token)


def test_a_late_batch_and_its_places_are_returned(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    slow = visit(study).join()
    trials = slow.batch()["trials"]
    assert slow.answer(trials[0]).status_code == 200
    with study.database.engine.begin() as connection:
        connection.execute(sa.update(db.batches).values(deadline=1.0))
    assert slow.answer(trials[1]).status_code == 410
    visit(study).join().batch()
    assert [state for state, _ in states(study)] == ["returned", "open"]
    check_counters(study.database.engine)


def test_no_participant_sees_an_image_twice_and_cells_fill_evenly(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    """Eleven images: a person gets ten, then one, then nothing."""
    study = begin()
    person = visit(study).join()
    play(study, person)
    (last,) = person.batch()["trials"]
    assert person.answer(last, **on_target(study, person, last)).status_code == 200
    assert person.batch() is None
    for _ in range(4):
        play(study, visit(study).join())
    with study.database.snapshot() as connection:
        asked = sa.select(db.cells.c.valid).where(db.cells.c.device == "pc")
        counts = set(connection.execute(asked).scalars())
    assert counts <= {0, 1}


def test_other_rules_can_be_run_over_what_is_there(
    begin: Callable[..., RunningStudy], visit: Any, revalidated: Any
) -> None:
    study = begin()
    play(study, visit(study).join(), right=5)
    assert [state for state, _ in states(study)] == ["dropped"]
    assert revalidated(study, Validity(batch_minimum=5)) == 5
    assert states(study) == [("done", "")]
    check_counters(study.database.engine)


def test_texts_and_wanted_answers_may_change_while_a_study_runs_and_its_design_may_not(
    begin: Callable[..., RunningStudy],
) -> None:
    begin('kind = "clicks"\ntitle = "One"')
    begin('kind = "clicks"\ntitle = "Another"\n[validity]\nradius = 0.02')
    study = begin('kind = "clicks"\ntitle = "Another"\n[design]\nper_cell = 7')
    with study.database.snapshot() as connection:
        assert set(connection.execute(sa.select(db.cells.c.wanted)).scalars()) == {7}
    with pytest.raises(BadInput, match="another --db"):
        begin('kind = "clicks"\ntitle = "One"\nseed = 4')


def test_withdrawn_answers_are_removed_from_the_files(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin()
    person = visit(study).join()
    code = person.person().encode()
    person.answer(person.batch()["trials"][0])
    assert any(code in path.read_bytes() for path in tmp_path.iterdir())
    assert study.withdraw(code.decode())
    assert not any(code in path.read_bytes() for path in tmp_path.iterdir())


def test_codes_can_be_read_out_and_typed_as_an_argument(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    codes = [visit(study).join().person() for _ in range(5)]
    for code in codes:
        assert len(code) == 14
        assert not code.startswith("-")
        assert not set(code) & set("IO01Ul")


def test_addresses_that_are_no_database_are_refused(tmp_path: Path) -> None:
    for url in ("study.db", "mysql://x/y", ""):
        with pytest.raises(BadInput, match="--db"):
            open_engine(url)
    with pytest.raises(NotFound, match="cannot be opened"):
        Database(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    (tmp_path / "text.db").write_text("not a database, but a long enough text" * 10)
    with pytest.raises(BadInput, match="not a study's database"):
        Database(f"sqlite:///{tmp_path}/text.db")


def test_postgresql_holds_the_same_study(
    begin: Callable[..., RunningStudy], visit: Any, postgres: str, tmp_path: Path
) -> None:
    study = begin(url=postgres)
    play(study, visit(study).join())
    play(study, visit(study).join(), right=0)
    assert study.withdraw(visit(study).join().person())
    check_counters(study.database.engine)
    http = visit(study).http
    form = http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    # A NUL, which PostgreSQL refuses in a text, is refused before it.
    assert http.post("/withdraw", data={"form": form, "code": "x\0y"}).status_code == 422
    assert http.get("/conduct/heat?scene=a%00&target=b").status_code == 400
    with pytest.raises(sa.exc.DatabaseError), study.database.writing() as connection:
        connection.execute(sa.update(db.answers).values(body="{}"))
    backup(study.database, tmp_path / "kept.db")
    again = contents(open_engine(f"sqlite:///{tmp_path}/kept.db"))
    assert again == contents(study.database.engine)
    study.database.engine.dispose()
