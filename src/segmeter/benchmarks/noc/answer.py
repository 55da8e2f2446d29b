"""The conclusion: which model needs the least annotation time, as far as tests support it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmeter.benchmarks.costs import busy
from segmeter.benchmarks.noc.comparison import TIED, Comparison
from segmeter.benchmarks.noc.statistics import ClickSessions
from segmeter.benchmarks.response_section import followed_sentence
from segmeter.core.benchmarks import Difference
from segmeter.core.sections import Answer, Phrase, Quantity, phrase
from segmeter.core.wording import counted, signed
from segmeter.stats.goals import Goals, area_under, rounds_to


def answer(comparison: Comparison, many: bool) -> Answer:
    """The first sentence of the report."""
    where = f"On {comparison.title}: " if many else ""
    followed = followed_sentence(comparison.differences, comparison.rows)
    short = {m: _failures(comparison, m) for m in comparison.models if comparison.fails_most(m)}
    if len(short) == len(comparison.models):
        counts = ", ".join(f"**{m}** {failures}" for m, failures in short.items())
        goal = _tied(comparison.goals.lead.text)
        text = f"No model brings half of the objects to {goal}. Objects that never reach it: "
        detail = " ".join(filter(None, (followed, _extent(comparison))))
        return Answer(f"{where}{text}{counts}.", detail)
    warning, unsure = "", comparison.models[0] in short
    if short:
        counts = ", ".join(f"{m} ({failures})" for m, failures in short.items())
        fail = "fails" if len(short) == 1 else "fail"
        warning = f"{counts} {fail} on more than half of the objects"
    opening = f"{where}{f'{warning}; ' if unsure else ''}{_opening(comparison)}: "
    last = f" {warning}." if warning and not unsure else ""  # after the winner
    sentence = phrase(opening, _needs(comparison), f"{_with_waiting(comparison)}.{last}")
    told = (_runner_up(comparison), followed, _extent(comparison))
    return Answer(sentence, " ".join(filter(None, told)))


def _opening(comparison: Comparison) -> str:
    """The leading model, with no more certainty than the tests give."""
    best, *others = comparison.models
    if not others:
        return f"**{best}** is the only model"
    gap = comparison.behind(others[0], best, comparison.seconds)
    first, *rest = comparison.groups
    outdone = any(_better_everywhere(other, first, comparison.goals) for other in rest)
    if gap is None or comparison.fails_most(best) or outdone:
        return f"no model is clearly best; **{best}** takes the fewest seconds"
    if round(gap.value, 6) == 0:
        return f"**{best}** and **{others[0]}** need the same annotation time"
    if not gap.significant:
        return f"**{best}** needs the least annotation time, but not significantly less"
    return f"**{best}** needs the least annotation time"


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
    """Time and clicks that the leading model needs."""
    best = comparison.models[0]
    goal = f"{_tied(comparison.goals.lead.text)}{_never(comparison, best)}"

    def told(measure: str, digits: int, unit: str) -> Quantity:
        value = comparison.value(best, measure)
        text = "–" if value.value is None else f"{value.value:.{digits}f}"
        return Quantity(f"{text}{TIED}{unit}", value, value.limits(digits, to="–"), measure)

    seconds = told(comparison.seconds, 1, "s")
    clicks = told(comparison.clicks, 2, comparison.prompts)
    return phrase(seconds, " and ", clicks, f" per object to reach {goal}")


def _with_waiting(comparison: Comparison) -> str:
    """Which model is ahead once the measured waiting is added, if that is another one."""
    total = {
        group.model: sum(
            float(comparison.per_object(group, name).mean())
            for name in (comparison.seconds, comparison.waiting)
        )
        for group in comparison.groups
    }
    best, first = comparison.models[0], min(total, key=total.__getitem__)
    if round(total[best] - total[first], 1) <= 0:
        return ""
    loaded = busy(comparison.findings.run)
    told = f" (waiting {loaded})" if loaded else ""
    return (
        f"; including measured waiting for the model, **{first}** is faster, "
        f"{total[first]:.1f}{TIED}s against {total[best]:.1f}{TIED}s per object{told}"
    )


def _failures(comparison: Comparison, model: str) -> str:
    row = comparison.rows[model, comparison.never]
    return f"{row.value:.0f} of {row.targets}"


def _never(comparison: Comparison, model: str) -> str:
    row = comparison.rows[model, comparison.never]
    if row.value == 0:
        some = "the only object reaches" if row.targets == 1 else f"all {row.targets} objects reach"
        return f"; {some} it"
    count = f"{row.value:.0f} of {counted(row.targets, 'object')}"
    one = round(row.value) == 1
    never = f"never {'reaches' if one else 'reach'} it by {comparison.prompts}"
    return f"; {count} {never} and {'is' if one else 'are'} finished by hand"


def _runner_up(comparison: Comparison) -> str:
    """How much more the next model needs in seconds and clicks, and whether it is significant."""
    if len(comparison.models) < 2:
        return "Add a second model to the run (--add) to compare."
    best, other = comparison.models[:2]
    seconds, clicks = (
        comparison.behind(other, best, m) for m in (comparison.seconds, comparison.clicks)
    )
    if seconds is None:
        return f"**{best}** and **{other}** share no object, so they are not compared."
    told = [f"The next, **{other}**, takes the same time, to a tenth of a second per object."]
    if round(abs(seconds.value), 1):
        longer = "longer" if seconds.value > 0 else "less"
        gap = f"{abs(seconds.value):.1f}{TIED}s {longer} per object"
        told = [f"The next, **{other}**, takes {gap}, {_sure(seconds, 1)}."]
    if clicks is not None and round(clicks.value, 2) != 0:
        many = "more" if clicks.value > 0 else "fewer"
        gap = f"{abs(clicks.value):.2f} {many}"
        told.append(f"It needs {gap} {comparison.prompts}, {_sure(clicks, 2)}.")
    in_doubt = [d for d in (seconds, clicks) if d is not None and not d.significant]
    if in_doubt:
        told.append(_doubt(comparison, in_doubt))
    return " ".join(told)


def _sure(d: Difference, digits: int) -> str:
    """A conclusion on a difference with its interval, in words."""
    conclusion = "which is **significant**" if d.significant else "which is **not significant**"
    low, high = signed(d.low, digits), signed(d.high, digits)
    if np.isnan(d.low) or low == high:
        return conclusion
    return f"{conclusion} (95{TIED}% interval {low} to {high})"


def _doubt(comparison: Comparison, found: Sequence[Difference]) -> str:
    """Why differences are open: too few images for any, a test that doubts what an interval
    does not, or an order that could turn."""
    scenes = len(set(comparison.groups[0].clusters))
    pairs = len(comparison.models) * (len(comparison.models) - 1) / 2
    if pairs * 2.0 ** (1 - scenes) >= 0.05:
        few = "One image is" if scenes == 1 else f"{scenes} images are"
        return f"{few} too few for any significant difference."
    if any(d.low > 0 or d.high < 0 for d in found):
        return (
            "An interval that excludes 0 holds for its pair and statistic alone; the paired "
            f"permutation test over {scenes} images, corrected for all pairs (Holm), is above "
            f"5{TIED}%."
        )
    return "Other images may reverse such a difference."


def _extent(comparison: Comparison) -> str:
    """How much was evaluated, and what a failure costs."""
    group = comparison.groups[0]
    objects, scenes = len(group.keys), len(set(group.clusters))
    amount = (
        f"{counted(objects, 'object')} in {counted(scenes, 'image')}, up to "
        f"{counted(group.rounds, 'round')}"
    )
    return (
        f"Evaluated: {amount}. {comparison.by_hand()}; waiting for the model is reported "
        "separately and not included in annotation time."
    )


def _tied(text: str) -> str:
    return text.replace(" ", TIED)
