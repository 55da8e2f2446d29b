"""`segmeter card`: dataset, model and annotation cards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import segmeter
from segmeter.cli._options import Data, NewFolder, Weights
from segmeter.cli.app import command_group

group = command_group("card", "Write model cards, datasheets and annotation cards.")

Subject = Annotated[str, Argument(help="Name of the dataset or model, or a folder.")]
RunsUsed = Annotated[list[str] | None, Option(help="Run whose results the card reports.")]


@group.command("dataset")
def dataset(subject: Subject, out: NewFolder, run: RunsUsed = None, data: Data = None) -> None:
    """Write a datasheet for a dataset, filled in from the data where possible.

    Answers you edited in OUT/card.json are kept.

    Example: `segmeter card dataset mini -o cards/mini`
    """
    _write("dataset", subject, out, run, data=data)


@group.command("model")
def model(
    subject: Subject,
    out: NewFolder,
    run: RunsUsed = None,
    by: Annotated[str, Option(help="Attribute for the fairness table, such as size.")] = "",
    watts: Annotated[float | None, Option(help="Power of the training machine in watts.")] = None,
    weights: Weights = None,
) -> None:
    """Write a model card, with results of runs as a model-index for Hugging Face.

    Answers you edited in OUT/card.json are kept.

    Example: `segmeter card model mobile-sam -o cards/mobile-sam --run runs/mine`
    """
    _write("model", subject, out, run, weights=weights, by=by, watts=watts)


@group.command("annotation")
def annotation(
    subject: Subject,
    out: NewFolder,
    study: Annotated[Path | None, Option(help="Folder written by `segmeter study export`.")] = None,
    data: Data = None,
) -> None:
    """Write a data card for a dataset's annotations, filled in from the export of a study.

    Answers you edited in OUT/card.json are kept.

    Example: `segmeter card annotation mini -o cards/mini-annotation`
    """
    _write("annotation", subject, out, None, data=data, study=study)


def _write(kind: Any, subject: str, out: Path, run: list[str] | None, **places: Any) -> None:
    earlier = out / "card.json" if (out / "card.json").is_file() else None
    made = segmeter.make_card(kind, subject, runs=run or (), earlier=earlier, **places)
    for file in made.write(out):
        typer.echo(f"written: {file}")
    typer.echo(f"{made.open_questions} questions are left for a person to answer")
