"""From runs into a paper: tables, figures, references; several runs side by side; browsing."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import segmeter
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.scenes import DatasetCard, Image
from segmeter.core.sections import Answer, Note, Table, Value
from segmeter.engine import run_plan
from segmeter.report.browsing import BrowseServer, Sessions
from segmeter.report.provenance import bibtex
from segmeter.report.result_tables import sections_of
from segmeter.store import Run

from .conftest import Typed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("runs")
    for name, models in (("one", ("synthetic-noisy", "synthetic-oracle")), ("two", ("disc",))):
        plan = Plan("noc", tuple(map(Spec, models)), (Spec("drawn"),), rounds=5, limit=7)
        run_plan(plan, base / name, workers=0)
    return base / "one", base / "two"


def test_table_and_report_understand_each_others_formats(
    runs: tuple[Path, Path], typed: Typed, tmp_path: Path
) -> None:
    assert typed("table", runs[0], "--format", "md")[1].startswith("| method |")
    code, out, _ = typed("report", runs[0], "--format", "latex", "--out", tmp_path / "tables")
    assert code == 0
    assert "leaderboard-drawn.tex" in out
    code, _, err = typed("table", runs[0], "--format", "word")
    assert code == 2
    assert err.startswith("segmeter: no format 'word'; it is md, tex, markdown, latex")


def test_a_benchmark_without_a_table_prints_its_headline(typed: Typed, tmp_path: Path) -> None:
    plan = Plan("points", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1)
    run_plan(plan, tmp_path / "r", workers=0)
    code, tex, _ = typed("table", tmp_path / "r")
    assert code == 0
    assert "mIoU@1 & oracle@1" in tex
    check_latex(tex)


def test_a_table_refuses_names_of_nothing_and_prints_no_machine_time(
    runs: tuple[Path, Path], typed: Typed
) -> None:
    code, _, err = typed("table", runs[0], "--name", "synthetic-oracl=Ours")
    assert code == 2
    assert "no model or dataset 'synthetic-oracl'; did you mean 'synthetic-oracle'?" in err
    code, out, _ = typed("table", runs[0], "--name", "synthetic-oracle=Ours", "--name", "drawn=D")
    assert code == 0
    assert "Ours &" in out
    assert "SPC" not in out


def test_a_column_of_another_goal_is_refused_and_the_option_for_it_named(
    runs: tuple[Path, Path], typed: Typed
) -> None:
    code, _, err = typed("table", runs[0], "--columns", "noc@91")
    assert code == 2
    assert "no statistic 'noc@91' without --goal 91; the run has noc@80, noc@85" in err
    code, out, _ = typed("table", runs[0], "--columns", "noc@91", "--goal", "91")
    assert (code, "NoC@91" in out) == (0, True)
    assert "did you mean 'noc@" in typed("table", runs[0], "--columns", "nocc@90")[2]


def test_a_latex_table_is_whole_and_bold_only_where_significant(
    runs: tuple[Path, Path], typed: Typed, tmp_path: Path
) -> None:
    code, tex, _ = typed("table", *runs, "--format", "latex")
    assert code == 0
    assert r"\label{tab:noc-corrected}" in tex
    assert re.search(r"n = \d+; 5 rounds by centre-click, protocol corrected", tex)
    oracle, disc = (next(line for line in tex.splitlines() if line.startswith(m + " &"))
                    for m in ("synthetic-oracle", "disc"))  # fmt: skip
    assert r"\textbf{1.00}" in oracle
    assert "textbf" not in disc
    columns = len(re.search(r"begin{tabular}{(\w+)}", tex)[1])  # type: ignore[index]
    assert all(line.count("&") == columns - 1 for line in (oracle, disc))
    if shutil.which("pdflatex"):
        head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
        (tmp_path / "t.tex").write_text(head + tex + r"\end{document}")
        subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, check=True)


def test_csv_headings_are_identifiers_and_numbers_are_whole(
    runs: tuple[Path, Path], typed: Typed
) -> None:
    _, text, _ = typed("table", runs[0], "--format", "csv")
    (first, *_) = csv.DictReader(io.StringIO(text))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in first)
    _, told, _ = typed("report", runs[0], "--json")
    rows = json.loads(told)["rows"]
    (noc,) = (r["value"] for r in rows if (r["model"], r["protocol"], r["statistic"])
              == (first["method"], "corrected", "noc@90"))  # fmt: skip
    assert float(first["drawn_noc90"]) == noc


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_other_formats_hold_every_model(runs: tuple[Path, Path], typed: Typed, kind: str) -> None:
    _, text, _ = typed("table", *runs, "--format", kind)
    assert all(name in text for name in ("synthetic-noisy", "synthetic-oracle", "disc", "NoC@90"))


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_a_figure_is_drawn_as_vectors(
    runs: tuple[Path, Path], typed: Typed, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"fig.{suffix}"
    assert typed("figure", *runs, "--out", file)[0] == 0
    assert file.read_bytes()[:5] in (b"%PDF-", b"<?xml")
    assert typed("figure", runs[0], "--out", tmp_path / "fig.docx")[0] == 2


def test_everything_used_is_cited(runs: tuple[Path, Path], typed: Typed) -> None:
    _, text, _ = typed("cite", *runs)
    keys = re.findall(r"^@\w+{(\w+),", text, re.MULTILINE)
    assert len(keys) == len(set(keys)) > 3
    assert keys[0] == "segmeter"
    assert "@inproceedings{cheng2021," in text
    assert "Boundary IoU" in text
    assert "Kirillov" in text
    assert "sofiiuk2022" in text


def test_keys_become_their_entries_and_free_text_a_note() -> None:
    text = bibtex({"a": "walt2014, hunter2007", "b": "hunter2007", "c": r"Mine & \input{x}"})
    assert re.findall(r"^@\w+{(\w+),", text, re.MULTILINE) == ["walt2014", "hunter2007", "source3"]
    assert "% used for: a, b\n@" in text
    assert r"note = {Mine \& \textbackslash{}input\textbraceleft{}x\textbraceright{}}," in text
    assert "@" not in bibtex({"model a@b": "walt2014"}).splitlines()[0]


def test_runs_are_compared_as_one_would_be(runs: tuple[Path, Path], typed: Typed) -> None:
    _, out, _ = typed("compare", *runs, "--json")
    pairs = {(r["first"], r["second"]) for r in json.loads(out)["rows"]}
    assert pairs == {
        ("synthetic-noisy", "disc"),
        ("synthetic-oracle", "disc"),
        ("synthetic-noisy", "synthetic-oracle"),
    }


def test_only_equal_settings_are_shown_side_by_side(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    run_plan(
        Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=2, limit=7), tmp_path / "r", workers=0
    )
    with pytest.raises(BadInput, match="different rounds"):
        Run.open([runs[0], tmp_path / "r"])


def test_a_leaderboard_has_every_model_and_protocol(
    runs: tuple[Path, Path], typed: Typed, tmp_path: Path
) -> None:
    assert typed("leaderboard", *runs, "--out", tmp_path / "board.html")[0] == 0
    page = (tmp_path / "board.html").read_text()
    assert all(
        text in page
        for text in ('<h2 id="corrected-title">corrected', "published", "disc", "synthetic-oracle")
    )
    assert "n = " in page


def test_a_project_is_costed_with_its_break_even(
    runs: tuple[Path, Path], typed: Typed, tmp_path: Path
) -> None:
    typed("report", runs[0], "--out", tmp_path / "p.html", "--objects", 20000, "--hourly-rate", 15)
    page = (tmp_path / "p.html").read_text()
    assert "What 20 000 objects cost" in page
    places = [page.index(f">{head}</h2>") for head in ("What 20 000 objects cost", "Results")]
    assert places == sorted(places)
    assert places[-1] < page.index(">Quality by number of clicks</h2>")
    assert "13.9" in page  # 20 000 x 2.5 s = 13.9 hours with the oracle
    assert "cheaper than by hand" in page


@pytest.fixture(scope="module")
def sessions(runs: tuple[Path, Path]) -> Sessions:
    return Sessions(Run.open(runs[0]))


@pytest.fixture(scope="module")
def address(sessions: Sessions) -> Iterator[str]:
    server = BrowseServer(sessions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def get(address: str) -> str:
    with urllib.request.urlopen(address) as answer:
        text: str = answer.read().decode()
        return text


def test_every_session_can_be_found_filtered_and_opened(sessions: Sessions, address: str) -> None:
    many, rows = sessions.found({})
    counted = sessions.run.sql(
        'select count(distinct (model, scene, target, "user", protocol)) as n from rows'
    ).to_pylist()
    assert many == counted[0]["n"]
    assert not rows[0]["reached"]
    few, rows = sessions.found(
        {"model": "synthetic-oracle", "result": "reached", "sort": "easiest"}
    )
    assert 0 < few < many
    assert {r["model"] for r in rows} == {"synthetic-oracle"}
    page = get(f"{address}/?model=synthetic-noisy")
    link = re.search(r'href="(session\?[^"]+)"', page)
    assert link
    assert 'class="replay' in get(f"{address}/{link[1].replace('&amp;', '&')}")


def test_an_invalid_request_is_answered_in_a_sentence(address: str) -> None:
    for path in ("/session?model=x'; drop table rows --", "/etc/passwd"):
        with pytest.raises(urllib.error.HTTPError) as answer:
            get(address + urllib.parse.quote(path, safe="/?=&"))
        assert answer.value.code == 404
    stranger = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(stranger)
    assert answer.value.code == 403


@pytest.fixture(scope="module")
def each_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real run of every benchmark that has a paper's layout."""
    base = tmp_path_factory.mktemp("layouts")
    models, drawn = (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),)
    plans = {
        "noc": Plan("noc", models, drawn, rounds=2, limit=2),
        "rclicks": Plan("rclicks", models, drawn, rounds=2, limit=2),
        "tetris": Plan("tetris", models, drawn, rounds=2, limit=2),
        "seism": Plan("seism", (Spec("quadtree"), Spec("watershed")), (Spec("halves"),),
                      kind="method"),
    }  # fmt: skip
    for name, plan in plans.items():
        own = {"halves": Halves()} if name == "seism" else None
        run_plan(plan, base / name, workers=0, objects=own)
    return {name: base / name for name in plans}


class Halves:
    """Two images that people part down the middle."""

    card = DatasetCard("halves", "two images in halves", "none", "nothing to cite")

    def scenes(self) -> list[str]:
        return ["a", "b"]

    def fingerprint(self) -> str:
        return "halves"

    def load(self, scene: str) -> Image:
        halves = np.ones((24, 32), np.int32)
        halves[:, 16:] = 2
        pixels = np.repeat((90 * halves).astype(np.uint8)[..., None], 3, axis=2)
        return Image("halves", scene, pixels, (), partitions=lambda: [halves, halves])


def test_options_that_partitions_lack_are_refused(
    each_kind: dict[str, Path], typed: Typed, tmp_path: Path
) -> None:
    run = each_kind["seism"]
    assert "hold no masks" in typed("export", run, "--out", tmp_path / "masks")[2]
    assert "runs of 'seism' have no rounds" in typed("figure", run, "-o", tmp_path / "f.svg")[2]
    both = typed("compare", run, each_kind["noc"])[2]
    assert "runs of different benchmarks (seism and noc) cannot be compared" in both


def test_partitions_are_split_by_groups_of_images(
    each_kind: dict[str, Path], typed: Typed, tmp_path: Path
) -> None:
    code, _, err = typed("report", each_kind["seism"], "--by", "class")
    assert code == 2
    assert "whole images are scored here, which have no 'class'" in err
    groups, tables = tmp_path / "groups.csv", tmp_path / "tables"
    groups.write_text("mask,place\na,indoors\nb,outdoors\n")
    told = ("--by", "place", "--groups", groups, "--format", "csv", "--out", tables)
    assert typed("report", each_kind["seism"], *told)[0] == 0
    lines = csv.DictReader(io.StringIO((tables / "by-place.csv").read_text()))
    found = {
        (line["model"], line["place"]): float(line["mean_95_percent_interval"])
        for line in lines
        if line["statistic"] == "F_b"
    }
    names = [f"{method} (corrected)" for method in ("quadtree", "watershed")]
    assert found.keys() == {(name, place) for name in names for place in ("indoors", "outdoors")}
    # The quadtree's first cut is people's own, and both images are alike.
    assert found[names[0], "indoors"] == found[names[0], "outdoors"] > 0.5


@pytest.mark.parametrize("layout", ["noc", "rclicks", "tetris", "seism"])
def test_every_section_begins_with_a_sentence_and_the_layout_is_written_in_every_format(
    each_kind: dict[str, Path], typed: Typed, layout: str
) -> None:
    run = segmeter.open_run(each_kind[layout])
    for section in run.sections():
        led = section.text or isinstance(section.blocks[0], Answer | Note)
        assert led, section.title
    told = {kind: run.table(kind) for kind in ("latex", "markdown", "csv", "html")}
    for kind, text in told.items():
        assert "nan" not in re.split(r"\W+", text.lower())
        if layout == "noc":  # the command prints what the run gives
            code, printed, _ = typed("table", each_kind[layout], "--format", kind)
            assert (code, printed.strip()) == (0, text.strip())
    check_latex(told["latex"])
    header, *body = csv.reader(io.StringIO(told["csv"]))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in header)
    assert len(set(header)) == len(header)
    assert all(len(row) == len(header) for row in body)
    heads = told["markdown"].splitlines()[0].count("|")
    assert all(line.count("|") == heads for line in told["markdown"].splitlines()[:3])
    assert told["html"].count("<tr>") == told["html"].count("</tr>") == 1 + len(body)


def check_latex(tex: str) -> None:
    """What a TeX would stumble over: groups, environments, special characters, cells."""
    bare = re.sub(r"\\[\\{}%&$#_^]", "", re.sub(r"(?m)(?<!\\)%.*$", "", tex))
    depth = 0
    for mark in re.findall(r"[{}]", bare):
        depth += 1 if mark == "{" else -1
        assert depth >= 0
    assert depth == 0
    opened: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", tex):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    prose = re.sub(r"\\[a-zA-Z]+", "", bare)
    assert not re.search(r"[$#_^~]", re.sub(r"tab:[\w-]+", "", prose))
    assert tex.isascii()
    columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", tex)[1])  # type: ignore[index]
    for line in tex.splitlines():
        if line.endswith(r"\\"):
            spans = [int(n) - 1 for n in re.findall(r"multicolumn\{(\d+)\}", line)]
            assert len(re.findall(r"(?<!\\)&", line)) + sum(spans) == columns - 1, line


def test_a_models_parameters_stand_in_the_table(typed: Typed, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Sized:
        """A model with a network of 3 x 4 + 4 parameters."""

        def __init__(self) -> None:
            self.inner = catalogue.models.make("disc")
            self.net = {"layers": [torch.nn.Linear(3, 4)]}

        def __getattr__(self, name: str) -> object:
            return getattr(self.__dict__["inner"], name)

    plan = Plan(
        "noc", (Spec("sized"), Spec("synthetic-oracle")), (Spec("drawn"),), rounds=1, limit=1
    )
    run_plan(plan, tmp_path / "r", workers=0, objects={"sized": Sized()})
    _, text, _ = typed("table", tmp_path / "r", "--format", "csv")
    found = {row["method"]: row["params_m"] for row in csv.DictReader(io.StringIO(text))}
    assert found == {"sized": "1.6e-05", "synthetic-oracle": ""}
    _, tex, _ = typed("table", tmp_path / "r")
    check_latex(tex)
    assert "Params (M)" in tex


def test_the_best_model_leads_where_more_is_better(each_kind: dict[str, Path]) -> None:
    run = Run.open(each_kind["tetris"])
    (section, *_) = sections_of(run)
    (table, *_) = section.blocks
    assert isinstance(table, Table)
    first = [row[1].value for row in table.rows if isinstance(row[1], Value)]
    assert len(first) == 2
    lower = table.columns[1].title == "iou-d"
    assert first == sorted(first, key=lambda v: v or 0.0, reverse=not lower)


def test_numbers_beyond_the_goal_where_a_run_ended_are_not_shown_next_to_another(
    tmp_path: Path,
) -> None:
    for name, model, options in (
        ("whole", "disc", {}), ("early", "synthetic-noisy", {"until": "85"}),
        ("other", "synthetic-oracle", {"until": "90"}),
    ):  # fmt: skip
        plan = Plan("noc", (Spec(model),), (Spec("drawn"),), rounds=4, limit=1, options=options)
        run_plan(plan, tmp_path / name, workers=0)
    for pair in (("whole", "early"), ("early", "whole")):
        shown = {row.statistic for row in segmeter.open_run([tmp_path / n for n in pair]).summary()}
        assert "noc@85" in shown
        assert shown.isdisjoint({"noc@90", "nof@95", "auc", "iou@3"})
    with pytest.raises(BadInput, match=r"runs with different 'until' \(85 and 90\)"):
        segmeter.open_run([tmp_path / "early", tmp_path / "other"])
