"""Costs: hours and money for a number of objects, and the machines that waiting depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.benchmarks import Group, Results, too_few
from segmeter.core.errors import BadInput
from segmeter.core.sections import Answer, Block, Cell, Column, Note, Section, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import difference, holm
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic

_HOUR = 3600.0


def cost_of(run: Results) -> CostModel:
    """The cost model that the caller chose, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def means_over_targets(run: Results, *values: str) -> dict[str, list[float]]:
    """Means of values in SQL over all targets of a dataset, also where `run` is a part of a run.

    Values are rounded to a millionth, so that their sum does not depend on its order.
    """
    each = ", ".join(f"max(try_cast(1e6 * {v} as bigint)) as v{k}" for k, v in enumerate(values))
    means = ", ".join(f"coalesce(avg(v{k}) / 1e6, 'nan')" for k in range(len(values)))
    table = run.whole.sql(f"""
        select dataset, {means}
        from (select dataset, {each} from sessions group by dataset, scene, target)
        group by dataset order by dataset
    """)
    return {name: list(found) for name, *found in zip(*table.to_pydict().values(), strict=True)}


def machines(run: Results) -> str:
    """The machine on which the seconds were measured, and its load; empty if unknown."""
    named = {f"{m['processor']} with {m['cores']} cores" for m in _worked(run) if "processor" in m}
    devices = {t.get("device", "") for t in run.provenance.get("segmenters", {}).values()}
    on = ", ".join([*sorted(named), *sorted(devices - {"", "auto", "cpu"})])
    load = busy(run) and f" It {busy(run)}."
    return on and (
        f"Waiting was measured on {on} and includes the effect of all other programs there; "
        f"it differs on other machines.{load}"
    )


def busy(run: Results) -> str:
    """A phrase for waiting measured on a busy machine, to follow "it"; empty if it was idle."""
    loaded = [m for m in _worked(run) if (m.get("load") or 0) > (m.get("cores") or 1)]
    if not loaded:
        return ""
    worst = max(loaded, key=lambda m: float(m["load"]))
    return (
        f"was measured on a busy machine (load {worst['load']:g} on {worst['cores']} cores when "
        "the run began) and would be shorter on an idle one"
    )


def _worked(run: Results) -> list[dict[str, Any]]:
    """The machines of commands that had jobs to do."""
    entries = run.provenance.get("commands", [])
    return [entry.get("machine", {}) for entry in entries if entry.get("jobs_left", 1)]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to annotate objects: a person's work, waiting and drawing by hand, in seconds.

    The seconds are one per object; `card` is the statistic of the work, which gives intervals.
    """

    name: str
    group: Group
    card: Statistic
    seconds: Floats
    waiting: Floats
    by_hand: Floats

    @property
    def spent(self) -> Floats:
        """Work and waiting of each object."""
        return self.seconds + self.waiting

    @property
    def total(self) -> Value:
        return self.mean(self.spent)

    def mean(self, seconds: Floats) -> Value:
        return Value.of(self.card.interval(self.group, seconds))

    @property
    def untested(self) -> str:
        """Why nothing is tested, where there are too few cases."""
        return too_few(len(set(self.group.clusters)), self.group.unit)

    def less(self, other: Floats) -> tuple[Value, float]:
        """Its time minus `other`, and p; without limits where the time itself has none."""
        clusters, seed = self.group.clusters, self.group.dataset
        paired = difference(self.spent, other, clusters, seed=seed)
        sure = self.total.low is not None and not np.isnan(self.total.low)
        gap = Value.of(paired.interval)
        return gap if sure else Value(gap.value), paired.p

    @property
    def saved(self) -> Value:
        """Percent of drawing by hand that is saved, waiting counted; no limits for one image."""
        if not (hand := float(self.by_hand.mean())):
            return Value(None)
        used = float(self.spent.mean()) / hand  # a ratio of means, linearised for its limits
        return self.less(hand + used * (self.by_hand - hand))[0].times(-100 / hand)


def cost_section(
    run: Results,
    tables: Mapping[str, Sequence[Way]],
    objects: int,
    rate: float | None,
    assumed: str,
    ranked: Mapping[str, str] | None = None,
) -> Section:
    """Hours, and money at a rate per hour, for so many objects, by what they are like.

    `assumed` states the goal and the price of drawing by hand, `ranked` which way another ranking
    of the report puts first.
    """
    if type(objects) is not int or objects < 1:
        raise BadInput(f"--objects must be a whole number of at least 1, not {objects!r}")
    if not (rate is None or (isinstance(rate, int | float) and 0 <= rate < float("inf"))):
        raise BadInput(f"--hourly-rate must be an amount per hour, not {rate!r}")
    units = dict.fromkeys(f"{way.group.unit}s" for found in tables.values() for way in found)
    text = (
        "Annotators are paid while they wait for the model: order, money and savings include "
        "waiting. It is assumed that all objects are like those measured; 95 % intervals are of "
        f"the mean over {' or '.join(units)}, conclusions are Holm-corrected over the ways. "
        f"{assumed} {machines(run)}"
    ).strip()
    blocks: list[Block] = []
    for title, found in tables.items():
        ways = sorted(found, key=lambda way: float(way.spent.mean()))
        group = ways[0].group
        measured = f"{group.size} measured in {counted(len(set(group.clusters)), group.unit)}"
        where = f" like those of {title}" if len(tables) > 1 else ""
        caption = f"{objects} objects{where}; {measured}"
        advice = _advice(ways, objects, rate, busy(run), (ranked or {}).get(title, ""))
        blocks += [
            Answer((f"On {title}: " if len(tables) > 1 else "") + advice),
            _cost_table(f"project-{title}", ways, objects / _HOUR, rate, caption),
        ]
    return Section(f"What {objects:,} objects cost".replace(",", " "), "", [*blocks, Note(text)])


def _cost_table(
    name: str, ways: Sequence[Way], factor: float, rate: float | None, caption: str
) -> Table:
    """A row per way and one for drawing by hand; `factor` turns seconds per object into hours."""
    paid = [] if rate is None else [rate]
    columns = [
        Column("way"), Column("time", "hours", 1), Column("waiting", "hours", 1),
        Column("with waiting", "hours", 1),
        *(Column("money", f"at {each:g} per hour, same currency", 0) for each in paid),
        Column("saved", "% of drawing by hand", 0), Column("conclusion"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    gaps, p_values = zip(*(way.less(way.by_hand) for way in ways), strict=True)
    for way, gap, p in zip(ways, gaps, holm(p_values), strict=True):
        cheaper = "cheaper" if (gap.value or 0.0) < 0 else "more expensive"
        pays = f"{cheaper} than by hand" if p < 0.05 else "no significant difference"
        spent = (way.seconds, way.waiting, way.spent)
        hours = [way.mean(seconds).times(factor) for seconds in spent]
        money = [hours[-1].times(each) for each in paid]
        rows.append([way.name, *hours, *money, way.saved, way.untested or pays])
    hand = Value(float(ways[0].by_hand.mean()) * factor)
    money = [hand.times(each) for each in paid]
    rows.append(["all by hand", hand, Value(0.0), hand, *money, None, "baseline"])
    return Table(name, columns, rows, caption)


def _advice(ways: Sequence[Way], objects: int, rate: float | None, loaded: str, ranked: str) -> str:
    """The fastest way including waiting, its significance, and whether waiting decides it."""
    best, *others = ways
    factor = objects / _HOUR
    hand = float(best.by_hand.mean()) * factor
    parts = [
        f"**{best.name}** takes {'the least time, ' if others else ''}"
        f"{best.total.times(factor).text(1)} hours with waiting, {hand:.1f} by hand: "
        f"{best.saved.text(0)} % saved"
    ]
    if rate is not None:
        money = best.total.times(factor * rate).text(0)
        parts.append(f"at {rate:g} per hour, it costs {money} instead of {hand * rate:.0f}")
    if others and others[0].group.keys == best.group.keys:
        less, _ = best.less(others[0].spent)
        same = [way for way in others if way.group.keys == best.group.keys]
        p = holm([best.less(way.spent)[1] for way in same])[0]
        sure = best.untested or f"{'' if p < 0.05 else 'not '}significant"
        more = less.times(-factor).text(1)
        parts.append(f"the next, **{others[0].name}**, takes {more} hours more ({sure})")
    working = min(ways, key=lambda way: float(way.seconds.mean()))
    mine, theirs = (float(way.seconds.mean()) * factor for way in (best, working))
    if round(mine - theirs, 1) > 0:
        parts.append(
            f"without waiting, **{working.name}** takes the least time, {theirs:.1f} instead of "
            f"{mine:.1f} hours"
        )
        if loaded:
            parts.append(f"waiting {loaded}, so measure it on an idle machine before you choose")
    return "; ".join(filter(None, (*parts, ranked))) + "."
