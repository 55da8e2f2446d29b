"""Click training: a network that predicts where people click."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import finite, roots
from segmeter.cli._options import Data, ImageSets, MasksShown, Seed
from segmeter.cli._recorded_clicks import clicked_datasets, say_of_samples
from segmeter.cli.app import Exit
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from segmeter.clickability.training.samples import TrainingSample
    from segmeter.clickability.training.training_loop import Recipe, Step
    from segmeter.runtime.remote_files import Roots

__all__ = ["clickability"]

_IMAGES = "Which images"
_NETWORK = "The network and its training"


ClicksFile = Annotated[Path, typer.Option("--clicks", help="Clicks file (CSV of RClicks).")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for weights and state.")]
RecipeName = Annotated[
    str, typer.Option("--recipe", help="published: as the authors' code; corrected: ours.")
]
LearnFrom = Annotated[
    Path | None,
    typer.Option("--learn", rich_help_panel=_IMAGES, help="List of images to learn from."),
]
ReportOn = Annotated[
    Path | None,
    typer.Option("--report", rich_help_panel=_IMAGES, help="List of images to report on."),
]
Backbone = Annotated[
    Path | None,
    typer.Option("--backbone", rich_help_panel=_NETWORK, help="MSCAN weights trained before."),
]
Size = Annotated[str, typer.Option("--size", rich_help_panel=_NETWORK, help="base, small or tiny.")]
Frame = Annotated[
    int,
    typer.Option(
        "--frame", rich_help_panel=_NETWORK, help="Side of the network's frame in pixels."
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs", min=1, rich_help_panel=_NETWORK, help="Epochs; the recipe's, 20, by default."
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        min=2,
        rich_help_panel=_NETWORK,
        help="Samples per step; the recipe's, 16, by default.",
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        rich_help_panel=_NETWORK,
        help="Largest learning rate; the recipe's by default.",
    ),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:1.")]
Loaders = Annotated[int, typer.Option("--workers", min=0, help="Processes that prepare samples.")]


def clickability(
    clicks: ClicksFile,
    dataset: ImageSets,
    out: Out,
    data: Data = None,
    previous: MasksShown = None,
    learn: LearnFrom = None,
    report: ReportOn = None,
    recipe: RecipeName = "corrected",
    backbone: Backbone = None,
    size: Size = "base",
    frame: Frame = 416,
    epochs: Epochs = None,
    batch: Batch = None,
    rate: Rate = None,
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Loaders = 0,
) -> int:
    """Train the clickability network on where people clicked.

    The same command goes on where it was cut off. The weights are OUT/clickability.safetensors.

    Example: `segmeter clicks train --clicks clicks.csv -d tetris --data DATA -o OUT`
    """
    from segmeter.clickability.training.training_loop import Course, train
    from segmeter.models.sam._networks import pick_device

    chosen = _recipe(recipe, epochs, batch, rate)
    course = Course(chosen, size, frame, seed, str(pick_device(device)), workers, backbone)
    samples = _samples(clicks, dataset, roots(data, None), previous)
    learning, choosing = _parts(samples, learn, report, chosen.corrected, seed)
    sizes = f"{len(learning)} training samples to learn from, {len(choosing)} to choose by"
    typer.echo(sizes, err=True)
    path = train(learning, choosing, course, out, _teller())
    if report is not None:
        _report(path, _only(samples, report))
    typer.echo(f"the network lies at {path}")
    return Exit.DONE


def _recipe(name: str, epochs: int | None, batch: int | None, rate: float | None) -> Recipe:
    """A recipe by name, with what was asked otherwise."""
    from segmeter.clickability.training.training_loop import recipe

    found = recipe(name)
    return replace(
        found,
        epochs=epochs or found.epochs,
        batch=batch or found.batch,
        rate=found.rate if rate is None else finite("--rate", rate, above=0),
    )


def _samples(
    clicks: Path, datasets: list[str], place: Roots, previous: Path | None
) -> list[TrainingSample]:
    from segmeter.clickability.training.samples import samples_of
    from segmeter.datasets.recorded_clicks import read_clicks

    opened = clicked_datasets(datasets, place.options().get("data"))
    file = read_clicks(clicks)
    say_of_samples(clicks, file, opened, previous)
    return samples_of(file, opened, previous)


def _parts(
    training_samples: list[TrainingSample],
    learn: Path | None,
    report: Path | None,
    corrected: bool,
    seed: int,
) -> tuple[list[TrainingSample], list[TrainingSample]]:
    """What to learn from and what to choose by.

    The published recipe chooses by the images that are reported; the corrected one by a tenth
    of those it would learn from, so that the report stays fair.
    """
    from segmeter.clickability.training.samples import split

    reported = _only(training_samples, report) if report is not None else []
    names = {sample.image for sample in reported}
    learning = _only(training_samples, learn) if learn is not None else training_samples
    learning = [sample for sample in learning if sample.image not in names]
    if not learning:
        raise BadInput("no training sample is left to learn from; see --learn and --report")
    if reported and not corrected:
        return learning, reported
    return split(learning, seed)


def _only(training_samples: list[TrainingSample], names: Path) -> list[TrainingSample]:
    from segmeter.datasets.recorded_clicks import read_split

    known = read_split(names)
    kept = [sample for sample in training_samples if sample.image.partition("/")[2] in known]
    if not kept:
        raise BadInput(f"no training sample is of an image that '{names}' lists")
    return kept


def _report(path: Path, training_samples: list[TrainingSample]) -> None:
    """Scores on the images that the network saw nothing of, beside maps without training."""
    from segmeter.clickability.map_sources import map_scores, source
    from segmeter.clickability.network import NetworkSource

    sources = {name: source(name).inner for name in ("uniform", "distance", "prior")}
    for row in map_scores(training_samples, {**sources, "network": NetworkSource(path)}, rows=20):
        interval = f"({row.low:.3f} to {row.high:.3f})"
        typer.echo(f"{row.what:<10} {row.score:<7} {row.value:7.3f}  {interval}")


def _teller() -> Callable[[Step], None]:
    """Progress on stderr: a bar on a terminal, else a line an epoch."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False)
    bar = Progress(console=console, disable=not sys.stderr.isatty(), transient=True)
    task = bar.add_task("steps", total=None)
    bar.start()

    def tell(step: Step) -> None:
        bar.update(task, completed=step.step, total=step.steps)
        if step.likeness is not None:
            console.print(
                f"epoch {step.epoch}: step {step.step} of {step.steps}, "
                f"mean loss {step.mean_loss:.3f}, likeness {step.likeness:.3f}"
            )
        if step.step == step.steps:
            bar.stop()

    return tell
