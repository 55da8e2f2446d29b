"""Estimates of a run in words: jobs, encodings, predictions, time and disk space."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from segmeter.cli._words import printable
from segmeter.core.plans import Plan
from segmeter.core.wording import counted
from segmeter.runtime.remote_files import Roots

__all__ = ["say_cost", "size_text"]


def say_cost(
    plan: Plan, places: Roots, workers: int | None, executor: str | None, as_json: bool
) -> None:
    """Run two scenes of each model and data set, keep nothing, and print what all would cost.

    A worker of a cluster counts as fast as this machine; without a number of workers the cost
    is that of one.
    """
    from segmeter.core.catalogue import short
    from segmeter.engine.estimates import cost_of, run_some

    asked = 1 if executor == "ray" and workers is None else workers
    found = run_some(plan, places)
    cost = cost_of(found, plan, asked)
    if as_json:
        rows = [asdict(e) | {"each": e.each} for e in found]
        print(json.dumps({"cost": asdict(cost), "rows": rows}, indent=1))
        return
    for e in found:
        seconds = " and ".join(f"{s:.2f}" for s in (e.seconds, *e.later))
        what = f"{short(e.segmenter)} on {short(e.dataset)}: {counted(e.scenes, 'scene')}"
        size = f"{e.rows:.0f} rows and {size_text(e.bytes)} per scene"
        typer.echo(printable(f"{what}; run here on {e.device} in {seconds} s, {size}"))
    typer.echo(f"{cost.jobs} jobs, {cost.looks} encodings, {cost.answers} predictions")
    time, hands = time_text(cost.seconds), counted(cost.workers, "worker")
    typer.echo(
        f"about {time} with {hands} like this machine, {size_text(cost.bytes)} on the disk; "
        "nothing was written"
    )


def time_text(seconds: float) -> str:
    """A time in a unit that people read.

    >>> time_text(0.3), time_text(40), time_text(600), time_text(90_000)
    ('1 s', '40 s', '10.0 minutes', '25.0 hours')
    """
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
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
