"""Images: click maps and groups of a target, and masks averaged over everybody's first click."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.rclicks.estimates import Findings
from segmeter.benchmarks.rclicks.figures import ranked_by_noise
from segmeter.benchmarks.sessions import mask_of
from segmeter.benchmarks.shown_cases import NO_MASKS, Case, cases_at_hand
from segmeter.clickability.groups import GROUPS, group_of_pixels
from segmeter.clickability.map_sources import source
from segmeter.clickability.maps import ClickMap
from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.errors import BadInput
from segmeter.core.prompts import Click
from segmeter.core.sections import Block, Gallery, Illustration, Note, Outline
from segmeter.users.clicking_group import ClickingGroup

__all__ = ["hard_targets", "maps_and_groups"]

Pixels = npt.NDArray[np.uint8]
_SHOWN_MAPS, _HARD, _EASY, _MODELS, _DOTS = 3, 4, 2, 3, 24
# From dark blue to yellow, ten steps of even lightness: readable in grey and to colour-blind eyes.
_STEPS = np.array(
    [
        [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
        [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
    ],
    dtype=np.float64,
)  # fmt: skip
_LEGEND = (
    "Dashed: the object. Maps: yellow where a click is likeliest, green half as likely, violet "
    "where it hardly ever falls, grey where it never does. Groups: violet G1, the least likely "
    "tenth of clicks, to yellow G10, the most likely."
)


def maps_and_groups(run: Results, found: Sequence[Findings]) -> list[Block]:
    """First clicks, depth, the map in use and its ten groups (as Fig. 4 and 6)."""
    chosen, why = _noisy_cases(run, found, _SHOWN_MAPS, 0)
    if why:
        return [Note(f"Maps cannot be shown: {why}", "warning")]
    user = _user(run)
    blocks: list[Block] = []
    for case, _ in chosen:
        dots = _first_points(run, case)
        images = [_clicked(case, f"**{case.title}** and {len(dots)} first clicks", dots)]
        for name, words in _map_names(user).items():
            map = _map(name, user, case)
            images.append(_over(case, _heated(case.scene.pixels, map), words))
        groups = group_of_pixels(_map(user.map, user, case), 0)
        drawn = _grouped(case.scene.pixels, _map(user.map, user, case), groups)
        images.append(_over(case, drawn, "groups: dark G1 to bright G10"))
        blocks.append(Gallery(images, _LEGEND))
    return blocks


def hard_targets(run: Results, found: Sequence[Findings]) -> list[Block]:
    """Targets by noise against signal of the first click, with mean masks (as Fig. 15, 16)."""
    chosen, why = _noisy_cases(run, found, _HARD, _EASY)
    if why:
        return [Note(f"Objects cannot be shown: {why}", "warning")]
    models = list(dict.fromkeys(f.trial.model for f in found))[:_MODELS]
    protocol = found[0].trial.protocol
    blocks: list[Block] = []
    for case, noise in chosen:
        caption = f"**{case.title}** · NSR {100 * noise:.1f} %"
        images = [_clicked(case, caption, _first_points(run, case))]
        for model in models:
            mean = _mean_mask(run, model, case, protocol)
            if mean is None:
                return [NO_MASKS]
            shade = np.repeat((255 * mean[..., None]).astype(np.uint8), 3, axis=2)
            images.append(_over(case, shade, f"{model}: mean mask"))
        blocks.append(Gallery(images))
    blocks.append(
        Note(
            "White: in all masks; black: in none; dashed: the ground truth. The objects "
            "with the noisiest first clicks come first, the quietest last."
        )
    )
    return blocks


def _noisy_cases(
    run: Results, found: Sequence[Findings], hard: int, easy: int
) -> tuple[list[tuple[Case, float]], str]:
    """The noisiest and the quietest targets of all data sets with their NSR, or why none."""
    ranked = ranked_by_noise(found)
    quiet = ranked[max(hard, len(ranked) - easy) :] if easy else []
    chosen = [*ranked[:hard], *quiet]
    cases, why = cases_at_hand(run, [(one.dataset, one.key) for one in chosen])
    told = [(case, one.ratio) for case, one in zip(cases, chosen, strict=False)]
    return told, why or ("" if told else "there are no single first clicks")


def _user(run: Results) -> ClickingGroup:
    for spec in run.plan.users:
        if spec.name == "clicking-group":
            user: ClickingGroup = catalogue.users.make(spec)
            return user
    return ClickingGroup()


def _map_names(user: ClickingGroup) -> dict[str, str]:
    """Depth, to compare with, then the map in use."""
    words = {"distance": "depth (DT)"}
    return {**words, user.map: f"{words.get(user.map, user.map)}: the map in use"}


def _map(name: str, user: ClickingGroup, case: Case) -> ClickMap:
    checkpoint = user.checkpoint if name == user.map else None
    maps = source(name, None if checkpoint is None else Path(checkpoint))
    return maps.map(case.scene, case.target, case.target.mask, True, "corrected")


def _clicked(case: Case, caption: str, dots: Sequence[Click]) -> Illustration:
    pixels, ground_truth = (
        case.scene.pixels,
        Outline(case.target.mask, "ground_truth", "the object"),
    )
    return Illustration(pixels, caption, outlines=(ground_truth,), prompts=dots, close=True)


def _over(case: Case, pixels: Pixels, caption: str) -> Illustration:
    ground_truth = Outline(case.target.mask, "ground_truth", "the object")
    return Illustration(
        pixels, caption, f"{caption} of {case.title}", outlines=(ground_truth,), close=True
    )


def _heated(pixels: Pixels, map: ClickMap) -> Pixels:
    """The grey image under the map's colours, the likeliest pixel brightest."""
    weights = map.dense().astype(np.float64)
    level = weights / max(float(weights.max()), 1e-30)
    return _blend(pixels, _colours(level), weights > 0)


def _grouped(pixels: Pixels, map: ClickMap, groups: npt.NDArray[np.uint8]) -> Pixels:
    whole = np.zeros(map.shape, dtype=np.uint8)
    rows, columns = groups.shape
    whole[map.low[0] : map.low[0] + rows, map.low[1] : map.low[1] + columns] = groups
    return _blend(pixels, _STEPS[np.maximum(whole, 1) - 1], whole > 0)


def _colours(level: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    places = np.linspace(0, 1, GROUPS)
    return np.stack([np.interp(level, places, _STEPS[:, c]) for c in range(3)], axis=-1)


def _blend(
    pixels: Pixels, colours: npt.NDArray[np.float64], where: npt.NDArray[np.bool_]
) -> Pixels:
    grey = np.repeat(pixels.mean(axis=2, keepdims=True), 3, axis=2)
    mixed = np.where(where[..., None], 0.2 * grey + 0.8 * colours, 0.5 * grey + 90)
    return np.clip(mixed, 0, 255).astype(np.uint8)


def _first_points(run: Results, case: Case) -> list[Click]:
    """First clicks of people: recorded clicks, else drawn ones."""
    table = run.sql(
        """
        select distinct "user", y, x, positive from rows
        where round = 1 and dataset = ? and y is not null and scene = ? and target = ?
        and protocol = (select max(protocol) from rows)
        and ("user" like 'replay-%' or "user" like 'map-sample-%') order by "user", y, x
        """,
        (case.dataset, case.scene.id, case.target.id),
    )
    rows = table.to_pylist()
    people = [row for row in rows if row["user"].startswith("replay")]
    return [Click((r["y"], r["x"]), r["positive"]) for r in (people or rows)[:_DOTS]]


def _mean_mask(
    run: Results, model: str, case: Case, protocol: str
) -> npt.NDArray[np.float64] | None:
    """The share of first clicks whose mask holds each pixel; None if masks were not kept."""
    rows = [
        row
        for row in run.job_rows(model, case.dataset, case.scene.id)
        if (row["round"], row["target"], row["protocol"]) == (1, case.target.id, protocol)
        and row["user"].startswith(("replay-", "map-sample-"))
    ]
    people = [row for row in rows if row["user"].startswith("replay")] or rows
    if not people or any(row["mask"] is None for row in people):
        return None
    total = np.zeros(case.target.mask.shape)
    try:
        for row in people:
            total += mask_of(row, case.target.mask.shape).dense()
    except BadInput:  # a run that was damaged or made up
        return None
    return total / len(people)
