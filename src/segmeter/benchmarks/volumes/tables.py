"""Tables of volumes: the leaderboard, tables shaped like the paper's, and the cases behind them.

The paper's own tables are shown next to ours: Tables 2 to 6 of IntRaBench (2024), percent Dice on
D1 to D8. Of Table 5 only rows that can be read whole are kept. Tables 2, 3 and 5 were made with
slice embeddings that were kept by slice number and never cleared, so that most patients were
segmented on another's features: they are not a target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.report_cases import Key, session_rows, values_by_key, volume_slices
from segmeter.benchmarks.volumes import statistics as volumes
from segmeter.benchmarks.volumes.statistics import VolumeSessions
from segmeter.core import catalogue
from segmeter.core.benchmarks import FEWEST_PATIENTS, Results, Row
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import Scene, Volume
from segmeter.core.sections import Block, Cell, Column, Frame, Label, Note, Slices, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.intervals import Floats
from segmeter.users.simulation import mask_of
from segmeter.users.volumes.intrabench_prompters import Prompter, Refiner

PAPER_DATASETS = tuple(f"D{i}" for i in range(1, 9))
_STALE = (
    "The paper's rows of this table come from code that kept slice embeddings by slice number "
    "and never cleared them; it was fixed in January 2025, after the paper. They cannot be "
    "reproduced."
)
TABLES = {
    2: ("Prompts in every slice (Table 2)", _STALE),
    3: ("Prompts in a few slices (Table 3)", _STALE),
    4: ("Prompts for the whole volume (Table 4)", ""),
    5: ("Refinement, slice by slice (Table 5)",
        f"{_STALE} Its '3P Inter' is five-point interpolation."),
    6: ("Refinement of the whole volume (Table 6)",
        "The paper's rows start from one centre point, though they are labelled 1 PPV."),
}  # fmt: skip
"""Titles of the paper's tables, and what to know of their rows."""


def table_of(user: Prompter | Refiner) -> int:
    """Which of the paper's tables a prompter belongs to."""
    if isinstance(user, Refiner):
        return 6 if user.whole else 5
    if user.whole:
        return 4
    return 2 if "PS" in user.label or "Center P" in user.label else 3


# Two folders of one dataset: the liver, and the lesions in it.
_ONE_IN_THE_PAPER = {"D11": "D8", "D12": "D8"}


def averaged(
    given: Sequence[tuple[str, float]], datasets: Sequence[str], protocol: str
) -> tuple[dict[str, float], float]:
    """Percent of each dataset (the plain mean over its classes, NaN for none), and their mean.

    `given` are datasets with the mean Dice of a class. `published` averages the datasets that
    are there and rounds last, to two digits; `corrected` only where every one has a value, so
    that rows compare like with like.
    """
    found: dict[str, list[float]] = {_ONE_IN_THE_PAPER.get(name, name): [] for name in datasets}
    for name, value in given:
        own = _ONE_IN_THE_PAPER.get(name, name)
        if own in found and not np.isnan(value):
            found[own].append(value)
    values = {n: 100 * float(np.mean(v)) if v else float("nan") for n, v in found.items()}
    there = [v for v in values.values() if not np.isnan(v)]
    published = protocol == "published"
    usable = there and (published or len(there) == len(values))
    average = float(np.mean(there)) if usable else float("nan")
    if published:
        return {name: round(v, 2) for name, v in values.items()}, round(average, 2)
    return values, average


Cells = dict[Column, Callable[[VolumeSessions], Cell]]
PROMPTER: Cells = {Column("prompter"): lambda g: typed(g.user), Column("model"): lambda g: g.model}


def prompters_table(groups: Sequence[VolumeSessions]) -> Table:
    """Each prompter by its work for a person, its cost and the paper's name."""

    def does(group: VolumeSessions) -> str:
        name, _, start = group.prompter.partition(" from ")
        what = known.get(Spec.parse(name).name, "your own user").removeprefix("volumes: ")
        return f"{what}, starting from the mask of {start}" if start else what

    known = {entry.name: entry.summary for entry in catalogue.users}
    first = {group.prompter: group for group in reversed(groups)}
    columns: Cells = {
        Column("prompter"): lambda g: typed(g.user),
        Column("what a person does"): does,
        Column("interactions", "per object", 1): lambda g: float(g.interactions[:, -1].mean()),
        Column("paper's name"): lambda g: g.prompter_label if g.paper_table else "",
    }
    return Table.of("prompters", list(first.values())[::-1], columns, "The prompters of this run.")


def stem(kind: str, groups: Sequence[VolumeSessions]) -> str:
    """The name of a table of one dataset."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9]+', '-', groups[0].dataset).strip('-').lower()}"


def leaderboard(findings: parts.Findings, groups: Sequence[VolumeSessions], goal: float) -> Table:
    """Every model and user of one dataset, the largest area first."""
    found = sorted(groups, key=lambda g: (-findings.numbers[g.key, "area"].value, g.key))
    measures = [name for name in found[0].others if not name.endswith("-path")]
    wanted = (
        "interactions", "seconds", "dice", "dice-median", *measures, "empty",
        volumes.dice_within(10).name, "area", volumes.effort_until(goal).name,
        volumes.never(goal).name,
    )  # fmt: skip
    one, cases = groups[0], counted(len({scene for scene, _ in groups[0].keys}), "case")
    return Table.of(
        stem("volumes", groups),
        found,
        {**PROMPTER, **findings.columns(found, wanted, plot="dice")},
        caption=f"{one.dataset}: {counted(one.size, 'object')} of {cases}, by falling area; "
        f"protocol {one.protocol}. Dice is averaged over the instances of a case, then over cases; "
        f"{few(one)}",
        note="An area is mean Dice over the first 50 interactions, 0 before the first prediction. "
        f"An object that never reaches {goal:g} % needs infinitely many interactions (∞); an empty "
        "mask is infinitely far.",
    )


def few(group: VolumeSessions) -> str:
    """How intervals are made, or why there are none."""
    many = len(set(group.clusters))
    units = counted(many, group.unit)
    if many < FEWEST_PATIENTS:
        return f"no intervals with {units}: they need {FEWEST_PATIENTS}."
    return f"95 % intervals are over {units}."


def typed(user: str) -> str:
    """A user's name as one types it after `--user`, without what is the default anyway.

    >>> typed("scribble-refinement?start=box-interpolation&earlier=keep&n=3")
    'scribble-refinement?start=box-interpolation&n=3'
    """
    return user.replace("earlier=keep&", "").removesuffix("&earlier=keep")


def paper_tables(groups: Sequence[VolumeSessions], protocol: str) -> list[Block]:
    """Our rows in the shape of the paper's tables, with the paper's own beneath."""
    blocks: list[Block] = []
    for number, (title, caveat) in TABLES.items():
        mine = [g for g in groups if g.protocol == protocol and g.paper_table == number]
        if mine:
            blocks.append(_paper_table(number, title, mine, protocol))
            blocks += [Note(caveat, "warning")] if caveat else []
    return blocks


def _paper_table(number: int, title: str, groups: Sequence[VolumeSessions], protocol: str) -> Table:
    datasets = list(dict.fromkeys(g.dataset for g in groups))
    labels = {_plain(g.prompter_label) for g in groups}
    printed = [
        row
        for row in parts.published_rows("volumes", "paper_tables.csv")
        if int(row["table"]) == number and _plain(row["prompter"]) in labels
    ]
    names = [*datasets, *(d for d in PAPER_DATASETS if printed and d not in datasets)]
    head = [Column("step", digits=0), *map(Column, ("prompter", "model", "interactions"))]
    rows = _own_rows(groups, datasets, names, protocol)
    for row in printed:
        who = (Label(row["prompter"], protocol="paper"), row["model"], row["interactions"])
        values = [row.get(name) for name in (*names, "average")]
        rows.append([int(row["iteration"]), *who, *(float(v) if v else None for v in values)])
    return Table(
        f"paper-table-{number}-{protocol}",
        [*head, *(Column(name, "%", digits=2) for name in (*names, "average"))],
        rows,
        f"{title}. Ours in the protocol {protocol}; rows tagged `paper` are those printed, on "
        "other data.",
        "Prompters have the paper's names; the first section lists both names. An average needs "
        "every dataset of the table. A star marks a refinement that repeats earlier prompts.",
    )


def _plain(label: str) -> str:
    """Labels without spaces and marks; the paper's 3P of Table 5 is five points."""
    bare = label.replace(" ", "").replace("*", "").replace("center", "").lower()
    return bare.replace("3pinter+", "5pinter+")


def _own_rows(
    groups: Sequence[VolumeSessions], datasets: Sequence[str], names: Sequence[str], protocol: str
) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for (_, model), members in grouped(groups, lambda g: (g.user, g.model)).items():
        refines = members[0].paper_table in (5, 6)
        for step in range(max(g.rounds for g in members) if refines else 1):
            given = [d for g in members for d in _class_dice(g, step, protocol)]
            found, average = averaged(given, datasets, protocol)
            values = [found.get(name, np.nan) for name in names]
            values.append(np.nan if np.isnan(values).any() else average)
            who = (members[0].prompter_label, model, members[0].paper_interactions)
            rows.append([step, *who, *(None if np.isnan(v) else v for v in values)])
    return rows


def _class_dice(group: VolumeSessions, step: int, protocol: str) -> list[tuple[str, float]]:
    """Mean over cases of each class: of matched instances in published, of pairs in corrected."""
    table = group.published if protocol == "published" else group.dice
    column = table[:, min(step, group.rounds - 1)]
    _, _, place = volumes.cases_of(group.keys, group.clusters, group.labels)
    _, first = np.unique(place, return_index=True)
    _, label = np.unique(np.array(group.labels)[first], return_inverse=True)
    by_class, _ = volumes.means_at(label, volumes.means_at(place, column)[0])
    return [(group.dataset, float(mean)) for mean in by_class]


_ORGAN_COLUMNS: tuple[tuple[str, Column, Callable[[Any], Any]], ...] = (
    ("dice", Column("Dice", "%, mean", 1, better="higher", shade=True, percent=True), np.mean),
    ("dice", Column("Dice", "%, median", 1, percent=True), np.median),
    ("nsd", Column("NSD", "%, mean", 1, better="higher", percent=True), np.mean),
    ("hd95", Column("HD95", "mm, median", 1, better="lower"), np.median),
    ("mean-surface-distance", Column("mean distance", "mm, median", 2, better="lower"), np.median),
    ("volume_ml", Column("volume", "ml, mean", 1), np.mean),
    ("error_ml", Column("volume error", "ml, mean", 1), np.mean),
    ("empty", Column("empty masks", digits=0), np.sum),
)
"""Columns over an organ's objects after the last round, all draws included."""


def by_organ(groups: Sequence[VolumeSessions]) -> Table:
    """Each organ with each model and prompter: overlap, surfaces, volume and empty masks."""
    shown = [one for one in _ORGAN_COLUMNS if one[0] in _organ_tables(groups[0])]
    rows: list[list[Cell]] = []
    for organ in sorted({label for g in groups for label in g.labels}):
        mine = [g for g in groups if organ in g.labels]
        cells = [
            _best_strong([float(reduced(_at_end(g, name, organ))) for g in mine], column.better)
            for name, column, reduced in shown
        ]
        for g, *own in zip(mine, *cells, strict=True):
            rows.append([organ or "?", typed(g.user), g.model, g.labels.count(organ), *own])
    head = [*map(Column, ("organ", "prompter", "model")), Column("objects", digits=0)]
    caption = (
        f"{groups[0].dataset}: the last round, organ by organ; protocol {groups[0].protocol}. "
        "Bold: best of the organ."
    )
    return Table(stem("organs", groups), [*head, *(c for _, c, _ in shown)], rows, caption)


def _organ_tables(group: VolumeSessions) -> dict[str, Floats]:
    sizes = {"volume_ml": group.volume_ml, "error_ml": group.predicted_ml - group.volume_ml}
    empty = (group.predicted_ml == 0).astype(float)
    return {**group.others, **sizes, "dice": group.dice, "empty": empty}


def _at_end(group: VolumeSessions, name: str, organ: str) -> Floats:
    mine = [own == organ for own in group.labels]
    tables = [_organ_tables(one)[name] for one in group.repeats or (group,)]
    return np.concatenate([table[mine, -1] for table in tables])


def _best_strong(values: Sequence[float], better: str) -> Sequence[Cell]:
    """A single row, or a value that all share, is not highlighted."""
    if not better:
        return values
    best = max(values) if better == "higher" else min(values)
    return [Value(v, best=v == best and len(set(values)) > 1) for v in values]


def instances(findings: parts.Findings, groups: Sequence[VolumeSessions]) -> list[Table]:
    """Direct pairing and the original's matching, where a case has several instances."""
    pairs = {g.key: list(zip(g.scenes, g.labels, strict=True)) for g in groups}
    shared = [g for g in groups if len(set(pairs[g.key])) < len(pairs[g.key])]
    columns = {
        **PROMPTER,
        Column("prompter"): lambda g: Label(typed(g.user), protocol=g.protocol),
        **findings.columns(shared, ("dice", "dice-published")),
    }
    caption = (
        f"{groups[0].dataset}: each mask with the instance it was prompted for, and "
        "re-matched as in the original, which counts a miss twice."
    )
    table = Table.of(stem("instances", groups), shared, columns, caption)
    return [table] if shared else []


_LISTED = 15


def failures(run: Results, groups: Sequence[VolumeSessions]) -> Table:
    """The objects with the lowest Dice over all models and users of a dataset."""
    query = "select distinct dataset, scene, target, area from sessions order by all"
    found = run.sql(query).to_pylist()
    sizes = {(row["dataset"], row["scene"], row["target"]): row["area"] for row in found}
    heads = {"Dice": "%, mean", "best": "%", "best by": "", "worst": "%", "worst by": ""}
    columns = [*map(Column, ("case", "object", "class")), Column("voxels", digits=0)]
    columns += [Column(h, u, 1, True) if u else Column(h) for h, u in heads.items()]
    rows: list[list[Cell]] = []
    for key in _by_quality(groups)[:_LISTED]:
        ends = sorted(_last(groups, key), key=lambda one: (one[0], one[1].key))
        _, worst = ends[0]
        label, size = worst.labels[worst.keys.index(key)], sizes.get((worst.dataset, *key))
        rows.append([*key, label, size, float(np.mean([dice for dice, _ in ends]))])
        for dice, group in (ends[-1], ends[0]):
            rows[-1] += [dice, f"{group.model}, {typed(group.user)}"]
    caption = f"{groups[0].dataset}: the objects with the lowest Dice."
    return Table(stem("failures", groups), columns, rows, caption)


def lost_prompts(run: Results) -> list[Block]:
    """Prompts and targets that never reached a network, by model, protocol and user."""
    found = run.sql(
        "select model, protocol, prompter, sum(list_sum(prompts_outside_input)) as lost,"
        " sum(len(list_filter(kinds_, lambda kinds: kinds <> ''))) as rounds,"
        " count(distinct case when target_vanished then (dataset, scene, target) end) as gone"
        " from sessions group by all having lost > 0 or gone > 0 order by all"
    )
    columns = [*map(Column, ("model", "protocol", "user"))]
    columns += [Column(word, digits=0) for word in ("prompts lost", "rounds", "targets lost")]
    rows = [list(row.values()) for row in found.to_pylist()]
    caption = (
        "Prompts outside the crop or grid that a model's network sees, and targets of which it "
        "sees nothing: no prompt can correct such a target."
    )
    return [Table("prompts-lost", columns, rows, caption)] if rows else []


def sessions_to_scroll(run: Results, groups: Sequence[VolumeSessions]) -> list[Block]:
    """The worst, a middling and the best object of a dataset, in slices, step by step."""
    order = _by_quality(groups)
    blocks: list[Block] = []
    for key in dict.fromkeys([order[0], order[len(order) // 2], order[-1]]):
        _, group = max(_last(groups, key), key=lambda one: (one[0], one[1].rounds, one[1].key))
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
    steps = []
    for row in made:
        mask, prompts = mask_of(row, scene.shape), round_from_json(row["prompt"])
        spent = f"{row['interactions']:.0f} interactions so far"
        steps.append(Frame(mask, prompts, {"Dice": row["dice"]}, note=spent))
    row = made[-1]
    return volume_slices(
        scene,
        re.sub(r"\W+", "-", f"slices-{scene.dataset}-{scene.id}-{row['target']}"),
        f"{scene.id}, {row['label'] or row['target']}: {row['model']}, {typed(row['prompter'])}",
        steps,
        ground_truth,
        f"Protocol {row['protocol']}; Dice {100 * row['dice']:.1f} % in the end.",
    )


def _by_quality(groups: Sequence[VolumeSessions]) -> list[Key]:
    """Objects by their mean Dice over models and users, the worst first."""
    found = values_by_key(groups, lambda group: group.dice[:, -1])
    return sorted(found, key=lambda key: (float(np.mean(found[key])), key))


def _last(groups: Sequence[VolumeSessions], key: Key) -> list[tuple[float, VolumeSessions]]:
    """Dice of an object in the groups that have it: not all do while a run is incomplete."""
    found = [g for g in groups if key in g.keys]
    return [(float(g.dice[g.keys.index(key), -1]), g) for g in found]
