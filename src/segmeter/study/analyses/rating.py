"""Analysis of ratings: means, comparisons of models, agreement, checks, time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.sections import Answer, Axis, Bars, Column, Note, Part, Section, Table, Value
from segmeter.stats.agreement import alpha_interval, intraclass, pilot_sd
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Interval
from segmeter.stats.mask_ratings import (
    Contrast,
    RatingDifference,
    RatingModel,
    Ratings,
    fit_ratings,
    rating_difference,
    rating_summary,
    resampled_difference,
)
from segmeter.study.exports import rating_rows
from segmeter.study.plan import Plan

Rating = Mapping[str, Any]
_CHECK = 3  # a tester's score so far away marks a mask


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model against another, from all ratings.

    `mixed` is the headline; `paired` compares the means of all ratings of each target.
    """

    mixed: Contrast
    paired: RatingDifference
    by_images: Interval
    by_raters: Interval

    @property
    def name(self) -> str:
        return f"{self.mixed.first} − {self.mixed.second}"


def ratings_of(rows: Sequence[Rating]) -> Ratings:
    """Rows of an export in the form that the statistics take."""
    return Ratings(
        [row["model"] for row in rows],
        [f"{row['scene']}/{row['target']}" for row in rows],
        [row["scene"] for row in rows],
        [row["rater"] for row in rows],
        [row["score"] for row in rows],
    )


def compare_models(rows: Sequence[Rating], model: RatingModel | None = None) -> list[Comparison]:
    """Every two models that share at least two targets; all ratings are used."""
    ratings = ratings_of(rows)
    fitted = model or fit_ratings(ratings)
    compared = []
    for one, other in combinations(fitted.models, 2):
        first, second = ratings.by_target(one), ratings.by_target(other)
        common = sorted(first.keys() & second.keys())
        if len(common) < 2:
            continue
        paired = rating_difference([first[n] for n in common], [second[n] for n in common])
        by_images = resampled_difference(ratings, one, other, "images")
        by_raters = resampled_difference(ratings, one, other, "raters")
        compared.append(Comparison(fitted.contrast(one, other), paired, by_images, by_raters))
    return compared


def rating_sections(connection: sa.Connection, plan: Plan) -> list[Section]:
    """The analyses of the SAM supplement, and a mixed-effects model of all ratings."""
    rows = [row for row in rating_rows(connection, plan) if not row["excluded"]]
    ratings = [row for row in rows if row["role"] == "person"]
    if not ratings:
        raise BadInput("no rating counts yet: there is nothing to report")
    model = fit_ratings(ratings_of(ratings)) if len(ratings) > 2 + len(plan.conditions) else None
    found = compare_models(ratings, model) if model else []
    sections = [_means(ratings, model, found), _comparisons(model, found)]
    return [*sections, _agreement(rows, ratings), _time(ratings)]


def _means(
    ratings: Sequence[Rating], model: RatingModel | None, found: Sequence[Comparison]
) -> Section:
    by_model = grouped_pairs((row["model"], row["score"]) for row in ratings)
    summaries = {name: rating_summary(scores) for name, scores in sorted(by_model.items())}
    columns = (
        Column("masks of"),
        Column("ratings", digits=0),
        Column("mean", "1 to 10, mixed-effects model", 2, better="higher", plot=True),
        Column("plain mean", digits=2),
        Column("SD", digits=2),
    )
    rows = [
        (name, s.count, Value.of(model.mean(name)) if model else Value(s.mean), s.mean, s.sd)
        for name, s in summaries.items()
    ]
    shares = np.array([s.histogram for s in summaries.values()], dtype=float)
    shares /= shares.sum(axis=1, keepdims=True)
    groups = (("1 to 4", 0, 4), ("5 and 6", 4, 6), ("7 to 9", 6, 9), ("10", 9, 10))
    parts = [Part(name, shares[:, a:b].sum(axis=1)) for name, a, b in groups]
    bars = Bars("Scores", Axis("share of ratings", 0, 1, percent=True), list(summaries), parts)
    means = {name: model.mean(name).value if model else s.mean for name, s in summaries.items()}
    most = max(means.values())
    best = [name for name, mean in means.items() if math.isclose(mean, most)]
    sentence = f"Masks of **{'**, **'.join(best)}** have the highest mean rating, {most:.2f} of 10"
    p_values = holm([each.mixed.p for each in found])
    apart = [e.mixed for e, p in zip(found, p_values, strict=True) if p < 0.05]
    led = [m.second if m.first in best else m.first for m in apart if {m.first, m.second} & {*best}]
    if led:
        sentence += f", significantly above {' and '.join(led)}"
    elif len(means) > len(best):
        sentence += ", but the lead is not significant" if found else "; no difference was tested"
    note = Note(
        "Means by the mixed-effects model (95 % interval) allow for strict raters and easy "
        "targets; differences below come from the same model. The plain mean averages all ratings."
    )
    answer, table = Answer(f"{sentence}."), Table("ratings", columns, rows)
    return Section("Ratings", "", [answer, table, bars, note])


def _comparisons(model: RatingModel | None, found: Sequence[Comparison]) -> Section:
    if not model or not found:
        lacking = Note("No two models share two rated targets.", "warning")
        return Section("Comparisons", "", [lacking])
    parts = {**model.fitted.variances, "residual": model.fitted.residual}
    listed = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    note = Note(f"Variance components: {listed}.")
    return Section("Comparisons", "", [_mixed(found), note, _published(found)])


def _mixed(found: Sequence[Comparison]) -> Table:
    """The headline: all ratings, raters and targets as random effects, Holm's correction."""
    columns = (
        Column("first − second"),
        Column("difference", "95 %, mixed-effects model", 2, plot=True),
        Column("p", "Holm"),
        Column("resampling images", "95 %", 2),
        Column("resampling raters", "95 %", 2),
        Column("Wilcoxon p", "Holm, targets"),
        Column("rated above", "%", 1, percent=True),
        Column("effect size", "dz", 2),
    )
    mixed = holm([each.mixed.p for each in found])
    ranks = holm([each.paired.wilcoxon_p for each in found])
    rows = [
        (each.name, Value.of(each.mixed), p_text(p), Value.of(each.by_images),
         Value.of(each.by_raters), p_text(rank), each.paired.above, each.paired.effect)
        for each, p, rank in zip(found, mixed, ranks, strict=True)
    ]  # fmt: skip
    note = (
        "`score ~ model + (1 | rater) + (1 | rater:model) + (1 | target) + (1 | target:model)`, "
        "REML; t-tests with the smaller of raters and targets, less one, as degrees of freedom. "
        "The other columns pair the mean of all ratings by target."
    )
    return Table("comparisons", columns, rows, "All ratings", note)


def _published(found: Sequence[Comparison]) -> Table:
    """The tests of the SAM supplement, on the mean of all ratings of a target."""
    columns = (
        Column("first − second"),
        Column("targets", digits=0),
        Column("mean difference", "99 % bootstrap", 2, plot=True),
        Column("t", digits=2),
        Column("p, two-sided"),
        Column("p, one-sided"),
    )
    rows = [
        (each.name, d.count, Value(d.mean, *d.interval), d.t, p_text(d.p), p_text(d.p_greater))
        for each in found
        for d in [each.paired]
    ]
    title = "As published: paired t-test, paired percentile bootstrap of 10 000 samples"
    return Table("comparisons-published", columns, rows, title)


def p_text(value: float) -> str:
    """A p value with three decimals, or as a power of ten where it is small."""
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def _agreement(rows: Sequence[Rating], ratings: Sequence[Rating]) -> Section:
    by_job: dict[Hashable, list[int]] = grouped_pairs((row["job"], row["score"]) for row in ratings)
    twice = sum(len(scores) > 1 for scores in by_job.values())
    agreed = Note("No mask was rated twice: agreement is not known.", "warning")
    if twice:
        images = {row["job"]: row["scene"] for row in ratings}
        alpha = alpha_interval(by_job, clusters=images)
        limits = f" ({alpha.low:.2f} to {alpha.high:.2f}, resampling images)"
        text = (
            f"{twice} of {len(by_job)} masks were rated more than once. Krippendorff's alpha "
            f"(ordinal) is **{alpha.value:.2f}**{'' if math.isnan(alpha.low) else limits}; the "
            f"standard deviation within a mask is **{pilot_sd(by_job):.2f}** on "
            "average (0.83 in the pilot of the SAM supplement)."
        )
        agreed = Note(f"{text} {_intraclass(ratings)}".strip())
    checked = [row for row in rows if row["role"] == "tester" and row["job"] in by_job]
    far = [
        row["job"]
        for row in checked
        if any(abs(row["score"] - score) >= _CHECK for score in by_job[row["job"]])
    ]
    text = f"Testers checked {len(checked)} ratings; {len(far)} differ by {_CHECK} or more"
    listed = f": {', '.join(far[:20])}" if far else ""
    return Section("Agreement", "", [agreed, Note(f"{text}{listed}.")])


def _intraclass(ratings: Sequence[Rating]) -> str:
    jobs, raters = [row["job"] for row in ratings], [row["rater"] for row in ratings]
    try:
        found = intraclass(jobs, raters, [row["score"] for row in ratings])
    except BadInput:
        return ""
    return (
        f"The intraclass correlation of one rating is **{found.agreement:.2f}** (ICC(2,1), "
        f"absolute agreement) and {found.consistency:.2f} (ICC(3,1), consistency)."
    )


def _time(ratings: Sequence[Rating]) -> Section:
    seconds = [float(row["seconds"]) for row in ratings]
    changed = sum(row["changes"] > 0 for row in ratings)
    text = (
        f"A rating took {np.median(seconds):.0f} s (median; mean {np.mean(seconds):.0f} s, 90 s in "
        f"the SAM supplement, which aimed at 30 s). {changed} scores were changed before a round "
        "was handed in."
    )
    return Section("Time", "", [Note(text)])
