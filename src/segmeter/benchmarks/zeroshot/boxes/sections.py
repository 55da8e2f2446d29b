"""Report sections on masks from boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from segmeter.benchmarks.report_parts import DATA, By, difference_section, summary_table
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE, OWN_RULES, told
from segmeter.benchmarks.zeroshot.boxes import Boxes
from segmeter.core.benchmarks import Results, SummaryRow
from segmeter.core.sections import (
    Answer,
    Block,
    Column,
    Note,
    Quantity,
    Section,
    Table,
    Value,
    phrase,
)
from segmeter.stats.statistics import cards_by_name

_AP = {
    "ap": "AP", "ap50": "AP50", "ap75": "AP75", "ap-small": "small", "ap-medium": "medium",
    "ap-large": "large", "ap-rare": "rare", "ap-common": "common", "ap-frequent": "frequent",
}  # fmt: skip
_BOTH = {
    "ap": "AP, masks", "boundary-ap": "AP, boundaries", "box-ap": "AP, boxes",
    "boxes-found": "boxes found", "mask-iou": "mask IoU", "mask-boundary-iou": "boundary IoU",
}  # fmt: skip
_PRECISION = (
    "Average precision of the masks over all thresholds of IoU, at 0.5 and at 0.75, and by the "
    "size of objects or how frequent their class is."
)
_RULE = (
    "Each box is asked for twice: alone, then with the logits of the mask shown. The first SAM "
    "offers three masks for a lone box and shows the one it trusts most; SAM 2 counts a box as "
    "two points and shows its single mask. A mask has its box's class and score. Boundary AP "
    "matches by the smaller of mask IoU and boundary IoU. Mask IoU and boundary IoU are means "
    "over objects whose box is found at an IoU of 0.5; AP on COCO falls where annotations are "
    "coarse, so read AP and boundary quality together. **published** counts an object of "
    "exactly 32 x 32 or 96 x 96 pixels in both sizes, **corrected** in one."
)


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    benchmark, lead = Boxes(), run.plan.leading_protocol
    rows = [replace(row, model=told(row.model)) for row in benchmark.summary(run)]
    cards = cards_by_name(benchmark.statistics(run))
    return [
        _overview(rows, lead),
        Section("Average precision by size and class", _PRECISION, [_precision(rows)]),
        *difference_section(benchmark.differences(run), cards, shown=told),
    ]


def _overview(rows: Sequence[SummaryRow], lead: str) -> Section:
    best = max((r for r in rows if r.protocol == lead and r.measure == "ap"), key=lambda r: r.value)
    mine = {r.measure: r for r in rows if r.key == best.key}
    boxes = mine.get("box-ap")
    detail = f"The boxes themselves have an AP of {boxes.value:.1f}." if boxes else ""
    limits = f"[{best.low:.1f}, {best.high:.1f}]"
    sentence = phrase(
        f"**{best.model}** turns the boxes of {best.user} on {best.dataset} into masks of AP ",
        Quantity(f"{best.value:.1f}", Value.of(best), limits, "ap"),
        ".",
    )
    blocks: list[Block] = [
        Answer(sentence, detail),
        _table("boxes", [r for r in rows if r.protocol == lead], _BOTH, "Masks and boxes"),
        Note(f"{_RULE} {OWN_RULES}"),
        Note(NOT_REPRODUCIBLE, "warning"),
    ]
    return Section("Results", blocks=blocks)


def _precision(rows: Sequence[SummaryRow]) -> Table:
    return _table("boxes-ap", rows, _AP, "AP of the masks")


def _table(name: str, rows: Sequence[SummaryRow], titles: Mapping[str, str], caption: str) -> Table:
    measures = {m: Column(title, "%", 1, better="higher") for m, title in titles.items()}
    by: By = {**DATA, Column("boxes"): lambda row: row.user}
    note = "95 % intervals from resampling images."
    return summary_table(name, rows, measures, by=by, caption=caption, note=note)
