"""A run of version 0.1 still opens, reports and goes on, with the same rows bit for bit.

`version-0.1/` was written by `segmeter run noc --model grabcut --model random-walker --dataset
mini --limit 3 --rounds 4` of version 0.1.0.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from segmeter.core.rows import SESSION_KEY
from segmeter.engine import Tally, run_plan
from segmeter.report.writing import write_report
from segmeter.store import Run, RunFolder

KEPT = Path(__file__).parent / "version-0.1"
LATER = {"area", "outline_px", "z"}  # columns that rows have had since


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT, tmp_path / "run"))


def rows(part: Path) -> dict[tuple[Any, ...], dict[str, str]]:
    """Rows by key but for times, exactly as written, in the columns of today."""
    found = {}
    for row in pq.read_table(part).to_pylist(maps_as_pydicts="strict"):
        if "height" in row:
            row["shape"] = [row.pop("height"), row.pop("width")]
            row["groups"] = json.loads(row["groups"])
        key = tuple(row[name] for name in SESSION_KEY)
        found[key] = {
            name: repr(value)
            for name, value in row.items()
            if not name.startswith("seconds") and name not in LATER
        }
    return found


def test_it_opens_and_reports(old: Path) -> None:
    run = Run.open(old)
    assert not run.damaged
    assert run.sql("from rows").num_rows == 176
    (row,) = run.sql("select distinct shape, groups from rows where target = 'cat'").to_pylist(
        maps_as_pydicts="strict"
    )
    assert row == {"shape": [300, 451], "groups": {"shape": "compact", "size": "large"}}
    assert {row.model for row in run.summary()} == {"grabcut", "random-walker"}
    (page,) = write_report(run)
    assert "What is missing" in Path(page).read_text()


def test_it_goes_on_and_makes_the_same_rows(old: Path) -> None:
    """The jobs that are played now give, bit for bit, what they gave then."""
    lost = sorted((old / "parts").iterdir(), key=lambda part: (len(rows(part)), part.name))[:2]
    for part in lost:
        part.unlink()
    tally = run_plan(RunFolder(old).plan, old, workers=0)
    assert tally == Tally(done=len(lost), before=6 - len(lost), failed=0)
    for part in lost:
        assert rows(part) == rows(KEPT / "parts" / part.name)
    assert Run.open(old).sql("from rows").num_rows == 176  # old and new parts in one table


def test_an_empty_column_keeps_its_declared_type(played: Path) -> None:
    schema = pq.read_schema(min((played / "parts").iterdir()))
    types = {name: str(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}
    assert types["z"] == "double"
    assert types["groups"].startswith("map<string, string")
    assert types["shape"].startswith("list<")
    assert "height" not in types
