"""Click-response maps: how good the mask is for a click at each position."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.api.automatic import encoded_image
from segmeter.api.loading import Dataset, load_dataset, roots_of
from segmeter.benchmarks.tetris.cases import heat_image
from segmeter.benchmarks.tetris.click_response import ScoreMap, shift_map
from segmeter.benchmarks.tetris.click_response import click_response_map as score_clicks
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.models import EncodedScene
from segmeter.core.scenes import Scene, Target
from segmeter.engine.arithmetic import caller_state_kept, fix_arithmetic
from segmeter.report.mask_pages import ShownMap, map_page, shift_image
from segmeter.store.local import write_file
from segmeter.users.box_prompts import search_boxes

Progress = Callable[..., None]
_SHIFTS = "IoU when the tight box is moved as a whole, down and across; the cross is not moved"


def click_response_map(
    model: str,
    dataset: str,
    out: str | Path,
    *,
    scene: str | None = None,
    target: str | None = None,
    stride: int = 1,
    threshold: float = 0.5,
    boundary: bool = True,
    boxes: bool = False,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    threads: int = 1,
    progress: Progress = lambda what, done, total=None: None,
) -> dict[str, Any]:
    """Try every click on one object; writes an array, a heat map, a page and the statistics.

    Parameters
    ----------
    scene, target
        Which object; the first of the first scene by default.
    stride, threshold
        Pixels between clicks; IoU below which a click counts as bad.
    boundary, boxes
        Also Boundary IoU of every click; also the best and the worst box, and a map of shifts.

    Examples
    --------
    >>> import segmeter
    >>> found = segmeter.click_response_map("disc", "mini", getfixture("tmp_path"), stride=64)
    >>> found["worst"] <= found["mean"] <= found["best"]
    True
    """
    folder, places = Path(out), roots_of(data, weights).options()
    segmenter = catalogue.models.make(model, **places)
    if boxes and "box" not in segmenter.card.abilities:
        raise BadInput(f"model '{model}' takes no boxes; leave out --with-boxes")
    here, thing = _chosen(load_dataset(dataset, data), scene, target)
    with caller_state_kept():
        fix_arithmetic(threads)
        encoded = segmenter.encode(here)
        shown = partial(progress, "clicks")
        found = score_clicks(encoded, thing, stride, shown, boundary=boundary)
        facts = _facts(found, threshold) | {"model": model, "scene": here.name, "target": thing.id}
        folder.mkdir(parents=True, exist_ok=True)
        figures = []
        if boxes:
            facts["boxes"], image = _boxes(encoded, thing, folder, progress)
            figures.append((_SHIFTS, image))
    _write(folder, found, here, facts, figures)
    return facts


def _chosen(dataset: Dataset, scene: str | None, target: str | None) -> tuple[Scene, Target]:
    loaded = dataset[0 if scene is None else scene]
    loaded.check()
    if loaded.header.kind != "image":
        raise BadInput(f"{loaded.name} is a volume; click-response maps are of images")
    if not loaded.targets:
        raise BadInput(f"{loaded.name} has no object to click on")
    known = {t.id: t for t in loaded.targets}
    name = loaded.targets[0].id if target is None else target
    if name not in known:
        held = ", ".join(list(known)[:8])
        raise NotFound(
            f"{loaded.name} has no object '{name}';{suggestion(name, known)} it has {held}"
        )
    return loaded, known[name]


def _facts(found: ScoreMap, threshold: float) -> dict[str, Any]:
    """The statistics, as JSON can hold them: None for what is not there."""
    facts: dict[str, Any] = {
        key: value if math.isfinite(value) else None
        for key, value in found.statistics(threshold).items()
    }
    worst, best = found.extreme(worst=True)[0], found.extreme(worst=False)[0]
    return facts | {
        "clicks": found.clicks, "stride": found.stride, "threshold": threshold,
        "centre_click": list(found.centre), "worst_click": list(worst), "best_click": list(best),
    }  # fmt: skip


def _write(
    out: Path,
    found: ScoreMap,
    scene: Scene,
    facts: dict[str, Any],
    figures: list[tuple[str, bytes]],
) -> None:
    iou, boundary = (scores.astype(np.float32) for scores in (found.iou, found.boundary_iou))
    np.savez_compressed(out / "click-response.npz", iou=iou, boundary_iou=boundary,
                        low=np.array(found.low), stride=found.stride,
                        centre=np.array(found.centre))  # fmt: skip
    heat = heat_image(scene.pixels, found.iou, found.low, found.stride, found.target.mask)
    write_file(out / "click-response.png", encoded_image(heat, ".png"))
    image = encoded_image(scene.pixels, ".jpg")
    drawn = {"IoU": found.iou}
    if not np.isnan(found.boundary_iou).all():
        drawn["Boundary IoU"] = found.boundary_iou
    shape = (scene.shape[0], scene.shape[1])
    shown = ShownMap(image, shape, drawn, found.low, found.stride, found.centre)
    page = map_page(_title(facts), shown, map_lines(facts), figures)
    write_file(out / "click-response.html", page.encode())
    write_file(out / "click-response.json", f"{json.dumps(facts, indent=1)}\n".encode())


def _title(facts: dict[str, Any]) -> str:
    """Model, scene and object; an object without a name of its own is left out."""
    target = str(facts["target"])
    place = f"{facts['model']} on {facts['scene']}"
    if target in ("", "object"):
        return place
    return f"{place}, {target if target.startswith('object') else f'object {target}'}"


def map_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The statistics in words, as pairs of a name and a value."""
    limit = f"{100 * facts['threshold']:.0f} %"
    nearest = facts["nearest_bad_px"]
    away = "none" if nearest is None else (
        f"{nearest:.1f} px, {100 * facts['nearest_bad_relative']:.1f} % of the diagonal"
    )  # fmt: skip
    lines = [
        ("clicks tried", f"{facts['clicks']}, every {facts['stride']} px"),
        ("IoU of the centre click", _percent(facts["centre"])),
        ("mean IoU", f"{_percent(facts['mean'])} ± {100 * facts['spread']:.1f}"),
        ("worst to best", f"{_percent(facts['worst'])} to {_percent(facts['best'])}"),
        (f"object below {limit}", _percent(facts["bad_share"])),
        (f"centre to the nearest click below {limit}", away),
    ]
    if boxes := facts.get("boxes"):
        values = " / ".join(_percent(boxes[k]) for k in ("min", "base", "max"))
        lines.append(("box: worst / tight / best", values))
    return lines


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _boxes(
    encoded: EncodedScene, target: Target, out: Path, progress: Progress
) -> tuple[dict[str, Any], bytes]:
    """The best and the worst box within human-like jitter, and an image over shifts."""
    found = search_boxes(encoded, target, progress=partial(progress, "boxes drawn otherwise"))
    shifts = shift_map(encoded, target, progress=partial(progress, "boxes moved as a whole"))
    np.savez_compressed(out / "boxshifts.npz", iou=shifts.iou.astype(np.float32),
                        down_px=shifts.down_px, across_px=shifts.across_px)  # fmt: skip
    image = shift_image(shifts.iou, shifts.down_px, shifts.across_px)
    write_file(out / "boxshifts.png", image)
    facts = {
        "min": found.worst.iou, "base": found.tight.iou, "max": found.best.iou,
        "d": found.best.iou - found.worst.iou, "tried": found.tried,
        "worst_box": [*found.worst.box.low, *found.worst.box.high],
        "best_box": [*found.best.box.low, *found.best.box.high],
    }  # fmt: skip
    return facts, image
