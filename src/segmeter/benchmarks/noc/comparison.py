"""Models compared on the same data with the same user: conclusion, leaderboard, differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.costs import busy
from segmeter.analysis.response_section import followed_sentence
from segmeter.benchmarks.noc import statistics as noc
from segmeter.benchmarks.noc.statistics import ClickSessions
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.core.plans import display_names
from segmeter.core.sections import Answer, Cell, Column, Phrase, Quantity, Table, Value, phrase
from segmeter.core.wording import counted, joined, signed
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import first_shares
from segmeter.stats.goals import Goal, Goals, area_under, rounds_to
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, resampling, standing_out


def _name_at_lead(factory: Callable[..., Statistic]) -> Any:
    """The name of a statistic at the leading goal, as a property."""
    return property(lambda comparison: factory(comparison.goals.lead).name)


@dataclass(frozen=True)
class Comparison:
    """Models that were run on the same data by the same user, in one protocol.

    `title` is dataset and user, as short as the run allows; `groups` come cheapest first.
    """

    findings: parts.Findings
    title: str
    groups: Sequence[noc.ClickSessions]

    seconds = _name_at_lead(noc.seconds_until)  # orders the models
    clicks = _name_at_lead(noc.clicks_to)
    never = _name_at_lead(noc.never_reached)
    waiting = _name_at_lead(noc.waiting_until)
    clicks_before_hand = _name_at_lead(noc.clicks_that_pay)

    @cached_property
    def goals(self) -> Goals:
        return noc.goals_of(self.findings.run)

    @cached_property
    def rows(self) -> dict[tuple[str, str], SummaryRow]:
        keys = {group.key for group in self.groups}
        return {(r.model, r.statistic): r for r in self.findings.rows if r.key in keys}

    @cached_property
    def differences(self) -> list[Difference]:
        where, found = self.groups[0].comparison, tested_differences(self.findings)
        return [d for d in found if (d.dataset, d.user, d.protocol) == where]

    @cached_property
    def best(self) -> set[tuple[tuple[str, str, str, str], str]]:
        """Groups and statistics to set bold."""
        return standing_out(self.rows.values(), self.differences, self.findings.cards)

    @property
    def cost(self) -> CostModel:
        return self.groups[0].cost

    @property
    def models(self) -> list[str]:
        return [group.model for group in self.groups]

    @property
    def prompts(self) -> str:
        """Word for the prompts: clicks, or prompts where some are of another kind."""
        return "clicks" if all(group.only_clicks for group in self.groups) else "prompts"

    @property
    def corrects_by_hand(self) -> bool:
        """Whether annotation time includes correcting masks by hand where that is faster."""
        known = (self.models[0], self.clicks_before_hand) in self.rows
        return known and not np.isinf(self.cost.touch_up)

    def by_hand(self) -> str:
        """The sentence on what is drawn or corrected by hand."""
        drawing = drawn_by_hand(self.cost)
        if not self.corrects_by_hand:
            return f"Objects that miss the goal are drawn by hand ({drawing})"
        return (
            "Annotation time assumes that masks are corrected by hand as soon as that is faster "
            f"than further {self.prompts}: a lower bound. Drawing by hand takes {drawing}"
        )

    def per_object(self, group: noc.ClickSessions, measure: str) -> Floats:
        """One value per object, whose mean is the statistic of that name."""
        found = self.findings.cards[measure].compared(group)
        assert found is not None  # all groups are of click sessions
        return found

    @property
    def failing(self) -> list[str]:
        """The models that leave more than half of the objects short of the goal."""
        rows = (self.rows[model, self.never] for model in self.models)
        return [row.model for row in rows if 2 * row.value > row.targets]

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.statistic == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else d.turned
        return None


def tested_differences(findings: parts.Findings) -> list[Difference]:
    """Differences of the run in every statistic that can be tested."""
    names = [name for name, card in findings.cards.items() if card.testable]
    return findings.run.benchmark.differences(findings.run, names)


def comparisons(run: Results, *, common: bool = False) -> list[Comparison]:
    """The run's models set against each other, by dataset and user, in its leading protocol.

    Datasets come in the plan's order, the cheapest model first; `common` leaves out objects that
    some model lacks.
    """
    findings, titles = parts.Findings(run), display_names(run.plan.datasets)
    if common:
        groups = findings.groups(noc.ClickSessions)
        return comparisons(parts.on_common_objects(run, groups))
    leading = findings.groups(noc.ClickSessions, findings.lead)
    places = grouped(leading, lambda group: (group.dataset, group.user))
    one_user, lead = len({user for _, user in places}) == 1, noc.goals_of(run).lead
    made = []
    for (dataset, user), members in places.items():
        where = titles.get(dataset, dataset)
        title = where if one_user else f"{where}, {user}"
        made.append(Comparison(findings, title, _ranked(members, lead)))
    return made


def _ranked(members: Sequence[noc.ClickSessions], goal: Goal) -> list[noc.ClickSessions]:
    """Groups by a person's mean seconds on the objects that all have, the least first.

    Equal seconds are ordered by the area under IoU, the larger first, then by name.
    """
    common = set.intersection(*(set(g.keys) for g in members))

    def rank(group: noc.ClickSessions) -> tuple[float, float, str]:
        here = [i for i, key in enumerate(group.keys) if key in common or not common]
        seconds = noc.with_touch_up(group, goal)[0][here]
        area = np.nan_to_num(area_under(group.iou[here]))
        return round(float(seconds.mean()), 9), -float(area.mean()), group.model

    return sorted(members, key=rank)


TIED = "\N{NO-BREAK SPACE}"  # between a number and its unit
HARDEST = "hardest-objects"  # the section's anchor


def leaderboard(comparison: Comparison, name: str) -> Table:
    """All models of a comparison, the cheapest first."""
    goal, group = comparison.goals.lead, comparison.groups[0]
    shown = {
        comparison.seconds: Column(
            f"annotation time to {goal.text}", "seconds per object", 1, better="lower", plot=True
        ),
        comparison.clicks: Column(
            f"{comparison.prompts} to {goal.short}", f"NoC@{goal.tag}", 2, better="lower"
        ),
        comparison.never: Column("never reach it", f"of {len(group.keys)} objects", 0),
        "auc": Column("quality over all clicks", "IoU AuC, %", 1, better="higher"),
        "iou@1": Column("after one click", "IoU@1, %", 1, better="higher"),
    }

    def cell(measure: str) -> Callable[[str], Cell]:
        def of(model: str) -> Cell:
            row = comparison.rows[model, measure]
            # Failures lead to the objects behind them.
            link = HARDEST if measure == comparison.never and row.value else ""
            return replace(Value.of(row, (row.key, measure) in comparison.best), link=link)

        return of

    columns: dict[Column, Callable[[str], Cell]] = {
        Column("model"): str,
        **{c: cell(m) for m, c in shown.items() if (comparison.models[0], m) in comparison.rows},
    }
    firsts = _first_shares(comparison)
    if firsts:
        columns[Column("comes first", "% of resamples", 0, percent=True)] = firsts.__getitem__
    short = joined(comparison.failing)
    capped = (
        f" An object that never reaches the goal counts as {counted(group.rounds, 'round')} in "
        f"NoC; the NoC of {short} consists mostly of such objects."
    )
    return Table.of(
        name,
        comparison.models,
        columns,
        caption=f"{comparison.title}: {_amount(group)}, {counted(group.rounds, 'round')}, "
        f"protocol {group.protocol}",
        note=f"{parts.INTERVALS} Bold: significantly better than every other model."
        f"{capped if short else ''}",
    )


def overview(made: Sequence[Comparison]) -> tuple[Answer, Table]:
    """One sentence and one table for many datasets and users."""
    first, findings = made[0], made[0].findings
    rows = [row for row in findings.leading if row.statistic == first.seconds]
    spans = []
    for model, own in grouped(rows, lambda row: row.model).items():
        low, median, high = np.quantile([row.value for row in own], (0, 0.5, 1))
        spans.append(f"**{model}** needs {median:.1f} s per object ({low:.1f} to {high:.1f})")
    users = counted(len({row.user for row in rows}), "user")
    text = f"To reach {_tied(first.goals.lead.text)}, as the median (and range) of {users}, "
    shown = [first.seconds, first.clicks, first.never, "auc", "iou@1"]
    best = {key for comparison in made for key in comparison.best}
    words: dict[str, Any] = {"caption": f"All users, protocol {findings.lead}", "best": best}
    table = findings.table("leaderboard", findings.leading, shown, first.seconds, **words)
    return Answer(f"{text}{'; '.join(spans)}.", f"{first.by_hand()}."), table


def _first_shares(comparison: Comparison) -> dict[str, float]:
    """How often each model costs least under resampling.

    Empty when models cannot be paired, when there is but one image to draw, and when
    the first fails on more than half: a place among failures is no merit.
    """
    groups = comparison.groups
    if len(groups) < 2 or any(g.keys != groups[0].keys for g in groups):
        return {}
    if len(set(groups[0].clusters)) < 2 or comparison.failing:
        return {}
    values = np.stack([comparison.per_object(g, comparison.seconds) for g in groups])
    shares = first_shares(values, resampling(groups[0]), "lower")
    return {g.model: float(s) for g, s in zip(groups, shares, strict=True)}


def drawn_by_hand(cost: CostModel) -> str:
    length = f" and {cost.by_hand_px:g}{TIED}s per pixel of outline" if cost.by_hand_px else ""
    return f"{cost.by_hand:g}{TIED}s per object{length}"


def answer(comparison: Comparison, many: bool) -> Answer:
    """The first sentence of the report."""
    where = f"On {comparison.title}: " if many else ""
    group = comparison.groups[0]
    followed = followed_sentence(comparison.differences, comparison.rows)
    extent = (
        f"Evaluated: {_amount(group)}, up to {counted(group.rounds, 'round')}. "
        f"{comparison.by_hand()}; waiting for the model is reported separately and not included "
        "in annotation time."
    )
    missed = [comparison.rows[m, comparison.never] for m in comparison.failing]
    short = {row.model: f"{row.value:.0f} of {row.targets}" for row in missed}
    if len(short) == len(comparison.models):
        counts = ", ".join(f"**{m}** {failures}" for m, failures in short.items())
        goal = _tied(comparison.goals.lead.text)
        text = f"{'n' if where else 'N'}o model brings half of the objects to {goal}. "
        never = f"{where}{text}Objects that never reach it: {counts}."
        return Answer(never, f"{followed} {extent}".strip())
    counts = joined(f"{m} ({failures})" for m, failures in short.items())
    warning = f"{counts} {'fails' if len(short) == 1 else 'fail'} on more than half of the objects"
    unsure = comparison.models[0] in short
    opening = f"{where}{f'{warning}; ' if unsure else ''}{_opening(comparison)}"
    last = f" {warning}." if short and not unsure else ""  # after the winner
    sentence = phrase(opening, _needs(comparison), f"{_with_waiting(comparison)}.{last}")
    details = (_runner_up(comparison), followed, extent)
    return Answer(sentence, " ".join(filter(None, details)))


def _opening(comparison: Comparison) -> str:
    """The leading model, with no more certainty than the tests give."""
    best, *others = comparison.models
    if not others:
        return f"**{best}** needs "
    gap = comparison.behind(others[0], best, comparison.seconds)
    first, *rest = comparison.groups
    outdone = any(_better_everywhere(other, first, comparison.goals.lead) for other in rest)
    if gap is None or best in comparison.failing or outdone:
        return f"no model is clearly best; **{best}** takes the fewest seconds: "
    if round(gap.value, 6) == 0:
        return f"**{best}** and **{others[0]}** need the same annotation time: "
    doubt = f" ({gap.too_few})" if gap.too_few else ", but the difference is not significant"
    return f"**{best}** needs the least annotation time{'' if gap.significant else doubt}: "


def _better_everywhere(one: ClickSessions, other: ClickSessions, goal: Goal) -> bool:
    """Fewer rounds and a larger area, or one of them and the other equal, on every object."""
    places = {key: i for i, key in enumerate(other.keys)}
    mine = [i for i, key in enumerate(one.keys) if key in places]
    theirs = [places[one.keys[i]] for i in mine]
    first, second = (rounds_to(*group.towards(goal)) for group in (one, other))
    rounds = first[mine] - second[theirs]
    areas = area_under(one.iou)[mine] - area_under(other.iou)[theirs]
    better = (rounds <= 0) & (areas >= 0) & ((rounds < 0) | (areas > 0))
    return bool(mine) and bool(better.all())


def _needs(comparison: Comparison) -> Phrase:
    """Time and clicks that the leading model needs, and the objects that never reach the goal.

    The clicks are those that the time is made of: until correcting by hand is faster, else NoC.
    """
    best = comparison.models[0]

    def quantity(measure: str, digits: int, unit: str) -> Quantity:
        value = Value.of(comparison.rows[best, measure])
        text = f"{value.value:.{digits}f}{TIED}{unit}"
        return Quantity(text, value, value.limits(digits, to="–"), measure)

    row = comparison.rows[best, comparison.never]
    some = {1: "the only object reaches", 2: "both objects reach"}
    alone = f" by {comparison.prompts} alone" if comparison.corrects_by_hand else ""
    never = f"{some.get(row.targets, f'all {row.targets} objects reach')} it{alone}"
    if row.value:
        reach, are = ("reaches", "is") if round(row.value) == 1 else ("reach", "are")
        count = f"{row.value:.0f} of {counted(row.targets, 'object')}"
        by_hand = alone or f" by {comparison.prompts} and {are} finished by hand"
        never = f"{count} never {reach} it{by_hand}"
    corrected = " and corrections by hand where they are faster" if alone else ""
    clicks = comparison.clicks_before_hand if alone else comparison.clicks
    return phrase(
        quantity(comparison.seconds, 1, "s"),
        f" per object to reach {_tied(comparison.goals.lead.text)}, with ",
        quantity(clicks, 2, comparison.prompts),
        f"{corrected}; {never}",
    )


def _with_waiting(comparison: Comparison) -> str:
    """The fastest model including the measured waiting, if that is another one."""
    measures = (comparison.seconds, comparison.waiting)
    total = {
        group.model: sum(float(comparison.per_object(group, m).mean()) for m in measures)
        for group in comparison.groups
    }
    best, first = comparison.models[0], min(total, key=total.__getitem__)
    if round(total[best] - total[first], 1) <= 0:
        return ""
    loaded = busy(comparison.findings.run)
    note = f"; waiting {loaded}" if loaded else ""
    return (
        f". Including measured waiting for the model, **{first}** is faster: "
        f"{total[first]:.1f}{TIED}s instead of {total[best]:.1f}{TIED}s per object{note}"
    )


def _runner_up(comparison: Comparison) -> str:
    """The additional seconds and clicks of the next model, and their significance.

    It also gives the reason why a difference is open: too few images for any, a test that doubts
    what an interval does not, or an order that could turn.
    """
    if len(comparison.models) < 2:
        return "To compare, add a second model to the run (`segmeter run --add`)."
    best, other = comparison.models[:2]
    sentences, gaps = [], []
    for measure, digits in ((comparison.seconds, 1), (comparison.clicks, 2)):
        d = comparison.behind(other, best, measure)
        if d is None:
            return f"**{best}** and **{other}** share no object, so they are not compared."
        gaps.append(d)
        amount, more = f"{abs(d.value):.{digits}f}", d.value > 0
        sure = d.too_few or f"the difference is **{'' if d.significant else 'not '}significant**"
        low, high = signed(d.low, digits), signed(d.high, digits)
        if not np.isnan(d.low) and low != high:
            sure += f" (95{TIED}% interval {low} to {high})"
        if measure == comparison.clicks and float(amount):
            what = f"{'more' if more else 'fewer'} {comparison.prompts}"
            sentences.append(f"It needs {amount} {what} (NoC@{comparison.goals.lead.tag}); {sure}.")
        elif measure == comparison.seconds:
            gap = f"{amount}{TIED}s {'longer' if more else 'less'} per object; {sure}"
            same = "the same time, to a tenth of a second per object"
            sentences.append(f"The next, **{other}**, takes {gap if float(amount) else same}.")
    doubtful = [d for d in gaps if not d.significant and not d.too_few]
    scenes, models = len(set(comparison.groups[0].clusters)), len(comparison.models)
    if doubtful and models * (models - 1) / 2 * 2.0 ** (1 - scenes) >= 0.05:
        few = "One image is" if scenes == 1 else f"{scenes} images are"
        sentences.append(f"{few} too few for any significant difference.")
    elif any(d.low > 0 or d.high < 0 for d in doubtful):
        sentences.append(
            "An interval that excludes 0 is for its pair and statistic alone; p of the paired "
            f"permutation test over {scenes} images, Holm-corrected for all pairs, is above "
            f"5{TIED}%."
        )
    elif doubtful:
        sentences.append("With other images, the order may be reversed.")
    return " ".join(sentences)


def _amount(group: noc.ClickSessions) -> str:
    return f"{counted(group.size, 'object')} in {counted(len(set(group.clusters)), 'image')}"


def _tied(text: str) -> str:
    return text.replace(" ", TIED)
