"""Analysis of clicking: counts, display modes, devices, distances to the centre, latency."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.clickability import click_files
from segmeter.core import wording
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.models import PROTOCOLS
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
from segmeter.study.exports import counted_rows, export, trial_rows
from segmeter.study.plan import ANSWER_FLAGS, Plan
from segmeter.study.stimuli import Stimuli

Rows = Sequence[Mapping[str, Any]]
_SHOWN = 12


def click_sections(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> list[Section]:
    """The analyses of RClicks and TETRIS on a study's own clicks."""
    every = trial_rows(connection, plan)
    answered = [row for row in every if row["answered"] is not None and not row["training"]]
    trials = [row for row in answered if not row["check"]]
    counted = counted_rows(connection, plan)
    if not counted:
        raise BadInput("no click counts yet: there is nothing to report")
    by_dataset, by_mode = _recorded(connection, plan, stimuli)
    sections = [_counts(plan, trials, counted), _distances(counted, stimuli)]
    if by_mode is not None:
        sections.append(_modes(plan, by_mode, stimuli))
    if len(plan.design.devices) > 1:
        blocks = _similarity(by_dataset, stimuli, "devices", click_files.devices)
        sections.append(Section("Computer against phone", "", blocks))
    return [*sections, _images(counted, stimuli)]


def centre_distances(rows: Rows, stimuli: Stimuli) -> list[float]:
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
    """The study's clicks, read from exported files as other commands read them."""
    with tempfile.TemporaryDirectory() as folder:
        files = {path.name: path for path in export(connection, plan, stimuli, Path(folder))}
        by_mode = files.get("previews.csv")
        return read_clicks(files["clicks.csv"]), None if by_mode is None else read_clicks(by_mode)


def _counts(plan: Plan, trials: Rows, counted: Rows) -> Section:
    def flagged(rows: Rows, *flags: str) -> int:
        return sum(not {*flags}.isdisjoint(row["flag_bad"]) for row in rows)

    by_cell = grouped_pairs(((row["condition"], row["device"]), row) for row in trials)
    cells = product(plan.conditions, plan.design.devices)
    others = [flag for flag in ANSWER_FLAGS if flag not in ("late", "left_page")]
    table = Table.of(
        "counts",
        [by_cell[cell] for cell in cells if cell in by_cell],
        {
            Column("mode"): lambda rows: rows[0]["condition"],
            Column("device"): lambda rows: rows[0]["device"],
            Column("clicks", digits=0): len,
            Column("valid", digits=0): lambda rows: sum(row["counts"] for row in rows),
            Column("on the target", "%", 1, percent=True): lambda rows: float(
                np.mean([row["flag_inside"] for row in rows])
            ),
            Column("late screens", digits=0): lambda rows: flagged(rows, "late"),
            Column("page left", digits=0): lambda rows: flagged(rows, "left_page"),
            Column("other flags", digits=0): lambda rows: flagged(rows, *others),
            Column("median latency", "s", 2): lambda rows: (
                float(np.median([row["latency_ms"] for row in rows])) / 1000
            ),
            Column("people", digits=0): lambda rows: len({row["person"] for row in rows}),
        },
    )
    batches = {row["batch"]: row["batch_state"] for row in trials}
    dropped = sum(state == "dropped" for state in batches.values())
    people = wording.counted(len({row["person"] for row in trials}), "participant")
    sentence = (
        f"**{len(counted)}** of {len(trials)} clicks of {people} are valid; "
        f"{dropped} of {len(batches)} batches were dropped."
    )
    rules = plan.validity
    note = Note(
        f"A click is valid if it lies on its target or within {100 * rules.radius:g} % of the "
        f"image's diagonal of it, has no flag ({', '.join(rules.exclude)}), and "
        f"{plan.batch_minimum} clicks of its batch lie on their targets. "
        "Attention checks are left out."
    )
    return Section("Collected clicks", "", [Answer(sentence), table, note])


def _distances(counted: Rows, stimuli: Stimuli) -> Section:
    """TETRIS: distance of clicks to the centre click of a simulated user."""
    columns = (
        Column("mode"),
        Column("clicks", digits=0),
        Column("mean distance", "% of the target's diagonal", 1, percent=True, plot=True),
        Column("median", "%", 1, percent=True),
        Column("largest", "%", 1, percent=True),
        Column("spread", "within a target, %", 1, percent=True),
    )
    rows = []
    for mode, some in grouped_pairs((row["condition"], row) for row in counted).items():
        away = centre_distances(some, stimuli)
        mean = Value.of(Resampling([row["scene"] for row in some], seed=mode).interval(away))
        targets = [(row["scene"], row["target"]) for row in some]
        of_targets = grouped_pairs(zip(targets, away, strict=True)).values()
        spread = float(np.mean([max(each) - min(each) for each in of_targets]))
        rows.append((mode, len(some), mean, float(np.median(away)), max(away), spread))
    table = Table("distances", columns, rows, "Distance of people's clicks to the centre click")
    note = Note(
        "The centre click is the point farthest from the target's edge; the spread is the farthest "
        "minus the nearest click of a target, on average. Intervals resample images. TETRIS found "
        "a mean above 15 %, and up to half of the diagonal. Benchmarks with the option `--clicks` "
        "report how much a model's IoU differs between these clicks."
    )
    return Section("Distance to the centre", "", [table, note])


def _modes(plan: Plan, clicks: Clicks, stimuli: Stimuli) -> Section:
    names = {key.dataset for key, _ in clicks.groups()}
    known = click_files.REFERENCE
    reference = known if known in names else next(n for n in plan.conditions if n in names)
    rule = partial(click_files.display_modes, reference=reference)
    blocks = _similarity(clicks, stimuli, "modes", rule)
    text = (
        f"Each display mode against {reference}"
        f"{', which shows nothing of the mask' if reference == known else ''}. The last rows "
        f"compare two halves of the clicks of {reference}. Halves have half as many clicks, which "
        "makes PL1 and WD larger: compare modes with halves by the energy distance, which does "
        "not depend on the number of clicks."
    )
    return Section("Display modes", text, blocks)


def _similarity(clicks: Clicks, stimuli: Stimuli, name: str, rule: Any) -> list[Block]:
    columns = (
        Column("comparison"),
        Column("PL1", "object sides", 3, plot=True),
        Column("KS", "share alike, %", 1, percent=True),
        Column("WD", "object diagonals", 3, plot=True),
        Column("energy", "object sides", 3),
        Column("targets", digits=0),
    )

    def sides(key: Key) -> Sides:
        """Sides of a key's object, as it was shown."""
        targets = stimuli.shown(key.image).targets
        target = targets[key.object] if key.object else next(iter(targets.values()))
        height, width = target.mask.bits.shape
        return float(height), float(width)

    try:
        compared = [(each, row) for each in PROTOCOLS for row in rule(clicks, sides, each)]
        found = grouped_pairs(((row.what, protocol), row) for protocol, row in compared)
        if not found:
            raise BadInput("no two modes share a target")
    except BadInput as error:
        return [Note(f"Not enough clicks yet: {error}.", "warning")]
    rows: list[tuple[Cell, ...]] = []
    for (what, protocol), some in found.items():
        scores = {row.score: row for row in some}
        values = [Value.of(scores.get(score)) for score in ("pl1", "ks", "wd", "energy")]
        rows.append((Label(what, protocol=protocol), *values, scores["pl1"].keys))
    note = Note(
        "PL1 and WD are distances, lower is more alike; KS is the share of targets on which the "
        "two samples do not differ significantly; the energy distance is zero on average for "
        "samples of one distribution. Intervals resample images."
    )
    return [Table(name, columns, rows), note]


def _images(counted: Rows, stimuli: Stimuli) -> Section:
    by_target = grouped_pairs(((row["scene"], row["target"]), row) for row in counted)
    most = sorted(by_target.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:_SHOWN]
    shown_images = []
    for (scene, target), rows in most:
        shown = stimuli.shown(scene)
        shown_images.append(
            Illustration(
                shown.pixels,
                f"**{target}** in {scene}, {wording.counted(len(rows), 'click')}",
                size=shown.size,
                outlines=[Outline(shown.targets[target].mask, "ground_truth")],
                prompts=[Click((row["y"] - 0.5, row["x"] - 0.5)) for row in rows[:60]],
            )
        )
    return Section("Where participants clicked", "", [Gallery(shown_images)])
