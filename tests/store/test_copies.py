"""A job that several files hold is read once, from the newest copy, and none is ever lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import Tally, run_plan
from segmeter.engine.scoring import score_run
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder, compacted_files, compaction
from segmeter.store.compaction import compact, drop_copies, salvage

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=2, limit=4)
JOBS = 8
WIDE = replace(PLAN, users=(Spec("centre-click"), Spec("random-click")))
FACTS = """
    select model, scene, target, "user", protocol, round, prompt, iou, mask from rows order by all
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of one job, and no compaction but where a test asks for it."""
    monkeypatch.setattr(compacted_files, "_GROUP_ROWS", 1)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("copies") / "plain"
    run_plan(PLAN, out, workers=0)
    return out


@pytest.fixture
def old(plain: Path, tmp_path: Path) -> Path:
    """A compacted file copy, as a backup holds it."""
    out = Path(shutil.copytree(plain, tmp_path / "old"))
    compact(RunFolder(out), loose=1)
    return out


@pytest.fixture
def new(old: Path, tmp_path: Path) -> Path:
    """The same run after a user was added, compacted again."""
    out = Path(shutil.copytree(old, tmp_path / "new"))
    run_plan(WIDE, out, workers=0, add=True)
    compact(RunFolder(out), loose=1)
    return out


def facts(run: Path) -> Any:
    return Run.open(run).sql(FACTS)


def copied_over(source: Path, target: Path) -> None:
    """As `cp -r source/. target` and `rsync -a` do: nothing is removed."""
    shutil.copytree(source, target, dirs_exist_ok=True)


def break_groups(file: Path, count: int) -> None:
    """Change a byte at the end of the masks of some row groups."""
    data = bytearray(file.read_bytes())
    for group in range(count):
        found = compacted_files.open_bytes(bytes(data)).metadata.row_group(group)
        columns = [found.column(k) for k in range(found.num_columns)]
        (mask,) = (c for c in columns if c.path_in_schema == "mask")
        start = mask.dictionary_page_offset or mask.data_page_offset
        data[start + mask.total_compressed_size - 3] ^= 0xFF
    file.write_bytes(bytes(data))


def test_a_copy_over_an_older_one_counts_every_job_once(old: Path, new: Path, typed: Typed) -> None:
    want, summary = facts(new), Run.open(new).summary()
    copied_over(new, old)
    assert len(RunFolder(old).place.files("jobs")) == 4  # two compacted files of each
    assert facts(old).equals(want)
    assert [(r.statistic, r.value, r.targets) for r in Run.open(old).summary()] == [
        (r.statistic, r.value, r.targets) for r in summary
    ]
    assert run_plan(WIDE, old, workers=0) == Tally(0, JOBS, 0)
    assert facts(old).equals(want)
    assert len(RunFolder(old).place.files("jobs")) == 2
    assert run_plan(WIDE, old, workers=0) == Tally(0, JOBS, 0)


def test_an_older_copy_over_a_newer_one_takes_nothing_away(old: Path, new: Path) -> None:
    want = facts(new)
    copied_over(old, new)  # plan included: it is the older, narrower one again
    assert facts(new).equals(want)


def test_a_newer_job_file_takes_precedence_over_a_compacted_file(old: Path, plain: Path) -> None:
    """Jobs were run again with a user more, and are not compacted yet."""
    newer = Path(shutil.copytree(plain, old.parent / "newer"))
    run_plan(WIDE, newer, workers=0, add=True)
    want = facts(newer)
    copied_over(newer, old)
    assert facts(old).equals(want)
    compact(RunFolder(old), loose=1)
    assert facts(old).equals(want)
    assert run_plan(WIDE, old, workers=0) == Tally(0, JOBS, 0)


def test_packs_that_share_some_jobs_give_each_row_once(plain: Path, tmp_path: Path) -> None:
    """Two copies of a run went on apart: their compacted files overlap."""
    want = facts(plain)
    out = Path(shutil.copytree(plain, tmp_path / "run"))
    files = sorted((out / "jobs").iterdir())
    kept = {file.name: file.read_bytes() for file in files}
    for keep in (slice(0, 5), slice(3, 8)):
        for file in files[keep]:
            file.write_bytes(kept[file.name])
        for file in set(files) - set(files[keep]):
            file.unlink(missing_ok=True)
        aside = [f.rename(tmp_path / f.name) for f in list(out.glob("jobs/compacted-*"))]
        compact(RunFolder(out), loose=1)
        for file in aside:
            shutil.move(file, out / "jobs" / file.name)
    layout = RunFolder(out).layout()
    assert len(layout.jobs) == JOBS
    assert sum(len(compacted.jobs) for compacted in layout.compacted_files) > JOBS
    assert facts(out).equals(want)
    assert Run.open(out).damaged == {}
    compact(RunFolder(out), closing=True)
    assert facts(out).equals(want)
    assert run_plan(PLAN, out, workers=0) == Tally(0, JOBS, 0)


def test_a_copy_replaces_a_damaged_compacted_file(old: Path, plain: Path) -> None:
    """After a kill between writing a file and removing the files it was made of."""
    want = facts(plain)
    shutil.copytree(plain / "jobs", old / "jobs", dirs_exist_ok=True)
    compacted = RunFolder(old).layout().compacted_files[0]
    break_groups(old / "jobs" / compacted.name, 1)
    drop_copies(RunFolder(old))
    assert len(list((old / "jobs").glob("????????????????????.parquet"))) == JOBS  # all still there
    assert run_plan(PLAN, old, workers=0) == Tally(0, JOBS, 0)
    assert facts(old).equals(want)


def test_salvaging_keeps_the_packs_that_a_join_was_made_of(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = facts(plain)
    out = Path(shutil.copytree(plain, tmp_path / "run"))
    monkeypatch.setattr(compaction, "_MOST_JOBS", 2)
    compact(RunFolder(out), loose=1)
    small = {f.name: f.read_bytes() for f in (out / "jobs").iterdir()}
    monkeypatch.setattr(compaction, "_MOST_JOBS", 4096)
    compact(RunFolder(out), closing=True)
    joined = [f for f in (out / "jobs").iterdir() if f.name not in small]
    for name, content in small.items():
        (out / "jobs" / name).write_bytes(content)
    break_groups(joined[0], 2)
    assert len(salvage(RunFolder(out), joined[0].name)) == 2
    assert facts(out).equals(want)
    assert run_plan(PLAN, out, workers=0) == Tally(0, JOBS, 0)
    assert facts(out).equals(want)


def test_salvaging_a_file_whose_rows_are_all_intact_keeps_them(plain: Path, tmp_path: Path) -> None:
    """The same jobs give the same bytes, and so the name of the damaged file."""
    want = facts(plain)
    out = Path(shutil.copytree(plain, tmp_path / "run"))
    compact(RunFolder(out), loose=1)
    file = next((out / "jobs").iterdir())
    content = file.read_bytes()
    made_by = content.index(b"parquet-cpp")
    file.write_bytes(content[:made_by] + b"P" + content[made_by + 1 :])
    assert salvage(RunFolder(out), file.name) == set()
    assert file.read_bytes() == content
    assert run_plan(PLAN, out, workers=0) == Tally(0, JOBS, 0)
    assert facts(out).equals(want)


def test_scores_are_newer_than_a_copy_without_them_and_older_than_rows_of_a_later_run(
    plain: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(plain, tmp_path / "run"))
    assert score_run(out, "dice", Roots()) == JOBS
    compact(RunFolder(out), loose=1)
    shutil.copytree(out / "jobs", tmp_path / "scored")
    shutil.copytree(plain / "jobs", out / "jobs", dirs_exist_ok=True)
    query = "select count(dice) as n, count(*) as rows from rows"
    assert len({*Run.open(out).sql(query).to_pylist()[0].values()}) == 1
    run_plan(WIDE, out, workers=0, add=True)
    shutil.copytree(tmp_path / "scored", out / "jobs", dirs_exist_ok=True)
    assert "dice" not in Run.open(out).columns("rows")


def test_random_copies_and_commands_keep_every_row(plain: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    want = facts(plain)
    runs = [Path(shutil.copytree(plain, tmp_path / str(k))) for k in range(3)]
    for _ in range(40):
        run, other = chance.sample(runs, 2)
        match chance.randrange(4):
            case 0:
                copied_over(run, other)
            case 1:
                compact(RunFolder(run), loose=1, closing=chance.random() < 0.5)
            case 2:
                compaction.extract(
                    RunFolder(run), set(chance.sample(sorted(RunFolder(run).finished()), 3))
                )
            case 3:
                files = sorted((run / "jobs").iterdir())
                shutil.copy(chance.choice(files), other / "jobs")
        for one in (run, other):
            layout = RunFolder(one).layout()
            assert len(layout.jobs) == JOBS
    for run in runs:
        assert facts(run).equals(want)
        assert run_plan(PLAN, run, workers=0) == Tally(0, JOBS, 0)
        assert facts(run).equals(want)
