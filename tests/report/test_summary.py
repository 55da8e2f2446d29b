"""The page and `report --json` say the same numbers; compare says what the page says."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import segmeter
from segmeter.cli.compare import compare
from segmeter.cli.report import report
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan

COLUMNS = {
    "annotation time to 90 % IoU": "seconds-to-90",
    "clicks to 90 %": "noc@90",
    "never reach it": "never@90",
    "quality over all clicks": "auc",
    "after one click": "iou@1",
    "IoU AuC": "auc",
    "Boundary IoU AuC": "boundary-auc",
    "waiting to 90 % IoU": "waiting-to-90",
    "encode": "seconds-encode",
    "predict": "seconds-predict",
    "simulated user": "seconds-user",
}
Cell = dict[str, str]


class Tables(HTMLParser):
    """Every table of a page: its headings, and its rows of cells with what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, tuple[list[str], list[list[Cell]]]] = {}
        self._table = ""
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "figure":
            self._table = given.get("id", "").removeprefix("table-")
            self.tables[self._table] = ([], [])
        heads, rows = self.tables.get(self._table, ([], []))
        if tag == "tr":
            rows.append([])
        elif tag in ("th", "td") and "data-order" in given:
            rows[-1].append({"order": given["data-order"]})
        elif tag == "span":
            self._inside = given.get("class")
            if self._inside == "title":
                heads.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._inside = None

    def handle_data(self, data: str) -> None:
        heads, rows = self.tables.get(self._table, ([], []))
        if self._inside == "title":
            heads[-1] += data
        elif self._inside in ("v", "ci", "tag") and rows and rows[-1]:
            rows[-1][-1][self._inside] = data


def measure_of(title: str) -> str | None:
    """The summary's name of a column."""
    plain = re.fullmatch(r"(NoC|NoF|IoU)@\d+", title)
    return title.lower() if plain else COLUMNS.get(title)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("summary") / "run"
    plan = Plan("noc", (Spec("synthetic-noisy"), Spec("disc")), (Spec("drawn"),), rounds=6, limit=9)
    run_plan(plan, out, workers=0)
    report(out)
    return out


def said(folder: Path, capsys: pytest.CaptureFixture[str], **options: object) -> list[Cell]:
    report(folder, as_json=True, **options)  # type: ignore[arg-type]
    rows: list[Cell] = json.loads(capsys.readouterr().out)["rows"]
    return rows


def tables(folder: Path) -> dict[str, tuple[list[str], list[list[Cell]]]]:
    reader = Tables()
    reader.feed((folder / "report.html").read_text())
    return reader.tables


@pytest.mark.parametrize(
    ("name", "count"),
    [("leaderboard-drawn", 10), ("clicks-drawn", 32), ("quality-drawn", 24), ("latency", 8)],
)
def test_every_number_on_the_page_is_in_the_json(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, count: int
) -> None:
    rows = {(r["model"], r["protocol"], r["statistic"]): r for r in said(folder, capsys)}
    heads, body = tables(folder)[name]
    compared = 0
    for cells in body[1:]:
        model, protocol = cells[0]["v"], cells[0].get("tag", "corrected")
        for title, cell in zip(heads, cells, strict=True):
            measure = measure_of(title)
            if measure is not None:
                row = rows[model, protocol, measure]
                assert float(cell["order"]) == row["value"]
                digits = len(cell["v"].partition(".")[2])
                low, high = (f"{float(row[end]):.{digits}f}" for end in ("low", "high"))
                wide = low != high  # where all are alike there is no interval
                assert cell.get("ci", "") == (f"{low}–{high}" if wide else "")
                compared += 1
    assert compared == count


def test_compare_and_the_page_agree_on_every_conclusion(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([folder], as_json=True)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {r["protocol"] for r in rows} == {"corrected"}
    _, body = tables(folder)["differences"]
    assert len(body) - 1 == len(rows) == 4
    for cells, row in zip(body[1:], rows, strict=True):
        turned = 1 if cells[0]["v"] == row["first"] else -1
        assert float(cells[3]["order"]) == turned * row["value"]
        assert float(cells[4]["order"]) == row["p_holm"]
        assert cells[5]["v"].startswith("significant") == row["significant"]
        assert row["significant"] == (row["p_holm"] < 0.05)
        if row["significant"]:
            less_is_better = row["statistic"] in ("seconds-to-90", "noc@90")
            better = row["first"] if (row["value"] < 0) == less_is_better else row["second"]
            assert cells[5]["v"] == f"significant: {better} is better"


def test_comparisons_fit_a_terminal_of_80_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    compare([folder], protocol="both")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert [line.strip() for line in lines if "protocol" in line] == [
        "drawn, centre-click, protocol published",
        "drawn, centre-click, protocol corrected",
    ]


def test_a_custom_cost_model_applies_to_page_and_json(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cost = tmp_path / "cost.toml"
    cost.write_text("locate = 0\nclick = 100\nby_hand = 0\ntouch_up = inf\n")
    rows = {(r["model"], r["statistic"]): r["value"] for r in said(folder, capsys, cost=cost)}
    assert rows["disc", "seconds-to-90"] == 100 * float(rows["disc", "noc@90"])
    report(folder, out=tmp_path / "page.html", cost=cost)
    assert "100 s per click" in (tmp_path / "page.html").read_text()


def test_unknown_values_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    clicks = next(r for r in said(tmp_path / "run", capsys) if r["statistic"] == "noc@90")
    assert clicks["value"] is not None
    assert clicks["low"] is clicks["high"] is None


def test_others_may_read_a_page_that_they_are_sent(folder: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    assert (folder / "report.html").stat().st_mode == plain.stat().st_mode


def test_exports_hold_the_numbers_of_the_json(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows, run = said(folder, capsys), segmeter.open_run(folder)
    for kind in ("csv", "md", "tex"):
        run.report_tables(tmp_path, kind)
        text = (tmp_path / f"clicks-drawn.{kind}").read_text()
        for row in rows:
            if row["statistic"] in ("noc@80", "noc@90"):
                value = row["value"]
                assert (str(value) if kind == "csv" else f"{float(value):.2f}") in text, kind
