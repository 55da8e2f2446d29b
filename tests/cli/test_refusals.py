"""What cannot be meant is refused in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan

from .conftest import Typed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "run"
    run_plan(Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1), place, workers=0)
    return place


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("run noc", "name at least one model"),
        ("run nco -m disc -d drawn", "did you mean 'noc'?"),
        ("run noc -m disc -d drawn --executor rya", "did you mean 'ray'? it is inline, local or"),
        ("run noc -m disc -d drawn --method quadtree", "no such option: --method"),
        ("run points -m disc -d drawn --start disc", "--start is not for this benchmark: it"),
        ("run rclicks -m disc -d drawn --start disc", "measures first clicks, which do not depend"),
        ("run tetris -m disc -d drawn --start disc", "lists --start if a benchmark supports it"),
        ("run volumes -m disc -d msd", "folder of one task: --dataset DATA/Task09_Spleen"),
        ("clicks fit", "--click-tables, or --clicks with --dataset"),
        ("measures meta --figure map.doc", "must end in .svg, .png or .pdf"),
        ("run noc -m disc -d drawn --until dice>=90", "dice is between 0 and 1, and no goal is 90"),
        ("check disc --limit 3", "are for data, and 'disc' is a model"),
        ("check disk --limit 3", "no file, folder, dataset or model 'disk'; did you mean 'disc'?"),
        ("check grabcut --limit 3 --data /nowhere", "'/nowhere'"),
        ("fetch dics", "did you mean 'disc'?"),
    ],
)
def test_a_command_that_cannot_begin_leaves_nothing(
    words: str, sentence: str, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = typed(*words.split())
    assert (code, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert sentence in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("report RUN --hourly-rate 20", "the number of objects"),
        ("report RUN --json --by size --format csv", "leave out --by and --format"),
        ("report RUN --out HERE", "is a folder; name the page"),
        ("figure RUN --out HERE/fig.svg --measure oiu", "did you mean 'iou'? it has"),
        ("figure RUN --out HERE/fig.svg --protocol both", "it is published or corrected"),
        ("runs HERE/.. --statistic nco@90", "'segmeter report RUN --json' lists those"),
    ],
)
def test_an_option_that_would_be_ignored_or_unknown_is_refused(
    run: Path, words: str, sentence: str, typed: Typed, tmp_path: Path
) -> None:
    told = words.replace("RUN", str(run)).replace("HERE/..", str(run.parent))
    code, _, err = typed(*told.replace("HERE", str(tmp_path)).split())
    assert code == 2
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_a_page_that_cannot_be_written_names_it(run: Path, typed: Typed) -> None:
    code, _, err = typed("report", run, "--out", "/proc/page.html")
    assert code == 2
    assert "'/proc/page.html' cannot be used" in err


def test_an_empty_folder_is_not_reported_as_missing(typed: Typed, tmp_path: Path) -> None:
    code, _, err = typed("report", tmp_path)
    assert code == 2
    assert "is not a run (nothing is there)" in err


def test_a_measure_that_is_there_already_is_not_scored_again(run: Path, typed: Typed) -> None:
    assert "dice: added to 1 job" in typed("score", run, "--measure", "dice")[1]
    assert "has it already" in typed("score", run, "--measure", "dice")[1]
