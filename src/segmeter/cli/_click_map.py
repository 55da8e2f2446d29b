"""Click maps: how good the mask is for a click at each position."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segmeter.cli._option_values import dataset_spec, roots
from segmeter.cli._options import AsJson, Data, NewFolder, OneDataset, OneModel, Threads, Weights
from segmeter.cli.app import Exit
from segmeter.core.errors import BadInput, NotFound, suggestion

if TYPE_CHECKING:
    from segmeter.benchmarks.tetris.clickmap import ScoreMap
    from segmeter.core.models import EncodedScene
    from segmeter.core.scenes import Dataset, Scene, Target

__all__ = ["clickmap"]

_SHIFTS = "IoU when the tight box is moved as a whole, down and across; the cross is not moved"

SceneName = Annotated[
    str | None, typer.Option("--scene", help="Which scene; the first by default.")
]
TargetName = Annotated[
    str | None, typer.Option("--target", help="Which object; the first by default.")
]
Stride = Annotated[
    int, typer.Option("--stride", min=1, help="Pixels between clicks; 1 tries them all.")
]
Threshold = Annotated[
    float, typer.Option("--threshold", min=0, max=1, help="Below this IoU a click is bad.")
]
Boundary = Annotated[
    bool, typer.Option("--boundary/--no-boundary", help="Also Boundary IoU of every click.")
]
Boxes = Annotated[
    bool, typer.Option("--boxes", help="Also the best and the worst box, and a map of shifts.")
]


def clickmap(
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
    from segmeter.benchmarks.tetris.clickmap import click_map
    from segmeter.core import catalogue
    from segmeter.engine.arithmetic import steady_arithmetic

    places = roots(data, weights).options()
    made = catalogue.datasets.make(dataset_spec(dataset), **places)
    segmenter = catalogue.models.make(model, **places)
    if boxes and "box" not in segmenter.card.abilities:
        raise BadInput(f"model '{model}' takes no boxes; leave out --boxes")
    here, thing = _chosen(made, scene, target)
    steady_arithmetic(threads)
    encoded = segmenter.encode(here)
    found = click_map(encoded, thing, stride, _progress("clicks"), boundary=boundary)
    facts = _facts(found, threshold) | {"model": model, "scene": here.name, "target": thing.id}
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    if boxes:
        facts["boxes"], image = _boxes(encoded, thing, out)
        figures.append((_SHIFTS, image))
    _write(out, found, here, facts, figures)
    if as_json:
        print(json.dumps(facts, indent=1))
    else:
        _print(facts, out)
    return Exit.DONE


def _chosen(dataset: Dataset, scene: str | None, target: str | None) -> tuple[Scene, Target]:
    """The scene and the object that were asked for."""
    scenes = list(dataset.scenes())
    name = scenes[0] if scene is None else scene
    if name not in scenes:
        hint = suggestion(name, scenes) or f" the first is '{scenes[0]}'"
        raise NotFound(f"the data set has no scene '{name}';{hint}")
    loaded = dataset.load(name)
    loaded.check()
    if loaded.header.kind != "image":
        raise BadInput(f"{loaded.name} is a volume; click maps are of images")
    if not loaded.targets:
        raise BadInput(f"{loaded.name} has no object to click on")
    known = {t.id: t for t in loaded.targets}
    if target is None:
        return loaded, loaded.targets[0]
    if target not in known:
        raise NotFound(
            f"{loaded.name} has no object '{target}';{suggestion(target, known)} "
            f"it has {', '.join(list(known)[:8])}"
        )
    return loaded, known[target]


def _progress(what: str) -> Any:
    """Says how far it is, on a terminal only."""
    if not sys.stderr.isatty():
        return None

    def say(done: int, total: int | None = None) -> None:
        share = f"{done} of {total}" if total else f"{done}"
        print(f"\r{share} {what}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return say


def _facts(found: ScoreMap, threshold: float) -> dict[str, Any]:
    """The statistics, as JSON can hold them: None for what is not there."""
    from dataclasses import asdict

    facts: dict[str, Any] = {
        key: value if math.isfinite(value) else None
        for key, value in asdict(found.statistics(threshold)).items()
    }
    worst, best = found.extreme(worst=True)[0], found.extreme(worst=False)[0]
    return facts | {
        "clicks": found.clicks,
        "stride": found.stride,
        "threshold": threshold,
        "centre_click": list(found.centre),
        "worst_click": list(worst),
        "best_click": list(best),
    }


def _write(
    out: Path,
    found: ScoreMap,
    scene: Scene,
    facts: dict[str, Any],
    figures: list[tuple[str, bytes]],
) -> None:
    """The array, the image, the page and the numbers."""
    import cv2
    import numpy as np

    from segmeter.benchmarks.tetris.cases import heat_image
    from segmeter.report.clickmaps import ShownMap, map_page

    np.savez_compressed(
        out / "clickmap.npz",
        iou=found.iou.astype(np.float32),
        boundary_iou=found.boundary_iou.astype(np.float32),
        low=np.array(found.low),
        stride=found.stride,
        centre=np.array(found.centre),
    )
    heat = heat_image(scene.pixels, found.iou, found.low, found.stride, found.target.mask)
    (out / "clickmap.png").write_bytes(cv2.imencode(".png", heat[..., ::-1])[1].tobytes())
    image = cv2.imencode(".jpg", np.ascontiguousarray(scene.pixels[..., ::-1]))[1].tobytes()
    maps = {"IoU": found.iou}
    if not np.isnan(found.boundary_iou).all():
        maps["Boundary IoU"] = found.boundary_iou
    title = _title(facts)
    shape = (scene.shape[0], scene.shape[1])
    shown = ShownMap(image, shape, maps, found.low, found.stride, found.centre)
    page = map_page(title, shown, _told(facts), figures)
    (out / "clickmap.html").write_text(page)
    (out / "clickmap.json").write_text(json.dumps(facts, indent=1) + "\n")


def _title(facts: dict[str, Any]) -> str:
    """Model, scene and object; an object that is only called so says nothing more."""
    target = str(facts["target"])
    place = f"{facts['model']} on {facts['scene']}"
    if target in ("", "object"):
        return place
    return f"{place}, {target if target.startswith('object') else f'object {target}'}"


def _told(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The statistics in words."""
    limit = f"{100 * facts['threshold']:.0f} %"
    nearest = facts["nearest_bad_px"]
    away = "none" if nearest is None else (
        f"{nearest:.1f} px, {100 * facts['nearest_bad_relative']:.1f} % of the diagonal"
    )  # fmt: skip
    told = [
        ("clicks tried", f"{facts['clicks']}, every {facts['stride']} px"),
        ("IoU of the centre click", _percent(facts["centre"])),
        ("mean IoU", f"{_percent(facts['mean'])} ± {100 * facts['spread']:.1f}"),
        ("worst to best", f"{_percent(facts['worst'])} to {_percent(facts['best'])}"),
        (f"object below {limit}", _percent(facts["bad_share"])),
        (f"centre to the nearest click below {limit}", away),
    ]
    if boxes := facts.get("boxes"):
        values = " / ".join(_percent(boxes[k]) for k in ("min", "base", "max"))
        told.append(("box: worst / tight / best", values))
    return told


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _boxes(encoded: EncodedScene, target: Target, out: Path) -> tuple[dict[str, Any], bytes]:
    """The best and the worst box within human-like jitter, and an image over shifts."""
    import numpy as np

    from segmeter.benchmarks.tetris.boxes import shift_map
    from segmeter.cli._shift_figure import shift_image
    from segmeter.users.boxes import search_boxes

    found = search_boxes(encoded, target, progress=_progress("boxes drawn otherwise"))
    if sys.stderr.isatty():
        print(file=sys.stderr)  # how many it would be was not known
    shifts = shift_map(encoded, target, progress=_progress("boxes moved as a whole"))
    np.savez_compressed(out / "boxshifts.npz", iou=shifts.iou.astype(np.float32),
                        down_px=shifts.down_px, across_px=shifts.across_px)  # fmt: skip
    image = shift_image(shifts)
    (out / "boxshifts.png").write_bytes(image)
    return {
        "min": found.worst.iou,
        "base": found.tight.iou,
        "max": found.best.iou,
        "d": found.best.iou - found.worst.iou,
        "worst_box": [*found.worst.box.low, *found.worst.box.high],
        "best_box": [*found.best.box.low, *found.best.box.high],
        "tried": found.tried,
    }, image


def _print(facts: dict[str, Any], out: Path) -> None:
    for name, value in _told(facts):
        typer.echo(f"{name:<44} {value}")
    shifts = ", boxshifts.npz, .png" if "boxes" in facts else ""
    typer.echo(f"written to {out}: clickmap.npz, .png, .html, .json{shifts}")
