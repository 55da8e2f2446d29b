"""What a run costs, in words: jobs, looks, answers, time and disk."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from segmeter.cli._words import printable
from segmeter.cli.app import Exit
from segmeter.core.plans import Plan, Roots

__all__ = ["say_cost"]


def say_cost(
    plan: Plan, places: Roots, workers: int | None, executor: str | None, as_json: bool
) -> int:
    """Play two scenes of each model and data set, keep nothing, and say what all would cost.

    On a cluster a worker is taken to be as fast as this machine; without a number of workers
    the cost is told for one of them.
    """
    from segmeter.core.catalogue import short
    from segmeter.engine.estimates import cost_of, play_some

    asked = 1 if executor == "ray" and workers is None else workers
    found = play_some(plan, places)
    cost = cost_of(found, plan, asked)
    if as_json:
        rows = [asdict(e) | {"each": e.each} for e in found]
        print(json.dumps({"cost": asdict(cost), "rows": rows}, indent=1))
        return Exit.DONE
    for e in found:
        seconds = " and ".join(f"{s:.2f}" for s in (e.seconds, *e.later))
        scenes = "1 scene" if e.scenes == 1 else f"{e.scenes} scenes"
        typer.echo(printable(
            f"{short(e.subject)} on {short(e.dataset)}: {scenes}; played here on {e.device} in "
            f"{seconds} s, {e.rows:.0f} rows and {size_text(e.bytes)} per scene"
        ))  # fmt: skip
    at_once = "1 worker" if cost.workers == 1 else f"{cost.workers} workers"
    typer.echo(f"{cost.jobs} jobs, {cost.looks} looks, {cost.answers} answers")
    typer.echo(
        f"about {time_text(cost.seconds)} with {at_once} like this machine, "
        f"{size_text(cost.bytes)} on the disk; nothing was written"
    )
    return Exit.DONE


def time_text(seconds: float) -> str:
    """A time in a unit that people read.

    >>> time_text(40), time_text(600), time_text(90_000)
    ('40 s', '10.0 minutes', '25.0 hours')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def size_text(count: float) -> str:
    """Bytes in a unit that people read.

    >>> size_text(900), size_text(12_000_000)
    ('900 B', '12.0 MB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
