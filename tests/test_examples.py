"""The examples work as the README and the documentation show them, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from segmeter.core import catalogue
from segmeter.models.conformance import check
from segmeter.store import Run

from .forking import Interpreter

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def typed(python: Interpreter, *words: object) -> str:
    """Type a command in the repository's folder; what it printed."""
    done = python.run("-m", "segmeter", *words, folder=ROOT, OMP_NUM_THREADS="1", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run(python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that the model, the user and the measure of one's own play together."""
    out = tmp_path_factory.mktemp("examples") / "run"
    typed(
        python,
        "run", "noc", "--dataset", "drawn", "--limit", 2, "--rounds", 3, "--out", out,
        "--model", "examples/own_model.py:Lookalike", "--model", "disc",
        "--user", "centre-click", "--user", "examples/own_user.py:ShakyHand?shake_px=5",
        "--measure", "iou", "--measure", "examples/own_measure.py:missed_share",
    )  # fmt: skip
    return out


@pytest.mark.parametrize(("example", "most"), [("own_function.py", 10), ("own_model.py", 25)])
def test_a_model_takes_few_lines(example: str, most: int) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) <= most


def test_a_torch_network_becomes_a_model_by_a_function() -> None:
    pytest.importorskip("torch", reason="needs the extra 'models'")
    assert check(catalogue.models.make(f"{EXAMPLES}/own_network.py:predict")) == []
    page = (ROOT / "docs" / "bring-your-own" / "model.md").read_text()
    assert (EXAMPLES / "own_network.py").read_text().partition("net = Net")[2] in page


@pytest.mark.parametrize("name", ["own_function.py:predict", "own_model.py:Lookalike"])
def test_a_model_passes_the_conformance_checks(name: str) -> None:
    assert check(catalogue.models.make(f"{EXAMPLES}/{name}")) == []


def test_model_user_and_measure_work_together(run: Path) -> None:
    rows = Run.open(run).sql('select model, "user", iou, missed_share from rows').to_pylist()
    assert {row["model"] for row in rows} == {"examples/own_model.py:Lookalike", "disc"}
    assert {row["user"] for row in rows} == {"centre-click", "shaky-hand"}
    for row in rows:
        # Whatever is missed is missing from the overlap.
        assert row["iou"] <= 1 - row["missed_share"] + 1e-12
    assert any(0 < row["missed_share"] < 1 for row in rows)


def test_the_report_names_them(run: Path, python: Interpreter) -> None:
    typed(python, "report", run)
    page = (run / "report.html").read_text()
    assert "Lookalike" in page
    assert "shaky-hand" in page


def test_a_custom_measure_is_added_later(tmp_path: Path, python: Interpreter) -> None:
    out = tmp_path / "run"
    words = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--rounds", 1, "-o", out)
    typed(python, *words)
    said = typed(python, "score", out, "--measure", "examples/own_measure.py:missed_share")
    assert "added to 1 job" in said
    values = Run.open(out).sql("select missed_share as share from rows").to_pylist()
    assert values
    assert all(0 <= row["share"] <= 1 for row in values)


def test_the_shaky_hand_clicks_next_to_the_centre(run: Path) -> None:
    said = 'select model, scene, target, protocol, "user", y, x from rows where round = 1'
    places: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for row in Run.open(run).sql(said).to_pylist():
        session = tuple(row[key] for key in ("model", "scene", "target", "protocol"))
        places.setdefault(session, {})[row["user"]] = (row["y"], row["x"])
    assert any(at["shaky-hand"] != at["centre-click"] for at in places.values())


@pytest.mark.parametrize(
    ("page", "example"),
    [
        ("README.md", "own_function.py"),
        ("docs/bring-your-own/model.md", "own_function.py"),
        ("docs/bring-your-own/model.md", "own_model.py"),
        ("docs/bring-your-own/user.md", "own_user.py"),
        ("docs/bring-your-own/measure.md", "own_measure.py"),
    ],
)
def test_a_page_shows_the_example_file_unchanged(page: str, example: str) -> None:
    assert (EXAMPLES / example).read_text() in (ROOT / page).read_text()
