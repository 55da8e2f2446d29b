"""The tables of TETRIS: Min, Base, Max and D as in the paper, first clicks, correlations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.benchmarks.report_parts import column_of, matrix_table, published_rows
from segmeter.benchmarks.tetris import Attacked
from segmeter.benchmarks.tetris.statistics import AREAS, CARDS, AttackedSessions
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.sections import Cell, Column, Label, Table, Value
from segmeter.stats.comparisons import spearman

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
# What the paper's numbers were taken on: targets of each data set, clicks of a session.
TARGETS = {"grabcut": 50, "berkeley": 100, "davis": 345, "coco-mval": 800, "tetris": 2531}
PAPER_ROUNDS = 10


_Printed = tuple[AttackedSessions, str, dict[str, float]]
"""A group, the kind of IoU, and what the paper prints of it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Groups of a run with their statistics at hand."""

    groups: Sequence[AttackedSessions]
    rows: dict[tuple[str, str, str, str], SummaryRow]
    differences: Sequence[Difference]

    @classmethod
    def of_run(cls, run: Results) -> Summary:
        benchmark = Attacked()
        found = [g for g in benchmark.groups(run) if isinstance(g, AttackedSessions)]
        rows = {(r.model, r.dataset, r.protocol, r.measure): r for r in benchmark.summary(run)}
        return cls(found, rows, benchmark.differences(run))

    def value(self, group: AttackedSessions, measure: str) -> Value:
        row = self.rows.get((group.model, group.dataset, group.protocol, measure))
        if row is None:
            return Value(None)
        # Clicks called the best did worse than those called the worst: no merit of the model.
        crossed = measure in ("iou-d", "biou-d") and row.value < 0
        return Value(row.value, row.low, row.high, best=False if crossed else None)

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(group.dataset for group in self.groups))

    def tell(self, measure: str) -> Callable[[AttackedSessions], Value]:
        return lambda group: self.value(group, measure)

    @property
    def several(self) -> bool:
        """Whether a table has to name the data set."""
        return len(self.datasets) > 1

    def columns(
        self, names: Sequence[str], plotted: str = ""
    ) -> dict[Column, Callable[[AttackedSessions], Cell]]:
        """Model and data set of a group, and its statistics under their titles."""
        return {
            Column("model"): lambda group: group.model,
            **({Column("data"): lambda group: group.dataset} if self.several else {}),
            **{column_of(CARDS[n], plot=n == plotted): self.tell(n) for n in names},
        }

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(group.model for group in self.groups))

    def of(self, protocol: str, dataset: str | None = None) -> list[AttackedSessions]:
        """Groups of a protocol that have both attacks."""
        return [
            g for g in self.groups
            if g.protocol == protocol and g.complete and dataset in (None, g.dataset)
        ]  # fmt: skip


def area_table(summary: Summary, kind: str, prompt: str = "click") -> Table:
    """Min, Base, Max and D of every data set side by side, as in the paper's tables."""
    several = summary.several
    columns = [Column("model")]
    for dataset in summary.datasets:
        for role in _ROLES:
            name = f"{dataset} {_TITLES[role]}" if several else _TITLES[role]
            better = "lower" if role == "d" else "higher"
            unit = "AuC, %" if prompt == "click" else "%"
            columns.append(Column(name, unit, 2, better=better, plot=role == "d"))  # type: ignore[arg-type]  # one of the two
    held = {(g.model, g.protocol, g.dataset): g for g in summary.groups if g.complete}
    rows: list[list[Cell]] = []
    for model, protocol in dict.fromkeys((m, r) for m, r, _ in held):
        row: list[Cell] = [Label(model, protocol=protocol)]
        for dataset in summary.datasets:
            group = held.get((model, protocol, dataset))
            row += [
                Value(None) if group is None else summary.value(group, f"{kind}-{role}")
                for role in _ROLES
            ]
        rows.append(row)
    said = "IoU" if kind == "iou" else "Boundary IoU"
    number = 1 if kind == "iou" else 2
    return Table(
        f"table-{number}-{kind}",
        columns,
        rows,
        f"{said} over the clicks: worst clicks, centre clicks, best clicks, and D, best less worst"
        if prompt == "click"
        else f"{said} after one box: worst, tight, best, and D, best less worst",
        ("" if prompt == "box" else f"Shaped like Table {number} of the paper, with Base added. ")
        + "95 % intervals from resampling images."
        + ("" if kind == "iou" else " Chosen by IoU, so Min and Max of Boundary IoU may turn."),
    )


def as_in_the_paper(group: AttackedSessions) -> bool:
    """Whether a group has the targets of the paper's data set, all of them, and ten clicks."""
    targets, rounds = group.role("base").shape
    return (targets, rounds) == (TARGETS.get(group.dataset), PAPER_ROUNDS)


def paper_rows(dataset: str, model: str, measure: str) -> dict[str, float] | None:
    """The paper's min, max and d for a model on a data set."""
    wanted = (measure, *PRINTED.get(model, ("", "", "")), DATASETS.get(dataset, ""))
    for row in published_rows("tetris", "paper.csv"):
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


def first_table(summary: Summary, protocol: str) -> Table:
    """Effect of the first click alone."""
    names = ("first-min", "first-base", "first-max", "first-spread", "distance-min", "distance-max")
    return Table.of(
        "first-click",
        summary.of(protocol),
        summary.columns(names, plotted="first-spread"),
        "IoU after the first click: worst, centre and best click found, and how far they lie apart",
        "Distances are from the centre click, in diagonals of the object's box.",
    )


def extremes_table(summary: Summary) -> Table | None:
    """How far the attack, and the search, stay from the true extremes."""

    def told(measure: str) -> Callable[[tuple[AttackedSessions, str]], Value]:
        return lambda r: summary.value(r[0], f"{measure}-{r[1]}")

    roles = {"min": "worst", "max": "best"}
    known = [group for group in summary.of("corrected") if "all-min" in group.values]
    measures = {
        "all": Column("true extreme", "IoU, %", 1),
        "gap": Column("attack off by", "points", 2, plot=True),
        "found": Column("attack finds it", "% of objects", 0),
        "search-gap": Column("search off by", "points", 2),
        "search-found": Column("search finds it", "% of objects", 0),
    }
    columns: dict[Column, Callable[[tuple[AttackedSessions, str]], Cell]] = {
        Column("model"): lambda r: r[0].model,
        **({Column("data"): lambda r: r[0].dataset} if summary.several else {}),
        Column("click"): lambda r: roles[r[1]],
        Column("objects", "", 0): lambda r: int((~np.isnan(r[0].each(f"all-{r[1]}"))).sum()),
        **{column: told(measure) for measure, column in measures.items()},
    }
    table = Table.of(
        "extremes",
        [(group, role) for group in known for role in roles],
        columns,
        "How far from the true extremes of the first click the attack stays",
        "True extremes by clicking at every few pixels of the object; found means within 5 "
        "points. A search that also looks between those may do better than they: it is then off "
        "by less than 0. For models without a gradient the attack is the search.",
    )
    return table if table.rows else None


def people_table(summary: Summary) -> Table | None:
    """How much of the range of real people's first clicks the attack spans."""
    people = ("people-min", "people-max", "people-spread")
    names = (*people, "first-spread", "coverage", "people-distance")
    clicked = [group for group in summary.of("corrected") if "coverage" in group.values]
    caption = "Real people's first clicks and the attack's range"
    return Table.of("people", clicked, summary.columns(names), caption) if clicked else None


def metric_matrix(summary: Summary, protocol: str, dataset: str) -> Table | None:
    """Rank correlations between the metrics over the models of one data set (Fig. 9)."""
    members = summary.of(protocol, dataset)
    if len(members) < 3:
        return None
    table = np.array([[float(g.each(m).mean()) for m in AREAS] for g in members])
    return matrix_table(
        f"spearman-metrics-{dataset}",
        [m.replace("biou", "BIoU").replace("iou", "IoU") for m in AREAS],
        spearman(table),
        f"{dataset}: rank correlation of metrics over {len(members)} models",
    )


def dataset_matrix(summary: Summary, protocol: str, measure: str) -> Table | None:
    """Rank correlations between data sets of one metric, over models that have all (Fig. 10)."""
    held = {(g.model, g.dataset): g for g in summary.of(protocol)}
    models = [m for m in summary.models if all((m, d) in held for d in summary.datasets)]
    if len(models) < 3 or len(summary.datasets) < 2:
        return None
    table = np.array(
        [[float(held[m, d].each(measure).mean()) for d in summary.datasets] for m in models]
    )
    said = measure.replace("biou", "BIoU").replace("iou", "IoU")
    return matrix_table(
        f"spearman-datasets-{measure}",
        summary.datasets,
        spearman(table),
        f"{said}: rank correlation of data sets over {len(models)} models",
    )
