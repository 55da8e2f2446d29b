"""The tables of TETRIS: Min, Base, Max and D as in the paper, first clicks, correlations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.declared import Numbers
from segmeter.benchmarks.tetris import Attacked
from segmeter.benchmarks.tetris.statistics import AREAS, CARDS, AttackedSessions
from segmeter.core.benchmarks import Difference, Results
from segmeter.core.sections import Cell, Column, Label, Table, Value
from segmeter.stats.comparisons import spearman
from segmeter.stats.statistics import standing_out

_ROLES = ("min", "base", "max", "d")
_TITLES = {"min": "Min", "base": "Base", "max": "Max", "d": "D"}

# Our names of models whose rows the paper prints: method, backbone, training data.
PRINTED = {
    "mobile-sam": ("MobileSAM", "ViT-Tiny", "SA-1B"),
    **{f"sam-vit-{s}": ("SAM", f"ViT-{s.upper()}", "SA-1B") for s in "blh"},
    **{f"sam-hq-vit-{s}": ("SAM-HQ", f"ViT-{s.upper()}", "SA-1B+44K") for s in "blh"},
    "ritm-h18s": ("RITM", "HR18s-IT", "C+L"),
    "ritm-h18": ("RITM", "HR18-IT", "C+L"),
    "ritm-h32": ("RITM", "HR32-IT", "C+L"),
    "ritm-h18-baseline": ("RITM", "HR18", "C+L"),
    "eiseg-hrnet18-ocr64": ("RITM", "HR18-IT", "C+L"),
    **{f"simpleclick-vit-{s}": ("SimpleClick", f"ViT-{s.upper()}", "C+L") for s in "blh"},
    "simpleclick-vit-xtiny": ("SimpleClick", "ViT-XT", "SBD"),
}
DATASETS = {
    "grabcut": "GrabCut",
    "berkeley": "Berkeley",
    "davis": "DAVIS",
    "coco-mval": "COCO-MVal",
    "tetris": "TETRIS",
}
# What the paper's numbers were taken on: targets of each dataset, clicks of a session.
TARGETS = {"grabcut": 50, "berkeley": 100, "davis": 345, "coco-mval": 800, "tetris": 2531}
PAPER_ROUNDS = 10


_Printed = tuple[AttackedSessions, str, dict[str, float]]
"""A group, the kind of IoU, and what the paper prints of it."""

_INTERVALS = parts.INTERVALS


@dataclass(frozen=True, slots=True)
class Summary:
    """Groups of a run with their statistics."""

    groups: Sequence[AttackedSessions]
    rows: Numbers
    differences: Sequence[Difference]

    @classmethod
    def of_run(cls, run: Results) -> Summary:
        benchmark = Attacked()
        found = [g for g in benchmark.groups(run) if isinstance(g, AttackedSessions)]
        return cls(found, benchmark.numbers(run), benchmark.differences(run, AREAS))

    def value(self, group: AttackedSessions, measure: str) -> Value:
        return Value.of(self.rows.get((group.key, measure)))

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(group.dataset for group in self.groups))

    @property
    def several(self) -> bool:
        """Whether a table has to name the dataset."""
        return len(self.datasets) > 1

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(group.model for group in self.groups))

    @property
    def best(self) -> set[tuple[tuple[str, ...], str]]:
        """Areas to set bold; D below zero is no merit: best clicks did worse than worst ones."""
        found = standing_out(self.rows.values(), self.differences, CARDS)
        return {key for key in found if self.rows[key].value >= 0}

    def tested(self, protocol: str) -> list[Difference]:
        """The differences of a protocol in the statistics that are tested unasked."""
        return [
            d for d in self.differences
            if d.protocol == protocol and CARDS[d.statistic].tested == "yes"
        ]  # fmt: skip

    def of(self, protocol: str, dataset: str | None = None) -> list[AttackedSessions]:
        """Groups of a protocol that have both attacks."""
        return [
            g for g in self.groups
            if g.protocol == protocol and g.complete and dataset in (None, g.dataset)
        ]  # fmt: skip

    def table(
        self,
        name: str,
        members: Sequence[AttackedSessions],
        names: Sequence[str],
        caption: str,
        note: str = "",
        *,
        plot: str = "",
        by: parts.By | None = None,
    ) -> Table | None:
        """A table of some statistics of some groups; None where they have none of them."""
        keys = {group.key for group in members}
        rows = [row for (key, _), row in self.rows.items() if key in keys]
        columns = {n: parts.column_of(CARDS[n], plot=n == plot) for n in names}
        where: parts.By = {**(parts.DATA if self.several else {}), **(by or {})}
        best = self.best if set(names) <= set(AREAS) else None
        table = parts.summary_table(
            name, rows, columns, by=where, best=best, caption=caption, note=note
        )
        return table if table.rows else None


def area_tables(summary: Summary, prompt: str = "click") -> list[Table | None]:
    """Min, Base, Max and D of IoU and Boundary IoU, as in the paper's tables."""
    complete = [group for group in summary.groups if group.complete]
    made = []
    for number, (kind, title) in enumerate((("iou", "IoU"), ("biou", "Boundary IoU")), 1):
        caption = f"{title} after one box: worst, tight, best, and D, best less worst"
        note = "Chosen by IoU, so Min and Max of Boundary IoU may turn. " if number == 2 else ""
        if prompt == "click":
            caption = f"{title} over the clicks: worst clicks, centre clicks, best clicks, and D, "
            caption += "best less worst"
            note += f"Shaped like Table {number} of the paper, with Base added. "
        names = [f"{kind}-{role}" for role in _ROLES]
        name, note = f"table-{number}-{kind}", f"{note}{_INTERVALS}"
        made.append(summary.table(name, complete, names, caption, note, plot=f"{kind}-d"))
    return made


def as_in_the_paper(group: AttackedSessions) -> bool:
    """Whether a group has the targets of the paper's dataset, all of them, and ten clicks."""
    targets, rounds = group.role("base").shape
    return (targets, rounds) == (TARGETS.get(group.dataset), PAPER_ROUNDS)


def paper_rows(dataset: str, model: str, measure: str) -> dict[str, float] | None:
    """The paper's min, max and d for a model on a dataset."""
    wanted = (measure, *PRINTED.get(model, ("", "", "")), DATASETS.get(dataset, ""))
    for row in parts.published_rows("tetris", "paper.csv"):
        key = (row["measure"], row["method"], row["backbone"], row["train_data"], row["dataset"])
        if key == wanted:
            return {role: float(row[role]) for role in ("min", "max", "d")}
    return None


def compared_with_the_paper(summary: Summary) -> Table | None:
    """Our numbers and the printed ones, for models and data that the paper has.

    Like with like: a group is listed only with the paper's number of targets and clicks.
    """

    def here(role: str) -> Callable[[_Printed], Value]:
        return lambda r: summary.value(r[0], f"{r[1]}-{role}")

    def there(role: str) -> Callable[[_Printed], float]:
        return lambda r: r[2][role]

    kinds = {"iou": "IoU", "biou": "Boundary IoU"}
    measures = {"iou": "iou", "biou": "boundary-iou"}
    found = [
        (group, kind, printed)
        for group in summary.groups
        if group.complete and as_in_the_paper(group)
        for kind, measure in measures.items()
        if (printed := paper_rows(group.dataset, group.model.partition("?")[0], measure))
    ]
    columns: dict[Column, Callable[[_Printed], Cell]] = {
        Column("model"): lambda r: Label(r[0].model, protocol=r[0].protocol),
        **({Column("data"): lambda r: r[0].dataset} if summary.several else {}),
        Column("measure"): lambda r: kinds[r[1]],
        **{Column(title, "here, %", 2): here(role) for role, title in _TITLES.items()},
        **{Column(_TITLES[role], "paper, %", 2): there(role) for role in ("min", "max", "d")},
        Column("D", "here − paper", 2): lambda r: (here("d")(r).value or 0.0) - r[2]["d"],
    }
    if not found:
        return None
    return Table.of("beside-the-paper", found, columns, "Comparison with the paper's rows")


def first_click_tables(summary: Summary, lead: str) -> list[Table | None]:
    """Effect of the first click alone, the true extremes, and real people's first clicks."""
    corrected = summary.of("corrected")
    first = ("first-min", "first-base", "first-max", "first-spread", "distance-min", "distance-max")
    kinds = ("all", "gap", "found", "search-gap", "search-found")
    extremes = [f"{kind}-{role}" for role in ("min", "max") for kind in kinds]
    objects: parts.By = {Column("objects", "", 0): lambda row: row.targets}
    people = ("people-min", "people-max", "people-spread", "first-spread", "coverage")
    clicked = [group for group in corrected if "coverage" in group.values]
    return [
        summary.table(
            "first-click",
            summary.of(lead),
            first,
            "IoU after the first click: worst, centre and best click found, and how far they lie "
            "apart",
            "Distances are from the centre click, in diagonals of the object's box.",
            plot="first-spread",
        ),
        summary.table(
            "extremes",
            [group for group in corrected if "all-min" in group.values],
            extremes,
            "How far from the true extremes of the first click the attack stays",
            "True extremes by clicking at every few pixels of the object; found means within 5 "
            "points. A search that also looks between those may do better than they: it is then "
            "off by less than 0. For models without a gradient the attack is the search.",
            by=objects,
        ),
        summary.table(
            "people",
            clicked,
            (*people, "people-distance"),
            "Real people's first clicks and the attack's range",
        ),
    ]


def agreement_tables(summary: Summary, protocol: str) -> list[Table]:
    """Rank correlations over models: of metrics on each dataset, of datasets in each metric.

    As in Figures 9 and 10 of the paper; over the models that have all, three at least.
    """
    held = {(g.model, g.dataset): g for g in summary.of(protocol)}

    def mean(model: str, dataset: str, metric: str) -> float:
        return float(held[model, dataset].each(metric).mean())

    made: list[Table] = []
    for dataset in summary.datasets:
        models = [model for model in summary.models if (model, dataset) in held]
        table = [[mean(model, dataset, metric) for metric in AREAS] for model in models]
        caption = f"{dataset}: rank correlation of metrics over {len(models)} models"
        if len(models) >= _FEWEST:
            name, labels = f"spearman-metrics-{dataset}", [*map(_titled, AREAS)]
            made.append(parts.matrix_table(name, labels, spearman(np.array(table)), caption))
    models = [m for m in summary.models if all((m, d) in held for d in summary.datasets)]
    for metric in _COMPARED if len(models) >= _FEWEST and summary.several else ():
        table = [[mean(model, dataset, metric) for dataset in summary.datasets] for model in models]
        name = f"spearman-datasets-{metric}"
        caption = f"{_titled(metric)}: rank correlation of datasets over {len(models)} models"
        found = spearman(np.array(table))
        made.append(parts.matrix_table(name, summary.datasets, found, caption))
    return made


_FEWEST = 3  # models to correlate
_COMPARED = ("iou-min", "iou-max", "iou-d", "biou-d")


def _titled(metric: str) -> str:
    return metric.replace("biou", "BIoU").replace("iou", "IoU")
