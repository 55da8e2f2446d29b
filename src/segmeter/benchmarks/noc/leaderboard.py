"""Which model costs least, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks.noc.statistics import COMPARED, Group, targets_of
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.sections import Answer, Cell, Column, Note, Table, Value
from segmeter.stats.effort import CostModel
from segmeter.stats.intervals import Resampling
from segmeter.stats.rankings import first_shares

__all__ = ["HARDEST", "Comparison", "answer", "comparison_table", "leaderboard", "uneven"]

HARDEST = "the-hardest-objects"  # the section's anchor
_TIED = "\N{NO-BREAK SPACE}"  # between a number and its unit
_NAMES = {
    "seconds-to-90": "seconds to 90 %",
    "noc@90": "clicks to 90 %",
    "auc": "IoU AuC, % points",
    "iou@1": "IoU after one click, % points",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models that were played on the same data by the same user, in one reading.

    `title` says where, as short as the run allows; `rows` are the summary's rows by model
    and measure; `groups` come with the cheapest model first.
    """

    title: str
    groups: Sequence[Group]
    rows: dict[tuple[str, str], SummaryRow]
    differences: Sequence[Difference]
    cost: CostModel

    @property
    def models(self) -> list[str]:
        return [group.key[0] for group in self.groups]

    @property
    def reading(self) -> str:
        return self.groups[0].key[3]

    @property
    def prompts(self) -> str:
        """What the person gives: clicks, or prompts where some are of another kind."""
        return "clicks" if all(group.only_clicks for group in self.groups) else "prompts"

    def value(self, model: str, measure: str) -> Value:
        row = self.rows.get((model, measure))
        return Value(None) if row is None else Value(row.value, row.low, row.high)

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.measure == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else _turned(d)
        return None


def _turned(d: Difference) -> Difference:
    return replace(d, first=d.second, second=d.first, value=-d.value, low=-d.high, high=-d.low)


def answer(comparison: Comparison, many: bool) -> Answer:
    """The sentence a reader came for."""
    best = comparison.models[0]
    where = f"On {comparison.title}, " if many else ""
    seconds, clicks = comparison.value(best, "seconds-to-90"), comparison.value(best, "noc@90")
    verb = "costs least" if len(comparison.models) > 1 else "is measured alone"
    opening = f"{where}**{best}** {verb}: a person needs"
    sentence = (
        f"{opening} {_told(seconds, 1, 's')} and {_told(clicks, 2, comparison.prompts)} "
        f"to bring an object to 90{_TIED}% IoU{_never(comparison, best)}."
    )
    return Answer(sentence, _runner_up(comparison))


def leaderboard(comparison: Comparison, name: str) -> Table:
    """All models of a comparison, the cheapest first."""
    columns = [
        Column("model"),
        Column("time to 90 % IoU", "seconds an object", 1, better="lower", plot=True),
        Column(f"{comparison.prompts} to 90 %", "NoC@90", 2, better="lower"),
        Column(
            "never reach it", f"of {len(comparison.groups[0].iou.keys)} objects", 0, better="lower"
        ),
        Column("quality over all clicks", "IoU AuC, %", 1, better="higher"),
        Column("after one click", "IoU@1, %", 1, better="higher"),
    ]
    measures = ("seconds-to-90", "noc@90", "never@90", "auc", "iou@1")
    firsts = _first_shares(comparison)
    if firsts:
        columns.append(Column("comes first", "% of resamples", 0, percent=True))
    rows: list[list[Cell]] = [
        [
            model,
            *(_linked(comparison, model, m) for m in measures),
            *firsts.get(model, []),
        ]
        for model in comparison.models
    ]
    group = comparison.groups[0]
    return Table(
        name,
        columns,
        rows,
        caption=f"{comparison.title}: {len(group.iou.keys)} objects in "
        f"{len(set(group.iou.clusters))} photographs, reading {comparison.reading}",
        note="95 % intervals from resampling photographs. An object that never reaches 90 % "
        f"costs all {group.iou.values.shape[1]} rounds"
        + (f" and {comparison.cost.by_hand:g} s by hand." if comparison.cost.by_hand else "."),
    )


def _linked(comparison: Comparison, model: str, measure: str) -> Value:
    """A number of the leaderboard; failures lead to the objects behind them."""
    value = comparison.value(model, measure)
    return replace(value, link=HARDEST) if measure == "never@90" and value.value else value


def comparison_table(comparison: Comparison, name: str) -> Table | None:
    """The cheapest model against every other one, as far as it is established."""
    best = comparison.models[0]
    found = [
        (other, d)
        for other in comparison.models[1:]
        for measure in COMPARED
        if (d := comparison.behind(other, best, measure)) is not None
    ]
    if not found:
        return None
    columns = [
        Column(f"compared with {best}"),
        Column("in"),
        Column("difference", f"less {best}'s", 2),
        Column("p", "corrected (Holm)", 3),
        Column("verdict"),
    ]
    rows: list[list[Cell]] = [
        [other, _NAMES[d.measure], Value(d.value, d.low, d.high), d.p_holm, _conclusion(d)]
        for other, d in found
    ]
    return Table(
        name,
        columns,
        rows,
        caption=comparison.title,
        note="Paired on the same objects, with 95 % intervals from resampling photographs; p by "
        "exchanging the two models within photographs, corrected for the number of pairs.",
    )


def _conclusion(d: Difference) -> str:
    if not d.established:
        return "not established"
    lower = d.first if d.value < 0 else d.second
    higher = d.second if lower == d.first else d.first
    return f"established: {lower if COMPARED[d.measure] == 'lower' else higher} is better"


def uneven(comparison: Comparison) -> Note | None:
    """A warning where models were not scored on the same targets."""
    known = [set(group.iou.keys) for group in comparison.groups]
    if all(keys == known[0] for keys in known):
        return None
    counts = ", ".join(f"{g.key[0]} {len(g.iou.keys)}" for g in comparison.groups)
    return Note(
        f"On {comparison.title} the models were not scored on the same objects ({counts}): their "
        "means are not comparable, their paired differences are.",
        "warning",
    )


def _told(value: Value, digits: int, unit: str) -> str:
    if value.value is None or value.low is None or value.high is None:
        return f"– {unit}"
    told = f"{value.value:.{digits}f}{_TIED}{unit}"
    if np.isnan(value.low):
        return told
    return f"{told} ({value.low:.{digits}f}–{value.high:.{digits}f})"


def _never(comparison: Comparison, model: str) -> str:
    row = comparison.rows[model, "never@90"]
    if row.value == 0:
        return f"; all {row.targets} objects get there"
    return f"; {row.value:.0f} of {row.targets} never get there"


def _runner_up(comparison: Comparison) -> str:
    """How far the next model is behind in seconds and in clicks, and whether that is sure."""
    if len(comparison.models) < 2:
        return "With a second model in the run, this page would say which one costs less."
    best, other = comparison.models[:2]
    seconds, clicks = (comparison.behind(other, best, m) for m in ("seconds-to-90", "noc@90"))
    told = []
    if seconds is not None:
        gap = f"{seconds.value:.1f}{_TIED}s longer an object"
        told.append(f"The next, **{other}**, takes {gap}, {_sure(seconds, 1)}.")
    if clicks is not None and clicks.value != 0:
        many = "more" if clicks.value > 0 else "fewer"
        gap = f"{abs(clicks.value):.2f} {many}"
        told.append(f"Counted in {comparison.prompts} alone it needs {gap}, {_sure(clicks, 2)}.")
    if any(d is not None and not d.established for d in (seconds, clicks)):
        told.append(_doubt(comparison))
    return " ".join(told)


def _sure(d: Difference, digits: int) -> str:
    """A conclusion on a difference with its interval, in words."""
    limits = f"(95{_TIED}% interval {_signed(d.low, digits)} to {_signed(d.high, digits)})"
    conclusion = (
        "and that is **established**" if d.established else "but that is **not established**"
    )
    return f"{conclusion} {limits}"


def _doubt(comparison: Comparison) -> str:
    """Why a difference is open: too few photographs for any, or an order that could turn."""
    scenes = len(set(comparison.groups[0].iou.clusters))
    pairs = len(comparison.models) * (len(comparison.models) - 1) / 2
    if pairs * 2.0 ** (1 - scenes) >= 0.05:
        few = "One photograph is" if scenes == 1 else f"{scenes} photographs are"
        return f"{few} too few to establish any difference."
    return "What is not established could turn with other photographs."


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "+")


def _first_shares(comparison: Comparison) -> dict[str, list[Value]]:
    """How often each model costs least under resampling; empty when they cannot be paired."""
    groups = comparison.groups
    if len(groups) < 2 or any(g.iou.keys != groups[0].iou.keys for g in groups):
        return {}
    values = np.stack([targets_of(g, "seconds-to-90", comparison.cost) for g in groups])
    drawn = Resampling(groups[0].iou.clusters, seed=groups[0].key[1])
    shares = first_shares(values, drawn, "lower")
    return {g.key[0]: [Value(float(s))] for g, s in zip(groups, shares, strict=True)}
