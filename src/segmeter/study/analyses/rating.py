"""Ratings of a study: means, paired comparisons, agreement, checks, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.core.sections import (
    Answer,
    Axis,
    Bars,
    Block,
    Column,
    Note,
    Part,
    Section,
    Table,
    Value,
)
from segmeter.stats.agreement import krippendorff_alpha, pilot_sd
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Interval
from segmeter.stats.ratings import (
    RatingDifference,
    clustered_difference,
    rater_adjusted,
    rating_difference,
    rating_summary,
)
from segmeter.study.exports import rating_rows
from segmeter.study.plan import Plan

__all__ = ["Comparison", "compare_models", "rating_sections"]

Rating = Mapping[str, Any]
_CHECK = 3  # a tester's score so far away flags a job


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model against another on the targets that both were rated on."""

    first: str
    second: str
    published: RatingDifference
    clustered: Interval
    adjusted: float

    @property
    def name(self) -> str:
        return f"{self.first} − {self.second}"


def compare_models(ratings: Sequence[Rating]) -> list[Comparison]:
    """Every two models, paired by target; of a job rated twice the first rating is taken."""
    found: dict[str, dict[tuple[str, str], Rating]] = {}
    for row in sorted(ratings, key=lambda row: float(row["at"])):
        found.setdefault(row["model"], {}).setdefault((row["scene"], row["target"]), row)
    compared = []
    for one, other in combinations(sorted(found), 2):
        both = sorted(found[one].keys() & found[other].keys())
        if len(both) < 2:
            continue
        pairs = [(found[one][key], found[other][key]) for key in both]
        compared.append(_compared(one, other, pairs))
    return compared


def _compared(one: str, other: str, pairs: Sequence[tuple[Rating, Rating]]) -> Comparison:
    first, second = ([pair[k]["score"] for pair in pairs] for k in (0, 1))
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    raters = [(a["rater"], b["rater"]) for a, b in pairs]
    images = [a["scene"] for a, _ in pairs]
    return Comparison(
        one,
        other,
        rating_difference(first, second),
        clustered_difference(gaps, images, raters, seed=(one, other)),
        rater_adjusted(gaps, raters),
    )


def rating_sections(connection: sa.Connection, plan: Plan) -> list[Section]:
    """The analyses of the SAM supplement, and sounder ones."""
    rows = list(rating_rows(connection, plan))
    ratings = [row for row in rows if row["role"] == "person"]
    if not ratings:
        raise BadInput("nobody has rated anything yet: there is nothing to report")
    sections = [_means(ratings), _comparisons(ratings)]
    return [*sections, _agreement(rows, ratings), _time(ratings)]


def _means(ratings: Sequence[Rating]) -> Section:
    by_model: dict[str, list[int]] = {}
    for row in ratings:
        by_model.setdefault(row["model"], []).append(row["score"])
    summaries = {name: rating_summary(scores) for name, scores in sorted(by_model.items())}
    columns = (
        Column("masks of"),
        Column("ratings", digits=0),
        Column("mean", "1 to 10", 2, better="higher", plot=True),
        Column("SD", digits=2),
    )
    rows = [
        (name, s.count, Value(s.mean, s.mean - s.t_half, s.mean + s.t_half), s.sd)
        for name, s in summaries.items()
    ]
    shares = np.array([s.histogram for s in summaries.values()], dtype=float)
    shares /= shares.sum(axis=1, keepdims=True)
    groups = (("1 to 4", 0, 4), ("5 and 6", 4, 6), ("7 to 9", 6, 9), ("10", 9, 10))
    parts = [Part(name, shares[:, a:b].sum(axis=1)) for name, a, b in groups]
    bars = Bars("Scores", Axis("share of ratings", 0, 1, percent=True), list(summaries), parts)
    best = max(summaries, key=lambda name: summaries[name].mean)
    sentence = f"Masks of **{best}** are rated best, {summaries[best].mean:.2f} of 10 on average."
    note = Note("Means with Student's 95 % interval over ratings, as in the SAM supplement.")
    return Section("Ratings", "", [Answer(sentence), Table("ratings", columns, rows), bars, note])


def _comparisons(ratings: Sequence[Rating]) -> Section:
    found = compare_models(ratings)
    if not found:
        return Section(
            "Comparisons", "", [Note("No two models share two rated targets.", "warning")]
        )
    return Section("Comparisons", "", [_published(found), _sound(found)])


def _published(found: Sequence[Comparison]) -> Table:
    """The tests of the SAM supplement."""
    columns = (
        Column("first − second"),
        Column("targets", digits=0),
        Column("mean difference", "99 % bootstrap", 2, plot=True),
        Column("t", digits=2),
        Column("p, two-sided"),
        Column("p, one-sided"),
    )
    rows = [
        (each.name, d.count, Value(d.mean, *d.interval), d.t, _p(d.p), _p(d.p_greater))
        for each in found
        for d in [each.published]
    ]
    title = "As published: paired t-test, paired percentile bootstrap of 10 000 samples"
    return Table("comparisons-published", columns, rows, title)


def _sound(found: Sequence[Comparison]) -> Table:
    """Ordinal and clustered, corrected for all comparisons."""
    columns = (
        Column("first − second"),
        Column("mean difference", "99 %, images and raters drawn anew", 2, plot=True),
        Column("with rater effects", digits=2),
        Column("rated above", "%", 1, percent=True),
        Column("effect size", "d", 2),
        Column("Wilcoxon p", "Holm"),
    )
    corrected = holm([each.published.wilcoxon_p for each in found])
    rows = [
        (
            each.name,
            Value(each.clustered.value, each.clustered.low, each.clustered.high),
            each.adjusted,
            each.published.above,
            each.published.effect,
            _p(p),
        )
        for each, p in zip(found, corrected, strict=True)
    ]
    title = (
        "Corrected: ordinal test, raters and images as what varies, corrected for all comparisons"
    )
    return Table("comparisons-corrected", columns, rows, title)


def _p(value: float) -> str:
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def _agreement(rows: Sequence[Rating], ratings: Sequence[Rating]) -> Section:
    by_job: dict[str, list[int]] = {}
    for row in ratings:
        by_job.setdefault(row["job"], []).append(row["score"])
    blocks: list[Block] = []
    twice = sum(len(scores) > 1 for scores in by_job.values())
    if twice:
        alpha = krippendorff_alpha(by_job)  # type: ignore[arg-type]  # text is hashable
        spread = pilot_sd(by_job)  # type: ignore[arg-type]  # text is hashable
        blocks.append(
            Note(
                f"{twice} of {len(by_job)} masks were rated more than once. Krippendorff's alpha "
                f"(ordinal) is **{alpha:.2f}**; the standard deviation within a mask is "
                f"**{spread:.2f}** on average (0.83 in the pilot of the SAM supplement)."
            )
        )
    else:
        blocks.append(Note("No mask was rated twice: agreement is not known.", "warning"))
    blocks.append(Note(_checks(rows, by_job)))
    return Section("Agreement", "", blocks)


def _checks(rows: Sequence[Rating], by_job: Mapping[str, Sequence[int]]) -> str:
    checked = [row for row in rows if row["role"] == "tester" and row["job"] in by_job]
    far = [
        row["job"]
        for row in checked
        if any(abs(row["score"] - score) >= _CHECK for score in by_job[row["job"]])
    ]
    told = f"Testers checked {len(checked)} ratings; {len(far)} lie {_CHECK} or more away"
    return f"{told}: {', '.join(far[:20])}." if far else f"{told}."


def _time(ratings: Sequence[Rating]) -> Section:
    seconds = [float(row["seconds"]) for row in ratings]
    changed = sum(row["changes"] > 0 for row in ratings)
    text = (
        f"A rating took {np.median(seconds):.0f} s (median; mean {np.mean(seconds):.0f} s, 90 s in "
        f"the SAM supplement, which aimed at 30 s). {changed} scores were changed before a round "
        "was handed in."
    )
    return Section("Time", "", [Note(text)])
