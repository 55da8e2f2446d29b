"""The cases behind the numbers: fragile objects, heat maps, sessions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from segmeter.benchmarks.sessions import mask_of, prompt_of
from segmeter.benchmarks.tetris.extremes import map_of
from segmeter.benchmarks.tetris.groups import AttackedSessions, Key, roles_of
from segmeter.benchmarks.tetris.heat import colours, heat_picture
from segmeter.core.benchmarks import Results, Row
from segmeter.core.dataset_names import dataset_label
from segmeter.core.errors import NotFound, SegmeterError
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene, Target
from segmeter.core.sections import Block, Gallery, Illustration, Note, Outline, Replay, ReplayFrame

__all__ = ["fragile", "heat_maps", "replays", "shift_maps"]

_SHOWN, _REPLAYED, _MAPS = 8, 2, 8
_SAID = {"min": "worst clicks", "max": "best clicks"}
_LEGEND = "Colours are IoU: dark blue 0 %, grey 50 %, yellow 100 %."


def fragile(run: Results, members: Sequence[AttackedSessions], prompt: str = "click") -> Block:
    """The objects on which the click decides most, with what the worst first click gave."""
    pictures = []
    shown = {(key, group.model): anchor for key, group, anchor in _replayed(members)}
    middle = "centre" if prompt == "click" else "tight"
    for key, group in _widest(members, _SHOWN):
        rows = _rows(run, group, key)
        worst = rows["min"][0]
        try:
            scene, target = _place(run, group, key)
        except SegmeterError as error:
            return Note(
                f"Pictures of {dataset_label(group.dataset)} cannot be shown: {error}", "warning"
            )
        if worst["mask"] is None:
            return Note("Masks were not kept in this run, so objects cannot be shown.", "warning")
        base, best = rows["base"][0], rows["max"][0]
        span = float(group.each("iou-d")[group.keys.index(key)])
        pictures.append(
            Illustration(
                scene.pixels,
                f"**{_title(key)}**, {group.model} · first {prompt}: worst {100 * worst['iou']:.0f}"
                f" %, {middle} {100 * base['iou']:.0f} %, best {100 * best['iou']:.0f} % · "
                f"D{' over all clicks' if prompt == 'click' else ''} {span:.1f}",
                f"{_title(key)} with the truth and the mask after the worst first {prompt}",
                outlines=(
                    Outline(target.mask, "truth", "the truth"),
                    Outline(mask_of(worst, scene.shape), "guess", f"{group.model}, worst {prompt}"),
                ),
                prompts=[p for p in (prompt_of(worst),) if p is not None],
                close=True,
                link=shown.get((key, group.model), "") if prompt == "click" else "",
            )
        )
    return Gallery(
        pictures,
        f"Dashed: the truth. Filled: the mask after the worst first {prompt}, which is shown. Each "
        "model with the objects on which it is most fragile.",
    )


def heat_maps(run: Results, members: Sequence[AttackedSessions]) -> list[Block]:
    """Maps of the first click, each model's most varied first."""
    each = max(1, _MAPS // len(members))
    pictures = []
    for row, key, group in [m for g in members for m in _varied_maps(run, g)[:each]]:
        try:
            scene, target = _place(run, group, key)
        except SegmeterError:
            return []  # the gallery above says why pictures cannot be shown
        values, low, stride = map_of(row["map"])
        pixels = heat_picture(scene.pixels, values, low, stride, target.mask)
        known = values[~np.isnan(values)]
        pictures.append(
            Illustration(
                pixels,
                f"**{_title(key)}**, {group.model} · IoU {100 * known.min():.0f} to "
                f"{100 * known.max():.0f} %, mean {100 * known.mean():.0f} %; below 50 % on "
                f"{100 * float((known < 0.5).mean()):.0f} % of the object",
                f"Click map of {_title(key)} for {group.model}",
                outlines=(Outline(target.mask, "truth", "the object"),),
                prompts=(Click((row["y"], row["x"])),),
                close=True,
            )
        )
    if not pictures:
        return []
    return [
        Gallery(
            pictures,
            f"{_LEGEND} Dashed: the object; grey: outside it. Marked: the worst click.",
        )
    ]


def _varied_maps(
    run: Results, group: AttackedSessions
) -> list[tuple[dict[str, Any], Key, AttackedSessions]]:
    """A model's maps by how much IoU varies over the object."""
    if "all-min" not in group.singles:
        return []
    table = run.sql(
        """
        select scene, target, map, y, x from rows where model = ? and dataset = ?
        and "user" = 'worst-of-all' order by scene, target
        """,
        (group.model, group.dataset),
    )
    rows: list[dict[str, Any]] = table.to_pylist()
    spread = [float(np.nanstd(map_of(row["map"])[0])) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -spread[i])
    return [(rows[i], (rows[i]["scene"], rows[i]["target"]), group) for i in order]


def shift_maps(run: Results, members: Sequence[AttackedSessions]) -> list[Block]:
    """Maps over shifts of the whole box, of the objects that the box decides most."""
    pictures = []
    for key, group in _widest(members, _MAPS):
        (row,) = _rows_by(run, group, key, ["tight-box"])
        values = np.frombuffer(row["shifts"], "<f4").astype(np.float64)
        side = round(len(values) ** 0.5)
        square = values.reshape(side, side).repeat(24, axis=0).repeat(24, axis=1)
        pictures.append(
            Illustration(
                colours(square),
                f"**{_title(key)}**, {group.model} · IoU {100 * values.min():.0f} to "
                f"{100 * values.max():.0f} %",
                f"IoU of {_title(key)} for {group.model} as its box is moved",
            )
        )
    caption = (
        "Each small square is one shift of the box, down and across as it moves; the middle one is "
        f"no move. {_LEGEND}"
    )
    return [Gallery(pictures, caption)] if pictures else []


def replays(run: Results, members: Sequence[AttackedSessions]) -> list[Replay]:
    """The worst and the best session of the most fragile objects."""
    made: list[Replay] = []
    for key, group, anchor in _replayed(members):
        try:
            scene, target = _place(run, group, key)
        except SegmeterError:
            return []
        rows = _rows(run, group, key)
        for role, said in _SAID.items():
            if any(row["mask"] is None for row in rows[role]):
                return []
            made.append(
                Replay(
                    anchor if role == "min" else f"{anchor}-best",
                    f"{_title(key)}, {group.model}: {said}",
                    Illustration(scene.pixels, close=True),
                    [_frame(row, scene.shape) for row in rows[role]],
                    target.mask,
                    0.9,
                    f"{scene.name}, reading {group.reading}",
                )
            )
    return made


def _replayed(members: Sequence[AttackedSessions]) -> list[tuple[Key, AttackedSessions, str]]:
    """Which sessions are replayed, and under which anchors."""
    place = re.sub(r"\W+", "-", members[0].dataset)
    chosen: list[tuple[Key, AttackedSessions, str]] = []
    for group in members:
        for key, owner in _widest([group], _REPLAYED):
            name = re.sub(r"\W+", "-", owner.model)
            chosen.append((key, owner, f"fragile-{place}-{name}-{len(chosen)}"))
    return chosen


def _widest(members: Sequence[AttackedSessions], total: int) -> list[tuple[Key, AttackedSessions]]:
    """Each model's objects of widest D, as many of each as fit."""
    found = []
    for group in members:
        spans = dict(zip(group.keys, group.each("iou-d"), strict=True))
        order = sorted(spans, key=lambda key: (-spans[key], key))
        found += [(key, group) for key in order[: max(1, total // len(members))]]
    return found


def _place(run: Results, group: AttackedSessions, key: Key) -> tuple[Scene, Target]:
    """The scene and the target, read now, so that a missing picture is told here."""
    scene = run.scene(group.dataset, key[0])
    for target in scene.targets:
        if target.id == key[1]:
            scene.pixels  # noqa: B018
            return scene, target
    raise NotFound("the data set no longer holds the targets that were scored")


def _rows(run: Results, group: AttackedSessions, key: Key) -> dict[str, list[dict[str, Any]]]:
    """The rounds of the three sessions, by role."""
    roles = roles_of(run)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _rows_by(run, group, key, roles):
        found.setdefault(roles[row["user"]], []).append(row)
    return found


def _rows_by(run: Results, group: AttackedSessions, key: Key, users: Collection[str]) -> list[Row]:
    """The rows of some users on one target, round by round."""
    scene, target = key
    return [
        row
        for row in run.job_rows(group.model, group.dataset, scene)
        if (row["reading"], row["target"]) == (group.reading, target) and row["user"] in users
    ]


def _frame(row: dict[str, Any], shape: tuple[int, ...]) -> ReplayFrame:
    note = "fell behind: took over the centre clicks' session" if row["taken_over"] else ""
    scores = {"IoU": row["iou"], "boundary": row["boundary_iou"]}
    return ReplayFrame(mask_of(row, shape), prompt_of(row), scores, row["seconds_answer"], note)


def _title(key: Key) -> str:
    scene, target = key
    return scene if target in ("", scene, "0", "1", "object") else f"{scene}, {target}"
