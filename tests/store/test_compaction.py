"""Compacted files: few files for many jobs, the same rows whatever moment somebody is killed at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.core.plans import Job, Plan
from segmeter.core.scenes import Scene
from segmeter.core.seeds import fingerprint
from segmeter.engine import Tally, run_plan, runner
from segmeter.engine.scoring import score_run
from segmeter.models.synthetic import Disc
from segmeter.report.provenance import missing
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder, compacted_files, compaction
from segmeter.store.compacted_files import JobRows, compacted_bytes, jobs_in, open_bytes
from segmeter.store.compaction import compact, extract, salvage
from segmeter.store.folder import list_runs
from segmeter.store.local import LocalPlace

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=2, limit=6)
JOBS = 12


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose jobs all have files of their own."""
    out = tmp_path_factory.mktemp("compacted_files") / "loose"
    run_plan(PLAN, out, workers=0)
    return out


@pytest.fixture
def folder(loose: Path, any_storage: str) -> RunFolder:
    """A copy of it on each storage."""
    return copied(loose, any_storage)


def copied(run: Path, address: object) -> RunFolder:
    made, source = RunFolder(str(address)), LocalPlace(run)
    made.place.begin()
    for name in ("plan.json", "provenance.json"):
        made.place.put(name, source.read(name))
    for held in source.files("jobs"):
        made.place.put(f"jobs/{held.name}", source.read(f"jobs/{held.name}"))
    return made


@pytest.fixture
def here(loose: Path, tmp_path: Path) -> RunFolder:
    return copied(loose, tmp_path / "run")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacted files and row groups of a few jobs, so that a small run has many."""
    monkeypatch.setattr(compaction, "_MOST_JOBS", 4)
    monkeypatch.setattr(compacted_files, "_GROUP_ROWS", 1)


def rows(folder: RunFolder) -> list[Any]:
    """All rows with all their columns, as they are kept, bit for bit."""
    tables = [folder.rows(job.id) for job in jobs(folder)]
    return [(t.schema.remove_metadata(), repr(t.to_pylist()), t.schema.metadata) for t in tables]


def facts(folder: RunFolder) -> Any:
    """Rows but for times."""
    return Run(RunFolder(folder.place)).sql(FACTS)


FACTS = "select model, scene, target, protocol, round, prompt, iou, mask from rows order by all"


def jobs(folder: RunFolder) -> list[Job]:
    plan = folder.plan
    scenes = [f"{k:03}" for k in range(6)]
    return [Job(s, plan.datasets[0], scene) for s in plan.segmenters for scene in scenes]


def names(folder: RunFolder) -> list[str]:
    return [held.name for held in folder.place.files("jobs")]


def test_compaction_changes_no_row_and_no_provenance(folder: RunFolder) -> None:
    before, table = rows(folder), Run(folder).sql("from rows order by all")
    summary = Run(folder).summary()
    compact(folder, loose=1)
    assert len(names(folder)) == 2  # one for each model and dataset
    fresh = RunFolder(folder.place)
    assert rows(fresh) == before
    run = Run.open(folder.place)
    assert run.sql("from rows order by all").equals(table)
    assert run.summary() == summary
    assert not run.damaged
    assert run.provenance["segmenters"].keys() == {"disc", "synthetic-noisy"}
    assert run_plan(PLAN, folder.place, executor="inline") == Tally(0, JOBS, 0)


@pytest.mark.parametrize("step", [(RunFolder, "layout"), (Run, "_connected")], ids=str)
def test_rows_are_read_while_another_process_compacts(
    here: RunFolder, step: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were listed are gone when they are read: they are listed and read again."""
    wanted = Run(here).sql("select * from rows order by all")
    waiting, real = [here], getattr(*step)

    def overtaken(self: Any, *given: Any) -> Any:
        made = real(self, *given)
        if waiting:
            compact(waiting.pop(), loose=1)
        return made

    monkeypatch.setattr(*step, overtaken)
    reader = Run(RunFolder(here.place))
    assert reader.sql("select * from rows order by all").equals(wanted)
    assert not waiting
    assert not reader.damaged
    assert len(names(here)) == 2


def test_one_job_is_read_out_of_a_pack(here: RunFolder) -> None:
    before = Run(here).job_rows("disc", "drawn", "003")
    compact(here, loose=1)
    run = Run.open(here.place)
    assert run.job_rows("disc", "drawn", "003") == before
    assert run.job_rows("disc", "drawn", "099") == []
    with pytest.raises(FileNotFoundError):
        here.rows(replace(jobs(here)[0], scene="099").id)


def test_job_files_are_compacted_while_jobs_run(
    loose: Path, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watched(*given: Any, **options: Any) -> None:
        seen.append(threading.current_thread().name)
        compact(*given, **options, loose=3)

    monkeypatch.setattr(runner, "LOOSE", 3)
    monkeypatch.setattr(runner, "compact", watched)
    folder = RunFolder(storage)
    assert run_plan(PLAN, storage, executor="inline").done == JOBS
    assert any(name.startswith("compaction") for name in seen)
    assert len(names(folder)) <= 2 + 2
    assert facts(folder).equals(Run.open(loose).sql(FACTS))


class Falling(Disc):
    """A model that fails at every scene but one."""

    def encode(self, scene: Scene) -> Any:
        if scene.id != "000":
            raise BadInput("it fell")
        return super().encode(scene)


def test_errors_are_packed_and_forgotten_by_jobs_that_end_well(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "compact", partial(compact, loose=1))
    plan = replace(PLAN, segmenters=(Spec("mine"),))
    assert run_plan(plan, storage, objects={"mine": Falling()}) == Tally(1, 0, 5)
    run = Run.open(storage)
    assert len(run.folder.place.files("errors")) == 1
    said = run.sql("select error from errors")["error"].to_pylist()
    assert [text.partition(" (")[0] for text in said] == ["it fell"] * 5
    assert [facts.errors for facts in list_runs(storage)] == [5]
    assert run_plan(plan, storage, objects={"mine": Falling()}) == Tally(0, 1, 5)
    assert Run.open(storage).sql("from errors").num_rows == 5
    assert run_plan(plan, storage, objects={"mine": Disc()}, again=True) == Tally(6, 0, 0)
    assert Run.open(storage).sql("from errors").num_rows == 0
    assert not run.folder.place.files("errors")


def test_small_packs_are_joined_and_old_runs_packed_in_pieces(here: RunFolder, small: None) -> None:
    before = rows(here)
    compact(here, loose=1)  # in pieces of four
    assert rows(here) == before
    pieces = len(here.layout().compacted_files)
    compact(here, closing=True)
    assert len(here.layout().compacted_files) < pieces
    assert rows(here) == before


def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    here: RunFolder, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write and every removal in turn is the last thing that is done."""
    before = rows(here)
    count = Run(here).sql("from rows").num_rows
    for step in killed_steps(monkeypatch, lambda: compact(here, loose=1, closing=True)):
        fresh = RunFolder(here.place)
        assert fresh.finished() == {job.id for job in jobs(here)}, step
        assert rows(fresh) == before, step
        assert Run(fresh).sql("from rows").num_rows == count, step
    assert not here.layout().loose
    assert all(file.whole for file in here.layout().files)
    chosen = {job.id for job in jobs(here)[1:4]}
    for step in killed_steps(monkeypatch, lambda: extract(here, chosen)):
        fresh = RunFolder(here.place)
        assert rows(fresh) == before, step
        assert Run(fresh).sql("from rows").num_rows == count, step
    assert set(here.layout().loose) >= chosen


def killed_steps(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> Iterator[int]:
    """Do some work again and again, each time a step further, until it is done."""

    class Killed(BaseException):
        pass

    for step in range(1, 200):
        left = [step]

        def counted(do: Callable[..., None], left: list[int] = left) -> Callable[..., None]:
            def act(*given: Any, **options: Any) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                do(*given, **options)

            return act

        with monkeypatch.context() as patch:
            patch.setattr(LocalPlace, "put", counted(LocalPlace.put))
            patch.setattr(LocalPlace, "remove", counted(LocalPlace.remove))
            try:
                work()
            except Killed:
                pass
            else:
                return
        yield step
    raise AssertionError("it never ends")


def test_a_damaged_row_group_costs_its_jobs_only(here: RunFolder, small: None) -> None:
    before, said = facts(here), list[str]()
    compact(here, loose=1)
    compacted = here.layout().compacted_files[0]
    content = bytearray(here.place.read(f"jobs/{compacted.name}"))
    content[300] ^= 0xFF
    here.place.put(f"jobs/{compacted.name}", bytes(content))
    tally = run_plan(PLAN, here.place, executor="inline", tell=said.append)
    assert tally == Tally(1, JOBS - 1, 0)
    assert f"{compacted.name} is damaged; it was moved to 'quarantine' and 1 of its " in said[0]
    assert here.place.exists(f"quarantine/{compacted.name}")
    assert facts(here).equals(before)


@pytest.mark.parametrize("benchmark", ["noc", "not-installed"])
@pytest.mark.parametrize("group", [0, -1])
def test_a_report_reads_what_is_intact_of_a_damaged_compacted_file(
    here: RunFolder, small: None, group: int, benchmark: str
) -> None:
    compact(here, loose=1)
    compacted = max(here.layout().compacted_files, key=lambda compacted: len(compacted.jobs))
    content = bytearray(here.place.read(f"jobs/{compacted.name}"))
    metadata = open_bytes(bytes(content)).metadata
    column = metadata.row_group(group % metadata.num_row_groups).column(0)
    content[column.data_page_offset + 30] ^= 0xFF
    here.place.put(f"jobs/{compacted.name}", bytes(content))
    here.place.put("plan.json", replace(PLAN, benchmark=benchmark).to_json().encode())
    run = Run.open(str(here.path))
    query = "select distinct model, dataset, scene from rows order by all"
    found = [tuple(row.values()) for row in run.sql(query).to_pylist()]
    lost = compacted.jobs[group][0]
    assert len(found) == JOBS - 1
    assert lost not in {fingerprint(*job, size=10) for job in found}
    (why,) = run.damaged.values()
    assert why.endswith(f"; 1 of its {len(compacted.jobs)} jobs is left out")
    assert all(run.job_rows(*job) for job in found)
    (gone,) = (job for job in jobs(here) if job.id == lost)
    assert run.job_rows(*gone.identity().values()) == []


def test_jobs_of_an_unreadable_pack_are_counted_without_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MOST_JOBS", 2)
    run_plan(replace(PLAN, segmenters=(Spec("disc"),), limit=4), tmp_path / "run", workers=0)
    folder = RunFolder(tmp_path / "run")
    compact(folder, loose=1)
    folder.place.put(f"jobs/{folder.layout().compacted_files[0].name}", b"no compacted")

    def elsewhere(run: Run, dataset: str) -> list[str]:
        raise NotFound("the data is on another machine")

    monkeypatch.setattr(Run, "scenes", elsewhere)
    note, table = missing(Run.open(folder.path)).blocks
    assert "2 results are missing" in str(note)
    assert "the same command runs the jobs left out again" in str(table)


def test_a_run_of_a_benchmark_that_is_not_installed_can_be_queried(here: RunFolder) -> None:
    before = facts(here)
    here.place.put("plan.json", replace(PLAN, benchmark="not-installed").to_json().encode())
    assert facts(here).to_pylist() == before.to_pylist()
    assert len(Run.open(str(here.path)).job_rows("disc", "drawn", "000")) == 4


@pytest.mark.parametrize("harm", ["cut", "empty", "text"])
def test_a_compacted_file_without_a_footer_is_reported_and_rerun(
    here: RunFolder, harm: str
) -> None:
    compact(here, loose=1)
    name = here.layout().compacted_files[0].name
    content = here.place.read(f"jobs/{name}")
    bad = {"cut": content[:-50], "empty": b"", "text": b"no compacted" * 50}
    here.place.put(f"jobs/{name}", bad[harm])
    run = Run.open(str(here.path))
    assert run.sql("from rows").num_rows
    assert list(run.damaged) == [f"jobs/{name}"]
    assert run_plan(PLAN, here.path, workers=0) == Tally(JOBS // 2, JOBS // 2, 0)


def weighted(fingerprint: str) -> Disc:
    class Weighted(Disc):
        card = replace(Disc.card, name="weighted", fingerprint=fingerprint)

    return Weighted()


def test_compacted_jobs_of_other_weights_are_refused_and_rerun_one_by_one(storage: str) -> None:
    """Half of a compacted file is stale: that half is played anew, the other is left alone."""
    plan = replace(PLAN, segmenters=(Spec("weighted"),), limit=2)
    run_plan(plan, storage, objects={"weighted": weighted("a" * 32)})
    folder = RunFolder(storage)
    folder.place.remove(f"jobs/{min(folder.finished())}.parquet")
    assert run_plan(plan, storage, objects={"weighted": weighted("b" * 32)}, again=True).done == 2
    folder.place.remove(f"jobs/{min(folder.finished())}.parquet")
    old = {"weighted": weighted("a" * 32)}
    with pytest.raises(RunConflict, match="1 of 2 jobs"):
        run_plan(plan, storage, objects=old)
    compact(folder, loose=1)
    with pytest.raises(RunConflict, match=r"1 of 2 jobs .* other weights .* --rerun-changed"):
        run_plan(plan, storage, objects=old)
    assert score_run(storage, "dice", Roots()) == 1
    compact(folder, loose=1)
    assert run_plan(plan, storage, objects=old, again=True) == Tally(2, 0, 0)
    assert score_run(storage, "dice", Roots()) == 2  # that of the job played anew was forgotten


def test_scores_are_packed_too(here: RunFolder) -> None:
    compact(here, loose=1)
    assert score_run(here.path, "dice", Roots()) == JOBS
    query = "select model, scene, target, protocol, round, dice from rows order by all"
    before = Run(here).sql(query)
    compact(here, loose=1)
    assert len(here.place.files("jobs")) == 2
    assert Run.open(str(here.path)).sql(query).equals(before)
    assert score_run(here.path, "dice", Roots()) == 0


def test_users_are_added_to_packed_jobs(here: RunFolder) -> None:
    compact(here, loose=1)
    wide = replace(PLAN, users=(Spec("centre-click"), Spec("random-click")))
    assert score_run(here.path, "dice", Roots()) == JOBS
    assert run_plan(wide, here.path, workers=0, add=True).done == JOBS
    assert score_run(here.path, "dice", Roots()) == JOBS
    assert Run.open(str(here.path)).sql("from rows where dice is null").num_rows == 0
    users = Run.open(str(here.path)).sql('select distinct "user" as u from rows').num_rows
    assert users == 2


def hostile(jobs: Any, provenances: Any = None, replaces: Any = ()) -> bytes:
    """A compacted file whose index was made up."""
    import io
    import json

    import pyarrow.parquet as pq

    file = io.BytesIO()
    with pq.ParquetWriter(file, pa.schema([("model", pa.string())])) as writer:
        writer.write_table(pa.table({"model": ["a", "b"]}))
        said = {
            "jobs": jobs,
            "provenances": [{}] if provenances is None else provenances,
            "replaces": replaces,
        }
        writer.add_key_value_metadata({b"segmeter.index": json.dumps(said)})
    return file.getvalue()


A, B = "a" * 20, "b" * 20


@pytest.mark.parametrize(
    "content",
    [
        hostile([[A, 1, 0]]),  # fewer rows than there are
        hostile([[A, 1, 0], [A, 1, 0]]),
        hostile([[A, 10**9, 0], [B, 2 - 10**9, 0]]),
        hostile([["../x", 1, 0], [B, 1, 0]]),
        hostile([[A, 1, 7], [B, 1, 0]]),
        hostile([[A, 2, 0]], [["trail"]]),
        hostile([[A, 2, 0]], [{"a": 1}]),
        hostile({"a": 1}),
        hostile(7),
        hostile([[A, 2, 0]], replaces=3),
    ],
)
def test_a_made_up_index_is_refused(content: bytes) -> None:
    with pytest.raises(BadInput, match="index"):
        jobs_in("compacted", open_bytes(content))


def test_rows_of_another_job_in_a_pack_are_found_out(here: RunFolder, typed: Typed) -> None:
    """An index that names other jobs than its rows, with a name that fits the content."""
    table = here.rows(jobs(here)[0].id)
    other = jobs(here)[1].id
    content = compacted_bytes([JobRows(other, table)])
    for job in jobs(here)[:2]:
        here.place.remove(f"jobs/{job.id}.parquet")
    name = compacted_files.compacted_name("disc", "drawn", content)
    here.place.put(f"jobs/{name}", content)
    run = Run.open(str(here.path))
    assert run.sql("select count(distinct (model, scene)) as n from rows").to_pylist() == [
        {"n": JOBS - 2}
    ]
    assert "another job" in run.damaged[f"jobs/{name}"]
    assert salvage(here, name) == {other}
    assert run_plan(PLAN, here.path, workers=0) == Tally(2, JOBS - 2, 0)


def test_a_link_among_packs_is_refused(here: RunFolder, tmp_path: Path) -> None:
    compact(here, loose=1)
    file = here.path / "jobs" / here.layout().compacted_files[0].name
    file.rename(tmp_path / "away")
    file.symlink_to(tmp_path / "away")
    with pytest.raises(BadInput, match="is a link"):
        Run.open(str(here.path)).sql("from rows")
