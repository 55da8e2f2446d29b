"""`segmeter clicks`: where people click, measured, simulated, compared, fitted and learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

import segmeter
from segmeter import api
from segmeter.cli import _options as options
from segmeter.cli._printing import print_json, print_table, progress_line, say
from segmeter.cli.app import command_group

group = command_group(
    "clicks",
    "Click-response maps, simulated clicks, models of where people click, seconds per click.",
)

_images = options.in_panel("Which images")
_network = options.in_panel("The network and its training")
ClicksFile = Annotated[Path, Option(help="File of clicks or previews (CSV).")]


@group.command()
def response(
    model: options.OneModel,
    dataset: options.OneDataset,
    out: options.NewFolder,
    scene: Annotated[str | None, Option(help="Image; the first by default.")] = None,
    target: Annotated[str | None, Option(help="Object; the first by default.")] = None,
    stride: Annotated[int, Option(min=1, help="Pixels between clicks; 1 for every pixel.")] = 1,
    threshold: Annotated[
        float, Option(min=0, max=1, help="IoU below which a click counts as bad.")
    ] = 0.5,
    boundary: Annotated[bool, Option(help="Also compute Boundary IoU.")] = True,
    with_boxes: Annotated[
        bool, Option("--with-boxes", help="Also the best and worst box, and a map of box shifts.")
    ] = False,
    data: options.Data = None,
    weights: options.Weights = None,
    threads: options.Threads = 1,
    as_json: options.AsJson = False,
) -> None:
    """Compute the IoU for a click at every position on one object (click-response map).

    Writes an array, a heat map and an interactive page.

    Example: `segmeter clicks response -m grabcut -d mini --stride 8 --out maps/first`
    """

    def progress(what: str, done: int, total: int | None = None) -> None:
        of = f" of {total}" if total else ""
        progress_line(f"{done}{of} {what}", lasting=done == total)

    facts = segmeter.click_response_map(
        model, dataset, out, scene=scene, target=target, stride=stride, threshold=threshold,
        boundary=boundary, boxes=with_boxes, data=data, weights=weights, threads=threads,
        progress=progress,
    )  # fmt: skip
    if as_json:
        print_json(facts)
        return
    for name, value in api.click_response.map_lines(facts):
        typer.echo(f"{name:<44} {value}")
    shifts = ", boxshifts.npz, .png" if with_boxes else ""
    typer.echo(f"written to {out}: click-response.npz, .png, .html, .json{shifts}")


@group.command()
def simulate(
    dataset: options.ImageSets,
    out: Annotated[Path, options.out_option("CSV file to write.")],
    data: options.Data = None,
    people: Annotated[int, Option(min=1, help="Clicks per object.")] = 48,
    first_only: Annotated[bool, Option("--first-only", help="First clicks only.")] = False,
    masks: Annotated[
        Path | None, Option(help="Folder for the masks shown in later rounds.")
    ] = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
) -> None:
    """Write a synthetic file of recorded clicks, e.g. to try out commands that need one.

    Example: `segmeter clicks simulate --dataset mini --out clicks.csv`
    """
    count = segmeter.make_click_file(
        dataset, out, people=people, first_only=first_only, masks=masks, data=data, limit=limit,
        seed=seed,
    )  # fmt: skip
    typer.echo(f"{count} clicks: {out}")


@group.command()
def compare(
    clicks: ClicksFile,
    dataset: options.ImageSets,
    compare: Annotated[
        str, Option(help="devices, modes, halves (of the annotators), maps, or scribbles.")
    ] = "devices",
    map: Annotated[
        list[str] | None,
        Option(help="Clickability map to evaluate; a network's weights as name=FILE."),
    ] = None,
    previous: options.MasksShown = None,
    data: options.Data = None,
    protocol: options.ProtocolChoice = "both",
    as_json: options.AsJson = False,
) -> None:
    """Compare recorded clicks between devices, display modes or annotators, or with a clickability
    map; or recorded with simulated scribbles.

    Example: `segmeter clicks compare --clicks clicks.csv -d grabcut --data DATA --compare devices`
    """
    chosen = {} if map is None else {"maps": map}
    found = api.click_files.compare_clicks(
        clicks, dataset, compare, previous=previous, data=data, protocols=protocol, tell=say,
        **chosen,
    )  # fmt: skip
    if as_json:
        print_json([{"protocol": each, **asdict(row)} for each, row in found])
        return
    table = Table("what", "protocol", "score", "mean", "95 % interval", "keys", box=None)
    for each, row in found:
        # A density shrinks as images grow.
        digits = ".2e" if row.score == "pde" and row.value < 0.01 else ".3f"
        value, low, high = (f"{v:{digits}}" for v in (row.value, row.low, row.high))
        table.add_row(row.what, each, row.score, value, f"{low} to {high}", str(row.keys))
    print_table(table)


@group.command()
def fit(
    click_tables: Annotated[
        Path | None, Option(help="Folder with RClicks' tables *_per_image.csv.")
    ] = None,
    clicks: Annotated[
        Path | None, Option(help="Clicks file (CSV) instead of RClicks' tables.")
    ] = None,
    dataset: Annotated[
        list[str] | None,
        Option("--dataset", "-d", help="Dataset of the clicked images, or a folder."),
    ] = None,
    data: options.Data = None,
    weights: options.Weights = None,
    model: options.Models = None,
    scenes: Annotated[
        int, Option(min=1, help="Images per dataset on which error regions are computed.")
    ] = 24,
    out: Annotated[Path, options.out_option("Folder for figures, tables and numbers.")] = Path(
        "calibration"
    ),
) -> None:
    """Fit the click prior with leave-one-dataset-out validation; write tables and figures.

    With `--model` (and its weights), later rounds are fitted too, on the error regions of these
    models, which are cached.

    With `--clicks FILE`, e.g. from your own study, the prior is fitted to the first clicks in
    that file.

    Example: `segmeter clicks fit --click-tables TABLES --data DATA --weights WEIGHTS -m mobile-sam`
    """
    if clicks is not None:
        typer.echo(api.click_fitting.fit_clicks(clicks, dataset or (), out, data))
        return
    if click_tables is None:
        raise segmeter.BadInput("give --click-tables, or --clicks with --dataset")
    text = api.click_fitting.fit_published_clicks(
        click_tables, out, data=data, weights=weights, models=model or (), scenes=scenes, tell=say
    )
    typer.echo(f"{text}\nfigures are in {out}")


@group.command()
def train(
    clicks: ClicksFile,
    dataset: options.ImageSets,
    out: Annotated[Path, options.out_option("Folder for weights and state.")],
    data: options.Data = None,
    previous: options.MasksShown = None,
    learn: Annotated[Path | None, _images(help="File that lists the images to train on.")] = None,
    report: Annotated[Path | None, _images(help="File that lists the images to test on.")] = None,
    recipe: Annotated[
        str, Option(help="published: the authors' training; corrected: ours.")
    ] = "corrected",
    backbone: Annotated[Path | None, _network(help="Pretrained MSCAN weights.")] = None,
    size: Annotated[str, _network(help="base, small or tiny.")] = "base",
    frame: Annotated[int, _network(help="Side of the network's input in pixels.")] = 416,
    epochs: Annotated[int | None, _network(min=1, help="Epochs; 20 by default.")] = None,
    batch: Annotated[int | None, _network(min=2, help="Samples per step; 16 by default.")] = None,
    learning_rate: Annotated[float | None, _network(help="Peak learning rate.")] = None,
    seed: options.Seed = 0,
    device: Annotated[str, Option(help="cpu, cuda or cuda:1.")] = "cpu",
    workers: Annotated[int, Option(min=0, help="Processes that load samples.")] = 0,
) -> None:
    """Train the clickability network on where people clicked.

    The same command resumes an interrupted training. The weights are OUT/clickability.safetensors.

    Example: `segmeter clicks train --clicks clicks.csv -d tetris --data DATA -o OUT`
    """
    path, scores = api.click_training.train_clicks(
        clicks, dataset, out, data=data, previous=previous, learn=learn, report=report,
        recipe=recipe, epochs=epochs, batch=batch, rate=learning_rate, size=size, frame=frame,
        seed=seed, device=device, workers=workers, backbone=backbone, progress=_progress,
        tell=say,
    )  # fmt: skip
    for row in scores:
        interval = f"({row.low:.3f} to {row.high:.3f})"
        typer.echo(f"{row.what:<10} {row.score:<7} {row.value:7.3f}  {interval}")
    typer.echo(f"weights: {path}")


def _progress(step: Any) -> None:
    """A line per epoch, and every step on a terminal."""
    line = f"epoch {step.epoch}: step {step.step} of {step.steps}, loss {step.loss:.3f}"
    if step.likeness is not None:
        line += f", mean {step.mean_loss:.3f}, likeness {step.likeness:.3f}"
    progress_line(line, lasting=step.likeness is not None)


@group.command()
def costs(
    log: Annotated[Path, Argument(help="Annotation log (CSV or JSON lines).")],
    out: options.CostFile = Path("costs.toml"),
    as_json: options.AsJson = False,
) -> None:
    """Estimate the seconds per click, box and hand-drawn mask from an annotation log, with
    confidence intervals.

    A line of the log has annotator, image, object, event and time; events are start, click,
    box, scribble, polygon, done. `segmeter study costs` does the same from a study.

    Example: `segmeter clicks costs log.csv`, then `segmeter report runs/mine --cost costs.toml`
    """
    found = api.click_fitting.fit_costs(log, out, say)
    if as_json:
        print_json(api.click_fitting.cost_facts(found))
        return
    typer.echo("\n".join([*api.click_fitting.cost_lines(found), f"wrote {out}, for --cost"]))
