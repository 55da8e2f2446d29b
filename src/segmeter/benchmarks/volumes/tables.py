"""Tables of volumes: the leaderboard, and tables shaped like the paper's.

The paper's own tables are shown next to ours: Tables 2 to 6 of IntRaBench (2024), percent Dice on
D1 to D8. Of Table 5 only rows that can be read whole are kept. Tables 2, 3 and 5 were made with
slice embeddings that were kept by slice number and never cleared, so that most patients were
segmented on another's features: they are not a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from segmeter.benchmarks.declared import Numbers
from segmeter.benchmarks.report_parts import column_of, published_rows
from segmeter.benchmarks.volumes.statistics import (
    FEWEST,
    VolumeSessions,
    dice_within,
    effort_until,
    never,
)
from segmeter.core.sections import Block, Cell, Column, Label, Note, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.statistics import Statistic
from segmeter.users.volumes.intrabench_prompters import Prompter
from segmeter.users.volumes.intrabench_refiners import Refiner

PAPER_DATASETS = tuple(f"D{i}" for i in range(1, 9))
TITLES = {
    2: "Prompts in every slice (Table 2)",
    3: "Prompts in a few slices (Table 3)",
    4: "Prompts for the whole volume (Table 4)",
    5: "Refinement, slice by slice (Table 5)",
    6: "Refinement of the whole volume (Table 6)",
}
_STALE = (
    "The paper's rows of this table come from code that kept slice embeddings by slice number "
    "and never cleared them; it was mended in January 2025, after the paper. Do not chase them."
)
CAVEATS = {
    2: _STALE,
    3: _STALE,
    4: "",
    5: f"{_STALE} Its '3P Inter' is five-point interpolation.",
    6: "The paper's rows start from one centre point, though they are labelled 1 PPV.",
}


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One printed row; `values` are percent by data set, None where nothing is printed."""

    table: int
    iteration: int
    prompter: str
    model: str
    interactions: str
    values: tuple[float | None, ...]
    average: float | None


@cache
def paper_rows(table: int) -> tuple[PaperRow, ...]:
    """The rows of a table in print order.

    >>> paper_rows(3)[0].average
    4.83
    """
    rows = published_rows("volumes", "paper_tables.csv")
    return tuple(_row(row) for row in rows if int(row["table"]) == table)


def table_of(user: Prompter | Refiner) -> int:
    """Which of the paper's tables a prompter belongs to."""
    if isinstance(user, Refiner):
        return 6 if user.whole else 5
    if user.whole:
        return 4
    return 2 if "PS" in user.label or "Center P" in user.label else 3


def _row(row: dict[str, str]) -> PaperRow:
    return PaperRow(
        int(row["table"]),
        int(row["iteration"]),
        row["prompter"],
        row["model"],
        row["interactions"],
        tuple(_number(row[name]) for name in PAPER_DATASETS),
        _number(row["average"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


# Two folders of one data set: the liver, and the lesions in it.
_ONE_IN_THE_PAPER = {"D11": "D8", "D12": "D8"}


@dataclass(frozen=True, slots=True)
class DatasetDice:
    """Mean Dice over the cases of one class of one data set, 0 to 1."""

    dataset: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table in percent: one value per data set, NaN where there is none, and a mean.

    `complete` tells whether every data set of the table has a value.
    """

    values: Mapping[str, float]
    average: float
    complete: bool


def published_row(given: Sequence[DatasetDice], datasets: Sequence[str]) -> TableRow:
    """The paper's: the average skips data sets that are missing; rounded last, to two digits."""
    values = _of_datasets(given, datasets)
    there = [v for v in values.values() if not np.isnan(v)]
    average = round(float(np.mean(there)), 2) if there else float("nan")
    rounded = {name: round(v, 2) for name, v in values.items()}
    return TableRow(rounded, average, len(there) == len(values))


def corrected_row(given: Sequence[DatasetDice], datasets: Sequence[str]) -> TableRow:
    """The average only where every data set has a value, so that rows compare like with like."""
    values = _of_datasets(given, datasets)
    complete = not any(np.isnan(v) for v in values.values())
    average = float(np.mean(list(values.values()))) if complete and values else float("nan")
    return TableRow(values, average, complete)


def _of_datasets(given: Sequence[DatasetDice], datasets: Sequence[str]) -> dict[str, float]:
    """Percent of each data set: the plain mean over its classes."""
    wanted = dict.fromkeys(_ONE_IN_THE_PAPER.get(name, name) for name in datasets)
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for one in given:
        name = _ONE_IN_THE_PAPER.get(one.dataset, one.dataset)
        if name in found and not np.isnan(one.value):
            found[name].append(one.value)
    return {n: 100 * float(np.mean(v)) if v else float("nan") for n, v in found.items()}


def leaderboard(
    groups: Sequence[VolumeSessions],
    numbers: Numbers,
    cards: Mapping[str, Statistic],
    name: str,
    title: str,
    goal: float,
) -> Table:
    """Every model and user of one data set, the largest area first."""
    found = sorted(groups, key=lambda g: (-numbers[g.key, "area"].value, g.key))
    shown = [
        cards[name]
        for name in (
            "interactions", "seconds", "dice", "dice-median", "empty", *found[0].others,
            "volume-error", dice_within(10).name, "area", effort_until(goal).name,
            never(goal).name,
        )
        if name in cards and (found[0].key, name) in numbers
    ]  # fmt: skip
    columns = [
        Column("prompter"),
        Column("model"),
        Column("paper's name"),
        *(column_of(s, plot=s.name == "dice") for s in shown),
    ]
    rows: list[list[Cell]] = [
        [
            Label(typed(group.user), protocol=group.protocol),
            group.model,
            group.prompter_label,
            *(Value.of(numbers.get((group.key, s.name))) for s in shown),
        ]
        for group in found
    ]
    return Table(
        name,
        columns,
        rows,
        f"{title}: {counted(len(groups[0].keys), 'object')} of {_cases(groups[0])}, by falling "
        f"area. Dice is averaged over the instances of a case, then over cases; {few(groups[0])}",
        "An area is mean Dice over the first 50 interactions, 0 before the first prediction. An "
        f"object that never reaches {goal:g} % needs infinitely many interactions (∞); an empty "
        "mask is infinitely far. A star marks a refinement that gets earlier prompts again.",
    )


def _cases(group: VolumeSessions) -> str:
    return counted(len({scene for scene, _ in group.keys}), "case")


def units_of(group: VolumeSessions) -> str:
    """Unit of resampling: patients where their names are not those of scans, else scans."""
    named = any(c != scene for (scene, _), c in zip(group.keys, group.clusters, strict=True))
    return "patients" if named else "scans"


def few(group: VolumeSessions) -> str:
    """How intervals are made, or why there are none."""
    units, many = units_of(group), len(set(group.clusters))
    if many < FEWEST:
        return f"no intervals with {many} {units if many > 1 else units[:-1]}: they need {FEWEST}."
    return f"95 % intervals are over {many} {units}."


def typed(user: str) -> str:
    """A user's name as one types it after `--user`, without what is the default anyway.

    >>> typed("scribble-refinement?start=box-interpolation&earlier=keep&n=3")
    'scribble-refinement?start=box-interpolation&n=3'
    """
    return user.replace("earlier=keep&", "").removesuffix("&earlier=keep")


def paper_tables(groups: Sequence[VolumeSessions], protocol: str) -> list[Block]:
    """Our rows in the shape of the paper's tables, with the paper's own beneath."""
    blocks: list[Block] = []
    for number, title in TITLES.items():
        mine = [g for g in groups if g.protocol == protocol and g.paper_table == number]
        if mine:
            blocks.append(_paper_table(number, title, mine, protocol))
            if CAVEATS[number]:
                blocks.append(Note(CAVEATS[number], "warning"))
    return blocks


def _paper_table(number: int, title: str, groups: Sequence[VolumeSessions], protocol: str) -> Table:
    datasets = list(dict.fromkeys(g.dataset for g in groups))
    printed = [r for r in paper_rows(number) if _shown_beside(r, groups)]
    names = [*datasets, *(d for d in PAPER_DATASETS if printed and d not in datasets)]
    columns = [
        Column("step", digits=0),
        Column("prompter"),
        Column("model"),
        Column("interactions"),
        *(Column(name, "%", digits=2) for name in names),
        Column("average", "%", digits=2),
    ]
    rows = [*_own_rows(groups, datasets, names, protocol), *_printed_rows(printed, names)]
    return Table(
        f"paper-table-{number}-{protocol}",
        columns,
        rows,
        f"{title}. Ours in the protocol {protocol}; rows tagged `paper` are printed ones, on "
        "other data.",
        "An average needs every data set of the table.",
    )


def _shown_beside(row: PaperRow, groups: Sequence[VolumeSessions]) -> bool:
    labels = {_plain(g.prompter_label) for g in groups}
    return _plain(row.prompter) in labels


def _plain(label: str) -> str:
    """Labels without spaces and marks; the paper's 3P of Table 5 is five points."""
    bare = label.replace(" ", "").replace("*", "").replace("center", "").lower()
    return bare.replace("3pinter+", "5pinter+")


def _own_rows(
    groups: Sequence[VolumeSessions], datasets: Sequence[str], names: Sequence[str], protocol: str
) -> Iterator[list[Cell]]:
    sessions: dict[tuple[str, str], list[VolumeSessions]] = {}
    for group in groups:
        sessions.setdefault((group.user, group.model), []).append(group)
    for (_, model), members in sessions.items():
        refines = members[0].paper_table in (5, 6)
        for step in range(max(g.rounds for g in members) if refines else 1):
            given = [d for g in members for d in _class_dice(g, step, protocol)]
            row = (published_row if protocol == "published" else corrected_row)(given, datasets)
            values = [row.values.get(name) for name in names]
            whole = not any(v is None or np.isnan(v) for v in values)
            yield [
                step,
                members[0].prompter_label,
                model,
                members[0].paper_interactions,
                *(None if v is None or np.isnan(v) else v for v in values),
                row.average if whole else None,
            ]


def _class_dice(group: VolumeSessions, step: int, protocol: str) -> list[DatasetDice]:
    """Mean over cases of each class: of matched instances in published, of pairs in corrected."""
    table = group.published if protocol == "published" else group.dice
    column = table[:, min(step, group.rounds - 1)]
    cases: dict[str, dict[str, list[float]]] = {}
    for (scene, _), label, value in zip(group.keys, group.labels, column, strict=True):
        cases.setdefault(label, {}).setdefault(scene, []).append(float(value))
    return [
        DatasetDice(group.dataset, label, float(np.mean([np.mean(v) for v in by_case.values()])))
        for label, by_case in cases.items()
    ]


def _printed_rows(rows: Sequence[PaperRow], names: Sequence[str]) -> Iterator[list[Cell]]:
    for row in rows:
        known = dict(zip(PAPER_DATASETS, row.values, strict=True))
        yield [
            row.iteration,
            Label(row.prompter, protocol="paper"),
            row.model,
            row.interactions,
            *(known.get(name) for name in names),
            row.average,
        ]


def by_organ(groups: Sequence[VolumeSessions], name: str) -> Table:
    """Each organ with each model and prompter: overlap, surfaces, volume and empty masks."""
    measures = [m for m in groups[0].others if m in _ORGAN_COLUMNS]
    columns = [
        Column("organ"),
        Column("prompter"),
        Column("model"),
        Column("objects", digits=0),
        Column("Dice", "%, mean", digits=1, better="higher", shade=True, percent=True),
        Column("Dice", "%, median", digits=1, percent=True),
        *(_ORGAN_COLUMNS[m] for m in measures),
        Column("volume", "ml, mean", digits=1),
        Column("volume error", "ml, mean", digits=1),
        Column("empty masks", digits=0),
    ]
    labels = sorted({label for g in groups for label in g.labels})
    rows = [_organ_row(g, label, measures) for label in labels for g in groups if label in g.labels]
    return Table(name, columns, rows, f"{groups[0].dataset}: the last round, organ by organ.")


_ORGAN_COLUMNS = {
    "nsd": Column("NSD", "%, mean", digits=1, better="higher", percent=True),
    "hd95": Column("HD95", "mm, median", digits=1, better="lower"),
    "mean-surface-distance": Column("mean distance", "mm, median", digits=2, better="lower"),
}


def _organ_row(group: VolumeSessions, label: str, measures: Sequence[str]) -> list[Cell]:
    mine = np.array([own == label for own in group.labels])
    draws = group.repeats or (group,)

    def all_draws(name: str, measure: str = "") -> Any:
        tables = [getattr(one, name) for one in draws]
        chosen = [table[measure] if measure else table for table in tables]
        return np.concatenate([table[mine, -1] for table in chosen])

    dice = all_draws("dice")
    found: list[Cell] = []
    for measure in measures:
        values = all_draws("others", measure)
        found.append(float(values.mean() if measure == "nsd" else np.median(values)))
    true, predicted = all_draws("volume_ml"), all_draws("predicted_ml")
    empty = int((predicted == 0).sum())
    return [
        label or "?",
        Label(typed(group.user), protocol=group.protocol),
        group.model,
        int(mine.sum()),
        float(dice.mean()),
        float(np.median(dice)),
        *found,
        float(true.mean()),
        float((predicted - true).mean()),
        empty,
    ]


def instances(groups: Sequence[VolumeSessions], numbers: Numbers, name: str) -> Table | None:
    """Direct pairing and the original's matching, where a case has several instances."""
    shared = [g for g in groups if _several(g)]
    if not shared:
        return None
    columns = [
        Column("prompter"),
        Column("model"),
        Column("Dice, paired", "%", digits=2, better="higher"),
        Column("Dice, re-matched", "%", digits=2),
    ]
    rows: list[list[Cell]] = []
    for group in shared:
        values = [Value.of(numbers[group.key, name]) for name in ("dice", "dice-published")]
        rows.append([Label(group.prompter_label, protocol=group.protocol), group.model, *values])
    return Table(
        name,
        columns,
        rows,
        f"{groups[0].dataset}: each mask with the instance it was prompted for, and the "
        "original's way, which forgets that and counts a miss twice.",
    )


def _several(group: VolumeSessions) -> bool:
    """Whether some case has two instances of a class."""
    pairs = list(zip((s for s, _ in group.keys), group.labels, strict=True))
    return len(set(pairs)) < len(pairs)
