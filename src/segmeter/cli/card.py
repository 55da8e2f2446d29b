"""`segmeter card`: data set, model and annotation cards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import segmeter
from segmeter.cli._options import Data, NewFolder, Weights
from segmeter.cli.app import Exit, command_group

group = command_group("card", "Cards of data sets, models and annotations.")

Subject = Annotated[str, Argument(help="Name of the data set or model, or a folder.")]
RunsUsed = Annotated[list[str] | None, Option("--run", help="Run whose results the card reports.")]


@group.command("dataset")
def dataset(subject: Subject, out: NewFolder, run: RunsUsed = None, data: Data = None) -> int:
    """Write the card of a data set: datasheet questions, filled from the data.

    Answers that people wrote into OUT/card.json are kept.

    Example: `segmeter card dataset mini -o cards/mini`
    """
    return _write("dataset", subject, out, run, data=data)


@group.command("model")
def model(subject: Subject, out: NewFolder, run: RunsUsed = None, weights: Weights = None) -> int:
    """Write the card of a model, with results of runs as a model-index for Hugging Face.

    Answers that people wrote into OUT/card.json are kept.

    Example: `segmeter card model mobile-sam -o cards/mobile-sam --run runs/mine`
    """
    return _write("model", subject, out, run, weights=weights)


@group.command("annotation")
def annotation(subject: Subject, out: NewFolder, data: Data = None) -> int:
    """Write the card of a data set's annotations: questions for the people who organised them.

    Answers that people wrote into OUT/card.json are kept.

    Example: `segmeter card annotation mini -o cards/mini-annotation`
    """
    return _write("annotation", subject, out, None, data=data)


def _write(kind: Any, subject: str, out: Path, run: list[str] | None, **places: Any) -> int:
    earlier = out / "card.json" if (out / "card.json").is_file() else None
    made = segmeter.make_card(kind, subject, runs=run or (), earlier=earlier, **places)
    for file in made.write(out):
        typer.echo(f"written: {file}")
    typer.echo(f"{made.open_questions} questions are left for a person to answer")
    return Exit.DONE
