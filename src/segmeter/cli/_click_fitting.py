"""Click fitting: the click prior, fitted to recorded clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import roots
from segmeter.cli._options import Data, Models, Weights
from segmeter.cli.app import Exit
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.clickability.fitting.correction_clicks import CorrectionFit, ProxyError
    from segmeter.clickability.fitting.first_clicks import Case, Fit, Seen
    from segmeter.clickability.fitting.held_out import HeldOut
    from segmeter.core.masks import Mask

__all__ = ["calibrate"]

# Table's name, data set, and where masks of all targets lie without images.
_SETS = (
    ("GrabCut", "grabcut", None),
    ("Berkeley", "berkeley", None),
    ("DAVIS", "davis", "DAVIS"),
    ("COCO", "coco-mval", "COCO_MVal"),
)
_KEPT = "mistakes.json.gz"
_BEGIN, _END = "<!-- calibration -->", "<!-- end -->"


Tables = Annotated[
    Path | None,
    typer.Option("--tables", help="Folder with the tables *_per_image.csv of RClicks."),
]
ClicksFile = Annotated[
    Path | None, typer.Option("--clicks", help="Clicks file (CSV), in place of tables.")
]
ClickedSets = Annotated[
    list[str] | None,
    typer.Option("--dataset", "-d", help="Data set of the clicks' images, or a folder."),
]
Scenes = Annotated[
    int,
    typer.Option("--scenes", min=1, help="Images per data set on which models make error regions."),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for figures, tables and numbers.")]
PriorFile = Annotated[
    Path | None, typer.Option("--prior", help="Write the numbers here, not to the folder.")
]
PageFile = Annotated[
    Path | None, typer.Option("--page", help="Put the tables between this page's marks.")
]
RegionsFile = Annotated[
    Path | None, typer.Option("--kept", help="File that keeps the models' error regions.")
]


def calibrate(
    tables: Tables = None,
    clicks: ClicksFile = None,
    dataset: ClickedSets = None,
    data: Data = None,
    weights: Weights = None,
    model: Models = None,
    scenes: Scenes = 24,
    out: Out = Path("calibration"),
    prior: PriorFile = None,
    page: PageFile = None,
    kept: RegionsFile = None,
) -> int:
    """Fit the click prior, hold out each data set in turn, and write tables and figures.

    With `--model` (and its weights) later rounds are fitted too, on error regions of these models;
    error regions are kept and not made again.

    With `--clicks` in place of tables, such as a study's, it is fitted on that file's first
    clicks alone.

    Example: `segmeter clicks fit --tables rclicks --data DATA --weights WEIGHTS -m mobile-sam`
    """
    if clicks is not None:
        return _fit_clicks(clicks, dataset or [], data, out, prior)
    from segmeter.clickability.fitting.first_clicks import fit, read_cases

    folder = _folder_of_tables(tables)
    place = _place_of_masks(data, weights)
    seen = _published(folder)
    masks = {name: _masks(place, dataset, kept) for name, dataset, kept in _SETS}
    sets = {name: read_cases(seen[name], masks[name]) for name in seen}
    out.mkdir(parents=True, exist_ok=True)
    error_regions = _error_regions(place, weights, model or [], scenes, kept or out / _KEPT)
    whole = fit([case for cases in sets.values() for case in cases])
    _say(f"fitted on {whole.targets} targets")
    held = _held(sets, whole)
    later = _later(seen, masks, error_regions, whole) if error_regions else None
    text = _write(held, whole, later, out, prior, page)
    typer.echo(f"{text}\nfigures lie in {out}")
    return Exit.DONE


def _place_of_masks(data: Path | None, weights: Path | None) -> Path:
    place: Path | None = roots(data, weights).options().get("data")
    if place is None:
        raise BadInput("the masks of the targets are needed; give their folder with --data")
    return place


def _folder_of_tables(tables: Path | None) -> Path:
    if tables is None:
        raise BadInput("give --tables, or --clicks with --dataset")
    if not tables.is_dir():
        raise BadInput(f"--tables: there is no folder '{tables}'")
    return tables


def _published(folder: Path) -> dict[str, list[Seen]]:
    """The published statistics of real clicks, a table per data set."""
    from segmeter.clickability.fitting.first_clicks import read_tables

    return {name: read_tables(folder / f"{name}_per_image.csv") for name, _, _ in _SETS}


def _write(
    held: list[HeldOut],
    whole: Fit,
    later: CorrectionFit | None,
    out: Path,
    prior: Path | None,
    page: Path | None,
) -> str:
    """Write the numbers, the tables and the figures; the tables are returned."""
    from segmeter.clickability.fitting.held_out import (
        draw_held_out,
        draw_later,
        markdown,
        prior_json,
    )

    text = markdown(held, whole, later)
    (prior or out / "prior.json").write_text(prior_json(held, whole, later), encoding="utf-8")
    _put(text, page or out / "calibration.md")
    draw_held_out(held, out)
    if later is not None:
        draw_later(later, out)
    return text


def _fit_clicks(
    clicks: Path, dataset: list[str], data: Path | None, out: Path, prior: Path | None
) -> int:
    """Fit on recorded clicks; nothing is held out, since one study is one data set."""
    from segmeter.cli._recorded_clicks import clicked_datasets
    from segmeter.clickability.fitting.first_clicks import cases_of, fit
    from segmeter.clickability.fitting.held_out import fitted_table, prior_json
    from segmeter.datasets.recorded_clicks import read_clicks

    if not dataset:
        raise BadInput("--clicks needs --dataset: the images that the clicks are on")
    cases = cases_of(
        read_clicks(clicks), clicked_datasets(dataset, roots(data, None).options().get("data"))
    )
    whole = fit(cases)
    counted = sum(case.clicks for case in cases)
    out.mkdir(parents=True, exist_ok=True)
    (prior or out / "prior.json").write_text(prior_json([], whole, None), encoding="utf-8")
    typer.echo(f"fitted on {counted} clicks on {whole.targets} targets\n")
    typer.echo(fitted_table([], whole))
    return Exit.DONE


def _masks(data: Path, dataset: str, kept: str | None) -> dict[str, Mask]:
    from segmeter.clickability.fitting.first_clicks import read_masks
    from segmeter.core import catalogue

    if kept is not None:
        return read_masks(data / "masks_only" / f"{kept}.json.gz")
    images = catalogue.datasets.make(dataset, data=data)
    return {name: images.load(name).targets[0].mask for name in images.scenes()}


def _error_regions(
    data: Path, weights: Path | None, models: list[str], scenes: int, kept: Path
) -> list[ProxyError]:
    """Error regions of real models, from an earlier call where there was one."""
    from segmeter.clickability.fitting.correction_clicks import (
        proxy_errors_of,
        read_proxy_errors,
        write_proxy_errors,
    )
    from segmeter.core import catalogue
    from segmeter.core.seeds import generator

    if kept.is_file():
        return read_proxy_errors(kept)
    found = []
    for name in models:
        network = catalogue.models.make(name, weights=weights)
        for _, dataset, _ in _SETS:
            images = catalogue.datasets.make(dataset, data=data)
            names = images.scenes()
            for each in names[:: max(1, len(names) // scenes)][:scenes]:
                scene = images.load(each)
                found += proxy_errors_of(network, scene, generator("stand-ins", name, scene.name))
            _say(f"{name} on {dataset}: {len(found)} error regions so far")
    if found:
        write_proxy_errors(kept, found)
    return found


def _held(sets: dict[str, list[Case]], whole: Fit) -> list[HeldOut]:
    from segmeter.clickability.fitting.first_clicks import hold_out
    from segmeter.clickability.fitting.held_out import held_out

    held = []
    for name, fitted in hold_out(sets, whole):
        held.append(held_out(name, sets[name], fitted))
        _say(f"held out {name}: NSS predicted with r = {held[-1].correlation('nss'):.3f}")
    return held


def _later(
    seen: dict[str, list[Seen]],
    masks: dict[str, dict[str, Mask]],
    error_regions: list[ProxyError],
    whole: Fit,
) -> CorrectionFit:
    from math import prod

    from segmeter.clickability.fitting.correction_clicks import fit_correction_clicks, recovered

    keys = []
    for name, rows in seen.items():
        keys += recovered(rows, {stem: prod(mask.shape) for stem, mask in masks[name].items()})
    _say(f"later rounds: {len(keys)} keys against {len(error_regions)} error regions")
    return fit_correction_clicks(keys, error_regions, whole.numbers)


def _put(text: str, path: Path) -> None:
    """Write a new page, or replace what stands between the marks of an old one."""
    if not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    before, mark, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not mark or not end:
        raise BadInput(f"'{path}' has no marks {_BEGIN} and {_END} to put the tables between")
    path.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")


def _say(words: str) -> None:
    typer.echo(words, err=True)
