"""Statistics of proposals (average recall, pooled over images) and the sections that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE
from segmeter.core.benchmarks import Group, Results
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Axis, Block, Chart, Column, Note, Section
from segmeter.measures.proposals import average_recall_of
from segmeter.stats.intervals import Floats, Interval, percentiles
from segmeter.stats.statistics import Statistic, mean_of_known, percentile_interval, resampling

ALL = "all"


@dataclass(frozen=True, slots=True)
class Proposed(Group):
    """One model on one dataset in one protocol.

    `numbers` are the numbers of proposals that count; `objects` is one number per image and
    `matched` is `(images, numbers, thresholds)`, both by size or frequency class; `proposals` is
    how many masks each image got.
    """

    numbers: tuple[int, ...]
    objects: Mapping[str, Floats]
    matched: Mapping[str, Floats]
    proposals: Floats

    def counts(self, objects_of: str, number: int) -> tuple[Floats, Floats] | None:
        """Objects matched at each threshold, `(images, thresholds)`, and all; None without any."""
        objects = self.objects.get(objects_of)
        if objects is None or not objects.any() or number not in self.numbers:
            return None
        return self.matched[objects_of][:, self.numbers.index(number)], objects

    def recall(self, objects_of: str, number: int) -> Interval | None:
        """Share of all objects of all images, averaged over thresholds, with its interval."""
        counts = self.counts(objects_of, number)
        if counts is None:
            return None
        matched, objects = counts
        value = float(average_recall_of(matched.sum(axis=0), objects.sum()))
        drawn = resampling(self)
        draws = average_recall_of(drawn.means(matched), drawn.means(objects)[:, 0])
        return percentiles(value, draws, len(self.keys))

    def each(self, objects_of: str, number: int) -> Floats:
        """Recall of each image; NaN, and so not compared, where it has no object."""
        counts = self.counts(objects_of, number)
        return np.full(len(self.keys), np.nan) if counts is None else average_recall_of(*counts)


def groups(run: Results) -> list[Proposed]:
    """All models of a run, by dataset and protocol."""
    found: dict[tuple[str, ...], dict[str, Tables]] = {}
    for tables in Tables.load(
        run,
        ["number", "objects", "matched", "proposals"],
        by=("dataset", "model", "protocol", "objects_of"),
        unit=("scene",),
        axis="number",
    ):
        found.setdefault(tables.key, {})[tables.by["objects_of"]] = tables
    return [
        Proposed(
            *(every := kinds[ALL]).key,
            every.keys,
            every.clusters,
            tuple(int(n) for n in every.table("number")[0]),
            {kind: t.table("objects")[:, 0] for kind, t in kinds.items()},
            {kind: np.array(t.lists("matched").to_pylist(), float) for kind, t in kinds.items()},
            every.table("proposals")[:, 0],
        )
        for kinds in found.values()
    ]


def statistics(run: Results) -> list[Statistic]:
    """Recall at every number of proposals, of all objects and by class; masks per image."""
    found = parts.Findings(run).groups(Proposed)
    numbers = sorted({n for g in found for n in g.numbers}, reverse=True)
    kinds = dict.fromkeys(kind for g in found for kind in g.objects)
    made = [
        recall_at(number, kind, tested=(kind, number) == (ALL, numbers[0]))
        for number in numbers
        for kind in kinds
    ]
    masks = Statistic(
        "masks", "masks", "per image", 1, values=lambda g: g.proposals,
        interval=percentile_interval, of=Proposed, tested="no",
    )  # fmt: skip
    return [*made, masks]


def recall_at(number: int, objects_of: str = ALL, *, tested: bool = False) -> Statistic:
    """AR@n: average recall of the best n proposals, of all objects or of one class."""
    name = f"ar@{number}" + ("" if objects_of == ALL else f"-{objects_of}")
    title = f"AR@{number}" + ("" if objects_of == ALL else f" {objects_of}")
    return Statistic(
        name, title, digits=3, better="higher", of=Proposed, interval=mean_of_known,
        whole=lambda g: g.recall(objects_of, number), paired=lambda g: g.each(objects_of, number),
        tested="yes" if tested else "on request",
    )  # fmt: skip


KINDS = ("all", "small", "medium", "large", "frequent", "common", "rare")
_PROTOCOLS = (
    "Masks of a grid of clicks, none filtered, ranked by the mean of score and stability. Classes "
    "are ignored; objects are matched as COCO's evaluator does, recall is averaged over IoU 0.50 "
    "to 0.95.\n\n**published**: empty masks stay, last; an object of 32 x 32 pixels is small and "
    "medium. **corrected**: empty masks go before the suppression, which counts pixels; every "
    "object has one size."
)
_FEDERATED = (
    "LVIS outlines only some classes in each image, so a mask of another object may be right: "
    "recall is meaningful, precision is not. A public attempt got 50.5 for the paper's 59.3."
)


def sections(run: Results) -> list[Section]:
    found, made = parts.Findings(run), []
    for dataset, here, rows in found.datasets(found.groups(Proposed)):
        most, images = max(n for g in here for n in g.numbers), max(len(g.keys) for g in here)
        columns = {
            recall_at(most, kind).name: Column(kind, digits=1, percent=True, better="higher")
            for kind in KINDS
        }
        columns["masks"] = parts.column_of(found.cards["masks"])
        caption = f"AR@{most} in percent, {images} images, 95 % intervals"
        blocks: list[Block] = [
            *parts.best_answer(rows, [recall_at(most).name], found.cards, "", found.differences),
            parts.summary_table(f"{dataset}-proposals", rows, columns, caption=caption),
            _chart(here, found.numbers),
            parts.printed_table(
                f"{dataset}-table6", ("zeroshot.proposals", "table6.csv"),
                {"method": "method"}, {kind: kind for kind in KINDS}, 1,
                "As printed: Segment Anything, Table 6 (LVIS v1 validation, AR@1000)",
            ),
            *map(Note, (_PROTOCOLS, _FEDERATED, NOT_REPRODUCIBLE)),
        ]  # fmt: skip
        made.append(Section(f"Results: {dataset}", blocks=blocks))
    return [*made, *found.difference_section()]


def _chart(here: Sequence[Proposed], numbers: parts.Numbers) -> Chart:
    marks = [
        parts.line_of(
            f"{g.model}, {g.protocol}",
            {n: row for n in sorted(g.numbers) if (row := numbers.get((g.key, recall_at(n).name)))},
        )
        for g in here
    ]
    return Chart(
        "Recall by number of masks",
        Axis("masks that count, best first", scale="log"),
        Axis("average recall", 0, 1, percent=True),
        marks,
    )
