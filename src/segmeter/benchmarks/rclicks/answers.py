"""Answers in words: whether it matters where people click, and which model costs fewer clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segmeter.benchmarks.rclicks.groups import STATISTICS, EffectEstimate, Findings
from segmeter.benchmarks.report_parts import difference_table
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
from segmeter.core.wording import p_value, signed
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Interval
from segmeter.stats.statistics import cards_by_name

_SIGNIFICANT = 0.05
FEWEST_IMAGES = 6  # fewer say something of themselves, not of a data set
# What is asked of every model: the least against the most likely tenth, in clicks and quality.
_ASKED = ("dgr-noc-ratio", "dgr-auc-all")
_WORDS = {0: "no", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
_HOW_SURE = "95 % interval "


def conclusions(found: Sequence[Findings]) -> list[Answer]:
    """One answer per model and data set; p values hold for all questions of a data set together."""
    answers = []
    for dataset in dict.fromkeys(f.trial.dataset for f in found):
        members = [f for f in found if f.trial.dataset == dataset]
        asked = [f.by_name[name] for f in members for name in _ASKED]
        corrected = holm([finding.null.p if finding.null else 1.0 for finding in asked])
        for i, f in enumerate(members):
            clicks, quality = corrected[len(_ASKED) * i : len(_ASKED) * (i + 1)]
            answers.append(Answer(_sentence(f, clicks, quality), _detail(f, clicks, quality)))
    return answers


def images_in_words(count: int) -> str:
    """`one image`, `12 images`."""
    return "one image" if count == 1 else f"{_WORDS.get(count, count)} images"


def _sentence(f: Findings, p_clicks: float, p_quality: float) -> Phrase:
    model, dataset, _ = f.key
    clicks = phrase("the least likely tenth of clicks takes ", _more(f.seen("dgr-noc-ratio")), ".")
    images = len(set(f.trial.clusters))
    if images < FEWEST_IMAGES:
        few = images_in_words(images)
        them = "it" if images == 1 else "them"
        return phrase(
            f"Whether it matters where people click with **{model}** on {dataset} "
            f"cannot be said from {few}: on {them} ",
            clicks,
        )
    opening = f"With **{model}** on {dataset} it"
    if p_clicks < _SIGNIFICANT:
        return phrase(f"{opening} matters where people click: ", clicks)
    if p_quality < _SIGNIFICANT:
        return phrase(
            f"{opening} matters where people click, but for the quality on the way only: mean IoU "
            "of the least likely tenth is ",
            _lower(f.seen("dgr-auc-all")),
            ". That it takes more clicks is not shown.",
        )
    return phrase(f"{opening} has not been shown to matter where people click: ", clicks)


def _detail(f: Findings, p_clicks: float, p_quality: float) -> str:
    base, sample, more = (f.seen(n) for n in ("base-noc", "sample-noc", "dsb-noc-ratio"))
    robot, area = f.by_name["dsb-noc-ratio"], f.seen("dgr-auc-all")
    told = [
        f"Least against most likely tenth: clicks {_percent(f.seen('dgr-noc-ratio'))}, "
        f"p {p_value(p_clicks)}; mean IoU over the rounds {_points(area)}, "
        f"p {p_value(p_quality)}; both corrected for the number of questions.",
        f"To 90 % IoU the robot that clicks centres needs {base.value:.2f} clicks, people "
        f"{sample.value:.2f}: {_percent(more)}, p {p_value(robot.null.p if robot.null else 1)}.",
    ]
    if "noc" in f.parts:
        scaled, p = f.parts["noc"].share.times(100), f.parts["noc"].p
        told.append(
            f"Of what differs between people on one object, {scaled.value:.0f} %"
            f"{_limits(scaled, 0)} lies between the groups, p {p_value(p)}; the rest is the "
            "chance of single clicks."
        )
    told.append(_printed(f.by_name["dgr-noc"]))
    return " ".join(told)


def _printed(finding: EffectEstimate) -> str:
    """The paper's own number, and how much of it is there under the null."""
    if finding.null is None or finding.excess is None:
        return ""
    return (
        f"The paper's formula would print ΔGR {signed(finding.seen.value, 1)} %; shuffling who "
        f"clicked gives {signed(finding.null.mean, 1)} % under the null, and "
        f"{signed(finding.excess.value, 1)}{_limits(finding.excess, 1)} are left."
    )


def _more(i: Interval) -> Quantity:
    """How many more clicks one tenth takes than the other."""
    if i.value == 0 and not i.low < i.high:
        alike = " (no image differs, so no interval can be given)" if i.low == i.high else ""
        return Quantity(f"as many clicks as the most likely{alike}", Value.of(i), "", _ASKED[0])
    told = f"{abs(i.value):.1f} % {'more' if i.value >= 0 else 'fewer'} clicks than the most likely"
    return Quantity(told, Value.of(i), _limits(i, 1, _HOW_SURE).strip(), _ASKED[0])


def _lower(i: Interval) -> Quantity:
    which = "below" if i.value < 0 else "above"
    told = f"{abs(i.value):.2f} points {which} that of the most likely"
    return Quantity(told, Value.of(i), _limits(i, 2, _HOW_SURE).strip(), _ASKED[1])


def _percent(i: Interval) -> str:
    return f"{signed(i.value, 1)} %" + _limits(i, 1, _HOW_SURE)


def _points(i: Interval) -> str:
    return f"{signed(i.value, 2)} points" + _limits(i, 2)


def _limits(i: Interval, digits: int, words: str = "") -> str:
    """Nothing where there is none: one image, or all alike, which tells of no others."""
    if math.isnan(i.low) or math.isnan(i.high) or i.low == i.high:
        return ""
    return f" ({words}{signed(i.low, digits)} to {signed(i.high, digits)})"


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
    return Answer(told, _pairs_detail(members, against, len(shared)))


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


def _pairs_detail(members: Sequence[Findings], against: dict[str, Difference], images: int) -> str:
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
        told += " The models were not run on the same objects: trust the pairs, not the means."
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
