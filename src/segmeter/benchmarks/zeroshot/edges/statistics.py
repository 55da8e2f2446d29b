"""Statistics of edge maps (ODS, OIS, AP and R50) and the sections that show them.

`published` numbers follow the benchmark of BSDS500 and the structured-edges toolbox: AP sums
101 samples over 100, R50 is read off a curve whose precision need not fall steadily. `corrected`
takes the area under the upper envelope and the largest recall at a precision of half.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.benchmarks.seism.statistics import COUNTS, SweptTables, precision_recall_chart, set_fb
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Multiples, Note, Section
from segmeter.measures.curves import Curve
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Statistic

_CORRECTED: dict[str, Callable[[Curve], float]] = {
    "ods": lambda curve: curve.ods.f,
    "ap": lambda curve: curve.corrected_ap,
    "r50": lambda curve: curve.corrected_r50,
}
_PUBLISHED: dict[str, Callable[[Curve], float]] = {
    **_CORRECTED,
    "ap": lambda curve: curve.ap,
    "r50": lambda curve: math.nan if curve.r50 is None else curve.r50,
}
MEASURES = ("ods", "ois", "ap", "r50")


class EdgeTables(SweptTables):
    """One method on one dataset in one protocol; columns are counts, images x thresholds."""

    rule = "edges"
    resamples = 300

    @property
    def thresholds(self) -> Floats:
        return np.asarray(self.table("threshold")[0])

    @cached_property
    def estimates(self) -> dict[str, Interval]:
        """The four with their intervals; none for a single image."""
        numbers = _CORRECTED if self.protocol == "corrected" else _PUBLISHED
        return self.of_curve("fb", numbers) | {"ois": self.best("fb", self.own_best("fb"))}


def groups(run: Results) -> list[EdgeTables]:
    """All methods of a run, by dataset and protocol."""
    by, unit = ("dataset", "model", "protocol"), ("scene",)
    return EdgeTables.load(run, ["threshold", *COUNTS], axis="threshold", by=by, unit=unit)


def _statistic(name: str) -> Statistic:
    return Statistic(
        name, name.upper(), "", 3, "higher", of=EdgeTables, whole=lambda g: g.estimates[name]
    )


STATISTICS = [
    *map(_statistic, MEASURES),
    Statistic(
        "f", "F", "", 3, "higher", of=EdgeTables, tested="yes",
        values=lambda g: set_fb(g.at(COUNTS, g.best_elsewhere("fb")))[:, 0],
    ),
]  # fmt: skip
"""ODS, OIS, AP and R50; models are compared by F of each image at the threshold best elsewhere."""


_PROTOCOLS = (
    "**published**: edges as the public reproduction makes them, suppressed twice, thinned by the "
    "structured-edges toolbox and cut to 8 bits; the frame of the image is an edge where a mask "
    "touches it.\n\n**corrected**: suppressed once, outermost pixels repeated, thinned along the "
    "gradient of the mask that won.\n\nBoundary pixels are matched exactly in both; the original "
    "matcher draws at random and differs in the fourth decimal."
)
_GAP = (
    "The paper does not say how edges were thinned or padded; a public reproduction got .746 for "
    "its .768. A run of SAM's largest network within .74 to .77 agrees with both."
)


def sections(run: Results) -> list[Section]:
    found, made = parts.Findings(run), []
    for dataset, here, rows in found.datasets(found.groups(EdgeTables)):
        charts = [
            precision_recall_chart(
                f"Edges, {protocol}", [(g.model, g.curve()) for g in here if g.protocol == protocol]
            )
            for protocol in dict.fromkeys(group.protocol for group in here)
        ]
        images = max(row.targets for row in rows)
        caption = f"Edges against people's boundaries, {images} images, 95 % intervals"
        blocks = [
            *parts.best_answer(rows, ("ods",), found.cards, "One threshold for all images."),
            Multiples(charts, "Precision over recall of boundary pixels, all images pooled."),
            found.table(
                f"{dataset}-edges", rows, MEASURES, who="method", ranked=True, caption=caption
            ),
            parts.printed_table(
                f"{dataset}-table5", ("zeroshot.edges", "table5.csv"),
                {"method": "method", "year": "year", "zero_shot": "zero-shot"},
                {name: name.upper() for name in MEASURES}, 3,
                "As printed: Segment Anything, Table 5 (BSDS500, 200 test images)",
            ),
            *map(Note, (_PROTOCOLS, _GAP, NOT_REPRODUCIBLE)),
        ]  # fmt: skip
        made.append(Section(f"Results: {dataset}", blocks=blocks))
    return [*made, *found.difference_section(folded=True)]
