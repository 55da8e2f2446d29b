"""`segmeter clicks`: where people click, measured, simulated, compared, fitted and learned."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

import segmeter
from segmeter.api import click_files, click_fitting, click_training
from segmeter.api.click_maps import map_lines
from segmeter.cli._options import (
    AsJson,
    CostFile,
    Data,
    ImageSets,
    Limit,
    MasksShown,
    Models,
    NewFolder,
    OneDataset,
    OneModel,
    ProtocolChoice,
    Seed,
    Threads,
    Weights,
)
from segmeter.cli._printing import print_json, print_table, say
from segmeter.cli.app import Exit, command_group

group = command_group(
    "clicks",
    "Maps of click quality, simulated clicks, models of where people click, what clicks cost.",
)

_IMAGES, _NETWORK = "Which images", "The network and its training"

# Options of `clicks map`
SceneName = Annotated[str | None, Option("--scene", help="Which scene; the first by default.")]
TargetName = Annotated[str | None, Option("--target", help="Which object; the first by default.")]
Stride = Annotated[int, Option("--stride", min=1, help="Pixels between clicks; 1 tries them all.")]
Threshold = Annotated[
    float, Option("--threshold", min=0, max=1, help="Below this IoU a click is bad.")
]
Boundary = Annotated[
    bool, Option("--boundary/--no-boundary", help="Also Boundary IoU of every click.")
]
Boxes = Annotated[
    bool, Option("--boxes", help="Also the best and the worst box, and a map of shifts.")
]

# Options of `clicks simulate`
ClickFile = Annotated[Path, Option("--out", "-o", help="CSV file to write.")]
People = Annotated[int, Option("--people", min=1, help="Clicks per object.")]
FirstOnly = Annotated[bool, Option("--first-only", help="Leave out later rounds.")]
MasksFolder = Annotated[
    Path | None, Option("--masks", help="Folder for later rounds' previous masks.")
]

# Options of `clicks compare`
ClicksFile = Annotated[Path, Option("--clicks", help="Clicks or previews file (CSV).")]
Compare = Annotated[
    str, Option("--compare", help="devices, modes, halves (people and people), maps, or scribbles.")
]
Maps = Annotated[
    list[str] | None, Option("--map", help="Click map to judge; a network's weights as name=FILE.")
]

# Options of `clicks fit`
Tables = Annotated[
    Path | None, Option("--tables", help="Folder with the tables *_per_image.csv of RClicks.")
]
FitClicks = Annotated[Path | None, Option("--clicks", help="Clicks file (CSV) instead of tables.")]
ClickedSets = Annotated[
    list[str] | None, Option("--dataset", "-d", help="Data set of the clicks' images, or a folder.")
]
Scenes = Annotated[
    int, Option("--scenes", min=1, help="Images per data set on which models make error regions.")
]
FitFolder = Annotated[Path, Option("--out", "-o", help="Folder for figures, tables and numbers.")]
PriorFile = Annotated[Path | None, Option("--prior", help="Write the numbers to this file.")]
PageFile = Annotated[
    Path | None, Option("--page", help="Put the tables between this page's marks.")
]
RegionsFile = Annotated[
    Path | None, Option("--kept", help="File that keeps the models' error regions.")
]

# Options of `clicks train`
TrainFolder = Annotated[Path, Option("--out", "-o", help="Folder for weights and state.")]
RecipeName = Annotated[
    str, Option("--recipe", help="published: as the authors' code; corrected: ours.")
]
LearnFrom = Annotated[
    Path | None, Option("--learn", rich_help_panel=_IMAGES, help="List of images to learn from.")
]
ReportOn = Annotated[
    Path | None, Option("--report", rich_help_panel=_IMAGES, help="List of images to report on.")
]
Backbone = Annotated[
    Path | None, Option("--backbone", rich_help_panel=_NETWORK, help="Pretrained MSCAN weights.")
]
Size = Annotated[str, Option("--size", rich_help_panel=_NETWORK, help="base, small or tiny.")]
Frame = Annotated[
    int, Option("--frame", rich_help_panel=_NETWORK, help="Side of the network's input in pixels.")
]
Epochs = Annotated[
    int | None, Option("--epochs", min=1, rich_help_panel=_NETWORK, help="Epochs; 20 by default.")
]
Batch = Annotated[
    int | None, Option("--batch", min=2, rich_help_panel=_NETWORK, help="Samples per step; 16.")
]
Rate = Annotated[
    float | None, Option("--rate", rich_help_panel=_NETWORK, help="Largest learning rate.")
]
Device = Annotated[str, Option("--device", help="cpu, cuda or cuda:1.")]
Loaders = Annotated[int, Option("--workers", min=0, help="Processes that prepare samples.")]

# Options of `clicks costs`
LogFile = Annotated[Path, Argument(help="A log as CSV or JSON lines.")]


@group.command("map")
def map_clicks(
    model: OneModel,
    dataset: OneDataset,
    out: NewFolder,
    scene: SceneName = None,
    target: TargetName = None,
    stride: Stride = 1,
    threshold: Threshold = 0.5,
    boundary: Boundary = True,
    boxes: Boxes = False,
    data: Data = None,
    weights: Weights = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> int:
    """Try every click on one object: an array, a heat map, a page to look into.

    Example: `segmeter clicks map -m grabcut -d mini --stride 8 --out maps/first`
    """

    def progress(what: str, done: int, total: int | None = None) -> None:
        if sys.stderr.isatty():
            share = f"{done} of {total}" if total else f"{done}"
            end = "\n" if done == total else ""
            print(f"\r{share} {what}", end=end, file=sys.stderr, flush=True)

    facts = segmeter.click_map(
        model, dataset, out, scene=scene, target=target, stride=stride, threshold=threshold,
        boundary=boundary, boxes=boxes, data=data, weights=weights, threads=threads,
        progress=progress,
    )  # fmt: skip
    if as_json:
        print_json(facts)
        return Exit.DONE
    for name, value in map_lines(facts):
        typer.echo(f"{name:<44} {value}")
    shifts = ", boxshifts.npz, .png" if boxes else ""
    typer.echo(f"written to {out}: clickmap.npz, .png, .html, .json{shifts}")
    return Exit.DONE


@group.command()
def simulate(
    dataset: ImageSets,
    out: ClickFile,
    data: Data = None,
    people: People = 48,
    first_only: FirstOnly = False,
    masks: MasksFolder = None,
    limit: Limit = None,
    seed: Seed = 0,
) -> int:
    """Generate a synthetic click file, for testing what reads recorded clicks.

    Example: `segmeter clicks simulate --dataset mini --out clicks.csv`
    """
    count = segmeter.simulate_clicks(
        dataset, out, people=people, first_only=first_only, masks=masks, data=data, limit=limit,
        seed=seed,
    )  # fmt: skip
    typer.echo(f"{count} clicks: {out}")
    return Exit.DONE


@group.command()
def compare(
    clicks: ClicksFile,
    dataset: ImageSets,
    compare: Compare = "devices",
    map: Maps = None,
    previous: MasksShown = None,
    data: Data = None,
    protocol: ProtocolChoice = "both",
    as_json: AsJson = False,
) -> int:
    """Compare clicks with clicks (devices, display modes, people and people) or with maps, or
    recorded scribbles with simulated ones.

    Example: `segmeter clicks compare --clicks clicks.csv -d grabcut --data DATA --compare devices`
    """
    chosen = {} if map is None else {"maps": map}
    found = click_files.compare_clicks(
        clicks, dataset, compare, previous=previous, data=data, protocols=protocol, tell=say,
        **chosen,
    )  # fmt: skip
    if as_json:
        print_json([{"protocol": each, **asdict(row)} for each, row in found])
        return Exit.DONE
    table = Table("what", "protocol", "score", "mean", "95 % interval", "keys", box=None)
    for each, row in found:
        value, low, high = (_number(v, row) for v in (row.value, row.low, row.high))
        table.add_row(row.what, each, row.score, value, f"{low} to {high}", str(row.keys))
    print_table(table)
    return Exit.DONE


def _number(value: float, row: Any) -> str:
    """Three decimals; of a density, which shrinks as images grow, three digits."""
    return f"{value:.2e}" if row.score == "pde" and row.value < 0.01 else f"{value:.3f}"


@group.command()
def fit(
    tables: Tables = None,
    clicks: FitClicks = None,
    dataset: ClickedSets = None,
    data: Data = None,
    weights: Weights = None,
    model: Models = None,
    scenes: Scenes = 24,
    out: FitFolder = Path("calibration"),
    prior: PriorFile = None,
    page: PageFile = None,
    kept: RegionsFile = None,
) -> int:
    """Fit the click prior, hold out each data set in turn, and write tables and figures.

    With `--model` (and its weights) later rounds are fitted too, on error regions of these models,
    which are kept for the next call.

    With `--clicks` instead of tables, such as a study's, it is fitted on that file's first
    clicks alone.

    Example: `segmeter clicks fit --tables rclicks --data DATA --weights WEIGHTS -m mobile-sam`
    """
    if clicks is not None:
        typer.echo(click_fitting.fit_clicks(clicks, dataset or (), out, data=data, prior=prior))
        return Exit.DONE
    if tables is None:
        raise segmeter.BadInput("give --tables, or --clicks with --dataset")
    text = click_fitting.fit_published_clicks(
        tables, out, data=data, weights=weights, models=model or (), scenes=scenes, prior=prior,
        page=page, kept=kept, tell=say,
    )  # fmt: skip
    typer.echo(f"{text}\nfigures are in {out}")
    return Exit.DONE


@group.command()
def train(
    clicks: ClicksFile,
    dataset: ImageSets,
    out: TrainFolder,
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

    The same command resumes an interrupted training. The weights are OUT/clickability.safetensors.

    Example: `segmeter clicks train --clicks clicks.csv -d tetris --data DATA -o OUT`
    """
    found = click_training.train_clicks(
        clicks, dataset, out, data=data, previous=previous, learn=learn, report=report,
        recipe=recipe, epochs=epochs, batch=batch, rate=rate, size=size, frame=frame, seed=seed,
        device=device, workers=workers, backbone=backbone, progress=_training_bar(), tell=say,
    )  # fmt: skip
    for row in found.scores:
        interval = f"({row.low:.3f} to {row.high:.3f})"
        typer.echo(f"{row.what:<10} {row.score:<7} {row.value:7.3f}  {interval}")
    typer.echo(f"weights: {found.path}")
    return Exit.DONE


def _training_bar() -> Callable[[Any], None]:
    """Progress on stderr: a bar on a terminal, else a line per epoch."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False)
    bar = Progress(console=console, disable=not sys.stderr.isatty(), transient=True)
    task = bar.add_task("steps", total=None)
    bar.start()

    def show(step: Any) -> None:
        bar.update(task, completed=step.step, total=step.steps)
        if step.likeness is not None:
            console.print(
                f"epoch {step.epoch}: step {step.step} of {step.steps}, "
                f"mean loss {step.mean_loss:.3f}, likeness {step.likeness:.3f}"
            )
        if step.step == step.steps:
            bar.stop()

    return show


@group.command()
def costs(log: LogFile, out: CostFile = Path("costs.toml"), as_json: AsJson = False) -> int:
    """Fit what a click, a box or a drawing costs to a log of real annotation, with intervals.

    A line of the log has annotator, image, object, event and time; events are start, click,
    box, scribble, polygon, done. `segmeter study costs` does the same from a study.

    Example: `segmeter clicks costs log.csv`, then `segmeter report runs/mine --cost costs.toml`
    """
    found = click_fitting.fit_costs(log, out, say)
    if as_json:
        print_json(click_fitting.cost_facts(found))
        return Exit.DONE
    for line in click_fitting.cost_lines(found):
        typer.echo(line)
    typer.echo(f"wrote {out}, for --cost")
    return Exit.DONE
