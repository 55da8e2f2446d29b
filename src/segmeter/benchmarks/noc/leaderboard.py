"""Which model costs a person least, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks.noc.statistics import ClickSessions, better_of, compared, targets_of
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.sections import (
    Answer,
    Cell,
    Column,
    Phrase,
    Quantity,
    Table,
    Value,
    phrase,
)
from segmeter.core.wording import counted, signed
from segmeter.stats.effort import CostModel
from segmeter.stats.goals import Goals
from segmeter.stats.intervals import Resampling
from segmeter.stats.rankings import first_shares
from segmeter.stats.rounds import area_under, rounds_to

__all__ = [
    "HARDEST",
    "Comparison",
    "answer",
    "comparison_table",
    "leaderboard",
    "ordered",
]

HARDEST = "the-hardest-objects"  # the section's anchor
_TIED = "\N{NO-BREAK SPACE}"  # between a number and its unit


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models that were played on the same data by the same user, in one reading.

    `title` says where, as short as the run allows; `rows` are the summary's rows by model
    and measure; `groups` come in the order of `ordered`.
    """

    title: str
    groups: Sequence[ClickSessions]
    rows: dict[tuple[str, str], SummaryRow]
    differences: Sequence[Difference]
    cost: CostModel
    goals: Goals

    @property
    def models(self) -> list[str]:
        return [group.model for group in self.groups]

    @property
    def reading(self) -> str:
        return self.groups[0].reading

    @property
    def prompts(self) -> str:
        """What the person gives: clicks, or prompts where some are of another kind."""
        return "clicks" if all(group.only_clicks for group in self.groups) else "prompts"

    @property
    def seconds(self) -> str:
        """The statistic that models are ordered by."""
        return f"seconds-to-{self.goals.lead.tag}"

    @property
    def clicks(self) -> str:
        return f"noc@{self.goals.lead.tag}"

    @property
    def never(self) -> str:
        return f"never@{self.goals.lead.tag}"

    @property
    def waiting(self) -> str:
        return f"waiting-to-{self.goals.lead.tag}"

    def value(self, model: str, measure: str) -> Value:
        row = self.rows.get((model, measure))
        return Value.of(row)

    def fails_most(self, model: str) -> bool:
        """Whether a model leaves more than half of the objects short of the goal."""
        row = self.rows[model, self.never]
        return 2 * row.value > row.targets

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.measure == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else _turned(d)
        return None

    def stands_out(self, model: str, measure: str) -> bool:
        """Whether a model is better than every other one, and that is established."""
        found = [self.behind(model, other, measure) for other in self.models if other != model]
        sign = 1 if better_of(measure) == "higher" else -1
        return bool(found) and all(
            d is not None and d.established and sign * d.value > 0 for d in found
        )


def _turned(d: Difference) -> Difference:
    return replace(d, first=d.second, second=d.first, value=-d.value, low=-d.high, high=-d.low)


def ordered(members: Sequence[ClickSessions], cost: CostModel, goals: Goals) -> list[ClickSessions]:
    """Groups by a person's mean seconds on the objects that all have, the least first.

    Equal seconds are ordered by the area under IoU, the larger first, then by name.
    """
    common = set.intersection(*(set(g.keys) for g in members))

    def rank(group: ClickSessions) -> tuple[float, float, str]:
        here = [i for i, key in enumerate(group.keys) if key in common or not common]
        seconds = targets_of(group, f"seconds-to-{goals.lead.tag}", cost)[here]
        area = np.nan_to_num(area_under(group.iou[here]))
        return round(float(seconds.mean()), 9), -float(area.mean()), group.model

    return sorted(members, key=rank)


def answer(comparison: Comparison, many: bool) -> Answer:
    """The sentence a reader came for."""
    where = f"On {comparison.title}: " if many else ""
    if all(map(comparison.fails_most, comparison.models)):
        return Answer(where + _nobody(comparison), _extent(comparison))
    opening = f"{where}{_warned(comparison)}{_opening(comparison)}: "
    sentence = phrase(opening, _needs(comparison), ".")
    return Answer(sentence, " ".join(filter(None, (_runner_up(comparison), _extent(comparison)))))


def _opening(comparison: Comparison) -> str:
    """Who is first, with no more certainty than the tests give."""
    best, *others = comparison.models
    if not others:
        return f"**{best}** is measured alone"
    gap = comparison.behind(others[0], best, comparison.seconds)
    if gap is None or comparison.fails_most(best) or _outdone(comparison):
        return f"no winner is named; **{best}** takes the fewest seconds"
    if round(gap.value, 6) == 0:
        return f"**{best}** and **{others[0]}** cost the same"
    if not gap.established:
        return f"**{best}** is ahead, but that is not established"
    return f"**{best}** costs least"


def _outdone(comparison: Comparison) -> bool:
    """Whether another model is better than the first on every object, whatever the seconds."""
    best, *others = comparison.groups
    return any(_better_everywhere(other, best, comparison.goals) for other in others)


def _better_everywhere(one: ClickSessions, other: ClickSessions, goals: Goals) -> bool:
    """Fewer rounds and a larger area, or one of them and the other equal, on every object."""
    places = {key: i for i, key in enumerate(other.keys)}
    mine = [i for i, key in enumerate(one.keys) if key in places]
    theirs = [places[one.keys[i]] for i in mine]
    rounds = (
        rounds_to(*one.towards(goals.lead))[mine] - rounds_to(*other.towards(goals.lead))[theirs]
    )
    areas = area_under(one.iou)[mine] - area_under(other.iou)[theirs]
    better = (rounds <= 0) & (areas >= 0) & ((rounds < 0) | (areas > 0))
    return bool(mine) and bool(better.all())


def _needs(comparison: Comparison) -> Phrase:
    """What the first model asks of a person."""
    best = comparison.models[0]
    goal = f"{_tied(comparison.goals.lead.text)}{_never(comparison, best)}"
    seconds = _told(comparison, comparison.seconds, 1, "s")
    clicks = _told(comparison, comparison.clicks, 2, comparison.prompts)
    return phrase("a person needs ", seconds, " and ", clicks, f" per object to reach {goal}")


def _warned(comparison: Comparison) -> str:
    """Models that fail on more than half of the objects, said before anything else."""
    short = [m for m in comparison.models if comparison.fails_most(m)]
    if not short:
        return ""
    counts = ", ".join(f"**{m}** ({_failures(comparison, m)})" for m in short)
    return f"{counts} {_fail(len(short))} on more than half of the objects; "


def _nobody(comparison: Comparison) -> str:
    """The sentence where every model fails on more than half."""
    counts = ", ".join(f"**{m}** {_failures(comparison, m)}" for m in comparison.models)
    goal = _tied(comparison.goals.lead.text)
    return f"No model brings even half of the objects to {goal}; short of it stay: {counts}."


def _fail(count: int) -> str:
    return "fails" if count == 1 else "fail"


def _failures(comparison: Comparison, model: str) -> str:
    row = comparison.rows[model, comparison.never]
    return f"{row.value:.0f} of {row.targets}"


def _extent(comparison: Comparison) -> str:
    """How much was played, and what a failure costs."""
    group = comparison.groups[0]
    objects, scenes = len(group.keys), len(set(group.clusters))
    played = (
        f"{counted(objects, 'object')} in {counted(scenes, 'photograph')}, up to "
        f"{counted(group.rounds, 'round')}"
    )
    return (
        f"Played: {played}. What is not reached is drawn by hand ({_by_hand(comparison.cost)}); "
        "the machine's own waiting is told apart and is in no comparison."
    )


def _by_hand(cost: CostModel) -> str:
    length = f" and {cost.by_hand_px:g}{_TIED}s per pixel of outline" if cost.by_hand_px else ""
    return f"{cost.by_hand:g}{_TIED}s per object{length}"


def _tied(text: str) -> str:
    return text.replace(" ", _TIED)


def leaderboard(comparison: Comparison, name: str) -> Table:
    """All models of a comparison, the cheapest first."""
    goal, group = comparison.goals.lead, comparison.groups[0]
    shown = {
        comparison.seconds: Column(
            f"a person's time to {goal.text}", "seconds per object", 1, better="lower", plot=True
        ),
        comparison.clicks: Column(
            f"{comparison.prompts} to {goal.short}", f"NoC@{goal.tag}", 2, better="lower"
        ),
        comparison.never: Column("never reach it", f"of {len(group.keys)} objects", 0),
        "auc": Column("quality over all clicks", "IoU AuC, %", 1, better="higher"),
        "iou@1": Column("after one click", "IoU@1, %", 1, better="higher"),
    }
    measures = {m: c for m, c in shown.items() if (comparison.models[0], m) in comparison.rows}
    columns = [Column("model"), *measures.values()]
    firsts = _first_shares(comparison)
    if firsts:
        columns.append(Column("comes first", "% of resamples", 0, percent=True))
    rows: list[list[Cell]] = [
        [model, *(_cell(comparison, model, m) for m in measures), *firsts.get(model, [])]
        for model in comparison.models
    ]
    return Table(
        name,
        columns,
        rows,
        caption=f"{comparison.title}: {counted(len(group.keys), 'object')} in "
        f"{counted(len(set(group.clusters)), 'photograph')}, {counted(group.rounds, 'round')}, "
        f"reading {comparison.reading}",
        note="95 % intervals from resampling photographs. Strong: better than every other model, "
        "and that is established. An object that never reaches the goal costs its rounds and "
        f"{_by_hand(comparison.cost)} by hand.",
    )


def _cell(comparison: Comparison, model: str, measure: str) -> Value:
    """A number of the leaderboard; failures lead to the objects behind them."""
    value = replace(comparison.value(model, measure), best=comparison.stands_out(model, measure))
    return replace(value, link=HARDEST) if measure == comparison.never and value.value else value


def comparison_table(comparison: Comparison, name: str) -> Table | None:
    """The first model against every other one, as far as it is established."""
    best = comparison.models[0]
    found = [
        d
        for other in comparison.models[1:]
        for measure in compared(comparison.groups, comparison.goals)
        if (d := comparison.behind(other, best, measure)) is not None
    ]
    if not found:
        return None
    pairs = len(comparison.models) * (len(comparison.models) - 1) // 2
    return Table.of(
        name,
        found,
        {
            Column(f"compared with {best}"): lambda d: d.first,
            Column("in"): lambda d: _named(d.measure, comparison),
            Column("difference", f"less {best}'s", 2): Value.of,
            Column("p", "corrected (Holm)", 3): lambda d: d.p_holm,
            Column("verdict"): lambda d: _conclusion(d, pairs),
        },
        caption=comparison.title,
        note="Paired on the same objects, with 95 % intervals from resampling photographs; p by "
        "exchanging the two models within photographs, corrected for the number of pairs.",
    )


def _named(measure: str, comparison: Comparison) -> str:
    goal = comparison.goals.lead
    names = {
        comparison.seconds: f"a person's seconds to {goal.short}",
        comparison.clicks: f"{comparison.prompts} to {goal.short}",
        "auc": "IoU AuC, % points",
        "iou@1": "IoU after one click, % points",
    }
    return names.get(measure, measure)


def _conclusion(d: Difference, pairs: int) -> str:
    if not d.established:
        return f"not established{_at_odds(d, pairs)}"
    direction = better_of(d.measure)
    if not direction:
        return f"established: they differ{_at_odds(d, pairs)}"
    lower = d.first if d.value < 0 else d.second
    higher = d.second if lower == d.first else d.first
    better = lower if direction == "lower" else higher
    return f"established: {better} is better{_at_odds(d, pairs)}"


def _at_odds(d: Difference, pairs: int) -> str:
    """Why interval and p value seem to disagree, where they do."""
    apart = d.low > 0 or d.high < 0
    if apart and not d.established:
        if d.p < 0.05:
            return (
                f" (the interval leaves out 0 but is for this pair alone; p is for {pairs} pairs)"
            )
        return (
            " (the interval leaves out 0; the exchange test, exact for few photographs, does not"
            " reach 5 %)"
        )
    if d.established and not apart and np.isfinite(d.low):
        return (
            " (the interval touches 0: it is wider than the exchange test where values are skewed)"
        )
    return ""


def _told(comparison: Comparison, measure: str, digits: int, unit: str) -> Quantity:
    """The first model's number with its interval, where there is one that says something."""
    value = comparison.value(comparison.models[0], measure)
    if value.value is None or value.low is None or value.high is None:
        return Quantity(f"– {unit}", value, measure=measure)
    low, high = f"{value.low:.{digits}f}", f"{value.high:.{digits}f}"
    limits = "" if np.isnan(value.low) or low == high else f"({low}–{high})"
    return Quantity(f"{value.value:.{digits}f}{_TIED}{unit}", value, limits, measure)


def _never(comparison: Comparison, model: str) -> str:
    row = comparison.rows[model, comparison.never]
    if row.value == 0:
        return (
            "; the one object gets there"
            if row.targets == 1
            else (f"; all {row.targets} objects get there")
        )
    verb = "gets" if round(row.value) == 1 else "get"
    return f"; {row.value:.0f} of {row.targets} never {verb} there"


def _runner_up(comparison: Comparison) -> str:
    """How far the next model is behind in seconds and in clicks, and whether that is sure."""
    if len(comparison.models) < 2:
        return "With a second model in the run, this page would say which one costs less."
    best, other = comparison.models[:2]
    seconds, clicks = (
        comparison.behind(other, best, m) for m in (comparison.seconds, comparison.clicks)
    )
    if seconds is None:
        return f"**{best}** and **{other}** share no object, so they are not compared."
    told = [_longer(other, seconds)]
    if clicks is not None and round(clicks.value, 2) != 0:
        many = "more" if clicks.value > 0 else "fewer"
        gap = f"{abs(clicks.value):.2f} {many}"
        told.append(f"Counted in {comparison.prompts} alone it needs {gap}, {_sure(clicks, 2)}.")
    in_doubt = [d for d in (seconds, clicks) if d is not None and not d.established]
    if in_doubt:
        told.append(_doubt(comparison, in_doubt))
    return " ".join(told)


def _longer(other: str, seconds: Difference) -> str:
    """The next model's seconds; less than a tenth is no length to speak of."""
    if round(abs(seconds.value), 1) == 0:
        return f"The next, **{other}**, takes as long to a tenth of a second per object."
    longer = "longer" if seconds.value > 0 else "less"
    gap = f"{abs(seconds.value):.1f}{_TIED}s {longer} per object"
    return f"The next, **{other}**, takes {gap}, {_sure(seconds, 1)}."


def _sure(d: Difference, digits: int) -> str:
    """A conclusion on a difference with its interval, in words."""
    conclusion = (
        "and that is **established**" if d.established else "but that is **not established**"
    )
    low, high = signed(d.low, digits), signed(d.high, digits)
    if np.isnan(d.low) or low == high:
        return conclusion
    return f"{conclusion} (95{_TIED}% interval {low} to {high})"


def _doubt(comparison: Comparison, found: Sequence[Difference]) -> str:
    """Why differences are open: too few photographs for any, a test that doubts what an interval
    does not, or an order that could turn."""
    scenes = len(set(comparison.groups[0].clusters))
    pairs = len(comparison.models) * (len(comparison.models) - 1) / 2
    if pairs * 2.0 ** (1 - scenes) >= 0.05:
        few = "One photograph is" if scenes == 1 else f"{scenes} photographs are"
        return f"{few} too few to establish any difference."
    if any(d.low > 0 or d.high < 0 for d in found):
        return (
            "An interval that leaves out 0 is for its pair and measure alone; the exchange test, "
            f"exact for {scenes} photographs and corrected for every pair (Holm), does not reach "
            f"5{_TIED}%."
        )
    return "What is not established could turn with other photographs."


def _first_shares(comparison: Comparison) -> dict[str, list[Value]]:
    """How often each model costs least under resampling.

    Empty when models cannot be paired, when there is but one photograph to draw, and when
    the first fails on more than half: a place among failures is no merit.
    """
    groups = comparison.groups
    if len(groups) < 2 or any(g.keys != groups[0].keys for g in groups):
        return {}
    if len(set(groups[0].clusters)) < 2 or any(map(comparison.fails_most, comparison.models)):
        return {}
    values = np.stack([targets_of(g, comparison.seconds, comparison.cost) for g in groups])
    drawn = Resampling(groups[0].clusters, seed=groups[0].dataset)
    shares = first_shares(values, drawn, "lower")
    return {g.model: [Value(float(s))] for g, s in zip(groups, shares, strict=True)}
