"""The section on sessions that correct a mask, next to those from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from segmeter.analysis.report_parts import P_VALUE
from segmeter.core.benchmarks import Group, Results
from segmeter.core.lockstep import Start
from segmeter.core.sections import Cell, Column, Section, Table, Value
from segmeter.stats.comparisons import difference
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, resampling


def start_sections(
    run: Results,
    groups: Sequence[tuple[Group, Floats | None]],
    shown: Sequence[Statistic],
    met: float,
) -> list[Section]:
    """Sessions from masks against those from nothing, on the same objects.

    `groups` come with the IoU of their starting masks, None for those from nothing; `shown` are
    statistics to compare, and `met` the IoU from which nothing is left to correct.
    """
    if all(start is None for _, start in groups):
        return []
    query = "select max(start_from) as source from sessions"  # one: a plan names one start
    source = str(run.sql(query)["source"][0].as_py())
    masked = {group.key: (group, start) for group, start in groups if start is not None}
    rows = []
    for before, start in groups:
        label = Start.label(before.user, source)
        partner = masked.get((before.model, before.dataset, label, before.protocol))
        if start is None and partner is not None and partner[0].keys == before.keys:
            rows.append(_row(before, *partner, source, shown, met))
    columns = [*map(Column, ("model", "data", "from")), Column("IoU of the start", "%", 1)]
    columns += [Column("at the goal", "% of objects", 0), Column("without a mask", "objects", 0)]
    for card in shown:
        titles = (f"{card.title}: from nothing", "from the mask", "difference")
        columns += [Column(title, card.unit, card.digits) for title in titles]
        columns.append(replace(P_VALUE, unit="uncorrected"))
    text = (
        "The same user and model start from a mask instead of from nothing. Masks and objects are "
        "paired one to one with the largest total IoU; an object without a mask starts from "
        "nothing. A mask that already meets the goal costs no click. Differences are paired, with "
        "95 % intervals from resampling images."
    )
    return [Section("Correct existing masks", text, [Table("starts", columns, rows)])]


def _row(
    before: Group, group: Group, start: Floats, source: str, shown: Sequence[Statistic], met: float
) -> list[Cell]:
    drawn, fewest = resampling(group), max((card.fewest for card in shown), default=0)
    given = drawn.interval(100 * start).if_enough(drawn.clusters, fewest)
    cells: list[Cell] = [
        group.model, group.dataset, source, Value.of(given),
        Value(100 * float((start >= met).mean())), Value(float((start == 0).sum())),
    ]  # fmt: skip
    for card in shown:
        assert card.values is not None  # statistics of objects
        old, new = card.values(before), card.values(group)
        paired_ = difference(new, old, group.clusters, seed=group.dataset)
        found = (drawn.interval(old), drawn.interval(new), paired_.interval)
        cells += [Value.of(i.if_enough(drawn.clusters, card.fewest)) for i in found]
        cells.append(paired_.p)
    return cells
