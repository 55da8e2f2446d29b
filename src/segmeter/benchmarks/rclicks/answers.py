"""Conclusions: whether the click position matters, and which model needs fewer clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segmeter.benchmarks.rclicks.groups import CARDS, Findings
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


def conclusions(found: Sequence[Findings]) -> list[page.Answer]:
    """One answer per model and dataset; p values hold for all questions of a dataset together."""
    answers = []
    for dataset in dict.fromkeys(f.trial.dataset for f in found):
        members = [f for f in found if f.trial.dataset == dataset]
        corrected = holm([f.p(name) for f in members for name in _ASKED])
        for i, f in enumerate(members):
            clicks, quality = corrected[len(_ASKED) * i : len(_ASKED) * (i + 1)]
            answers.append(page.Answer(_sentence(f, clicks, quality), _detail(f, clicks, quality)))
    return answers


def images_in_words(count: int) -> str:
    """`one image`, `12 images`."""
    return "one image" if count == 1 else f"{_WORDS.get(count, count)} images"


def _sentence(f: Findings, p_clicks: float, p_quality: float) -> page.Phrase:
    model, dataset, _ = f.key
    clicks = page.phrase(
        "the least likely tenth of clicks takes ", _more(f.seen("dgr-noc-ratio")), "."
    )
    images = len(set(f.trial.clusters))
    if images < FEWEST_IMAGES:
        few = images_in_words(images)
        them = "it" if images == 1 else "them"
        return page.phrase(
            f"Whether it matters where people click with **{model}** on {dataset} "
            f"cannot be said from {few}: on {them} ",
            clicks,
        )
    opening = f"With **{model}** on {dataset} it"
    if p_clicks < _SIGNIFICANT:
        return page.phrase(f"{opening} matters where people click: ", clicks)
    if p_quality < _SIGNIFICANT:
        return page.phrase(
            f"{opening} matters where people click, but for the quality on the way only: mean IoU "
            "of the least likely tenth is ",
            _lower(f.seen("dgr-auc-all")),
            ". That it takes more clicks is not shown.",
        )
    return page.phrase(f"{opening} has not been shown to matter where people click: ", clicks)


def _detail(f: Findings, p_clicks: float, p_quality: float) -> str:
    base, sample, more = (f.seen(n) for n in ("base-noc", "sample-noc", "dsb-noc-ratio"))
    area = f.seen("dgr-auc-all")
    text = [
        f"Least against most likely tenth: clicks {_percent(f.seen('dgr-noc-ratio'))}, "
        f"p {p_value(p_clicks)}; mean IoU over the rounds {_points(area)}, "
        f"p {p_value(p_quality)}; both corrected for the number of questions.",
        f"To reach 90 % IoU, centre clicks take {base.value:.2f} rounds, human clicks "
        f"{sample.value:.2f}: {_percent(more)}, p {p_value(f.p('dsb-noc-ratio'))}.",
    ]
    if "share-noc" in f.rows:
        share, p = f.seen("share-noc"), p_value(f.p("share-noc"))
        text.append(
            f"Of the variance between people on one object, {share.value:.0f} %"
            f"{_limits(share, 0)} is between the groups, p {p}; the rest is chance of single "
            "clicks."
        )
    text.append(_printed(f))
    return " ".join(text)


def _printed(f: Findings) -> str:
    """The paper's own number, and how much of it is there under the null."""
    seen, null, left = (f.seen(f"dgr-noc{part}") for part in ("", ":null", ":excess"))
    return (
        f"The paper's formula gives ΔGR {signed(seen.value, 1)} %; under the null (clickers "
        f"permuted) it is {signed(null.value, 1)} %, so the excess is {signed(left.value, 1)}"
        f"{_limits(left, 1)}."
    )


def _more(i: page.WithLimits) -> page.Quantity:
    """How many more clicks one tenth takes than the other."""
    if i.value == 0 and not i.low < i.high:
        alike = " (no image differs, so no interval can be given)" if i.low == i.high else ""
        return page.Quantity(
            f"as many clicks as the most likely{alike}", page.Value.of(i), "", _ASKED[0]
        )
    text = f"{abs(i.value):.1f} % {'more' if i.value >= 0 else 'fewer'} clicks than the most likely"
    return page.Quantity(text, page.Value.of(i), _limits(i, 1, _HOW_SURE).strip(), _ASKED[0])


def _lower(i: page.WithLimits) -> page.Quantity:
    which = "below" if i.value < 0 else "above"
    text = f"{abs(i.value):.2f} points {which} that of the most likely"
    return page.Quantity(text, page.Value.of(i), _limits(i, 2, _HOW_SURE).strip(), _ASKED[1])


def _percent(i: page.WithLimits) -> str:
    return f"{signed(i.value, 1)} %" + _limits(i, 1, _HOW_SURE)


def _points(i: page.WithLimits) -> str:
    return f"{signed(i.value, 2)} points" + _limits(i, 2)


def _limits(i: page.WithLimits, digits: int, words: str = "") -> str:
    """Nothing where there is none: one image, or all alike, which tells of no others."""
    if math.isnan(i.low) or math.isnan(i.high) or i.low == i.high:
        return ""
    return f" ({words}{signed(i.low, digits)} to {signed(i.high, digits)})"


def pairwise_result(
    lead: Sequence[Findings], differences: Sequence[Difference]
) -> page.Section | None:
    """One answer per dataset and the table of pairs; None for a single model."""
    answers: list[page.Block] = []
    compared: list[Difference] = []
    for dataset in dict.fromkeys(f.trial.dataset for f in lead):
        members = [f for f in lead if f.trial.dataset == dataset]
        if len(members) < 2:
            continue
        members.sort(key=lambda f: f.seen("sample-noc").value)
        where = members[0].trial.comparison
        found = [d for d in differences if (d.dataset, d.user, d.protocol) == where]
        answers.append(_fewest(members, found))
        compared += found
    table = difference_table(compared, CARDS) if answers else None
    return None if table is None else page.Section("Significant differences", "", [*answers, table])


def _fewest(members: Sequence[Findings], compared: Sequence[Difference]) -> page.Answer:
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
        seen = f.seen("sample-noc")
        clicks = page.Quantity(f"{seen.value:.2f}", page.Value.of(seen), statistic="sample-noc")
        means = page.phrase(means, f"{', ' if means else ''}**{f.trial.model}** takes ", clicks)
    opening, sure = f"On {best.dataset}, people need fewest clicks with **{best.model}**: ", ""
    if images < FEWEST_IMAGES:
        few = images_in_words(images)
        opening = f"Which model costs people fewer clicks on {best.dataset} cannot be said from "
        opening += f"{few}: there "
    else:
        yes = ", ".join(d.second for d in against if d.significant)
        no = ", ".join(d.second for d in against if not d.significant)
        sure = f"; significant against {yes}" if yes else f"; not significant against {no}"
        sure += f" but not against {no}" if yes and no else ""
    return page.Answer(
        page.phrase(opening, means, f" clicks to 90 % IoU{sure}."),
        _pairs_detail(members, against, images),
    )


def _pairs_detail(members: Sequence[Findings], against: Sequence[Difference], images: int) -> str:
    pairs = "; ".join(
        f"{d.first} against {d.second} {_fewer(d)} on {d.targets} objects, p {p_value(d.p_holm)}"
        for d in against
    )
    text = (
        f"Means of all groups of people. Paired on the same objects of {images_in_words(images)}: "
        f"{pairs}; corrected for the number of pairs. An object that never reaches the goal "
        "counts as "
        f"all {members[0].trial.base.shape[1]} rounds."
    )
    if len({f.trial.keys for f in members}) > 1:
        text += " The models were not run on the same objects: trust the pairs, not the means."
    return text


def _fewer(d: Difference) -> str:
    """How many fewer clicks the first takes, with the interval where there is one."""
    if d.value == 0 and not d.low < d.high:
        return "as many on every image"
    text = f"{abs(d.value):.2f} {'more' if d.value > 0 else 'fewer'}"
    limits = f"difference {signed(d.low, 2)} to {signed(d.high, 2)}"
    return f"{text} ({limits if d.low < d.high else 'no interval'})"
