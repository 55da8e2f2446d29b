"""Report sections: curves, the table, and the paper's table."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.report_parts import (
    difference_section,
    printed_table,
    published_rows,
    summary_table,
)
from segmeter.benchmarks.seism.sections import precision_recall_chart
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE
from segmeter.benchmarks.zeroshot.edges import Edges
from segmeter.benchmarks.zeroshot.edges.statistics import MEASURES, STATISTICS, EdgeTables
from segmeter.core.benchmarks import Results, SummaryRow
from segmeter.core.sections import (
    Answer,
    Column,
    Multiples,
    Note,
    Phrase,
    Quantity,
    Section,
    Table,
    Value,
    phrase,
)
from segmeter.stats.statistics import cards_by_name

_PROTOCOLS = (
    "**published**: edges as the public reproduction makes them: boxes suppressed in batches of "
    "64 points and again, zeros around the image (its frame is an edge where a mask touches "
    "it), a boundary of two pixels, smoothed, thinned by the structured-edges toolbox, cut to 8 "
    "bits; AP sums 101 samples over 100.\n\n**corrected**: suppressed once, outermost pixels "
    "repeated, pixels just outside the mask, thinned along the gradient of the mask that won; AP "
    "under the upper envelope, R50 the largest recall at a precision of half.\n\nBoundary pixels "
    "are matched exactly, the same way every time, in both; the original matcher draws at random "
    "and differs in the fourth decimal."
)
_GAP = (
    "The paper does not say how edges were thinned, what the outer boundary is, or how the image "
    "is padded; a public reproduction got .746 for the paper's .768. A run of SAM's largest "
    "network within .74 to .77 agrees with both."
)


def sections(run: Results) -> list[Section]:
    """All sections, a data set after the other."""
    benchmark = Edges()
    everything = [g for g in benchmark.groups(run) if isinstance(g, EdgeTables)]
    rows = benchmark.summary(run)
    made = []
    for dataset in dict.fromkeys(group.dataset for group in everything):
        here = [group for group in everything if group.dataset == dataset]
        mine = [row for row in rows if row.dataset == dataset]
        made.append(_overview(dataset, here, mine))
    cards = cards_by_name(STATISTICS)
    return [*made, *difference_section(benchmark.differences(run), cards, folded=True)]


def paper_rows() -> list[dict[str, str]]:
    """Table 5 of the paper's supplement, and a reproduction's numbers."""
    return published_rows("zeroshot.edges", "table5.csv")


def _overview(dataset: str, here: Sequence[EdgeTables], rows: Sequence[SummaryRow]) -> Section:
    charts = [
        precision_recall_chart(
            f"Edges, {protocol}", [(g.model, g.curve) for g in here if g.protocol == protocol]
        )
        for protocol in dict.fromkeys(group.protocol for group in here)
    ]
    images = max(row.targets for row in rows)
    return Section(
        f"Results: {dataset}",
        blocks=[
            _answer(rows),
            Multiples(charts, "Precision over recall of boundary pixels, all images pooled."),
            _table(dataset, rows, images),
            _paper(dataset),
            Note(_PROTOCOLS),
            Note(_GAP),
            Note(NOT_REPRODUCIBLE),
        ],
    )


def _answer(rows: Sequence[SummaryRow]) -> Answer:
    ods = [row for row in rows if row.measure == "ods"]
    best = {
        protocol: max((r for r in ods if r.protocol == protocol), key=lambda r: r.value)
        for protocol in dict.fromkeys(row.protocol for row in ods)
    }
    said: Phrase = ()
    for model in dict.fromkeys(row.model for row in best.values()):
        said = phrase(said, "; " if said else "", f"{model} has the best ODS, ")
        mine = [row for row in best.values() if row.model == model]
        for k, row in enumerate(mine):
            value = Quantity(f"{row.value:.3f}", Value.of(row), measure="ods")
            said = phrase(said, " and " if k else "", value, f" ({row.protocol})")
    return Answer(phrase(said, "."), "One threshold for all images; intervals in the table.")


def _table(dataset: str, rows: Sequence[SummaryRow], images: int) -> Table:
    return summary_table(
        f"{dataset}-edges",
        rows,
        {name: Column(name.upper(), digits=3, better="higher") for name in MEASURES},
        who="method",
        ranked=True,
        caption=f"Edges against people's boundaries, {images} images, 95 % intervals",
    )


def _paper(dataset: str) -> Table:
    return printed_table(
        f"{dataset}-table5",
        paper_rows(),
        {"method": "method", "year": "year", "zero_shot": "zero-shot"},
        {name: name.upper() for name in MEASURES},
        3,
        "As printed: Segment Anything, Table 5 (BSDS500, 200 test images)",
    )
