"""The command line: what a person types, what it answers, how it exits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from segmeter.cli._printing import _print_tables, print_rows
from segmeter.core.benchmarks import SummaryRow
from segmeter.stats.statistics import Statistic

from .conftest import Done
from .conftest import type_here as segmeter


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run with two models."""
    out = tmp_path_factory.mktemp("cli") / "run"
    done = segmeter(
        "run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn", "--limit", 3,
        "--rounds", 3, "--workers", 0, "-o", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "noc@90" in done.stdout
    lines = [line for line in done.stdout.splitlines() if str(out) not in line]  # may be long
    assert max(map(len, lines)) <= 80
    return out


def sentence(done: Done) -> str:
    """What was said on bad input: one line, no trace."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def test_report_json_is_the_summary(run: Path) -> None:
    rows = json.loads(segmeter("report", run, "--json").stdout)["rows"]
    keys = {"model", "dataset", "user", "protocol", "statistic", "value", "low", "high", "targets"}
    assert all(set(row) == keys for row in rows)
    assert {row["model"] for row in rows} == {"disc", "synthetic-noisy"}
    assert {row["protocol"] for row in rows} == {"published", "corrected"}


def test_report_writes_one_page(run: Path) -> None:
    done = segmeter("report", run)
    assert done.returncode == 0, done.stderr
    page = (run / "report.html").read_text()
    assert "disc" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize("kind", ["csv", "md", "tex"])
def test_tables_are_written_as_text(run: Path, kind: str, tmp_path: Path) -> None:
    done = segmeter("report", run, "--format", kind, "--out", tmp_path / "tables")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tables").glob(f"*.{kind}"))


def test_compare_shows_every_number_in_full_next_to_a_long_name(tmp_path: Path) -> None:
    own = tmp_path / "a_folder_with_a_long_name" / "own_model.py"
    own.parent.mkdir()
    own.write_text((Path(__file__).parents[2] / "examples" / "own_model.py").read_text())
    done = segmeter(
        "run", "noc", "-m", f"{own}:Lookalike", "-m", "disc", "-d", "drawn", "--limit", 2,
        "--rounds", 2, "--workers", 0, "-o", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = segmeter("compare", tmp_path / "run").stdout
    assert "…" not in said
    assert "a_folder" not in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_summary_counts_and_rounds_as_its_numbers_ask(capsys: pytest.CaptureFixture[str]) -> None:
    share = SummaryRow("m", "d", "", "corrected", "fb-ods", 0.42, 0.417, 0.428, 1)
    clicks = SummaryRow("m", "d", "", "corrected", "noc@90", 2.75, 2.33, 3.0, 1)
    cards = {
        "fb-ods": Statistic("fb-ods", "F_b ODS", digits=3),
        "noc@90": Statistic("noc@90", "NoC@90", "clicks"),
    }
    _print_tables([share, clicks], (), cards, "image")
    title, *lines = filter(str.strip, capsys.readouterr().out.splitlines())
    assert title == "d, 1 image, protocol corrected"
    assert [line.split() for line in lines[2:4]] == [
        ["m", "0.420", "2.75"],
        ["0.42–0.43", "2.3–3.0"],
    ]


def test_protocols_are_in_the_title_and_share_a_table_where_they_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An interval under a value next to the word `published` was read as a paper's number."""
    row = SummaryRow("m", "d", "u", "published", "noc@90", 2.75, 2.33, 3.0, 4)
    cards = {"noc@90": Statistic("noc@90", "NoC@90", "clicks")}
    same = replace(row, protocol="corrected")
    _print_tables([row, same], (), cards, "object")
    shown = capsys.readouterr().out
    assert shown.count("d, u, 4 objects, the same in both protocols") == shown.count("2.75") == 1
    _print_tables([row, replace(same, value=2.5)], (), cards, "object")
    shown = capsys.readouterr().out
    assert shown.count("protocol published") == shown.count("protocol corrected") == 1


def test_a_group_without_headline_statistics_has_no_table_next_to_one_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run of rclicks ended in a table of `obeyed@2-4` for all its users together."""
    row = SummaryRow("m", "d", "groups", "", "noc@90", 2.75, 2.33, 3.0, 4)
    other = replace(row, user="", statistic="obeyed")
    cards = {"noc@90": Statistic("noc@90", "NoC@90", "clicks"), "obeyed": Statistic("obeyed", "o")}
    _print_tables([row, other, replace(other, dataset="e")], ("noc@90",), cards, "object")
    titles = [line for line in capsys.readouterr().out.splitlines() if "objects" in line]
    assert titles == ["d, groups, 4 objects", "e, 4 objects"]


def test_a_table_wider_than_the_terminal_is_printed_as_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare` at 40 columns printed one letter of each pair of models per line."""
    titles = ["pair", "difference\n95 %", "signi-\nficant"]
    row = ["disc\nflow", "+1.50\n+1 to +2", "no"]
    columns = [{"overflow": "fold"}, {"no_wrap": True}, {"no_wrap": True}]
    shown = {}
    for width in ("27", "28"):
        monkeypatch.setenv("COLUMNS", width)
        print_rows(titles, [row], columns=columns)
        shown[width] = capsys.readouterr().out
    lines = ["pair: disc flow", "difference 95 %: +1.50 +1 to +2", "significant: no"]
    assert shown["27"].split("\n") == [*lines, "", ""]
    assert "signi-" in shown["28"]
    assert "flow" in shown["28"]


def test_an_interval_with_a_negative_bound_has_no_dash(capsys: pytest.CaptureFixture[str]) -> None:
    cells = []
    for low, high in ((-44.4, -8.9), (-0.2, 0.1), (1.0, 4.0)):
        row = SummaryRow("m", "d", "", "corrected", "iou-d", 0.0, low, high, 3)
        _print_tables([row], (), {"iou-d": Statistic("iou-d", "D")}, "scene")
        cells.append(capsys.readouterr().out.splitlines()[-2].strip())
    assert cells == ["-44.4 to -8.9", "-0.2 to 0.1", "1.0–4.0"]


def test_compare_prints_significant_differences(run: Path) -> None:
    rows = json.loads(segmeter("compare", run, "--json").stdout)["rows"]
    assert {"first", "second", "value", "low", "high", "p_holm", "significant"} <= set(rows[0])


def test_a_measure_is_added_without_the_model(run: Path) -> None:
    done = segmeter("score", run, "--measure", "dice")
    assert done.returncode == 0, done.stderr
    from segmeter.store import Run

    table = Run.open(run).sql("select iou, dice from rows where iou > 0").to_pylist()
    assert table
    for row in table:
        assert row["dice"] == pytest.approx(2 * row["iou"] / (1 + row["iou"]))
    assert "nothing to add" in sentence(segmeter("score", run, "--measure", "iou"))


def test_a_custom_measure_is_computed_and_added(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from segmeter.core.measures import measure\n"
        "@measure('missed-share', better='lower', both_empty=0.0)\n"
        "def missed_share(ground_truth, prediction, ignore=None):\n"
        "    'Share of the object that is missed.'\n"
        "    return (ground_truth - prediction).area / ground_truth.area\n"
    )
    from segmeter.store import Run

    name, out = f"{file}:missed_share", tmp_path / "run"
    command = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--rounds", 1, "-o", out)
    done = segmeter(*command, "--measure", "iou", "--measure", name, "--workers", 0)
    assert done.returncode == 0, done.stderr
    assert segmeter("score", run, "--measure", name).returncode == 0
    for folder in (out, run):
        values = Run.open(folder).sql("select missed_share as share from rows").to_pylist()
        assert all(0 <= row["share"] <= 1 for row in values)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "noc", "-m", "dics", "-d", "drawn"], "did you mean 'disc'"),
        (["run", "noc", "-m", "disc", "-d", "drown"], "did you mean 'drawn'"),
        (["run", "nocc", "-m", "disc", "-d", "drawn"], "did you mean 'noc'"),
        (["run", "noc", "-d", "drawn"], "at least one model"),
        (["run", "noc", "-m", "disc", "-d", "grabcut", "--data", "/nowhere"], "no folder"),
        (["run", "noc", "-m", "disc", "-d", "drawn", "--protocol", "mine"], "no protocol 'mine'"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    assert words in sentence(segmeter(*arguments, "-o", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_commands_on_other_folders_than_runs_are_refused(tmp_path: Path) -> None:
    for command in ("report", "compare"):
        assert "is not a run" in sentence(segmeter(command, tmp_path))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "disc", "-m", "disc"], "two models are called 'disc'"),
        (["-m", "disc", "-d", "drawn"], "two datasets are called 'drawn'"),
        (["-m", "disc", "-u", "scribble", "-u", "scribble"], "two users are called 'scribble'"),
    ],
)
def test_names_given_twice_are_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = segmeter("run", "noc", *arguments, "-d", "drawn", "-o", tmp_path / "run")
    assert words in sentence(done)
    assert not (tmp_path / "run").exists()


def test_tables_break_words_only_as_a_last_resort(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ["runs-with-long-name", "sam2-hiera-tiny", "17.1 to 88.9", "16.6 to 29.9",
           "552.9 to 1,536.9", "cheaper than by hand"]  # fmt: skip
    for columns in (80, 90):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_rows(["run", "model", "hours", "waiting", "money", "conclusion"], [row])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns
        words = {word for line in lines for word in line.split()}
        assert {"runs-with-long-name", "sam2-hiera-tiny", "1,536.9", "conclusion"} <= words
    monkeypatch.setenv("COLUMNS", "30")
    print_rows(["run", "model"], [row[:2]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 30, "a word is broken where nothing else helps"
