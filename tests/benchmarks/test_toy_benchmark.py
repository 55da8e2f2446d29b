"""A benchmark of one file gets everything else for nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import segmeter
from segmeter.analysis.breakdown import splits
from segmeter.store import Run

from ..cli.conftest import type_here

TOY = f"{Path(__file__).with_name('toy_benchmark.py')}:Toy"
RUN = ("-m", "synthetic-oracle", "-m", "disc", "-d", "drawn", "--workers", "0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("toy") / "run"
    said("run", TOY, *RUN, "--limit", "8", "-o", place)
    return place


def said(*line: object) -> str:
    done = type_here(*line)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_runs_and_resumes(place: Path) -> None:
    query = "select * from rows order by all"
    before = Run.open(place, trust=True).sql(query).to_pylist()
    out = said("run", TOY, *RUN, "--limit", "8", "-o", place)
    assert "wrong-size" in out
    assert Run.open(place, trust=True).sql(query).to_pylist() == before


def test_its_summary_has_values_and_intervals(place: Path) -> None:
    run = Run.open(place, trust=True)
    rows = {(row.model, row.statistic): row for row in run.summary()}
    (mean,) = run.sql("select 100 * avg(overlap) as v from rows where model = 'disc'").to_pylist()
    row = rows["disc", "overlap"]
    assert row.value == pytest.approx(mean["v"])
    assert row.low < row.value < row.high
    assert rows["synthetic-oracle", "wrong-size"].value == 0


def test_its_models_are_compared(place: Path) -> None:
    rows = json.loads(said("compare", place, "--trust", "--json"))["rows"]
    found = {row["statistic"]: row for row in rows}
    assert found.keys() == {"wrong-size", "overlap"}
    assert found["overlap"]["first"] == "synthetic-oracle"
    assert found["overlap"]["value"] > 0 > found["wrong-size"]["value"]
    assert "wrong-size" in said("compare", place, "--trust", "--by", "class")


def test_its_numbers_are_broken_down(place: Path) -> None:
    run = Run.open(place, trust=True)
    found = splits(run.benchmark, run, "class")
    assert {split.statistic.name for split in found} == {"wrong-size", "overlap"}
    assert all(split.means for split in found)


def test_its_leaderboard_sorts_by_the_better_direction(place: Path, tmp_path: Path) -> None:
    from segmeter.report.result_tables import sections_of

    (section,) = sections_of(Run.open(place, trust=True))
    (table,) = section.blocks
    assert [row[0] for row in table.rows] == ["synthetic-oracle", "disc"]  # type: ignore[union-attr]
    assert [c.unit for c in table.columns] == ["", "octaves", "%"]  # type: ignore[union-attr]


def test_its_table_json_and_report_are_written(place: Path, tmp_path: Path) -> None:
    from segmeter.report.writing import sections_of, write_sections

    run = Run.open(place, trust=True)
    assert r"wrong size & overlap \\" in segmeter.open_run(place, trust=True).table("latex")
    rows = json.loads(said("report", place, "--trust", "--json"))["rows"]
    assert {row["statistic"] for row in rows} == {"wrong-size", "overlap"}
    write_sections(run, sections_of(run), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "wrong size" in page
    assert "Significant differences" in page
