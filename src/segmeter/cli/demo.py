"""`segmeter demo`: the main job on built-in pictures, nothing to download."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._options import Weights, roots
from segmeter.cli.app import Exit, app
from segmeter.core.errors import NotFound

if TYPE_CHECKING:
    from segmeter.core.plans import Plan

__all__ = ["demo"]

_NETWORKS = ("sam2-hiera-tiny", "mobile-sam")
_CLASSICAL = ("grabcut", "random-walker")


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; runs/demo unless that is taken.")
    ] = None,
    weights: Weights = None,
) -> int:
    """Play the click benchmark on built-in pictures and write its report.

    Uses real networks whose weights are at hand, else classical segmenters.

    Example: `segmeter demo`
    """
    from segmeter.cli._tables import print_summary
    from segmeter.cli._terminal import Bar
    from segmeter.cli.report import write_report
    from segmeter.core.catalogue import Spec
    from segmeter.core.plans import Plan
    from segmeter.engine import run_plan

    place = weights or _beside()
    names, why = _models(place)
    typer.echo(f"playing {names[0]} and {names[1]} on the built-in pictures: {why}")
    plan = Plan("noc", tuple(Spec(name) for name in names), (Spec("mini"),))
    folder = out or _folder_for(plan)
    tally = run_plan(plan, folder, roots=roots(None, place), progress=Bar())
    print_summary(folder, tally, as_json=False)
    (page,) = write_report(folder)
    typer.echo(f"the report lies at {page.resolve()}")
    return Exit.WITH_ERRORS if tally.failed else Exit.DONE


def _folder_for(plan: Plan) -> Path:
    """`runs/demo`, or the next that holds the same demo or nothing: weights may have come since."""
    from segmeter.store import RunFolder

    for number in itertools.count(1):
        path = Path("runs") / ("demo" if number == 1 else f"demo-{number}")
        if not (path / "plan.json").is_file() or RunFolder(path).plan.subjects == plan.subjects:
            break
    return path


def _models(weights: Path | None) -> tuple[list[str], str]:
    """Two models to show, and why these."""
    found = [name for name in _NETWORKS if _at_hand(name, weights)]
    if not found:
        return list(_CLASSICAL), (
            "classical segmenters, since no network's weights are at hand "
            "('segmeter fetch mobile-sam' gets some)"
        )
    return [*found, *_CLASSICAL][:2], "real networks, whose weights are at hand"


def _at_hand(name: str, weights: Path | None) -> bool:
    """Whether a network can be loaded here: torch is installed and its weights are found."""
    import importlib.util

    from segmeter.models.weights import find

    if (
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
    ):
        return False
    try:
        find(name, weights)
    except NotFound:
        return False
    return True


def _beside() -> Path | None:
    """Weights in a folder beside the project, where developers keep them."""
    place = Path("..") / "shared" / "weights"
    return place if place.is_dir() else None
