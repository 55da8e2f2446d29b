"""Project costs: hours and money for many objects, compared with drawing all by hand."""

from __future__ import annotations

from segmeter.benchmarks.noc.comparison import Comparison, comparisons
from segmeter.core.benchmarks import Results
from segmeter.core.errors import BadInput
from segmeter.core.sections import Block, Cell, Column, Section, Table, Value
from segmeter.stats.comparisons import difference

__all__ = ["project_section"]

_HOUR = 3600.0


def project_section(run: Results, objects: int, rate: float | None = None) -> Section:
    """Hours, and money at a rate per hour, for so many objects like those of the run."""
    if objects < 1:
        raise BadInput(f"--objects is a number of objects, not {objects}")
    if rate is not None and not 0 <= rate < float("inf"):
        raise BadInput(f"--rate is money per hour, not {rate:g}")
    found = comparisons(run)
    blocks: list[Block] = [_table(c, objects, rate, len(found) > 1) for c in found]
    text = (
        "Time of a person, if all objects are like those measured; objects that fail are drawn by "
        "hand. Waiting is for the machine that ran this benchmark, and is not paid here. 95 % "
        "intervals are of the mean over images: other kinds of objects cost something else."
    )
    return Section(f"What {objects:,} objects cost".replace(",", " "), text, blocks)


def _table(comparison: Comparison, objects: int, rate: float | None, many: bool) -> Table:
    columns = [Column("way"), Column("time", "hours", 1), Column("waiting", "hours", 1)]
    if rate is not None:
        columns.append(Column("money", f"at {rate:g} per hour", 0))
    columns += [Column("saved", "% of drawing by hand", 0), Column("conclusion")]
    rows = [_row(comparison, k, objects, rate) for k in range(len(comparison.groups))]
    hand = _by_hand(comparison) * objects / _HOUR
    money: list[Cell] = [] if rate is None else [Value(hand * rate)]
    rows.append(["all by hand", Value(hand), Value(0.0), *money, None, "the alternative"])
    where = f" like those of {comparison.title}" if many else ""
    return Table(f"project-{comparison.title}", columns, rows, f"{objects} objects{where}")


def _by_hand(comparison: Comparison) -> float:
    """Mean seconds to find, draw and review an object."""
    group = comparison.groups[0]
    return float(comparison.cost.per_object + comparison.cost.drawing(group.outline_px).mean())


def _row(comparison: Comparison, k: int, objects: int, rate: float | None) -> list[Cell]:
    group = comparison.groups[k]
    mean = comparison.value(group.model, comparison.seconds)
    hours = _scaled(mean, objects / _HOUR)
    seconds = comparison.per_object(group, comparison.seconds)
    hand = comparison.cost.per_object + comparison.cost.drawing(group.outline_px) + 0 * seconds
    paired = difference(seconds, hand, group.clusters, seed=group.dataset)
    saved = _scaled(Value(-paired.interval.value, -paired.interval.high, -paired.interval.low),
                    100 / float(hand.mean())) if hand.mean() else Value(None)  # fmt: skip
    money: list[Cell] = [] if rate is None else [_scaled(hours, rate)]
    waiting = _scaled(comparison.value(group.model, comparison.waiting), objects / _HOUR)
    return [
        group.model,
        hours,
        waiting,
        *money,
        saved,
        _conclusion(paired.interval.value, paired.p),
    ]


def _conclusion(gap: float, p: float) -> str:
    if p >= 0.05:
        return "no significant difference from drawing by hand"
    return "pays: cheaper than drawing by hand" if gap < 0 else "does not pay: dearer than drawing"


def _scaled(value: Value, factor: float) -> Value:
    def times(part: float | None) -> float | None:
        return None if part is None else part * factor

    return Value(times(value.value), times(value.low), times(value.high))
