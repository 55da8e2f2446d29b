"""Merging and listing: runs of one plan become one; strangers' runs are data and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.core.plans import Plan
from segmeter.engine import Tally, run_plan
from segmeter.engine.jobs import jobs_of
from segmeter.engine.scoring import score_run
from segmeter.models.synthetic import Disc
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder
from segmeter.store.compaction import compact
from segmeter.store.folder import list_runs
from segmeter.store.job_files import encode_table, with_column
from segmeter.store.local import LocalPlace
from segmeter.store.merging import merge_runs

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=2, limit=3)
FACTS = "select model, scene, target, protocol, round, prompt, iou, mask from rows order by all"
COMMAND = {"at": "2026-01-01T00:00:00+00:00", "command": "segmeter merge"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("merging") / "whole"
    run_plan(PLAN, out, workers=0)
    return out


@pytest.fixture
def halves(whole: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of six jobs: the first four and the last four of them."""
    made = []
    for name, keep in (("first", slice(0, 4)), ("second", slice(2, 6))):
        out = Path(shutil.copytree(whole, tmp_path / name))
        files = sorted((out / "jobs").iterdir())
        for file in set(files) - set(files[keep]):
            file.unlink()
        made.append(out)
    return made[0], made[1]


def facts(run: object) -> Any:
    return Run.open(str(run)).sql(FACTS)


def test_runs_of_one_plan_are_joined(halves: tuple[Path, Path], whole: Path, storage: str) -> None:
    """The jobs of one have files of their own, those of the other lie in compacted files."""
    first, second = halves
    assert score_run(second, "dice", Roots()) == 4
    compact(RunFolder(second), loose=1)
    done = merge_runs(storage, [first, second], COMMAND)
    assert (done.jobs, done.twice, done.left_out) == (6, 2, {})
    assert done.taken == {str(first): 4, str(second): 2}
    assert facts(storage).equals(facts(whole))
    scored = Run.open(storage).sql("select count(distinct (model, scene)) as n from rows "
                                   "where dice is not null")  # fmt: skip
    assert scored.to_pylist() == [{"n": 4}]
    assert [e["command"] for e in RunFolder(storage).provenance][-1] == "segmeter merge"
    assert run_plan(PLAN, storage, executor="inline") == Tally(0, 6, 0)
    again = merge_runs(storage, [first, second], COMMAND)  # one that was killed goes on
    assert (again.jobs, again.twice, sum(again.taken.values())) == (6, 8, 0)


def test_the_command_prints_what_it_used(
    halves: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    code, out, err = typed("merge", tmp_path / "all", *halves)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == (
        f"6 jobs in {tmp_path / 'all'} (2 of them in several runs, with the same rows); "
        f"next: segmeter report {tmp_path / 'all'}"
    )
    code, out, _ = typed("merge", tmp_path / "all", *halves, "--json")
    assert json.loads(out)["twice"] == 8
    code, _, err = typed("merge", tmp_path / "other", halves[0])
    assert code == 2
    assert "two or more runs" in err
    code, _, err = typed("merge", halves[0], *halves)
    assert code == 2
    assert "is one of the runs" in err


def test_the_plan_of_a_run_is_not_read_again_for_each_job(
    halves: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    reading = LocalPlace.read

    def counted(place: LocalPlace, name: str, limit: int | None = None) -> bytes:
        read.append(name)
        return reading(place, name, limit)

    monkeypatch.setattr(LocalPlace, "read", counted)
    assert merge_runs(tmp_path / "all", halves, COMMAND).jobs == 6
    assert read.count("plan.json") < 8  # of eight job files


def test_shards_are_run_separately_and_merged(whole: Path, tmp_path: Path, typed: Typed) -> None:
    words = ("run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn", "--rounds", 2,
             "--limit", 3, "--workers", 0)  # fmt: skip
    for k in (1, 2):
        code, _, _ = typed(*words, "--shard", f"{k}/2", "--out", tmp_path / str(k))
        assert code == 0
        assert len(RunFolder(tmp_path / str(k)).finished()) == 3
    done = merge_runs(tmp_path / "all", [tmp_path / "1", tmp_path / "2"], COMMAND)
    assert (done.jobs, done.twice) == (6, 0)
    assert facts(tmp_path / "all").equals(facts(whole))
    for wrong in ("3/2", "0/2", "half", "1/", "-1/2"):
        code, _, err = typed(*words, "--shard", wrong, "--out", tmp_path / "none")
        assert code == 2
        assert f"--shard is which of how many, as 1/4, not '{wrong}'" in err


def test_runs_of_different_plans_are_refused(whole: Path, tmp_path: Path) -> None:
    run_plan(replace(PLAN, seed=1, limit=1), tmp_path / "other", workers=0)
    with pytest.raises(RunConflict, match=r"were made by different plans \(different seed, limit"):
        merge_runs(tmp_path / "all", [whole, tmp_path / "other"], COMMAND)
    assert not (tmp_path / "all").exists()


def change(run: Path, column: str, value: object) -> str:
    """Put something else into a column of a job file; the scene it is about."""
    part = max((run / "jobs").iterdir())
    folder = RunFolder(run)
    table = folder.rows(part.stem)
    place = table.column_names.index(column)
    values = pa.array([value] * table.num_rows, table.schema.field(column).type)
    field = table.schema.field(column)
    folder.place.put(f"jobs/{part.name}", encode_table(table.set_column(place, field, values)))
    return str(table["scene"][0])


def test_other_rows_for_a_job_are_refused_and_named(whole: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    change(other, "seconds_encode", 9.0)
    assert merge_runs(tmp_path / "all", [whole, other], COMMAND).twice == 6  # times may differ
    scene = change(other, "iou", 0.125)
    with pytest.raises(RunConflict, match=rf"other rows for '[\w-]+' on 'drawn/{scene}'"):
        merge_runs(tmp_path / "more", [whole, other], COMMAND)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("weighted"),))
    for name in ("a", "b"):

        class Weighted(Disc):
            card = replace(Disc.card, name="weighted", fingerprint=name * 32)

        run_plan(plan, tmp_path / name, objects={"weighted": Weighted()})
        parts = sorted((tmp_path / name / "jobs").iterdir())
        (parts[0] if name == "a" else parts[1]).unlink()
    with pytest.raises(RunConflict, match="'weighted' with different weights or sources"):
        merge_runs(tmp_path / "all", [tmp_path / "a", tmp_path / "b"], COMMAND)


def test_other_weights_than_those_of_an_earlier_merge_are_refused(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("weighted"),))
    for number, name in enumerate(("a", "a2", "b", "b2")):

        class Weighted(Disc):
            card = replace(Disc.card, name="weighted", fingerprint=name[0] * 32)

        run_plan(plan, tmp_path / name, objects={"weighted": Weighted()})
        for file in sorted((tmp_path / name / "jobs").iterdir())[number % 3 + 1 :]:
            file.unlink()
    assert merge_runs(tmp_path / "all", [tmp_path / "a", tmp_path / "a2"], COMMAND).jobs == 2
    with pytest.raises(RunConflict, match="'weighted' with different weights or sources"):
        merge_runs(tmp_path / "all", [tmp_path / "b", tmp_path / "b2"], COMMAND)


@pytest.mark.parametrize("compacted", [False, True])
def test_other_scores_of_a_job_are_refused_and_named(
    whole: Path, tmp_path: Path, compacted: bool
) -> None:
    one, two = (Path(shutil.copytree(whole, tmp_path / name)) for name in ("one", "two"))
    for run in (one, two):
        assert score_run(run, "dice", Roots()) == 6
    job = min(RunFolder(two).finished())
    table = RunFolder(two).rows(job)
    RunFolder(two).put_rows(job, with_column(table, "dice", [0.5] * len(table)))
    if compacted:
        compact(RunFolder(one), loose=1)
    with pytest.raises(RunConflict, match=r"other rows for '\w+' on 'drawn/\d+'"):
        merge_runs(tmp_path / "all", [one, two], COMMAND)


def test_a_run_that_is_named_twice_is_counted_once(
    halves: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    first, second = halves
    beside = first.parent / "." / second.name / ".." / first.name
    done = merge_runs(tmp_path / "all", [first, second, beside], COMMAND)
    assert (done.jobs, done.twice) == (6, 2)
    assert list(done.taken.values()) == [4, 2]


def test_damaged_parts_are_left_out_and_named(
    halves: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    bad = max((halves[1] / "jobs").iterdir())
    bad.write_bytes(bad.read_bytes()[:-30])
    code, out, err = typed("merge", tmp_path / "all", *halves)
    assert code == 1
    assert f"{bad} is left out" in err
    assert out.splitlines()[-1].startswith("5 jobs")


def test_a_received_run_executes_and_contacts_nothing(
    halves: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    mark = tmp_path / "mark"
    file = tmp_path / "x.py"
    file.write_text(f"open({str(mark)!r}, 'w')\nclass D: ...\n")
    for run in halves:
        plan = json.loads((run / "plan.json").read_text())
        plan |= {"datasets": [{"name": f"{file}:D", "options": {}}], "benchmark": f"{file}:D"}
        (run / "plan.json").write_text(json.dumps(plan))
    assert typed("merge", tmp_path / "all", *halves)[0] == 2  # rows that its plan lacks
    assert typed("runs", tmp_path)[0] == 0
    assert not mark.exists()


def test_links_in_a_run_are_refused(halves: tuple[Path, Path], tmp_path: Path) -> None:
    part = min((halves[1] / "jobs").iterdir())
    part.rename(tmp_path / "away")
    part.symlink_to(tmp_path / "away")
    with pytest.raises(BadInput, match="is a link"):
        merge_runs(tmp_path / "all", halves, COMMAND)


def test_rows_that_the_plan_does_not_ask_for_are_refused(whole: Path, tmp_path: Path) -> None:
    run_plan(replace(PLAN, segmenters=(Spec("synthetic-oracle"),)), tmp_path / "more", workers=0)
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    part = min((tmp_path / "more" / "jobs").iterdir())
    shutil.copy(part, other / "jobs")
    with pytest.raises(
        BadInput, match=r"rows of 'synthetic-oracle' .* its own plan does not ask for"
    ):
        merge_runs(tmp_path / "all", [whole, other], COMMAND)


def test_runs_are_listed_with_what_is_known_of_them(
    halves: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    broken = tmp_path / "deep" / "broken"
    broken.mkdir(parents=True)
    (broken / "plan.json").write_text("[1]")
    (tmp_path / "linked").symlink_to(halves[0])
    found = {facts.run: facts for facts in list_runs(tmp_path)}
    assert list(found) == [str(broken), *map(str, halves)]
    first = found[str(halves[0])]
    assert (first.benchmark, first.models, first.datasets) == (
        "noc",
        ("disc", "synthetic-noisy"),
        ("drawn",),
    )
    assert (first.done, first.jobs, first.errors) == (4, 6, 0)
    assert first.bytes > 1000
    assert "not an object" in found[str(broken)].problem
    folder = RunFolder(Path(shutil.copytree(halves[0], tmp_path / "deep" / "merged")))
    job = next(
        job
        for job in jobs_of(PLAN, {"drawn": catalogue.datasets.make("drawn")})
        if job.id in folder.finished()
    )
    folder.fail(job, "the error of another run that was merged", "")
    assert [one.errors for one in list_runs(folder.path)] == [0]
    shutil.rmtree(folder.path)
    code, out, _ = typed("runs", tmp_path)
    assert code == 0
    assert "4/6" in out
    code, out, _ = typed("runs", tmp_path, "--json", "--statistic", "noc@90")
    told = json.loads(out)
    assert {row["run"] for row in told["numbers"]} == set(map(str, halves))
    assert told["runs"][1]["jobs"] == 6
    code, _, err = typed("runs", tmp_path, "--statistic", "nothing")
    assert code == 2
    assert "'nothing'" in err


def test_runs_on_a_storage_are_listed(address: str) -> None:
    run_plan(replace(PLAN, limit=1), address, executor="inline")
    (facts,) = list_runs(address.removesuffix("/run"))
    assert (facts.run, facts.done, facts.jobs) == (address, 2, 2)
    with pytest.raises(NotFound, match="there is no run under"):
        list_runs(f"{address}-none")
