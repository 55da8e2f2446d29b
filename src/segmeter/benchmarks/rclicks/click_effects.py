"""Effects of where people click: do they matter, and how sure is that? A paragraph per model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segmeter.benchmarks.rclicks.estimates import EffectEstimate, Findings
from segmeter.core.sections import Answer, Phrase, Quantity, Value, phrase
from segmeter.core.wording import p_value, signed
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Interval

__all__ = ["FEWEST_IMAGES", "conclusions", "images_in_words"]

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
        played = images_in_words(images)
        them = "it" if images == 1 else "them"
        return phrase(
            f"Whether it matters where people click with **{model}** on {dataset} "
            f"cannot be said from {played}: on {them} ",
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
