"""The cases behind the numbers: fragile objects, heat maps, sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.analysis.report_cases import (
    NO_MASKS,
    Key,
    available_cases,
    colours,
    object_title,
    painted,
    session_frames,
    session_rows,
)
from segmeter.benchmarks.tetris.statistics import AttackedSessions, roles_of
from segmeter.benchmarks.tetris.work import map_of
from segmeter.core.benchmarks import Results, Row
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, round_from_json
from segmeter.core.sections import Block, Gallery, Illustration, Note, Replay
from segmeter.stats.intervals import Floats
from segmeter.users.simulation import mask_of

_SHOWN, _REPLAYED = 8, 2
_WORDS = {"min": "worst clicks", "max": "best clicks"}
_LEGEND = "Colours are IoU: dark blue 0 %, grey 50 %, yellow 100 %."


def fragile(run: Results, members: Sequence[AttackedSessions], prompt: str = "click") -> Block:
    """The objects most sensitive to the click, with the mask after the worst first click."""
    images, roles = [], roles_of(run)
    chosen = _widest(members, max(1, _SHOWN // len(members)))
    middle, over = ("centre", " over all clicks") if prompt == "click" else ("tight", "")
    cases, why = available_cases(run, [(group.dataset, key) for key, group, _ in chosen])
    if why:
        return Note(f"Images of {members[0].dataset} cannot be shown: {why}", "warning")
    for case, (key, group, anchor) in zip(cases, chosen, strict=True):
        rows = session_rows(run, group, key, roles)
        firsts = {roles[row["user"]]: row for row in reversed(rows)}
        worst, base, best = (firsts[role] for role in ("min", "base", "max"))
        if worst["mask"] is None:
            return NO_MASKS
        span = float(group.each("iou-d")[group.keys.index(key)])
        caption = (
            f"**{case.title}**, {group.model} · first {prompt}: worst {100 * worst['iou']:.0f} %, "
            f"{middle} {100 * base['iou']:.0f} %, best {100 * best['iou']:.0f} % · D{over} "
            f"{span:.1f}"
        )
        alt = f"{case.title} with the ground truth and the mask after the worst first {prompt}"
        images.append(case.drawn(
            caption, alt, mask=mask_of(worst, case.scene.shape),
            name=f"{group.model}, worst {prompt}", prompts=round_from_json(worst["prompt"]),
            link=anchor if prompt == "click" else "",
        ))  # fmt: skip
    legend = f"Dashed: the ground truth. Filled: the mask after the worst first {prompt}."
    return Gallery(images, f"{legend} Each model with the objects on which it is most fragile.")


def heat_maps(run: Results, members: Sequence[AttackedSessions]) -> list[Block]:
    """Maps of the first click, each model's most varied first."""
    each = max(1, _SHOWN // len(members))
    chosen = [(group, row) for group in members for row in _varied_maps(run, group)[:each]]
    places = [(group.dataset, (row["scene"], row["target"])) for group, row in chosen]
    # Where none is available, the gallery above says why.
    cases, _ = available_cases(run, places)
    images = []
    for case, (group, row) in zip(cases, chosen, strict=False):
        values, low, stride = map_of(row["map"])
        known = 100 * values[~np.isnan(values)]
        caption = (
            f"**{case.title}**, {group.model} · IoU {known.min():.0f} to {known.max():.0f} %, "
            f"mean {known.mean():.0f} %; below 50 % on {100 * float((known < 50).mean()):.0f} % of "
            "the object"
        )
        alt = f"Click-response map of {case.title} for {group.model}"
        pixels = heat_image(case.scene.pixels, values, low, stride, case.target.mask)
        prompts = (Click((row["y"], row["x"])),)
        images.append(case.drawn(caption, alt, pixels=pixels, prompts=prompts))
    legend = f"{_LEGEND} Dashed: the object; grey: outside it. Marked: the worst click."
    return [Gallery(images, legend)] if images else []


def _varied_maps(run: Results, group: AttackedSessions) -> list[Row]:
    """Rows with a model's maps, those first in which IoU varies most over the object."""
    if "all-min" not in group.values:
        return []
    table = run.sql(
        """
        select scene, target, map, y, x from rows where model = ? and dataset = ?
        and "user" = 'worst-of-all' order by scene, target
        """,
        (group.model, group.dataset),
    )
    rows: list[Row] = table.to_pylist()
    return sorted(rows, key=lambda row: -float(np.nanstd(map_of(row["map"])[0])))


def shift_maps(run: Results, members: Sequence[AttackedSessions]) -> list[Block]:
    """Maps over shifts of the whole box, of the objects most sensitive to the box."""
    images = []
    for key, group, _ in _widest(members, max(1, _SHOWN // len(members))):
        (row,) = session_rows(run, group, key, ["tight-box"])
        values = np.frombuffer(row["shifts"], "<f4").astype(np.float64)
        side = round(len(values) ** 0.5)
        square = values.reshape(side, side).repeat(24, axis=0).repeat(24, axis=1)
        name, low, high = object_title(*key), 100 * values.min(), 100 * values.max()
        caption = f"**{name}**, {group.model} · IoU {low:.0f} to {high:.0f} %"
        alt = f"IoU of {name} for {group.model} as its box is moved"
        images.append(Illustration(colours(square), caption, alt))
    legend = (
        "Each square is one shift of the box, down and across; the centre is the unmoved box. "
        f"{_LEGEND}"
    )
    return [Gallery(images, legend)] if images else []


def replays(run: Results, members: Sequence[AttackedSessions]) -> list[Replay]:
    """The worst and the best session of the most fragile objects."""

    def note(row: Row) -> str:
        return "fell behind: took over the centre clicks' session" if row["inherited"] else ""

    chosen = _widest(members, _REPLAYED)
    cases, _ = available_cases(run, [(group.dataset, key) for key, group, _ in chosen])
    users = {role: user for user, role in roles_of(run).items()}
    made: list[Replay] = []
    for case, (_, group, anchor) in zip(cases, chosen, strict=False):
        for role, words in _WORDS.items():
            frames = session_frames(run, group, case, (users[role],), note)
            if not frames:
                return []
            name = anchor if role == "min" else f"{anchor}-best"
            caption = f"{case.scene.name}, protocol {group.protocol}"
            made.append(case.replay(name, f"{group.model}: {words}", frames, 0.9, caption))
    return made


def _widest(
    members: Sequence[AttackedSessions], each: int
) -> list[tuple[Key, AttackedSessions, str]]:
    """Each model's objects of widest D, with the anchors of those that are replayed."""
    found = []
    for group in members:
        spans = dict(zip(group.keys, group.each("iou-d"), strict=True))
        order = sorted(spans, key=lambda key: (-spans[key], key))
        stem = re.sub(r"\W+", "-", f"fragile-{group.dataset}-{group.model}")
        anchors = [f"{stem}-{place}" for place in range(_REPLAYED)] + [""] * each
        found += [(key, group, anchor) for key, anchor in zip(order[:each], anchors, strict=False)]
    return found


def enlarged(values: Floats, low: tuple[int, int], stride: int, shape: tuple[int, ...]) -> Floats:
    """A map at the image's size: each value fills the square of its stride; NaN elsewhere."""
    whole = np.full(shape[:2], np.nan)
    places = [(np.arange(n) - a + stride // 2) // stride for n, a in zip(shape, low, strict=False)]
    inside = [(p >= 0) & (p < n) for p, n in zip(places, values.shape, strict=True)]
    held = (place[there] for place, there in zip(places, inside, strict=True))
    whole[np.ix_(*inside)] = values[np.ix_(*held)]
    return whole


def heat_image(
    pixels: npt.NDArray[Any], values: Floats, low: tuple[int, int], stride: int, inside: Mask
) -> npt.NDArray[np.uint8]:
    """The image in grey with the map in colour on the object."""
    whole = enlarged(values, low, stride, pixels.shape)
    if stride > 1:
        whole[~inside.dense()] = np.nan
    return painted(pixels, whole)
