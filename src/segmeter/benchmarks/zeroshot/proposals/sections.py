"""Report sections: recall by size and frequency, by number, and the paper's table."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.declared import Numbers
from segmeter.benchmarks.report_parts import difference_section, printed_table, published_rows
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE
from segmeter.benchmarks.zeroshot.proposals import Proposals
from segmeter.benchmarks.zeroshot.proposals.statistics import Proposed, recall_at
from segmeter.core.benchmarks import Results
from segmeter.core.sections import (
    Answer,
    Axis,
    Block,
    Cell,
    Chart,
    Column,
    Label,
    Line,
    Note,
    Quantity,
    Section,
    Table,
    Value,
    phrase,
)
from segmeter.stats.statistics import cards_by_name

KINDS = ("all", "small", "medium", "large", "frequent", "common", "rare")
_PROTOCOLS = (
    "Masks of a grid of clicks, none filtered, boxes suppressed by the model's own score; of "
    "more than 1000 masks those with the highest mean of score and stability stay, and by it "
    "they are ranked. Classes are not looked at; objects are matched as COCO's evaluator does, "
    "recall is averaged over IoU 0.50 to 0.95.\n\n**published**: empty masks stay, last; an "
    "object of 32 x 32 pixels is small and medium. **corrected**: empty masks go before the "
    "suppression, which counts pixels; every object has one size."
)
_FEDERATED = (
    "LVIS outlines only some classes in each image, so a mask of anything else is no mistake and "
    "precision means nothing here; recall does. Evaluators made for LVIS drop proposals of classes "
    "that an image was not searched for before they match: with one dummy class most vanish. A "
    "public attempt got 50.5 for the paper's 59.3."
)


def sections(run: Results) -> list[Section]:
    """All sections, a data set after the other."""
    benchmark = Proposals()
    everything = [g for g in benchmark.groups(run) if isinstance(g, Proposed)]
    numbers, cards = benchmark.numbers(run), cards_by_name(benchmark.statistics(run))
    made = []
    for dataset in dict.fromkeys(group.dataset for group in everything):
        here = [group for group in everything if group.dataset == dataset]
        made.append(_overview(dataset, here, numbers))
    return [*made, *difference_section(benchmark.differences(run), cards)]


def paper_rows() -> list[dict[str, str]]:
    """Table 6 of the paper's supplement, and a public attempt."""
    return published_rows("zeroshot.proposals", "table6.csv")


def _overview(dataset: str, here: Sequence[Proposed], numbers: Numbers) -> Section:
    most = max(number for group in here for number in group.numbers)
    blocks: list[Block] = [
        _answer(here, numbers, most),
        _table(dataset, here, numbers, most),
        _chart(here, numbers),
        _paper(dataset),
    ]
    notes = [Note(text) for text in (_PROTOCOLS, _FEDERATED, NOT_REPRODUCIBLE)]
    return Section(f"Results: {dataset}", blocks=[*blocks, *notes])


def _answer(here: Sequence[Proposed], numbers: Numbers, most: int) -> Answer:
    whole = recall_at(most).name
    best = max(here, key=lambda g: numbers[g.key, whole].value)
    row = numbers[best.key, whole]
    recall = Value(100 * row.value, 100 * row.low, 100 * row.high)
    return Answer(
        phrase(
            f"{best.model} recalls ",
            Quantity(f"{recall.value:.1f} %", recall, measure=whole),
            f" with up to {most} masks ({best.protocol}).",
        ),
        f"{best.proposals.mean():.0f} masks per image; intervals are in the table.",
    )


def _table(dataset: str, here: Sequence[Proposed], numbers: Numbers, most: int) -> Table:
    kinds = [kind for kind in KINDS if any(g.has(kind, most) for g in here)]
    body: list[list[Cell]] = [
        [
            Label(g.model, protocol=g.protocol),
            *(Value.of(numbers.get((g.key, recall_at(most, kind).name))) for kind in kinds),
        ]
        for g in here
    ]
    columns = [Column(kind, digits=1, percent=True, better="higher") for kind in kinds]
    images = max(len(g.keys) for g in here)
    return Table(
        f"{dataset}-proposals",
        [Column("model"), *columns],
        body,
        caption=f"AR@{most} in percent, {images} images, 95 % intervals",
    )


def _chart(here: Sequence[Proposed], numbers: Numbers) -> Chart:
    marks = []
    for g in here:
        found = [(n, numbers.get((g.key, recall_at(n).name))) for n in sorted(g.numbers)]
        known = [(n, row.value) for n, row in found if row is not None]
        marks.append(Line(f"{g.model}, {g.protocol}", [n for n, _ in known], [v for _, v in known]))
    return Chart(
        "Recall by number of masks",
        Axis("masks that count, best first", scale="log"),
        Axis("average recall", 0, 1, percent=True),
        marks,
    )


def _paper(dataset: str) -> Table:
    caption = "As printed: Segment Anything, Table 6 (LVIS v1 validation, AR@1000)"
    kinds = {kind: kind for kind in KINDS}
    return printed_table(f"{dataset}-table6", paper_rows(), {"method": "method"}, kinds, 1, caption)
