"""A person clicks through the sessions of a run and through a leaderboard."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.report.browsing import BrowseServer, Sessions
from segmeter.report.page import render
from segmeter.report.result_tables import leaderboard_page as board
from segmeter.store import Run

LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("runs") / "run"
    models = (Spec("synthetic-noisy"), Spec("disc"))
    run_plan(Plan("noc", models, (Spec("drawn"),), rounds=3, limit=6), place, workers=0)
    return Run.open(place)


@pytest.fixture(scope="module")
def address(played: Run) -> Iterator[str]:
    server = BrowseServer(Sessions(played))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def go(tab: Any, address: str, width: int, scheme: str) -> None:
    tab.complaints.clear()
    tab.resize(width, 900, mobile=width < 600)
    tab.emulate(scheme=scheme)
    tab.call("Page.navigate", url=address)
    arrived(tab, "")


def arrived(tab: Any, part: str) -> None:
    """Wait until the page whose address holds a text has been laid out."""
    for _ in range(2000):
        here = tab.run("[location.href, document.readyState]")
        if part in here[0] and here[1] == "complete":
            return
    raise AssertionError(f"never arrived at '{part}'")


def check_look(tab: Any, width: int, scheme: str) -> None:
    """The page fits, and its paper is as dark as its ink is light."""
    assert tab.run("document.documentElement.scrollWidth") <= width
    paper, ink = tab.run("""['background-color', 'color'].map(name =>
        getComputedStyle(document.body).getPropertyValue(name).match(/\\d+(\\.\\d+)?/g)
            .slice(0, 3).map(Number).reduce((a, b) => a + b))""")
    assert (paper < ink) == (scheme == "dark")
    assert tab.complaints == []


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_sessions_are_filtered_sorted_opened_and_left(
    running: Any, address: str, width: int, scheme: str
) -> None:
    go(running, address, width, scheme)
    check_look(running, width, scheme)
    whole = running.run("document.querySelector('.count').textContent")
    running.run("document.querySelector('select[name=model]').value = 'synthetic-noisy'")
    running.run("document.querySelector('select[name=sort]').value = 'best'")
    running.click("form button")
    arrived(running, "model=synthetic-noisy")
    assert running.run("document.querySelector('.count').textContent") != whole
    shown = running.run("""[...document.querySelectorAll('tbody tr')]
        .map(row => [row.dataset.model, Number(row.dataset.best)])""")
    assert {model for model, _ in shown} == {"synthetic-noisy"}
    best = [value for _, value in shown]
    assert best == sorted(best, reverse=True)
    running.click("tbody a")
    arrived(running, "/session")
    check_look(running, width, scheme)
    assert running.run("document.querySelectorAll('.replay').length") == 1
    running.click("[data-step='-1']")
    assert running.run("document.querySelector('.replay input').value") == "2"
    running.run("history.back()")
    arrived(running, "model=synthetic-noisy")
    assert running.run("document.querySelector('select[name=model]').value") == "synthetic-noisy"
    running.click("tbody a")
    arrived(running, "/session")
    running.click(".back a")
    arrived(running, running.run("location.origin") + "/")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_leaderboard_shows_the_protocol_that_is_chosen(
    running: Any, played: Run, tmp_path: Path, width: int, scheme: str
) -> None:
    file = tmp_path / "board.html"
    file.write_text(render(board(played, 1)))
    go(running, file.as_uri(), width, scheme)
    check_look(running, width, scheme)
    assert visible(running) == ["corrected"]
    running.click("input[value=published]")
    assert visible(running) == ["published"]
    check_look(running, width, scheme)
    running.emulate("print")
    assert visible(running) == ["corrected", "published"]


def visible(tab: Any) -> list[str]:
    found: list[str] = tab.run("""[...document.querySelectorAll('main > section')]
        .filter(s => getComputedStyle(s).display !== 'none').map(s => s.id)""")
    return found


def test_a_column_that_never_differs_is_left_out(played: Run, tmp_path: Path) -> None:
    """With two datasets, objects of one name are told apart by theirs."""
    models, data = (Spec("disc"),), (Spec("drawn"), Spec("drawn", {"seed": 1}))
    plan = Plan("noc", models, data, rounds=1, limit=1, protocols=("corrected",))
    run_plan(plan, tmp_path / "run", workers=0)

    def heads(run: Run) -> list[str]:
        return re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', Sessions(run).page({}))

    last = ["result", "rounds", "best IoU, %", "area, px"]
    assert heads(Run.open(tmp_path / "run")) == ["object", "model", "dataset", *last]
    assert heads(played) == ["object", "model", "protocol", "class", *last]
