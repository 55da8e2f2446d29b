"""What is kept of a run is this person's own, of these very parts, and else computed anew."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from segmeter.store import Run, kept

KEPT = ("summary.json", "differences.json", "sessions.arrow")


@pytest.fixture(autouse=True)
def person(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, as every person on a machine has; nothing of the run is kept yet."""
    shutil.rmtree(run / "kept", ignore_errors=True)
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache / "segmeter"


def read(run: Path) -> None:
    opened = Run.open(run)
    opened.summary()
    opened.differences()


def test_sessions_are_gathered_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Run.open(run)
    summary, seen, damaged = first.summary(), first.provenance, first.damaged
    assert sorted(f.name for f in (run / "kept").iterdir()) == ["sessions.arrow", "summary.json"]
    monkeypatch.setattr("segmeter.store.results.read_sessions", None)  # not asked again
    again = Run.open(run, settings={"goal": "85"})
    assert again.summary() != summary
    assert again.provenance == seen
    assert again.damaged == damaged


def test_a_stranger_s_numbers_are_not_taken(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stranger knows our code, made-up numbers, the very state; but not the reader's key."""
    true = Run.open(run).summary()
    shutil.rmtree(run / "kept")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "stranger"))
    opened = Run.open(run)
    monkeypatch.setattr(
        type(opened.benchmark),
        "summary",
        lambda *_: [replace(row, value=0.0, low=0.0, high=0.0) for row in true],
    )
    assert opened.summary() != true  # the stranger keeps lies under the stranger's seal
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Run.open(run).summary() == true
    assert b'"value": 0.0, "low": 0.0' not in (run / "kept" / "summary.json").read_bytes()


def test_a_part_of_the_same_size_and_time_is_another_part(run: Path) -> None:
    before = Run.open(run).summary()
    part = min((run / "parts").iterdir())
    held, data = part.stat(), part.read_bytes()
    table = pq.read_table(part)
    worse = table.set_column(
        table.column_names.index("iou"), "iou", [[v / 2 for v in table["iou"].to_pylist()]]
    )
    pq.write_table(worse, part)
    fresh = part.read_bytes()
    assert fresh != data
    os.utime(part, ns=(held.st_atime_ns, held.st_mtime_ns))
    assert Run.open(run).summary() != before
    part.write_bytes(data)  # of the old size and, by its label, of the old time
    os.utime(part, ns=(held.st_atime_ns, held.st_mtime_ns))
    assert Run.open(run).summary() == before


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("stopped", [b"", b"x" * 64, b"[" * 100_000, b"0" * 64 + b"[]"])
def test_kept_files_of_any_content_are_replaced(name: str, content: bytes, run: Path) -> None:
    read(run)
    true = (run / "kept" / name).read_bytes()
    (run / "kept" / name).write_bytes(content)
    (run / "kept" / "summary.json").unlink(missing_ok=True)
    read(run)
    assert (run / "kept" / name).read_bytes() == true


def test_one_changed_bit_breaks_the_seal(run: Path) -> None:
    read(run)
    file = run / "kept" / "sessions.arrow"
    true = file.read_bytes()
    file.write_bytes(true[:-9] + bytes([true[-9] ^ 1]) + true[-8:])
    (run / "kept" / "summary.json").unlink()
    read(run)
    assert file.read_bytes() == true


def test_what_is_kept_of_one_run_is_not_taken_for_another(run: Path, tmp_path: Path) -> None:
    read(run)
    other = shutil.copytree(run, tmp_path / "other")
    min((other / "parts").iterdir()).unlink()
    assert Run.open(other).summary() != Run.open(run).summary()


def test_the_key_is_for_its_owner_s_eyes(run: Path, person: Path) -> None:
    read(run)
    assert (person / "kept.key").stat().st_mode & 0o077 == 0
    assert [f.name for f in person.iterdir()] == ["kept.key"]


def test_without_a_place_for_the_key_nothing_is_kept(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert Run.open(run).summary()
    assert not (run / "kept").exists()


def test_a_key_of_another_length_is_no_key(run: Path, person: Path) -> None:
    person.mkdir(parents=True)
    (person / "kept.key").write_bytes(b"short")
    assert Run.open(run).summary()
    assert not (run / "kept").exists()


def test_kept_numbers_are_the_numbers(run: Path) -> None:
    first, again = Run.open(run), Run.open(run)
    assert json.dumps([str(r) for r in first.summary()]) == json.dumps(
        [str(r) for r in again.summary()]
    )
    assert kept.state_of(first) == kept.state_of(again)
