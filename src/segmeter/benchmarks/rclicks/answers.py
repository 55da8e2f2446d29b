"""Conclusions: whether the click position matters, and which model needs fewer clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segmeter.benchmarks.rclicks.statistics import CARDS, ModelFindings
from segmeter.benchmarks.report_parts import difference_table
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference
from segmeter.core.wording import p_value, signed
from segmeter.stats.comparisons import holm

_SIGNIFICANT = 0.05
FEWEST_IMAGES = 6  # fewer say something of themselves, not of a dataset
# What is asked of every model: the least against the most likely tenth, in clicks and quality.
_ASKED = ("dgr-noc-ratio", "dgr-auc-all")
_WORDS = {0: "no", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
_HOW_SURE = "95 % interval "


def conclusions(found: Sequence[ModelFindings]) -> list[page.Answer]:
    """One answer per model and dataset; p values hold for all questions of a dataset together."""
    answers = []
    for dataset in dict.fromkeys(f.trial.dataset for f in found):
        members = [f for f in found if f.trial.dataset == dataset]
        corrected = iter(holm([f.p(name) for f in members for name in _ASKED]))
        for f, p_clicks, p_quality in zip(members, corrected, corrected, strict=True):
            sentence = _sentence(f, p_clicks, p_quality)
            answers.append(page.Answer(sentence, _detail(f, p_clicks, p_quality)))
    return answers


def images_in_words(count: int) -> str:
    """`one image`, `12 images`."""
    return "one image" if count == 1 else f"{_WORDS.get(count, count)} images"


def _sentence(f: ModelFindings, p_clicks: float, p_quality: float) -> page.Phrase:
    model, dataset, _ = f.key
    clicks = ("the least likely tenth of clicks takes ", _more(f), ".")
    images = len(set(f.trial.clusters))
    if images < FEWEST_IMAGES:
        them = "it" if images == 1 else "them"
        opening = f"Whether it matters where people click with **{model}** on {dataset} "
        opening += f"cannot be said from {images_in_words(images)}: on {them} "
        return page.phrase(opening, clicks)
    opening = f"With **{model}** on {dataset} it"
    if p_clicks < _SIGNIFICANT:
        return page.phrase(f"{opening} matters where people click: ", clicks)
    if p_quality < _SIGNIFICANT:
        row = f.rows["dgr-auc-all"]
        which = "below" if row.value < 0 else "above"
        text = f"{abs(row.value):.2f} points {which} that of the most likely"
        limits = _limits(row, 2, _HOW_SURE).strip()
        return page.phrase(
            f"{opening} matters where people click, but for the quality on the way only: mean IoU "
            "of the least likely tenth is ",
            page.Quantity(text, page.Value.of(row), limits, row.statistic),
            ". That it takes more clicks is not shown.",
        )
    return page.phrase(f"{opening} has not been shown to matter where people click: ", clicks)


def _more(f: ModelFindings) -> page.Quantity:
    """How many more clicks the least likely tenth takes."""
    row = f.rows["dgr-noc-ratio"]
    limits = _limits(row, 1, _HOW_SURE).strip()
    text = f"{abs(row.value):.1f} % {'more' if row.value >= 0 else 'fewer'} clicks than the most "
    text += "likely"
    if row.value == 0 and not row.low < row.high:
        alike = " (no image differs, so no interval can be given)" if row.low == row.high else ""
        text = f"as many clicks as the most likely{alike}"
    return page.Quantity(text, page.Value.of(row), limits, row.statistic)


def _detail(f: ModelFindings, p_clicks: float, p_quality: float) -> str:
    """The evidence, then the paper's own number, and how much of it is there under the null."""
    ratio, area, more = (f.rows[n] for n in (*_ASKED, "dsb-noc-ratio"))
    base, sample = f.rows["base-noc"], f.rows["sample-noc"]
    seen, null, left = (f.rows[f"dgr-noc{part}"] for part in ("", ":null", ":excess"))
    shared = ""
    if "share-noc" in f.rows:
        share, p = f.rows["share-noc"], p_value(f.p("share-noc"))
        shared = (
            f"Of the variance between people on one object, {share.value:.0f} %"
            f"{_limits(share, 0)} is between the groups, p {p}; the rest is chance of single "
            "clicks. "
        )
    return (
        f"Least against most likely tenth: clicks {signed(ratio.value, 1)} %"
        f"{_limits(ratio, 1, _HOW_SURE)}, p {p_value(p_clicks)}; mean IoU over the rounds "
        f"{signed(area.value, 2)} points{_limits(area, 2)}, p {p_value(p_quality)}; both corrected "
        f"for the number of questions. To reach 90 % IoU, centre clicks take {base.value:.2f} "
        f"rounds, human clicks {sample.value:.2f}: {signed(more.value, 1)} %"
        f"{_limits(more, 1, _HOW_SURE)}, p {p_value(f.p('dsb-noc-ratio'))}. {shared}The paper's "
        f"formula gives ΔGR {signed(seen.value, 1)} %; under the null (clickers permuted) it is "
        f"{signed(null.value, 1)} %, so the excess is {signed(left.value, 1)}{_limits(left, 1)}."
    )


def _limits(i: page.WithLimits, digits: int, words: str = "") -> str:
    """Nothing where there is none: one image, or all alike, which tells of no others."""
    if math.isnan(i.low) or math.isnan(i.high) or i.low == i.high:
        return ""
    return f" ({words}{signed(i.low, digits)} to {signed(i.high, digits)})"


def pairwise_result(
    lead: Sequence[ModelFindings], differences: Sequence[Difference]
) -> page.Section | None:
    """One answer per dataset and the table of pairs; None for a single model."""
    answers: list[page.Block] = []
    compared: list[Difference] = []
    for dataset in dict.fromkeys(f.trial.dataset for f in lead):
        members = [f for f in lead if f.trial.dataset == dataset]
        if len(members) < 2:
            continue
        members.sort(key=lambda f: f.rows["sample-noc"].value)
        where = members[0].trial.comparison
        found = [d for d in differences if (d.dataset, d.user, d.protocol) == where]
        answers.append(_fewest(members, found))
        compared += found
    if not answers:
        return None
    return page.Section(
        "Significant differences", "", [*answers, difference_table(compared, CARDS)]
    )


def _fewest(members: Sequence[ModelFindings], compared: Sequence[Difference]) -> page.Answer:
    """The best model against each other one, in clicks."""
    best = members[0].trial
    against = [
        d if d.first == best.model else d.turned
        for d in compared
        if d.statistic == "sample-noc" and best.model in (d.first, d.second)
    ]
    images = len(set.intersection(*(set(f.trial.clusters) for f in members)))
    means: page.Phrase = ()
    for f in members:
        seen = f.rows["sample-noc"]
        clicks = page.Quantity(f"{seen.value:.2f}", page.Value.of(seen), statistic=seen.statistic)
        means = page.phrase(means, f"{', ' if means else ''}**{f.trial.model}** takes ", clicks)
    opening, sure = f"On {best.dataset}, people need fewest clicks with **{best.model}**: ", ""
    if images < FEWEST_IMAGES:
        opening = f"Which model costs people fewer clicks on {best.dataset} cannot be said from "
        opening += f"{images_in_words(images)}: there "
    else:
        yes = ", ".join(d.second for d in against if d.significant)
        no = ", ".join(d.second for d in against if not d.significant)
        sure = f"; significant against {yes}" if yes else f"; not significant against {no}"
        sure += f" but not against {no}" if yes and no else ""
    pairs = "; ".join(
        f"{d.first} against {d.second} {_fewer(d)} on {d.targets} objects, p {p_value(d.p_holm)}"
        for d in against
    )
    uneven = " The models were not run on the same objects: trust the pairs, not the means."
    return page.Answer(
        page.phrase(opening, means, f" clicks to 90 % IoU{sure}."),
        f"Means of all groups of people. Paired on the same objects of {images_in_words(images)}: "
        f"{pairs}; corrected for the number of pairs. An object that never reaches the goal counts "
        f"as all {best.base.shape[1]} rounds."
        + (uneven if len({f.trial.keys for f in members}) > 1 else ""),
    )


def _fewer(d: Difference) -> str:
    """How many fewer clicks the first takes, with the interval where there is one."""
    if d.value == 0 and not d.low < d.high:
        return "as many on every image"
    text = f"{abs(d.value):.2f} {'more' if d.value > 0 else 'fewer'}"
    limits = f"difference {signed(d.low, 2)} to {signed(d.high, 2)}"
    return f"{text} ({limits if d.low < d.high else 'no interval'})"
