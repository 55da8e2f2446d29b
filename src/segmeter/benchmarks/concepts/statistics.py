"""Statistics of concept segmentation (cgF1 and its parts, recall, top-1, top-5) and their sections.

Pairs are an image with a phrase. Intervals and comparisons resample images: phrases of one image
are not independent. Pairs that are not annotated exhaustively are left out.

Masks count from a score of 0.5. Calibrated numbers take, for either half of the images, the score
threshold with the best cgF1 on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.benchmarks.concepts.pairs import Pair
from segmeter.core import sections as page
from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Text
from segmeter.core.scores_by_step import Tables
from segmeter.core.seeds import fingerprint
from segmeter.measures.concepts import (
    LEAST_SCORE,
    PairScore,
    best_annotator,
    concept_scores,
    score_pair,
    sums_of,
)
from segmeter.measures.detection_matching import pairwise_iou
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import (
    Drawn,
    Statistic,
    mean_of_known,
    resampling,
    share_of_known,
    statistic_of_draws,
)

_FOUND = 0.5
CUTS: Floats = np.round(np.linspace(0.05, 0.95, 19), 2)
"""Score thresholds of the curve and of the calibration."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A pair with the masks that a model predicted for it, the best first."""

    pair: Pair
    masks: Sequence[Mask]
    scores: Sequence[float]

    @property
    def certain(self) -> Sequence[Mask]:
        """Masks at or above the score of 0.5 that cgF1 counts."""
        return self.masks[: self.count(LEAST_SCORE)]

    def count(self, cut: float) -> int:
        """Masks at or above a score."""
        return sum(score >= cut for score in self.scores)

    def scored(self, protocol: ProtocolName) -> Callable[[int], PairScore] | None:
        """The score of the first masks by the kindest annotator; None if the pair is left out."""
        if not self.pair.exhaustive and protocol == "published":
            return None
        truths = self.pair.annotators
        if protocol == "corrected":
            truths = [t for t in truths if t.masks or not t.crowds]  # only crowds: nothing to score
        if not truths or not (self.pair.exhaustive or any(t.crowds for t in truths)):
            return None
        iou = [pairwise_iou(self.masks, t.masks) for t in truths]

        @cache
        def of(many: int) -> PairScore:
            shown = self.masks[:many]
            scores = [
                score_pair(shown, t, protocol, k, iou[k][:many]) for k, t in enumerate(truths)
            ]
            return best_annotator(scores, protocol)

        return of


@dataclass(frozen=True)
class ConceptPairs(Group):
    """All scored pairs of a model on a dataset in one protocol."""

    answers: tuple[Answered, ...]
    scored: tuple[Callable[[int], PairScore], ...]

    @cached_property
    def results(self) -> tuple[PairScore, ...]:
        """The scores of all pairs with the masks from a score of 0.5 on."""
        return self._results(LEAST_SCORE)

    @cached_property
    def errors(self) -> list[tuple[int, int]]:
        """Objects missed and wrong masks of each pair, at IoU 0.5."""
        return [
            (0, 0) if one.outcome == "TN" else (int(one.fn[0]), int(one.fp[0]))
            for one in self.results
        ]

    @cached_property
    def by_cut(self) -> Floats:
        """The totals of all pairs at every score threshold, `(cuts, pairs, 54)`."""
        return np.stack([sums_of(self._results(cut)) for cut in CUTS])

    @cached_property
    def half(self) -> Floats:
        """The half of the calibration that each pair's image is in, by its name: 0 or 1."""
        drawn = [int(fingerprint("calibration", c)[:8], 16) % 2 for c in self.clusters]
        return np.array(drawn, dtype=float)

    @cached_property
    def thresholds(self) -> tuple[float, float] | None:
        """Threshold for either half, best on the other; None where cgF1 is undefined on one."""
        chosen = []
        for half in (0, 1):
            totals = self.by_cut[:, self.half != half].sum(axis=1)
            values = concept_scores(totals, self.protocol)["cgf1"]
            if np.isnan(values).all():
                return None
            chosen.append(float(CUTS[np.nanargmax(values)]))
        return chosen[0], chosen[1]

    @cached_property
    def plain(self) -> dict[str, Drawn]:
        """All numbers with masks from a score of 0.5 on."""
        return self._numbers(sums_of(self.results))

    @cached_property
    def calibrated(self) -> dict[str, Drawn]:
        """All numbers with each half's threshold, which intervals hold fixed; none without."""
        if self.thresholds is None:
            return {}
        first, second = (int(np.argmax(cut == CUTS)) for cut in self.thresholds)
        sums = np.where(self.half[:, None] == 0, self.by_cut[first], self.by_cut[second])
        return self._numbers(sums)

    def _numbers(self, sums: Floats) -> dict[str, Drawn]:
        """Every number that is defined, and in every resample of images; totals `(pairs, 54)`."""
        values = concept_scores(sums.sum(axis=0), self.protocol)
        draws = concept_scores(resampling(self).totals(sums), self.protocol)
        return {n: (float(v), draws[n]) for n, v in values.items() if not np.isnan(v)}

    def _results(self, cut: float) -> tuple[PairScore, ...]:
        return tuple(
            score(one.count(cut)) for one, score in zip(self.answers, self.scored, strict=True)
        )

    @cached_property
    def single(self) -> Floats:
        """IoU with the one object of a phrase of the k-th best mask, `(pairs, 5)`, or NaN."""
        table = np.full((len(self.answers), 5), np.nan)
        for row, one in zip(table, self.answers, strict=True):
            truths = one.pair.annotators[0].masks
            if len(truths) == 1:
                found = pairwise_iou(list(one.masks[:5]), truths)[:, 0]
                row[:] = 0.0
                row[: len(found)] = found
        return table

    @cached_property
    def wrong_masks(self) -> Floats:
        """Masks per negative pair; NaN for positive pairs."""
        counts = [
            np.nan if any(t.masks for t in one.pair.annotators) else float(len(one.certain))
            for one in self.answers
        ]
        return np.array(counts)


def groups(run: Results) -> list[Group]:
    """The scored pairs of every model and dataset, in every protocol."""
    made: list[Group] = []
    for tables in Tables.load(
        run,
        ["rank", "score", "mask"],
        facts=["ground_truth", "shape"],
        by=("model", "dataset"),
        axis="rank",
    ):
        lines = tables.lines.to_pylist()
        answers = [_answered(key[1], line) for key, line in zip(tables.keys, lines, strict=True)]
        for protocol in run.plan.protocols:
            kept = [
                (key, cluster, one, scored)
                for key, cluster, one in zip(tables.keys, tables.clusters, answers, strict=True)
                if (scored := one.scored(protocol)) is not None
            ]
            if kept:
                keys, clusters, own, scores = (tuple(column) for column in zip(*kept, strict=True))
                who = (tables.model, tables.dataset, "", protocol)
                made.append(ConceptPairs(*who, keys, clusters, own, scores))
    return made


def _answered(phrase: str, line: dict[str, Any]) -> Answered:
    shape = [int(side) for side in line["shape"]]
    pair = Pair.from_json(phrase, line["ground_truth"], shape)
    found = [
        (Mask.from_coco({"size": shape, "counts": counts}), float(score))
        for rank, counts, score in zip(line["rank"], line["mask"], line["score"], strict=True)
        if rank
    ]
    return Answered(pair, [m for m, _ in found], [s for _, s in found])


def _number(name: str, title: str, of: str = "", numbers: str = "plain", **more: Any) -> Statistic:
    """A statistic of whole groups, by the name of the evaluator's number."""
    card = {"unit": "%", "digits": 1, "better": "higher", "percent": True, **more}
    of = of or name
    return statistic_of_draws(
        name, title, lambda g: getattr(g, numbers).get(of), of=ConceptPairs, **card
    )


def _top(masks: int) -> Statistic:
    """The share of phrases of one object that has one of the best masks at IoU 0.5."""

    def values(group: ConceptPairs) -> Floats:
        hit = (group.single[:, :masks] >= _FOUND).any(axis=1)
        return np.where(np.isnan(group.single[:, 0]), np.nan, hit)

    name = f"top-{masks}"
    return Statistic(
        name, f"{name}, single objects", "%", 1, "higher", True, values, share_of_known,
        of=ConceptPairs,
    )  # fmt: skip


STATISTICS: tuple[Statistic, ...] = (
    _number("cgf1", "cgF1", tested="yes"),
    _number("pmf1", "positive micro F1", "positive-micro-f1", tested="yes"),
    _number("il-mcc", "image-level MCC", unit="", digits=3, percent=False, tested="yes"),
    _number("cgf1-calibrated", "cgF1, calibrated", "cgf1", "calibrated"),
    _number("cgf1@0.5", "cgF1 at IoU 0.5"),
    _number("cgf1@0.75", "cgF1 at IoU 0.75"),
    _number("macro-f1", "positive macro F1", "positive-macro-f1"),
    _number("precision@0.5", "precision at IoU 0.5"),
    _number("recall@0.5", "recall at IoU 0.5"),
    _number("recall@0.75", "recall at IoU 0.75"),
    _number("il-recall", "positive pairs answered"),
    _number("il-fpr", "negative pairs answered", better="lower"),
    _top(1),
    _top(5),
    Statistic(
        "text-iou", "IoU of the best mask, single objects", "%", 1, "higher", True,
        lambda g: g.single[:, 0], mean_of_known, of=ConceptPairs,
    ),
    Statistic(
        "wrong-masks", "masks per negative pair", "", 2, "lower",
        values=lambda g: g.wrong_masks, interval=mean_of_known, of=ConceptPairs,
    ),
)  # fmt: skip


_SHOWN = 6
_RULE = (
    "A pair is an image with a phrase; it is negative if the image has no such object. cgF1 is "
    "the micro F1 of the masks on positive pairs, mean over IoU thresholds 0.5 to 0.95, times "
    "the Matthews correlation between predicting any mask and the phrase being present. Masks "
    "count from a score of 0.5. **published** is SAM 3's public evaluator; **corrected** matches "
    "per threshold, ignores masks on crowd regions, and calls cgF1 undefined without negatives."
)
_KINDS = ("positive", "hard negative", "negative")


def sections(run: Results) -> list[page.Section]:
    found = parts.Findings(run)
    leading = found.groups(ConceptPairs, found.lead)
    table = found.table("concepts", found.rows, found.cards, by=parts.DATA, note=parts.INTERVALS)
    blocks: list[page.Block] = [*_answer(found, leading), table, page.Note(_RULE)]
    made = [
        page.Section("Results", blocks=blocks),
        page.Section("Answers by kind of pair", blocks=[_kinds(leading)]),
        page.Section("Phrases with most errors", blocks=[_phrases(leading)]),
        page.Section("Score threshold", blocks=_curve(leading)),
        *found.difference_section(),
    ]
    failures = [illustration for group in leading for illustration in _failures(run, group)]
    if failures:
        text = "Ground truth and predictions of pairs that were answered wrongly."
        made.append(page.Section("Failures", text, [page.Gallery(failures)]))
    return made


def _answer(found: parts.Findings, groups: Sequence[ConceptPairs]) -> list[page.Block]:
    first = groups[:1]
    pairs = Counter(one.pair.kind for group in first for one in group.answers)
    detail = (
        f"{pairs['positive']} positive and {sum(pairs.values()) - pairs['positive']} negative "
        f"pairs of {len({c for group in first for c in group.clusters})} images."
    )
    undefined = page.Note("cgF1 is undefined: there are no negative pairs, or none was answered.")
    settings = (found.cards, detail, found.differences)
    return parts.best_answer(found.leading, ("cgf1",), *settings) or [undefined]


def _curve(groups: Sequence[ConceptPairs]) -> list[page.Block]:
    """cgF1 over the score threshold, and the thresholds of the calibration."""
    lines: list[page.Line | page.Points] = []
    notes = []
    for group in groups:
        values = concept_scores(group.by_cut.sum(axis=1), group.protocol)["cgf1"]
        known = ~np.isnan(values)
        name = f"{group.model}, {group.dataset}"
        if known.any():
            lines.append(page.Line(name, CUTS[known].tolist(), (100 * values[known]).tolist()))
        if group.thresholds is not None:
            notes.append(f"{name}: {group.thresholds[0]:g} and {group.thresholds[1]:g}")
    if not lines:
        return [page.Note("cgF1 is undefined at every threshold.")]
    axes = page.Axis("score from which masks count", 0, 1), page.Axis("cgF1 in %")
    caption = "Calibrated cgF1 takes for either half of the images the best threshold of the other"
    return [page.Chart("cgF1 by score threshold", *axes, lines, f"{caption}. {'; '.join(notes)}.")]


def _kinds(groups: Sequence[ConceptPairs]) -> page.Table:
    kinds = [
        (group, kind, own)
        for group in groups
        for kind in _KINDS
        if (own := [one for one in group.answers if one.pair.kind == kind])
    ]
    columns: dict[page.Column, Callable[[Any], page.Cell]] = {
        page.Column("model"): lambda r: r[0].model,
        page.Column("data"): lambda r: r[0].dataset,
        page.Column("pairs"): lambda r: r[1],
        page.Column("number", "", 0): lambda r: len(r[2]),
        page.Column("answered", "%", 1): lambda r: 100 * fmean(bool(a.certain) for a in r[2]),
        page.Column("masks per pair", "", 2): lambda r: fmean(len(a.certain) for a in r[2]),
    }
    return page.Table.of("kinds", kinds, columns, "How often pairs of each kind are answered")


def _phrases(groups: Sequence[ConceptPairs]) -> page.Table:
    rows: list[list[page.Cell]] = []
    for group in groups:
        phrases = (one.pair.phrase for one in group.answers)
        every = grouped_pairs(zip(phrases, group.errors, strict=True))
        sums = {phrase: [*map(sum, zip(*own, strict=True))] for phrase, own in every.items()}
        worst = sorted((p for p in sums if any(sums[p])), key=lambda p: (-sum(sums[p]), p))
        rows += [[group.model, group.dataset, p, *sums[p]] for p in worst[:12]]
    columns = [
        *map(page.Column, ("model", "data", "phrase")),
        *(page.Column(title, "", 0) for title in ("objects missed", "wrong masks")),
    ]
    return page.Table("phrases", columns, rows, "Errors at IoU 0.5 by phrase")


def _failures(run: Results, group: ConceptPairs) -> list[page.Illustration]:
    """The pairs with most errors at IoU 0.5, where the images are available."""
    pairs = zip(group.keys, group.answers, group.errors, strict=True)
    wrong = sorted((p for p in pairs if any(p[2])), key=lambda p: (-sum(p[2]), p[0]))
    made: list[page.Illustration] = []
    for (scene, phrase), one, (missed, spurious) in wrong[:_SHOWN]:
        try:
            pixels = run.scene(group.dataset, scene).pixels
        except SegmeterError:
            return made
        truths = [page.Outline(m, "ground_truth") for t in one.pair.annotators[:1] for m in t.masks]
        answers = [page.Outline(m, "prediction") for m in one.certain]
        made.append(
            page.Illustration(
                pixels,
                f"{group.model}: '{phrase}' on {scene}: {missed} missed, {spurious} wrong",
                f"Objects and predicted masks of '{phrase}' on {scene}",
                outlines=[*truths, *answers],
                prompts=[Text(phrase)],
            )
        )
    return made
