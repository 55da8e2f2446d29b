"""What the report says: recall by size and frequency, by number, and the paper's table."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.difference_table import PAIR_AND_PROTOCOL, difference_table
from segmeter.benchmarks.published_tables import published_rows
from segmeter.benchmarks.zeroshot.model_options import NOT_REPRODUCIBLE
from segmeter.benchmarks.zeroshot.proposals.statistics import (
    Recalls,
    differences,
    groups,
    measure_name,
)
from segmeter.core.benchmarks import Difference, Results
from segmeter.core.dataset_names import dataset_label
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

__all__ = ["paper_rows", "sections"]

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
    everything, gaps = groups(run), differences(run)
    made = []
    for dataset in dict.fromkeys(group.dataset for group in everything):
        here = [group for group in everything if group.dataset == dataset]
        found = [gap for gap in gaps if gap.dataset == dataset]
        made.append(_overview(dataset, here, found))
    return made


def paper_rows() -> list[dict[str, str]]:
    """Table 6 of the paper's supplement, and a public attempt."""
    return published_rows("zeroshot.proposals", "table6.csv")


def _overview(dataset: str, here: Sequence[Recalls], gaps: Sequence[Difference]) -> Section:
    blocks: list[Block] = [_answer(here), _table(dataset, here), _chart(here), _paper(dataset)]
    if gaps:
        blocks.append(_comparison(dataset, gaps))
    notes = [Note(text) for text in (_PROTOCOLS, _FEDERATED, NOT_REPRODUCIBLE)]
    return Section(f"Proposals: {dataset_label(dataset)}", blocks=[*blocks, *notes])


def _most(here: Sequence[Recalls]) -> int:
    return max(group.number for group in here)


def _answer(here: Sequence[Recalls]) -> Answer:
    most = _most(here)
    whole = [g for g in here if g.objects_of == "all" and g.number == most]
    best = max(whole, key=lambda g: g.value)
    masks = best.proposals.mean()
    low, high = best.limits()
    recall = Value(100 * best.value, 100 * low, 100 * high)
    return Answer(
        phrase(
            f"{best.model} recalls ",
            Quantity(f"{recall.value:.1f} %", recall, measure=measure_name(best)),
            f" with up to {most} masks ({best.protocol}).",
        ),
        f"{masks:.0f} masks per image; intervals are in the table.",
    )


def _table(dataset: str, here: Sequence[Recalls]) -> Table:
    most = _most(here)
    chosen = [g for g in here if g.number == most and g.objects.any()]
    values = {(g.model, g.protocol, g.objects_of): Value(g.value, *g.limits()) for g in chosen}
    kinds = [kind for kind in KINDS if any(g.objects_of == kind for g in chosen)]
    keys = dict.fromkeys((g.model, g.protocol) for g in chosen)
    body: list[list[Cell]] = [
        [Label(model, protocol=protocol), *(values.get((model, protocol, kind)) for kind in kinds)]
        for model, protocol in keys
    ]
    columns = [Column(kind, digits=1, percent=True, better="higher") for kind in kinds]
    images = max(len(g.keys) for g in chosen)
    return Table(
        f"{dataset_label(dataset)}-proposals",
        [Column("model"), *columns],
        body,
        caption=f"AR@{most} in percent, {images} images, 95 % intervals",
    )


def _chart(here: Sequence[Recalls]) -> Chart:
    whole = [g for g in here if g.objects_of == "all"]
    marks = []
    for model, protocol in dict.fromkeys((g.model, g.protocol) for g in whole):
        mine = sorted(
            (g for g in whole if (g.model, g.protocol) == (model, protocol)), key=lambda g: g.number
        )
        name = f"{model}, {protocol}"
        marks.append(Line(name, [g.number for g in mine], [g.value for g in mine]))
    return Chart(
        "Recall by number of masks",
        Axis("masks that count, best first", scale="log"),
        Axis("average recall", 0, 1, percent=True),
        marks,
    )


def _paper(dataset: str) -> Table:
    body: list[list[Cell]] = [
        [Label(row["method"]), *(float(row[kind]) if row[kind] else None for kind in KINDS)]
        for row in paper_rows()
    ]
    return Table(
        f"{dataset_label(dataset)}-table6",
        [Column("method"), *(Column(kind, digits=1) for kind in KINDS)],
        body,
        caption="As printed: Segment Anything, Table 6 (LVIS v1 validation, AR@1000)",
    )


def _comparison(dataset: str, found: Sequence[Difference]) -> Table:
    return difference_table(
        f"{dataset_label(dataset)}-proposal-differences",
        found,
        PAIR_AND_PROTOCOL,
        difference=Column("difference", digits=3),
        p=Column("p", digits=4),
        caption="First minus second, recall of each image",
        note="p by exchanging the models within images, corrected over all pairs (Holm).",
    )
