"""Click fitting: the click prior fitted to recorded clicks, and seconds of clicks to a log."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from segmeter.api.click_files import clicked_datasets
from segmeter.api.loading import Tell, roots_of, silent
from segmeter.clickability.fitting import correction_clicks, first_clicks, held_out
from segmeter.clickability.fitting.correction_clicks import CorrectionFit, ProxyError
from segmeter.core import catalogue
from segmeter.core.annotation_events import timings
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator
from segmeter.core.wording import counted
from segmeter.datasets.annotation_logs import read_log
from segmeter.datasets.recorded_clicks import read_clicks
from segmeter.report.figures import draw_charts
from segmeter.stats import cost_fitting
from segmeter.stats.cost_fitting import FittedCosts
from segmeter.store.local import write_file

# Name of the table, dataset, and the file that has masks of all targets without images.
_SETS = (
    ("GrabCut", "grabcut", None),
    ("Berkeley", "berkeley", None),
    ("DAVIS", "davis", "DAVIS"),
    ("COCO", "coco-mval", "COCO_MVal"),
)


def fit_published_clicks(
    tables: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    models: Sequence[str] = (),
    scenes: int = 24,
    tell: Tell = silent,
) -> str:
    """Fit the click prior to the tables of RClicks, hold out each dataset in turn.

    Writes figures, `calibration.md` and `prior.json`, and keeps error regions for the next call;
    returns the tables as Markdown.

    Parameters
    ----------
    tables
        Folder with the tables `*_per_image.csv`.
    models, scenes
        Models whose error regions later rounds are fitted on, and images per dataset for that.
    """
    folder, made = Path(tables), Path(out)
    if not folder.is_dir():
        raise BadInput(f"--click-tables: there is no folder '{folder}'")
    place = roots_of(data, weights).options().get("data")
    if place is None:
        raise BadInput("the masks of the targets are needed; give their folder with --data")
    seen = {
        name: first_clicks.read_tables(folder / f"{name}_per_image.csv") for name, _, _ in _SETS
    }
    masks = {name: _masks(place, dataset, file) for name, dataset, file in _SETS}
    sets = {name: first_clicks.read_cases(seen[name], masks[name]) for name in seen}
    made.mkdir(parents=True, exist_ok=True)
    kept = made / "mistakes.json.gz"
    error_regions = _error_regions(place, weights, models, scenes, kept, tell)
    whole = first_clicks.fit([case for cases in sets.values() for case in cases])
    tell(f"fitted on {whole.targets} targets")
    held = []
    for name, fitted in first_clicks.hold_out(sets, whole):
        held.append(held_out.held_out(name, sets[name], fitted))
        tell(f"held out {name}: NSS predicted with r = {held[-1].correlation('nss'):.3f}")
    later = None
    if error_regions:
        keys = []
        for name, rows in seen.items():
            areas = {stem: prod(mask.shape) for stem, mask in masks[name].items()}
            keys += correction_clicks.recovered(rows, areas)
        tell(f"later rounds: {len(keys)} keys against {len(error_regions)} error regions")
        later = correction_clicks.fit_correction_clicks(keys, error_regions, whole.numbers)
    return _write(held, whole, later, made)


def fit_clicks(
    clicks: str | Path, datasets: Sequence[str], out: str | Path, data: str | Path | None = None
) -> str:
    """Fit the click prior to the first clicks of a file, such as a study's.

    Nothing is held out, since one study is one dataset. Writes `prior.json`; returns a table as
    Markdown.
    """
    if not datasets:
        raise BadInput("--clicks needs --dataset: the images that the clicks are on")
    cases = first_clicks.cases_of(read_clicks(Path(clicks)), clicked_datasets(datasets, data))
    whole = first_clicks.fit(cases)
    write_file(Path(out) / "prior.json", held_out.prior_json([], whole, None).encode())
    many, table = sum(case.clicks for case in cases), held_out.fitted_table([], whole)
    return f"fitted on {many} clicks on {whole.targets} targets\n\n{table}"


def fit_costs(log: str | Path, out: str | Path | None = None, tell: Tell = silent) -> FittedCosts:
    """Fit the seconds of a click, a box or a drawing to a log of real annotation, with intervals.

    A line of the log (CSV or JSON lines) has annotator, image, object, event and time; events are
    start, click, box, scribble, polygon, done. `out` is the cost model to write (TOML).
    """
    read = read_log(Path(log))
    if read.unknown:
        kinds = ", ".join(sorted(read.unknown)[:5])
        tell(f"{counted(sum(read.unknown.values()), 'event')} of unknown kind left out: {kinds}")
    found = cost_fitting.fit_costs(list(timings(read.events)))
    if out is not None:
        write_file(Path(out), found.toml().encode())
    return found


def cost_lines(found: FittedCosts) -> list[str]:
    lines = []
    for name, price in found.prices.items():
        limits = "" if price.low != price.low else f"({price.low:.2f} to {price.high:.2f})"
        steps = counted(found.steps[name], "step")
        lines.append(f"{name:9} {price.value:6.2f} s  {limits:18} from {steps}")
    people = counted(found.annotators, "annotator")
    return [
        *lines,
        f"{people}; 95 % intervals over {found.over}",
        f"{counted(found.left_out, 'step')} left out as pauses or slips",
    ]


def cost_facts(found: FittedCosts) -> dict[str, Any]:
    prices = {
        name: {"seconds": p.value, "low": p.low, "high": p.high, "steps": found.steps[name]}
        for name, p in found.prices.items()
    }
    kept = {name: getattr(found, name) for name in ("annotators", "over", "left_out")}
    return {"prices": prices, **kept}


def _write(
    held: list[held_out.HeldOut], whole: first_clicks.Fit, later: CorrectionFit | None, out: Path
) -> str:
    """Write the numbers, the tables and the figures; the tables are returned."""
    text = held_out.markdown(held, whole, later)
    write_file(out / "prior.json", held_out.prior_json(held, whole, later).encode())
    write_file(out / "calibration.md", text.encode())
    charts = {name: held_out.charts_of(held, name) for name in ("nss", "pde")}
    charts |= {} if later is None else {"later": held_out.charts_of_later(later)}
    for name, panels in charts.items():
        draw_charts(panels, out / f"calibration-{name}.png")
    return text


def _masks(data: Path, dataset: str, kept: str | None) -> dict[str, Mask]:
    if kept is not None:
        return first_clicks.read_masks(data / "masks_only" / f"{kept}.json.gz")
    images = catalogue.datasets.make(dataset, data=data)
    return {name: images.load(name).targets[0].mask for name in images.scenes()}


def _error_regions(
    data: Path, weights: Any, models: Sequence[str], scenes: int, kept: Path, tell: Tell
) -> list[ProxyError]:
    """Error regions of real models, from an earlier call where there was one."""
    if kept.is_file():
        return correction_clicks.read_proxy_errors(kept)
    found = []
    for name in models:
        network = catalogue.models.make(name, weights=weights)
        for _, dataset, _ in _SETS:
            images = catalogue.datasets.make(dataset, data=data)
            names = images.scenes()
            for each in names[:: max(1, len(names) // scenes)][:scenes]:
                scene = images.load(each)
                draws = generator("stand-ins", name, scene.name)
                found += correction_clicks.proxy_errors_of(network, scene, draws)
            tell(f"{name} on {dataset}: {len(found)} error regions so far")
    if found:
        correction_clicks.write_proxy_errors(kept, found)
    return found
