"""The cases behind the numbers: objects that fail, and sessions to scroll through."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from segmeter.benchmarks.report_parts import Key, session_rows, volume_slices
from segmeter.benchmarks.sessions import mask_of
from segmeter.benchmarks.volumes.statistics import VolumeSessions
from segmeter.benchmarks.volumes.tables import stem, typed
from segmeter.core.benchmarks import Results, Row
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import Scene, Volume
from segmeter.core.sections import Block, Cell, Column, Frame, Note, Slices, Table

_LISTED, _SHOWN = 15, 3


def failures(run: Results, groups: Sequence[VolumeSessions]) -> Table:
    """The objects that come out worst over all models and users of a dataset."""
    table = run.sql(
        "select distinct scene, target, area from sessions where dataset = ? order by all",
        [groups[0].dataset],
    )
    sizes = {(row["scene"], row["target"]): row["area"] for row in table.to_pylist()}

    def ends(key: Key, which: int) -> VolumeSessions:
        return sorted(_with(groups, key), key=lambda g: (_last(g, key), g.key))[which]

    def named(group: VolumeSessions) -> str:
        return f"{group.model}, {typed(group.user)}"

    columns: dict[Column, Callable[[Key], Cell]] = {
        Column("case"): lambda key: key[0],
        Column("object"): lambda key: key[1],
        Column("class"): lambda key: (own := ends(key, 0)).labels[own.keys.index(key)],
        Column("voxels", digits=0): lambda key: sizes.get(key),
        Column("Dice", "%, mean", digits=1, percent=True): (
            lambda key: float(np.mean([_last(g, key) for g in _with(groups, key)]))
        ),
        Column("best", "%", digits=1, percent=True): lambda key: _last(ends(key, -1), key),
        Column("best by"): lambda key: named(ends(key, -1)),
        Column("worst", "%", digits=1, percent=True): lambda key: _last(ends(key, 0), key),
        Column("worst by"): lambda key: named(ends(key, 0)),
    }
    caption = f"{groups[0].dataset}: the objects with the lowest Dice."
    worst = _by_quality(groups)[:_LISTED]
    return Table.of(stem("failures", groups), worst, columns, caption)


def lost_prompts(run: Results) -> list[Block]:
    """Prompts and targets that never reached a network, by model, protocol and user."""
    found = run.sql(
        "select model, protocol, prompter, sum(list_sum(prompts_outside_input)) as lost,"
        " sum(len(list_filter(kinds_, lambda kinds: kinds <> ''))) as rounds,"
        " count(distinct case when target_vanished then (dataset, scene, target) end) as gone"
        " from sessions group by all having lost > 0 or gone > 0 order by all"
    )
    words = [Column(word) for word in ("model", "protocol", "user")]
    counts = [Column(word, digits=0) for word in ("prompts lost", "rounds", "targets lost")]
    rows = [list(row.values()) for row in found.to_pylist()]
    caption = (
        "Prompts that a model's crop or coarser grid kept from its network, and targets of which "
        "nothing is left there: what such a model misses, no prompt can fix."
    )
    return [Table("prompts-lost", [*words, *counts], rows, caption)] if rows else []


def sessions_to_scroll(run: Results, groups: Sequence[VolumeSessions]) -> list[Block]:
    """The worst, a middling and the best object of a dataset, in slices, step by step."""
    order = _by_quality(groups)
    blocks: list[Block] = []
    for key in list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))[:_SHOWN]:
        group = max(_with(groups, key), key=lambda g: (_last(g, key), g.rounds, g.key))
        try:
            scene = run.scene(group.dataset, key[0])
            mask = next((t.mask for t in scene.targets if t.id == key[1]), None)
            rows = session_rows(run, group, key, (group.user,))
            blocks.append(session_slices(scene, mask, rows))
        except BadInput as error:  # a run that was damaged or made up, or whose data changed
            blocks.append(Note(str(error), "warning"))
        except SegmeterError as error:
            return [Note(f"Volumes are not available to be shown: {error}", "warning")]
    return blocks


def session_slices(scene: Scene, ground_truth: Mask | None, rows: Sequence[Row]) -> Slices:
    """One session slice by slice, without the rounds after the user stopped."""
    made = [row for row in rows if not row["stopped"] or row["round"] == 1]
    if ground_truth is None or not made or not isinstance(scene, Volume):
        raise BadInput(f"{scene.name}: its volume or target is not in the data any more")
    if any(row["mask"] is None for row in made):
        raise BadInput(f"{scene.name}: masks were not kept in this run")
    row, steps = made[-1], [_step(row, scene) for row in made]
    return volume_slices(
        scene,
        re.sub(r"\W+", "-", f"slices-{scene.dataset}-{scene.id}-{row['target']}"),
        f"{scene.id}, {row['label'] or row['target']}: {row['model']}, {typed(row['prompter'])}",
        steps,
        ground_truth,
        f"Protocol {row['protocol']}; Dice {100 * row['dice']:.1f} % in the end.",
    )


def _step(row: Row, scene: Scene) -> Frame:
    mask = mask_of(row, scene.shape)
    spent = f"{row['interactions']:.0f} interactions so far"
    return Frame(mask, round_from_json(row["prompt"]), {"Dice": row["dice"]}, note=spent)


def _by_quality(groups: Sequence[VolumeSessions]) -> list[Key]:
    """Objects by their mean Dice over models and users, the worst first."""
    found: dict[Key, list[float]] = {}
    for group in groups:
        for key, value in zip(group.keys, group.dice[:, -1], strict=True):
            found.setdefault(key, []).append(float(value))
    return sorted(found, key=lambda key: (float(np.mean(found[key])), key))


def _with(groups: Sequence[VolumeSessions], key: Key) -> list[VolumeSessions]:
    """The groups that have an object; not all do while a run is incomplete."""
    return [group for group in groups if key in group.keys]


def _last(group: VolumeSessions, key: Key) -> float:
    return float(group.dice[group.keys.index(key), -1])
