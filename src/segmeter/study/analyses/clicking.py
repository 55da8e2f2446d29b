"""Clicks of a study: counts, display modes, devices, distances to the centre, latency."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.clickability import click_similarity
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click
from segmeter.core.sections import (
    Answer,
    Block,
    Cell,
    Column,
    Gallery,
    Illustration,
    Label,
    Note,
    Outline,
    Section,
    Table,
    Value,
)
from segmeter.datasets.recorded_clicks import Clicks, Key, read_clicks
from segmeter.measures.clicks import Sides
from segmeter.stats.intervals import Resampling
from segmeter.study.drawing import centre_of
from segmeter.study.exports import export, trial_rows
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

__all__ = ["centre_distances", "click_sections"]

_SHOWN = 12
_PROTOCOLS: tuple[ProtocolName, ...] = ("published", "corrected")


def click_sections(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> list[Section]:
    """The analyses of RClicks and TETRIS on a study's own clicks."""
    trials = [row for row in trial_rows(connection, plan) if row["answered"] is not None]
    counted = [row for row in trials if row["counts"]]
    if not counted:
        raise BadInput("no click counts yet: there is nothing to report")
    by_dataset, by_mode = _recorded(connection, plan, stimuli)
    sections = [_counts(plan, trials, counted), _distances(counted, stimuli)]
    if by_mode is not None:
        sections.append(_modes(by_mode, stimuli))
    sections.append(_devices(by_dataset, stimuli))
    return [*sections, _images(counted, stimuli)]


def centre_distances(rows: Sequence[Mapping[str, Any]], stimuli: Stimuli) -> list[float]:
    """Distance of each click to the target's centre click, in diagonals of the target's box."""
    found = []
    for row in rows:
        mask = stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        y, x = centre_of(mask).point
        diagonal = math.hypot(*mask.bits.shape)
        found.append(math.hypot(row["y"] - 0.5 - y, row["x"] - 0.5 - x) / diagonal)
    return found


def _recorded(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli
) -> tuple[Clicks, Clicks | None]:
    """The study's clicks as everything else would read them from its files."""
    with tempfile.TemporaryDirectory() as folder:
        files = {path.name: path for path in export(connection, plan, stimuli, Path(folder))}
        by_mode = files.get("previews.csv")
        return read_clicks(files["clicks.csv"]), None if by_mode is None else read_clicks(by_mode)


def _counts(
    plan: Plan, trials: Sequence[Mapping[str, Any]], counted: Sequence[Mapping[str, Any]]
) -> Section:
    columns = (
        Column("mode"),
        Column("device"),
        Column("clicks", digits=0),
        Column("count", digits=0),
        Column("on the target", "%", 1, percent=True),
        Column("late screens", digits=0),
        Column("page left", digits=0),
        Column("median latency", "s", 2),
        Column("people", digits=0),
    )
    rows: list[tuple[Cell, ...]] = []
    for mode in plan.conditions:
        for device in plan.devices:
            some = [r for r in trials if (r["condition"], r["device"]) == (mode, device)]
            if some:
                rows.append((mode, device, *_row(some)))
    batches = {row["batch"]: row["batch_state"] for row in trials}
    dropped = sum(state == "dropped" for state in batches.values())
    people = len({row["person"] for row in trials})
    sentence = (
        f"**{len(counted)}** of {len(trials)} clicks of {people} people count; "
        f"{dropped} of {len(batches)} batches were dropped."
    )
    rules = plan.validity
    note = Note(
        f"A click counts if it lies on its target or within {100 * rules.radius:g} % of the "
        f"diagonal of it, no screen missed its time by more than {rules.late_ms:g} ms, the page "
        f"was not left, and {rules.batch_minimum} clicks of its batch lie on their targets."
    )
    return Section(
        "What was collected", "", [Answer(sentence), Table("counts", columns, rows), note]
    )


def _row(some: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    return (
        len(some),
        sum(row["counts"] for row in some),
        float(np.mean([row["flag_inside"] for row in some])),
        sum(row["flag_late"] for row in some),
        sum(row["flag_unfocused"] for row in some),
        float(np.median([row["latency_ms"] for row in some])) / 1000,
        len({row["person"] for row in some}),
    )


def _distances(counted: Sequence[Mapping[str, Any]], stimuli: Stimuli) -> Section:
    """TETRIS: how far people click from where a robot would."""
    columns = (
        Column("mode"),
        Column("clicks", digits=0),
        Column("mean distance", "% of the target's diagonal", 1, percent=True, plot=True),
        Column("median", "%", 1, percent=True),
        Column("largest", "%", 1, percent=True),
        Column("spread", "within a target, %", 1, percent=True),
    )
    rows = []
    for mode in dict.fromkeys(row["condition"] for row in counted):
        some = [row for row in counted if row["condition"] == mode]
        away = centre_distances(some, stimuli)
        found = Resampling([row["scene"] for row in some], seed=mode).interval(away)
        mean = Value(found.value, found.low, found.high)
        spread = _spread(some, away)
        rows.append((mode, len(some), mean, float(np.median(away)), max(away), spread))
    table = Table("distances", columns, rows, "Distance of people's clicks to the centre click")
    note = Note(
        "The centre click is the point farthest from the target's edge; the spread is the farthest "
        "less the nearest click of a target, on average. Intervals draw images anew. "
        "TETRIS found a mean above 15 %, and up to half of the diagonal. How much a model's "
        "IoU differs between people's clicks, `segmeter run tetris --clicks clicks.csv` tells."
    )
    return Section("How far from the centre people click", "", [table, note])


def _spread(rows: Sequence[Mapping[str, Any]], away: Sequence[float]) -> float:
    """By how much the nearest and the farthest click of a target differ, on average."""
    found: dict[tuple[str, str], list[float]] = {}
    for row, distance in zip(rows, away, strict=True):
        found.setdefault((row["scene"], row["target"]), []).append(distance)
    return float(np.mean([max(each) - min(each) for each in found.values()]))


def _modes(clicks: Clicks, stimuli: Stimuli) -> Section:
    blocks = _similarity(clicks, stimuli, "modes", click_similarity.display_modes)
    text = (
        "Each display mode against the text description, which shows nothing of the mask. The "
        "last rows are people against people within the text description: no mode can come closer."
    )
    return Section("Display modes", text, blocks)


def _devices(clicks: Clicks, stimuli: Stimuli) -> Section:
    blocks = _similarity(clicks, stimuli, "devices", click_similarity.devices)
    return Section("Computer against phone", "", blocks)


def _similarity(clicks: Clicks, stimuli: Stimuli, name: str, rule: Any) -> list[Block]:
    columns = (
        Column("what"),
        Column("PL1", "object sides", 3, plot=True),
        Column("KS", "share alike, %", 1, percent=True),
        Column("WD", "object sides", 3, plot=True),
        Column("energy", "object sides", 3),
        Column("targets", digits=0),
    )
    found: dict[tuple[str, str], dict[str, click_similarity.Row]] = {}
    try:
        for protocol in _PROTOCOLS:
            for row in rule(clicks, _Sides(stimuli), protocol):
                found.setdefault((row.what, protocol), {})[row.score] = row
    except BadInput as error:
        return [Note(f"Not enough clicks yet: {error}.", "warning")]
    rows: list[tuple[Cell, ...]] = []
    for (what, read), scores in found.items():
        values = [_value(scores.get(score)) for score in ("pl1", "ks", "wd", "energy")]
        rows.append((Label(what, protocol=read), *values, scores["pl1"].keys))
    note = Note(
        "PL1 and WD are distances, lower is more alike; KS is the share of targets on which the "
        "two samples cannot be told apart; the energy distance is zero on average for samples of "
        "one distribution. Intervals draw images anew."
    )
    return [Table(name, columns, rows), note]


def _value(row: click_similarity.Row | None) -> Cell:
    return None if row is None else Value(row.value, row.low, row.high)


class _Sides:
    """Sides of a key's object, as it was shown."""

    def __init__(self, stimuli: Stimuli) -> None:
        self._stimuli = stimuli

    def __call__(self, key: Key) -> Sides:
        targets = self._stimuli.shown(key.image).targets
        target = targets[key.object] if key.object else next(iter(targets.values()))
        height, width = target.mask.bits.shape
        return float(height), float(width)


def _images(counted: Sequence[Mapping[str, Any]], stimuli: Stimuli) -> Section:
    by_target: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in counted:
        by_target.setdefault((row["scene"], row["target"]), []).append(row)
    most = sorted(by_target.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:_SHOWN]
    images = []
    for (scene, target), rows in most:
        shown = stimuli.shown(scene)
        images.append(
            Illustration(
                shown.pixels,
                f"**{target}** in {scene}, {len(rows)} clicks",
                size=shown.size,
                outlines=[Outline(shown.targets[target].mask, "ground_truth")],
                prompts=[Click((row["y"] - 0.5, row["x"] - 0.5)) for row in rows[:60]],
            )
        )
    return Section("Where people clicked", "", [Gallery(images)])
