"""Report sections on concept segmentation: results, kinds of pairs, hard phrases, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.concepts.statistics import CUTS, ConceptPairs
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.core.errors import SegmeterError
from segmeter.core.prompts import Text
from segmeter.measures.concepts import concept_scores

_SHOWN = 6
_RULE = (
    "A pair is an image with a phrase; it is negative if the image has no such object. cgF1 is "
    "the micro F1 of the masks on positive pairs, mean over IoU thresholds 0.5 to 0.95, times "
    "the Matthews correlation between predicting any mask and the phrase being present. Masks "
    "count from a score of 0.5. **published** is "
    "SAM 3's public evaluator; **corrected** matches per threshold, ignores masks on crowd "
    "regions, and calls cgF1 undefined without negative pairs."
)
_KINDS = ("positive", "hard negative", "negative")


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order."""
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
    return parts.best_answer(found.leading, ("cgf1",), found.cards, detail) or [undefined]


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
        missed: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        for one, scored in zip(group.answers, group.results, strict=True):
            if scored.outcome != "TN":
                missed[one.pair.phrase] += int(scored.fn[0])
                wrong[one.pair.phrase] += int(scored.fp[0])
        worst = sorted(missed | wrong, key=lambda p: (-missed[p] - wrong[p], p))[:12]
        rows += [[group.model, group.dataset, p, missed[p], wrong[p]] for p in worst]
    columns = [
        *map(page.Column, ("model", "data", "phrase")),
        *(page.Column(title, "", 0) for title in ("objects missed", "wrong masks")),
    ]
    return page.Table("phrases", columns, rows, "Errors at IoU 0.5 by phrase")


def _failures(run: Results, group: ConceptPairs) -> list[page.Illustration]:
    """The pairs with most errors at IoU 0.5, where the images are available."""
    pairs = list(zip(group.keys, group.answers, group.results, strict=True))
    wrong = [p for p in pairs if p[2].outcome != "TN" and p[2].fp[0] + p[2].fn[0] > 0]
    wrong.sort(key=lambda p: (-(p[2].fp[0] + p[2].fn[0]), p[0]))
    made: list[page.Illustration] = []
    for (scene, phrase), one, scored in wrong[:_SHOWN]:
        try:
            pixels = run.scene(group.dataset, scene).pixels
        except SegmeterError:
            return made
        truths = [page.Outline(m, "ground_truth") for t in one.pair.annotators[:1] for m in t.masks]
        answers = [page.Outline(m, "prediction") for m in one.certain]
        counts = f"{int(scored.fn[0])} missed, {int(scored.fp[0])} wrong"
        made.append(
            page.Illustration(
                pixels,
                f"{group.model}: '{phrase}' on {scene}: {counts}",
                f"Objects and predicted masks of '{phrase}' on {scene}",
                outlines=[*truths, *answers],
                prompts=[Text(phrase)],
            )
        )
    return made
