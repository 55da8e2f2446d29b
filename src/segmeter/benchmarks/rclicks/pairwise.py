"""Models pair by pair: which costs people fewer clicks, and is it significant?"""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.difference_table import difference_table
from segmeter.benchmarks.rclicks.click_effects import FEWEST_IMAGES, images_in_words
from segmeter.benchmarks.rclicks.estimates import Findings
from segmeter.benchmarks.rclicks.statistics import STATISTICS
from segmeter.core.benchmarks import Difference
from segmeter.core.sections import (
    Answer,
    Block,
    Phrase,
    Quantity,
    Section,
    Value,
    phrase,
)
from segmeter.core.wording import p_value
from segmeter.stats.statistics import cards_by_name

__all__ = ["pairwise_result"]


def pairwise_result(lead: Sequence[Findings], differences: Sequence[Difference]) -> Section | None:
    """One answer per data set and the table of pairs; None for a single model."""
    answers: list[Block] = []
    compared: list[Difference] = []
    for dataset in dict.fromkeys(f.trial.dataset for f in lead):
        members = [f for f in lead if f.trial.dataset == dataset]
        if len(members) < 2:
            continue
        members.sort(key=lambda f: f.seen("sample-noc").value)
        where = members[0].trial.comparison
        found = [d for d in differences if (d.dataset, d.user, d.protocol) == where]
        answers.append(_answer(members, found))
        compared += found
    if not answers:
        return None
    table = difference_table(compared, cards_by_name(STATISTICS))
    return Section("Significant differences", "", [*answers, table])


def _answer(members: Sequence[Findings], compared: Sequence[Difference]) -> Answer:
    """The best model against each other one, in clicks."""
    best = members[0]
    clicks = [d for d in compared if d.measure == "sample-noc"]
    against = {
        **{d.second: d for d in clicks if d.first == best.trial.model},
        **{d.first: d.turned for d in clicks if d.second == best.trial.model},
    }
    shared = set.intersection(*(set(f.trial.clusters) for f in members))
    told = _few(members, against, len(shared))
    if len(shared) >= FEWEST_IMAGES:
        told = _pair(members, against) if len(members) == 2 else _many(members, against)
    return Answer(told, _detail(members, against, len(shared)))


def _few(members: Sequence[Findings], against: dict[str, Difference], images: int) -> Phrase:
    opening = f"Which model costs people fewer clicks on {members[0].trial.dataset}"
    told = f"{opening} cannot be said from {images_in_words(images)}"
    if all(d.value == 0 for d in against.values()):
        return phrase(f"{told}: all take the same clicks there.")
    first, *others = members
    means = phrase(f"**{first.trial.model}** takes ", _clicks(first))
    for f in others:
        means = phrase(means, f", **{f.trial.model}** takes ", _clicks(f))
    return phrase(f"{told}: there ", means, " clicks to 90 % IoU.")


def _pair(members: Sequence[Findings], against: dict[str, Difference]) -> Phrase:
    best, other = members
    d = against[other.trial.model]
    if d.value == 0:
        same = f"On {d.dataset}, people need as many clicks with {_both(members)}: "
        return phrase(same, _clicks(best), ".")
    if d.significant:
        return phrase(
            f"On {d.dataset}, people need fewer clicks with **{d.first}** than with "
            f"**{d.second}**: ",
            *(_clicks(best), " against ", _clicks(other), " to 90 % IoU, "),
            *(_fewer(d), " on the same objects."),
        )
    return phrase(
        f"On {d.dataset}, it is not significant whether people need fewer clicks "
        f"with {_both(members)}: {d.first} takes ",
        *(_clicks(best), f" clicks to 90 % IoU, {d.second} ", _clicks(other)),
        *(", and the first ", _fewer(d), " on the same objects."),
    )


def _many(members: Sequence[Findings], against: dict[str, Difference]) -> Phrase:
    best = members[0]
    yes = [m for m, d in against.items() if d.significant]
    no = [m for m, d in against.items() if not d.significant]
    told = phrase(
        f"On {best.trial.dataset}, people need fewest clicks with **{best.trial.model}**: ",
        *(_clicks(best), " to 90 % IoU"),
    )
    if not no:
        return phrase(told, ", significant against all others.")
    if not yes:
        return phrase(told, ", but that is not significant against any other.")
    sure = f", significant against {', '.join(yes)} but not against {', '.join(no)}."
    return phrase(told, sure)


def _detail(members: Sequence[Findings], against: dict[str, Difference], images: int) -> str:
    means = "; ".join(f"{f.trial.model} {_clicks(f)}" for f in members)
    pairs = "; ".join(
        f"{d.first} against {d.second} {_fewer(d)} on {d.targets} objects, p {p_value(d.p_holm)}"
        for d in against.values()
    )
    told = (
        f"Mean clicks to 90 % IoU of all groups of people: {means}. Paired on the same objects of "
        f"{images_in_words(images)}: {pairs}; corrected for the number of pairs. An "
        f"object that never gets there counts as all {members[0].trial.base.shape[1]} rounds."
    )
    if len({f.trial.keys for f in members}) > 1:
        told += " The models were not played on the same objects: trust the pairs, not the means."
    return told


def _fewer(d: Difference) -> Quantity:
    """How many fewer clicks the first takes, with the interval where there is one."""
    if d.value == 0 and not d.low < d.high:
        return Quantity("as many on every image", Value.of(d), "", d.measure)
    told = _more_or_fewer(d.value)
    if not d.low < d.high:
        return Quantity(f"{told} (no interval)", Value.of(d), "", d.measure)
    low, high = _more_or_fewer(d.low), _more_or_fewer(d.high)
    if d.high <= 0:
        low, high = f"{abs(d.high):.2f}", f"{abs(d.low):.2f}"
    return Quantity(told, Value.of(d), f"(95 % interval {low} to {high})", d.measure)


def _more_or_fewer(clicks: float) -> str:
    return f"{abs(clicks):.2f} {'more' if clicks > 0 else 'fewer'}"


def _clicks(f: Findings) -> Quantity:
    seen = f.seen("sample-noc")
    return Quantity(f"{seen.value:.2f}", Value.of(seen), measure="sample-noc")


def _both(members: Sequence[Findings]) -> str:
    return " or ".join(f"**{f.trial.model}**" for f in members)
