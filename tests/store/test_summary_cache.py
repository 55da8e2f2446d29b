"""What is computed from a run is cached in the user's cache folder, keyed by its contents."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from segmeter.benchmarks import declared
from segmeter.store import Run, summary_cache


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "segmeter" / "results"


def numbers(run: Path) -> list[str]:
    """The summary as text, in which not-a-numbers are alike."""
    return list(map(str, Run.open(run).summary()))


def kinds(results: Path) -> list[str]:
    return sorted(file.name.partition("-")[2] for file in results.iterdir())


def test_files_are_read_once_and_nothing_is_written_into_the_run(
    run: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(run.rglob("*"))
    first = Run.open(run)
    summary, seen, damaged = first.summary(), first.provenance, first.damaged
    assert kinds(results) == ["contents.arrow", "summary.json"]
    assert sorted(run.rglob("*")) == before
    monkeypatch.setattr("segmeter.store.validated_rows.read_contents", None)  # not called again
    again = Run.open(run, settings={"goal": "85"})
    assert again.summary() != summary
    assert again.provenance == seen
    assert again.damaged == damaged


def test_a_report_reads_the_summary_that_an_earlier_command_computed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    compute = declared.summary_of
    monkeypatch.setattr(declared, "summary_of", lambda *g: computed.append(g) or compute(*g))
    Run.open(run).summary()
    again = Run.open(run)
    assert again.sections()
    assert again.summary()
    assert len(computed) == 1


def test_commands_on_a_known_run_load_what_they_need_only(run: Path) -> None:
    """pandas is slow to import, and Arrow's own conversions to NumPy import it."""

    def loaded(*words: str) -> str:
        code = (
            "import sys; from segmeter.cli.app import run_app\n"
            "try: run_app()\n"
            "except SystemExit as end: assert not end.code\n"
            "names = ('torch', 'cv2', 'pandas', 'duckdb')\n"
            "print([n for n in names if n in sys.modules], file=sys.stderr)"
        )
        typed = [sys.executable, "-c", code, *words]
        done = subprocess.run(typed, capture_output=True, text=True, check=True)
        return done.stderr.strip().splitlines()[-1]

    # Earlier versions of DuckDB import a module of Arrow that imports pandas.
    probe = (
        "import sys, duckdb, pyarrow as pa\n"
        "empty = pa.RecordBatchReader.from_batches(pa.schema({'a': pa.int64()}), [])\n"
        "duckdb.connect().register('t', empty)\n"
        "sys.exit('pandas' in sys.modules)"
    )
    pandas = subprocess.run([sys.executable, "-c", probe], check=False).returncode
    for words in (("report", str(run), "--json"), ("compare", str(run))):
        assert loaded(*words) == ("['pandas', 'duckdb']" if pandas else "['duckdb']")
        assert loaded(*words) == "[]"  # from the cache


def test_cached_numbers_are_the_numbers(run: Path) -> None:
    first, again = Run.open(run), Run.open(run)
    assert list(map(str, first.summary())) == list(map(str, again.summary()))
    assert list(map(str, first.differences())) == list(map(str, again.differences()))
    assert first.state() == again.state()


def test_numbers_inserted_into_the_run_are_ignored(run: Path) -> None:
    true = numbers(run)
    (run / "kept").mkdir()
    for name in ("summary.json", "sessions.arrow", "contents.arrow"):
        (run / "kept" / name).write_bytes(b"[]")
    assert numbers(run) == true


def test_a_file_of_the_same_size_and_time_is_another_file(run: Path) -> None:
    before = numbers(run)
    part = min((run / "jobs").iterdir())
    held, data = part.stat(), part.read_bytes()
    table = pq.read_table(part)
    worse = table.set_column(
        table.column_names.index("iou"), "iou", [[v / 2 for v in table["iou"].to_pylist()]]
    )
    pq.write_table(worse, part)
    assert part.read_bytes() != data
    os.utime(part, ns=(held.st_atime_ns, held.st_mtime_ns))
    assert numbers(run) != before
    part.write_bytes(data)  # of the old size and, by its label, of the old time
    os.utime(part, ns=(held.st_atime_ns, held.st_mtime_ns))
    assert numbers(run) == before


@pytest.mark.parametrize("content", [b"", b"x" * 64, b"[" * 100_000, b"[1]", b'[{"a": 1}]'])
def test_a_damaged_cache_is_replaced(content: bytes, run: Path, results: Path) -> None:
    true = numbers(run)
    for file in results.iterdir():
        file.write_bytes(content)
    assert numbers(run) == true
    assert all(file.read_bytes() != content for file in results.iterdir())


def test_the_cache_of_one_run_is_not_taken_for_another(run: Path, tmp_path: Path) -> None:
    whole = numbers(run)
    other = shutil.copytree(run, tmp_path / "other")
    min((other / "jobs").iterdir()).unlink()
    assert numbers(other) != whole


def test_a_subset_of_targets_has_its_numbers(run: Path) -> None:
    opened = Run.open(run)
    whole = numbers(run)
    (first, *_) = opened.sql("select dataset, scene, target from sessions").to_pylist()
    part = opened.only([tuple(first.values())]).summary()
    assert {row.targets for row in part} == {1}
    assert numbers(run) == whole
    assert str(part[0]) not in whole


def test_numbers_are_computed_even_if_nothing_can_be_cached(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert numbers(run)


def test_the_oldest_entries_are_removed_when_the_cache_is_full(
    run: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers(run)
    old = set(results.iterdir())
    monkeypatch.setattr(summary_cache, "_MOST_BYTES", 1)
    Run.open(run, settings={"goal": "85"}).summary()
    assert not old & set(results.iterdir())
