"""The ledger: nothing acknowledged is lost, and the log is the database."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from segmeter.core.errors import BadInput, NotFound
from segmeter.study import tables as t
from segmeter.study.ledger import Ledger, open_engine, rebuild
from segmeter.study.migrations.versions import v0001_first
from segmeter.study.plan_parts import Validity
from segmeter.study.running import RunningStudy


def contents(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database but its secret."""
    with engine.connect() as connection:
        found = {}
        for table in t.METADATA.sorted_tables:
            columns = [column for column in table.columns if column.name != "secret"]
            rows = connection.execute(sa.select(*columns)).all()
            found[table.name] = sorted((tuple(row) for row in rows), key=repr)
    return found


def check_counters(engine: sa.Engine) -> None:
    """Cells hold what the trials add up to."""
    with engine.connect() as connection:
        asked = sa.select(t.trials.c.task, t.batches.c.device, t.trials.c.counts).join(
            t.batches, t.batches.c.id == t.trials.c.batch
        )
        rows = connection.execute(asked).all()
        for cell in connection.execute(sa.select(t.cells)).mappings():
            own = [row[2] for row in rows if (row[0], row[1]) == (cell["task"], cell["device"])]
            assert (cell["valid"], cell["open"]) == (own.count(1), own.count(-1))


def on_target(study: RunningStudy, person: Any, trial: dict[str, Any]) -> dict[str, float]:
    """A click in the middle of a pixel of the trial's target."""
    row = study.trial(study.person(person.http.cookies["segmeter_session"]), trial["id"])  # type: ignore[arg-type]  # it is there
    mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
    ys, xs = mask.bits.nonzero()
    return {"x": float(xs[0] + mask.low[1]) + 0.5, "y": float(ys[0] + mask.low[0]) + 0.5}


def play(study: RunningStudy, person: Any, *, right: int = 10) -> None:
    """A whole batch, so many clicks of it on their targets."""
    for number, trial in enumerate(person.batch()["trials"]):
        place = on_target(study, person, trial) if number < right else {"x": 0.1, "y": 0.1}
        answer = person.answer(trial, **place)
        assert answer.status_code == 200, answer.text


def states(study: RunningStudy) -> list[tuple[str, str]]:
    with study.ledger.protocol() as connection:
        asked = sa.select(t.batches.c.state, t.batches.c.reason).order_by(t.batches.c.opened)
        return [(row[0], row[1]) for row in connection.execute(asked)]


def test_the_log_rebuilds_the_same_database(
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
    check_counters(study.ledger.engine)
    assert study.ledger.log is not None
    again = f"sqlite:///{tmp_path}/again.db"
    rebuild(study.ledger.log, again)
    assert contents(open_engine(again)) == contents(study.ledger.engine)
    with pytest.raises(BadInput, match="not empty"):
        rebuild(study.ledger.log, again)


def test_withdrawing_leaves_no_trace(begin: Callable[..., RunningStudy], visit: Any) -> None:
    study = begin()
    stays, goes = visit(study).join(), visit(study).join()
    play(study, stays)
    play(study, goes)
    code = goes.person()
    form = goes.http.get("/withdraw").text.split('name="form" value="')[1].split('"')[0]
    assert goes.http.post("/withdraw", data={"form": form, "code": code}).status_code == 200
    assert study.ledger.log is not None
    assert code not in study.ledger.log.read_text()
    assert code not in json.dumps(contents(study.ledger.engine))
    assert stays.person() in study.ledger.log.read_text()
    assert goes.post("/api/batch").status_code == 401
    assert not study.withdraw(code)
    check_counters(study.ledger.engine)


def test_an_invitation_stays_used_when_its_person_withdraws(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin('kind = "clicks"')
    (token,) = study.invite(1)
    person = visit(study).join(token)
    study.withdraw(person.person())
    assert not study.may_join(token)


def test_what_was_committed_but_not_logged_is_logged_at_the_next_start(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    play(study, visit(study).join())
    log = study.ledger.log
    assert log is not None
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])  # as if killed in the middle of a line
    begin()
    assert log.read_bytes() == whole


def test_a_late_batch_goes_back_and_its_places_with_it(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    slow = visit(study).join()
    trials = slow.batch()["trials"]
    assert slow.answer(trials[0]).status_code == 200
    with study.ledger.engine.begin() as connection:
        connection.execute(sa.update(t.batches).values(deadline=1.0))
    assert slow.answer(trials[1]).status_code == 410
    visit(study).join().batch()
    assert [state for state, _ in states(study)] == ["returned", "open"]
    check_counters(study.ledger.engine)


def test_nobody_sees_a_image_twice_and_cells_fill_evenly(
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
    with study.ledger.protocol() as connection:
        asked = sa.select(t.cells.c.valid).where(t.cells.c.device == "pc")
        counts = set(connection.execute(asked).scalars())
    assert counts <= {0, 1}


def test_other_rules_can_be_run_over_what_is_there(
    begin: Callable[..., RunningStudy], visit: Any
) -> None:
    study = begin()
    play(study, visit(study).join(), right=5)
    assert [state for state, _ in states(study)] == ["dropped"]
    assert study.revalidate(Validity(batch_minimum=5)) == 5
    assert states(study) == [("done", "")]
    check_counters(study.ledger.engine)


def test_texts_may_change_while_a_study_runs_and_its_design_may_not(
    begin: Callable[..., RunningStudy],
) -> None:
    begin('kind = "clicks"\ntitle = "One"')
    begin('kind = "clicks"\ntitle = "Another"\n[validity]\nradius = 0.02')
    with pytest.raises(BadInput, match="another --db"):
        begin('kind = "clicks"\ntitle = "One"\nseed = 4')


def test_the_migrations_make_the_tables_of_today(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/new.db", None)
    with ledger.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), t.METADATA) == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_first_migration_stays_what_it_was(dialect: str) -> None:
    made = io.StringIO()
    context = MigrationContext.configure(
        dialect_name=dialect, opts={"as_sql": True, "output_buffer": made}
    )
    with Operations.context(context):
        v0001_first.upgrade()
    kept = Path(__file__).with_name(f"tables-0001.{dialect}.sql").read_text("utf-8")
    assert [line.rstrip() for line in made.getvalue().strip().splitlines()] == kept.splitlines()


def test_what_was_withdrawn_is_not_left_in_the_files(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin()
    person = visit(study).join()
    code = person.person().encode()
    person.answer(person.batch()["trials"][0])
    assert any(code in path.read_bytes() for path in tmp_path.iterdir())
    assert study.withdraw(code.decode())
    assert not any(code in path.read_bytes() for path in tmp_path.iterdir())


def test_a_damaged_log_is_named(begin: Callable[..., RunningStudy], tmp_path: Path) -> None:
    begin().ledger.engine.dispose()
    log = tmp_path / "plan.events.jsonl"
    log.write_text("[1]\n" + log.read_text("utf-8"), encoding="utf-8")
    with pytest.raises(BadInput, match="is damaged; move it away"):
        begin()
    with pytest.raises(BadInput, match="line 1: not an event"):
        rebuild(log, f"sqlite:///{tmp_path}/again.db")
    log.write_text('{"number":1,"at":0,"kind":"joined","person":"x","body":{}}\n')
    with pytest.raises(BadInput, match=r"event 1 of .* does not fit what came before it"):
        rebuild(log, f"sqlite:///{tmp_path}/again.db")


def test_addresses_that_are_no_database_are_refused(tmp_path: Path) -> None:
    for url in ("study.db", "mysql://x/y", ""):
        with pytest.raises(BadInput, match="--db"):
            open_engine(url)
    with pytest.raises(NotFound, match="cannot be opened"):
        Ledger(f"sqlite:///{tmp_path}/no/such/folder/x.db", None)


def test_postgresql_holds_the_same_study(
    begin: Callable[..., RunningStudy], visit: Any, postgres: str, tmp_path: Path
) -> None:
    study = begin(url=postgres)
    play(study, visit(study).join())
    play(study, visit(study).join(), right=0)
    assert study.withdraw(visit(study).join().person())
    check_counters(study.ledger.engine)
    assert study.ledger.log is not None
    rebuild(study.ledger.log, f"sqlite:///{tmp_path}/again.db")
    again = contents(open_engine(f"sqlite:///{tmp_path}/again.db"))
    assert again == contents(study.ledger.engine)
    study.ledger.engine.dispose()
