"""A run is something people send each other: opening one executes, follows and breaks nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from segmeter.api.runs import Run as EvaluatedRun
from segmeter.core.errors import BadInput
from segmeter.report.exports import objects_csv
from segmeter.store import Run
from segmeter.store.job_files import encode_table, with_column
from segmeter.store.validated_rows import quoted

Typed = Callable[..., tuple[int, str, str]]

TRAP = """
from pathlib import Path
Path({mark!r}).write_text("ran")
class B: ...
class D: ...
"""


def trap(place: Path) -> tuple[str, Path]:
    """A Python file that leaves a mark when it is run."""
    mark = place / "mark"
    file = place / "x.py"
    file.write_text(TRAP.format(mark=str(mark)))
    return str(file), mark


def change_plan(run: Path, **fields: Any) -> None:
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(plan | fields))


def first_part(run: Path) -> Path:
    return min((run / "jobs").glob("*.parquet"))


COMMANDS = [("report",), ("report", "--json"), ("report", "--format", "csv"), ("compare",)]


@pytest.mark.parametrize("command", [*COMMANDS, ("score", "--measure", "dice")])
def test_a_benchmark_in_a_file_is_not_run(
    command: tuple[str, ...], run: Path, tmp_path: Path, typed: Typed
) -> None:
    file, mark = trap(tmp_path)
    change_plan(run, benchmark=f"{file}:B")
    name, *options = command
    code, _, err = typed(name, run, *options)
    assert code == 2
    assert "--trust" in err
    assert not mark.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_data_set_in_a_file_is_shown_as_text(
    command: tuple[str, ...], run: Path, tmp_path: Path, typed: Typed
) -> None:
    file, mark = trap(tmp_path)
    change_plan(run, datasets=[{"name": f"{file}:D", "options": {}}])
    name, *options = command
    code, _, err = typed(name, run, *options)
    assert code == 0
    assert all("reading a run does not execute" in line for line in err.splitlines())
    assert not mark.exists()


def test_a_data_set_in_the_rows_is_shown_as_text(run: Path, tmp_path: Path, typed: Typed) -> None:
    file, mark = trap(tmp_path)
    part = first_part(run)
    table = pq.read_table(part)
    place = table.column_names.index("dataset")
    pq.write_table(
        table.set_column(place, "dataset", pa.array([f"{file}:D"] * table.num_rows)), part
    )
    assert typed("report", run)[0] == 0
    assert "belong to another job" in (run / "report.html").read_text()
    assert not mark.exists()


def test_trust_runs_the_file(run: Path, tmp_path: Path, typed: Typed) -> None:
    file, mark = trap(tmp_path)
    change_plan(run, benchmark=f"{file}:B")
    typed("report", run, "--json", "--trust")
    assert mark.exists()


def test_a_column_name_cannot_inject_sql(run: Path, tmp_path: Path, typed: Typed) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    table = pq.read_table(first_part(run))
    for name in ('x" using (model)) --', "x'y", f"a\" , (select * from '{secret.name}') as \"b"):
        table = with_column(table, name, [0.5] * len(table))
    first_part(run).write_bytes(encode_table(table))
    assert 'x" using (model)) --' in Run.open(run).columns("rows")
    assert typed("report", run)[0] == 0
    assert typed("report", run, "--json")[0] == 0


def test_no_query_reaches_a_file(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    opened = Run.open(run)
    for query in (
        f"select * from '{secret}'",
        f"select * from read_csv('{secret}')",
        f"copy (select 1) to '{tmp_path / 'out.csv'}'",
        "set enable_external_access = true",
    ):
        with pytest.raises(BadInput, match="cannot be queried"):
            opened.sql(query)
    assert not (tmp_path / "out.csv").exists()


def test_names_are_quoted_and_values_are_parameters(run: Path) -> None:
    assert quoted('a"b') == '"a""b"'
    opened = Run.open(run)
    hostile = "x' or 1 = 1 --"
    assert opened.sql("select * from rows where model = ?", [hostile]).num_rows == 0
    assert opened.sql("select * from rows where model = $m", {"m": "disc"}).num_rows > 0


def test_a_measure_that_is_named_like_sql_is_a_column(run: Path) -> None:
    """In the table of objects and in data frames, whoever named the measure."""
    name = 'a" from errors; "b, iou'
    change_plan(run, measures=["iou", name])
    for part in (run / "jobs").glob("*.parquet"):
        table = pq.read_table(part)
        values = pa.array([0.25] * len(table))
        pq.write_table(table.append_column(name, values), part)
    headings, first, *_ = csv.reader(io.StringIO(objects_csv(Run.open(run))))
    assert dict(zip(headings, first, strict=True))[f"{name}_best"] == "0.25"
    pytest.importorskip("pandas", reason="pandas is no dependency")
    rows = EvaluatedRun.open(run).to_pandas("rows")
    assert set(rows[name]) == {0.25}


def test_a_lock_that_is_a_link_is_refused_and_its_target_kept(
    run: Path, tmp_path: Path, typed: Typed
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(precious)
    code, _, err = typed("run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn",
                         "--rounds", 2, "--limit", 2, "--out", run, "--workers", 0)  # fmt: skip
    assert code == 2
    assert ".lock' is a link" in err
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("name", ["jobs", "errors", "kept", "tables"])
def test_a_folder_that_is_a_link_is_refused(
    name: str, run: Path, tmp_path: Path, typed: Typed
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "results.csv").write_text("kept")
    place = run / name
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(away)
    code, _, err = typed("report", run, "--format", "csv")
    if name != "kept":  # nothing is kept there
        assert code == 2
        assert "is a link" in err
    assert [p.name for p in away.iterdir()] == ["results.csv"]


def test_a_part_or_page_that_is_a_link_is_not_followed(
    run: Path, tmp_path: Path, typed: Typed
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (run / "report.html").symlink_to(precious)
    (run / "tables").mkdir()
    (run / "tables" / "missing.csv").symlink_to(precious)
    assert typed("report", run)[0] == 0
    assert typed("report", run, "--format", "csv")[0] == 0
    assert precious.read_text() == "kept"
    part = first_part(run)
    part.rename(tmp_path / "part")
    part.symlink_to(tmp_path / "part")
    code, _, err = typed("report", run)
    assert code == 2
    assert "is a link" in err


@pytest.mark.parametrize("name", ["plan.json", "provenance.json"])
def test_a_pipe_instead_of_a_file_does_not_block(name: str, run: Path, typed: Typed) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    code, _, err = typed("report", run)
    if name == "plan.json":
        assert code == 2
        assert "not a run" in err


def test_glob_characters_in_a_name_are_characters(played: Path, tmp_path: Path) -> None:
    star, one = tmp_path / "x*", tmp_path / "x1"
    for place in (star, one):
        shutil.copytree(played, place)
    for part in sorted((star / "jobs").glob("*.parquet"))[1:]:
        part.unlink()
    count = Run.open(star).sql("select count(distinct (model, scene)) as n from rows").to_pylist()
    assert count == [{"n": 1}]


def test_images_are_shown_only_of_the_data_of_the_run(
    run: Path, tmp_path: Path, typed: Typed
) -> None:
    """A run cannot name a private folder and have its images put into a page."""
    private = tmp_path / "private"
    (private / "images").mkdir(parents=True)
    (private / "masks").mkdir()
    spec = {"name": "folder", "options": {"path": str(private)}}
    change_plan(run, datasets=[spec], fingerprints={f"folder?path={private}": "made up"})
    assert typed("report", run)[0] == 0
    assert "data:image" not in (run / "report.html").read_text()


def test_a_command_with_an_open_quote_in_the_provenance_is_no_fault(
    run: Path, typed: Typed
) -> None:
    entry = {"at": "", "command": "segmeter run 'x --data /", "machine": {}, "libraries": {}}
    (run / "provenance.json").write_text(json.dumps([entry]))
    code, _, err = typed("report", run)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", ["IOU", 'x" , (select 1) as "y', "kinds_", "Scene", "rows"])
def test_a_column_of_any_name_changes_no_number(
    name: str, run: Path, tmp_path: Path, typed: Typed
) -> None:
    """Neither in one run nor where several are read as one."""
    beside = Path(shutil.copytree(run, tmp_path / "beside"))
    true = [row for row in Run.open(run).summary() if row.statistic.startswith("noc@")]
    for part in (run / "jobs").glob("*.parquet"):
        table = pq.read_table(part)
        pq.write_table(table.append_column(name, table["iou"]), part)
    told = [row for row in Run.open(run).summary() if row.statistic.startswith("noc@")]
    assert told == true
    for command in (("compare", run), ("compare", run, beside)):
        code, _, err = typed(*command)
        assert (code, err) == (0, "")


def test_several_runs_reach_no_file_either(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    both = Run.open([run, shutil.copytree(run, tmp_path / "beside")])
    for query in (f"select * from '{secret}'", f"select * from read_csv('{secret}')"):
        with pytest.raises(BadInput, match="cannot be queried"):
            both.sql(query)


def test_masks_of_a_study_have_the_shape_of_their_scene(run: Path) -> None:
    """What rows claim is not asked: nothing of their size is made."""
    pytest.importorskip("pydantic", reason="needs the extra 'study'")
    from segmeter.study.stimuli import masks_of_run

    for part in (run / "jobs").glob("*.parquet"):
        table = pq.read_table(part)
        giant = pa.array([[16384, 16384]] * len(table), pa.list_(pa.int64()))
        place = table.column_names.index("shape")
        pq.write_table(table.set_column(place, "shape", giant), part)
    opened = Run.open(run)
    (name, *_) = opened.scenes("drawn")
    scene = opened.scene("drawn", name)
    found = masks_of_run(run, "disc", 1)(name, scene.targets[0].id, scene.shape)
    assert found is not None
    assert found.shape == scene.shape
