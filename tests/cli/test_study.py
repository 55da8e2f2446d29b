"""`segmeter study` as it is typed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'study'")

from segmeter.study.demo import fill_with_people
from segmeter.study.plan import read_plan
from segmeter.study.serving import Place, open_study

Typed = Callable[..., tuple[int, str, str]]
SMALL = """
kind = "clicks"
title = "A study"
[data]
scenes = ["coffee", "rocket"]
[design]
modes = ["Text_Description", "Object_CutOut"]
per_cell = 2
batch = 2
open_to_all = true
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(SMALL)
    return path


def test_a_new_plan_is_written_once(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert typed("study", "new", path, "--kind", "rate")[0] == 0
    assert 'kind = "rate"' in path.read_text()
    code, _, said = typed("study", "new", path)
    assert (code, "take another name" in said) == (2, True)
    assert typed("study", "new", tmp_path / "other.toml", "--kind", "film")[0] == 2
    assert not (tmp_path / "other.toml").exists()


def test_check_shows_what_people_will_see(typed: Typed, plan: Path) -> None:
    code, said, _ = typed("study", "check", plan)
    assert code == 0
    page = plan.with_suffix(".html").read_text()
    assert str(plan.with_suffix(".html")) in said
    for words in ("Object_CutOut", "2. cutout, 2 s", "4. image, until the answer"):
        assert words in page
    plan.write_text(SMALL.replace("per_cell", "per_sell"))
    code, _, said = typed("study", "check", plan)
    assert (code, "did you mean 'per_cell'" in said) == (2, True)


def test_from_links_to_results(typed: Typed, plan: Path, tmp_path: Path) -> None:
    code, links, _ = typed("study", "invite", plan, "-n", "3", "--address", "https://x.example/")
    assert code == 0
    assert [link.startswith("https://x.example/join/") for link in links.split()] == [True] * 3
    code, _, said = typed("study", "export", plan, "-o", tmp_path / "none")
    assert (code, "nothing to export" in said) == (2, True)
    assert not (tmp_path / "none").exists()
    study = open_study(read_plan(plan), Place.beside(plan))
    fill_with_people(study)
    code, said, _ = typed("study", "export", plan, "-o", tmp_path / "out")
    assert [Path(line).name for line in said.split()] == [
        "trials.parquet",
        "clicks.csv",
        "previews.csv",
    ]
    assert typed("study", "report", plan)[0] == 0
    assert "Display modes" in plan.with_suffix(".report.html").read_text()
    assert typed("study", "costs", plan)[0] == 2
    assert typed("study", "withdraw", plan, "nobody")[0] == 2
    again = f"sqlite:///{tmp_path / 'again.db'}"
    assert typed("study", "rebuild", tmp_path / "study.events.jsonl", "--db", again)[0] == 0
    clicks = tmp_path / "out" / "clicks.csv"
    code, said, _ = typed("calibrate", "--clicks", clicks, "-d", "mini", "-o", tmp_path / "fit")
    assert (code, "fitted on" in said) == (0, True)
    assert (tmp_path / "fit" / "prior.json").is_file()


def test_a_port_that_is_taken_is_said(typed: Typed, plan: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, said = typed("study", "serve", plan, "--port", taken.getsockname()[1])
    assert (code, "take another --port" in said) == (2, True)
