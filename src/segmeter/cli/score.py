"""`segmeter score`: score folders of masks, or add a measure to a finished run."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Annotated

import typer
from typer import Argument, Option

import segmeter
from segmeter.api import counted
from segmeter.cli._options import AsJson, Data, Trust, names_of, out_option
from segmeter.cli._printing import print_json, progress_bar, say_answer
from segmeter.cli.app import Exit, app


@app.command()
def score(
    places: Annotated[
        list[str],
        Argument(
            metavar="RUN | PREDICTIONS... GROUND_TRUTH",
            help="A run; or folders of masks, the ground truth last.",
        ),
    ],
    measure: Annotated[
        list[str] | None,
        Option(autocompletion=names_of("measures"), help="Measure to compute; can be repeated."),
    ] = None,
    instances: Annotated[
        bool, Option("--instances", help="Match objects by overlap, not by their labels.")
    ] = False,
    out: Annotated[str | None, out_option("Run folder; by default runs/masks-N.")] = None,
    data: Data = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Score folders of masks against ground truth, or add a measure to a run from its masks.

    Files are paired by name. The result is a run, which `report`, `compare` and `table` can read.

    Examples: `segmeter score nnunet/ labels/ --out runs/nnunet`,
    `segmeter score runs/mine --measure dice`
    """
    if len(places) > 1:
        return _score_folders(places, measure or [], instances, out, as_json)
    if not measure:
        raise segmeter.BadInput(
            "name a measure to add to the run (--measure), or the folder of the ground truth"
        )
    (run,) = places
    opened = segmeter.open_run(run, data=data, trust=trust)
    scored = {}
    for name in measure:
        scored[name] = jobs = opened.score(name)
        if not as_json and jobs:
            typer.echo(f"{name}: added to {counted(jobs, 'job')} in {run}")
        elif not as_json:
            typer.echo(f"{name}: {run} has it already")
    if as_json:
        print_json({"scored": scored})
    return Exit.DONE


def _score_folders(
    places: list[str], measures: list[str], instances: bool, out: str | None, as_json: bool
) -> int:
    *predictions, ground_truth = places
    with warnings.catch_warnings():  # of failed jobs, which are named here
        warnings.filterwarnings("ignore", ".*run.errors")
        run = segmeter.score(
            predictions, ground_truth, measures=measures, instances=instances, out=out,
            progress=progress_bar(),
        )  # fmt: skip
    page, rows, left = run.report(), run.summary(), run.unfinished()
    code = Exit.WITH_ERRORS if run.errors() else Exit.DONE
    if as_json:
        facts = {"run": run.address, "report": str(page), "rows": [asdict(r) for r in rows]}
        print_json(facts | ({"unfinished": left} if left else {}))
        return code
    say_answer("\n".join(left))
    titles = {card.name: card for card in run.benchmark.statistics(run)}
    for row in rows:
        limits = "" if row.low != row.low else f" ({row.low:z.2f} to {row.high:z.2f})"
        unit = titles[row.statistic].unit
        typer.echo(f"{row.model}: {titles[row.statistic].title} {row.value:z.2f} {unit}{limits}")
    typer.echo(f"report: {page}")
    return code
