"""`segmeter leaderboard`: many runs on one page, every protocol, best first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.cli._options import Cost, GoalChoice, Runs, out_option
from segmeter.cli._printing import say_answer
from segmeter.cli.app import app

Out = Annotated[Path, out_option("HTML file to write.")]


@app.command()
def leaderboard(
    runs: Runs, out: Out = Path("leaderboard.html"), cost: Cost = None, goal: GoalChoice = None
) -> None:
    """Rank the models of one or more runs on one HTML page.

    Example: `segmeter leaderboard runs/one runs/two`
    """
    opened = segmeter.open_run(runs, cost=cost, goal=goal)
    page = opened.leaderboard(out)
    say_answer("\n".join(opened.unfinished()))
    typer.echo(f"leaderboard: {page}")
