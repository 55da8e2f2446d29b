"""Statistics of edge maps (ODS, OIS, AP and R50) and the sections that show them.

`published` numbers follow the benchmark of BSDS500 and the structured-edges toolbox: AP sums
101 samples over 100, R50 is read off a curve whose precision need not fall steadily. `corrected`
takes the area under the upper envelope and the largest recall at a precision of half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.seism.sections import precision_recall_chart
from segmeter.benchmarks.seism.statistics import COUNTS, SweptTables, set_fb
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE
from segmeter.benchmarks.zeroshot.edges import Edges
from segmeter.core.benchmarks import Results, SummaryRow
from segmeter.core.scores_by_step import load_tables
from segmeter.core.sections import Multiples, Note, Section
from segmeter.measures.curves import Curve, PooledCounts, summarize
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Statistic, cards_by_name, percentiles, resampling

RESAMPLES = 300
MEASURES = ("ods", "ois", "ap", "r50")


@dataclass(frozen=True)
class EdgeTables(SweptTables):
    """One method on one dataset in one protocol; columns are counts, images x thresholds."""

    thresholds: Floats

    @cached_property
    def curve(self) -> Curve:
        return self._curve([self.columns[name] for name in COUNTS])

    @cached_property
    def values(self) -> tuple[float, ...]:
        """ODS, OIS, AP and R50."""
        return self._numbers(self.curve, self.curve.ois.f)

    @cached_property
    def resampled(self) -> Floats:
        """The same of resampled sets of images, `(resamples, 4)`."""
        drawn = resampling(self, RESAMPLES)
        # Means over images; in thousandths of a pixel they are whole numbers near enough.
        means = [1000 * drawn.means(self.columns[name]) for name in COUNTS]
        _, ois = self.values_at("fb", self.own_best("fb"), drawn)
        curves = (self._curve([m[k : k + 1] for m in means]) for k in range(RESAMPLES))
        return np.array([self._numbers(c, float(o)) for c, o in zip(curves, ois, strict=True)])

    def interval(self, place: int) -> Interval:
        """One of the four with its interval; none for a single image."""
        draws = self.resampled[:, place] if len(self.keys) > 1 else np.empty(0)
        return percentiles(self.values[place], draws)

    def _curve(self, counts: Sequence[Floats]) -> Curve:
        whole = (np.rint(c).astype(np.int64) for c in counts)
        return summarize(PooledCounts(self.thresholds, *whole), "edges")

    def _numbers(self, curve: Curve, ois: float) -> tuple[float, ...]:
        if self.protocol == "corrected":
            return curve.ods.f, ois, curve.corrected_ap, curve.corrected_r50
        return curve.ods.f, ois, curve.ap, np.nan if curve.r50 is None else curve.r50


def groups(run: Results) -> list[EdgeTables]:
    """All methods of a run, by dataset and reading."""
    return [
        EdgeTables(
            *tables.key,
            tables.keys,
            tables.clusters,
            {name: tables.table(name) for name in COUNTS},
            tables.table("threshold")[0],
        )
        for tables in load_tables(
            run,
            ["threshold", *COUNTS],
            axis="threshold",
            by=("dataset", "model", "protocol"),
            unit=("scene",),
        )
    ]


def _statistic(place: int, name: str) -> Statistic:
    return Statistic(
        name, name.upper(), "", 3, "higher", of=EdgeTables, whole=lambda g: g.interval(place)
    )


STATISTICS = [
    *(_statistic(place, name) for place, name in enumerate(MEASURES)),
    Statistic(
        "f", "F", "", 3, "higher", of=EdgeTables, tested="yes",
        values=lambda g: set_fb(g.at(COUNTS, g.best_elsewhere("fb")))[:, 0],
    ),
]  # fmt: skip
"""ODS, OIS, AP and R50; models are compared by F of each image at the threshold best elsewhere."""


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
    """All sections, a dataset after the other."""
    benchmark = Edges()
    found = [g for g in benchmark.groups(run) if isinstance(g, EdgeTables)]
    made = [_overview(*part) for part in parts.by_dataset(found, benchmark.summary(run))]
    cards = cards_by_name(STATISTICS)
    return [*made, *parts.difference_section(benchmark.differences(run), cards, folded=True)]


def paper_rows() -> list[dict[str, str]]:
    """Table 5 of the paper's supplement, and a reproduction's numbers."""
    return parts.published_rows("zeroshot.edges", "table5.csv")


def _overview(dataset: str, here: Sequence[EdgeTables], rows: Sequence[SummaryRow]) -> Section:
    charts = [
        precision_recall_chart(
            f"Edges, {protocol}", [(g.model, g.curve) for g in here if g.protocol == protocol]
        )
        for protocol in dict.fromkeys(group.protocol for group in here)
    ]
    images = max(row.targets for row in rows)
    cards = cards_by_name(STATISTICS)
    return Section(
        f"Results: {dataset}",
        blocks=[
            *parts.best_answer(rows, ("ods",), cards, "One threshold for all images."),
            Multiples(charts, "Precision over recall of boundary pixels, all images pooled."),
            parts.summary_table(
                f"{dataset}-edges",
                rows,
                {name: parts.column_of(cards[name]) for name in MEASURES},
                who="method",
                ranked=True,
                caption=f"Edges against people's boundaries, {images} images, 95 % intervals",
            ),
            parts.printed_table(
                f"{dataset}-table5",
                paper_rows(),
                {"method": "method", "year": "year", "zero_shot": "zero-shot"},
                {name: name.upper() for name in MEASURES},
                3,
                "As printed: Segment Anything, Table 5 (BSDS500, 200 test images)",
            ),
            *(Note(text) for text in (_PROTOCOLS, _GAP, NOT_REPRODUCIBLE)),
        ],
    )
