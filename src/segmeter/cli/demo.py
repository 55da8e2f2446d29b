"""`segmeter demo`: the main job on built-in images, nothing to download."""

from __future__ import annotations

import importlib.util
import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import roots
from segmeter.cli._options import Weights
from segmeter.cli._words import say_answer
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, NotFound, SegmeterError

if TYPE_CHECKING:
    from segmeter.core.plans import Plan

__all__ = ["demo"]

_NETWORKS = ("sam2-hiera-tiny", "mobile-sam")
_CLASSICAL = ("grabcut", "random-walker")
_VOLUME_USERS = (
    "box-per-slice",
    "box-interpolation?n=3",
    "boxes-from-3d-box",
    "points-per-slice?n=3",
)
_VOLUME_NETWORKS = ("litemedsam", "mobile-sam")
_SMALL = ("moon",)  # a scene with one target: its rows come first, and soon
_SOON = 6  # seconds that a source of weights has to answer

What = Annotated[
    str, typer.Argument(help="images or volumes; both ship inside.", show_default=True)
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Run folder; runs/demo unless that is taken.")
]


@app.command()
def demo(what: What = "images", out: Out = None, weights: Weights = None) -> int:
    """Run the click benchmark on built-in images, or volumes, and write its report.

    Uses real networks whose weights are at hand, else fetches MobileSAM's (40 MB) where a source
    answers at once, else classical segmenters. SEGMETER_OFFLINE=1 fetches nothing.

    Examples: `segmeter demo`, `segmeter demo volumes`
    """
    from segmeter.cli._progress import Bar
    from segmeter.engine import run_plan

    place = weights or _beside()
    plan = _plan(what, place)
    folder = out or _folder_for(plan)
    tally = run_plan(plan, folder, roots=roots(None, place), progress=Bar(), soonest=_SMALL)
    from segmeter.cli._tables import print_summary
    from segmeter.report.writing import answer_of, sections_of, write_sections
    from segmeter.store import Run

    print_summary(folder, tally, as_json=False, reported=True)
    run = Run.open(folder)
    sections = sections_of(run)
    (page,) = write_sections(run, sections)
    say_answer(answer_of(sections))
    typer.echo(f"the report lies at {Path(page).resolve()}")
    return Exit.WITH_ERRORS if tally.failed else Exit.DONE


def _plan(what: str, weights: Path | None) -> Plan:
    """What is played, said in a sentence."""
    from segmeter.core.catalogue import Spec
    from segmeter.core.plans import Plan

    if what not in ("images", "volumes"):
        raise BadInput(f"there is a demo of images and one of volumes, none of '{what}'")
    names, why = _models(weights) if what == "images" else _volume_models(weights)
    typer.echo(f"playing {names[0]} and {names[1]} on the built-in {what}: {why}")
    segmenters = tuple(Spec(name) for name in names)
    if what == "images":
        return Plan("noc", segmenters, (Spec("mini"),))
    users = tuple(Spec.parse(name) for name in _VOLUME_USERS)
    return Plan(
        "volumes", segmenters, (Spec("mini-volumes"),), users=users, protocols=("corrected",),
        options={"draws": 2},
    )  # fmt: skip


def _volume_models(weights: Path | None) -> tuple[list[str], str]:
    """Networks whose weights are available, a classical segmenter where one is missing."""
    found = [name for name in _VOLUME_NETWORKS if _at_hand(name, weights)]
    if found:
        return [*found, "random-walker"][:2], "networks first, whose weights are available"
    return ["random-walker", "disc"], "a classical segmenter, and one that just fills the box"


def _folder_for(plan: Plan) -> Path:
    """`runs/demo`, or the next that holds the same demo or nothing: weights may have come since."""
    from segmeter.store import RunFolder

    for number in itertools.count(1):
        path = Path("runs") / ("demo" if number == 1 else f"demo-{number}")
        folder = RunFolder(path)
        if not folder.begun or folder.plan.segmenters == plan.segmenters:
            break
    return path


def _models(weights: Path | None) -> tuple[list[str], str]:
    """Two models to show, and why these."""
    found = [name for name in _NETWORKS if _at_hand(name, weights)]
    if found:
        return [*found, *_CLASSICAL][:2], "real networks, whose weights are at hand"
    why = _fetch()
    if not why:
        return [
            "mobile-sam",
            _CLASSICAL[0],
        ], "MobileSAM, just fetched, and a classical segmenter"
    return list(_CLASSICAL), (
        f"classical segmenters, since {why} ('segmeter fetch mobile-sam' gets a network's weights)"
    )


def _fetch() -> str:
    """Fetch MobileSAM's weights if a source answers at once; empty, or why not."""
    if not _networks_installed():
        return "torch and transformers are not installed"
    if os.environ.get("SEGMETER_OFFLINE"):
        return "no network's weights are at hand and SEGMETER_OFFLINE is set"
    from segmeter.models.fetching import fetch, offers

    typer.echo("looking for MobileSAM's weights (40 MB)", err=True)
    answered, ended = threading.Event(), threading.Event()
    faults: list[str] = []

    def bring() -> None:
        try:
            fetch(offers()["mobile-sam"], None, None, lambda *_: answered.set())
        except SegmeterError as error:
            faults.append(str(error))
        ended.set()
        answered.set()

    # A daemon: where nobody answers the demo goes on, and the thread ends with it.
    threading.Thread(target=bring, daemon=True).start()
    if not answered.wait(_SOON):
        return f"no source of weights answered within {_SOON} s"
    ended.wait()
    return "no source of weights could be reached" if faults else ""


def _at_hand(name: str, weights: Path | None) -> bool:
    """Whether a network can be loaded here: torch is installed and its weights are found."""
    from segmeter.models.weights import find

    if not _networks_installed():
        return False
    try:
        find(name, weights)
    except NotFound:
        return False
    return True


def _networks_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def _beside() -> Path | None:
    """Weights in a folder beside the project, where developers keep them."""
    place = Path("..") / "shared" / "weights"
    return place if place.is_dir() else None
