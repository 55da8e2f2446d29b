"""The tables of TETRIS: Min, Base, Max and D as in the paper, first clicks, correlations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.declared import Numbers
from segmeter.benchmarks.tetris import Attacked
from segmeter.benchmarks.tetris.statistics import AREAS, CARDS, ROLES, AttackedSessions
from segmeter.core.benchmarks import Difference, Results
from segmeter.core.sections import Cell, Column, Label, Table, Value
from segmeter.stats.comparisons import spearman
from segmeter.stats.statistics import standing_out

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
# What the paper's numbers were taken on: its name of each dataset, targets; clicks of a session.
DATASETS = {
    "grabcut": ("GrabCut", 50),
    "berkeley": ("Berkeley", 100),
    "davis": ("DAVIS", 345),
    "coco-mval": ("COCO-MVal", 800),
    "tetris": ("TETRIS", 2531),
}
PAPER_ROUNDS = 10
_FEWEST = 3  # models to correlate

_Printed = tuple[AttackedSessions, str, dict[str, float]]
"""A group, the kind of IoU, and what the paper prints of it."""


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

    def tested(self, protocol: str) -> list[Difference]:
        """The differences of a protocol in the statistics that are tested unasked."""
        own = [d for d in self.differences if d.protocol == protocol]
        return [d for d in own if CARDS[d.statistic].tested == "yes"]

    def of(self, protocol: str, dataset: str | None = None) -> list[AttackedSessions]:
        """Groups of a protocol that have both attacks."""
        own = [g for g in self.groups if g.protocol == protocol and g.complete]
        return [g for g in own if dataset in (None, g.dataset)]

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
    ) -> Iterator[Table]:
        """A table of some statistics of some groups; none where they have none of them.

        Areas are set bold where significant; D below zero is no merit: best clicks did worse than
        worst ones.
        """
        keys = {group.key for group in members}
        rows = [row for (key, _), row in self.rows.items() if key in keys]
        columns = parts.columns_of(CARDS, names)
        if plot:
            columns[plot] = replace(columns[plot], plot=True)
        where: parts.By = {**(parts.DATA if self.several else {}), **(by or {})}
        best = None
        if set(names) <= set(AREAS):
            found = standing_out(self.rows.values(), self.differences, CARDS)
            best = {key for key in found if self.rows[key].value >= 0}
        table = parts.summary_table(
            name, rows, columns, by=where, best=best, caption=caption, note=note
        )
        if table.rows:
            yield table


def area_tables(summary: Summary, prompt: str = "click") -> Iterator[Table]:
    """Min, Base, Max and D of IoU and Boundary IoU, as in the paper's tables."""
    complete = [group for group in summary.groups if group.complete]
    for number, (kind, title) in enumerate((("iou", "IoU"), ("biou", "Boundary IoU")), 1):
        caption = f"{title} after one box: worst, tight, best, and D, best less worst"
        note = "Chosen by IoU, so Min and Max of Boundary IoU may turn. " if number == 2 else ""
        if prompt == "click":
            caption = f"{title} over the clicks: worst clicks, centre clicks, best clicks, and D, "
            caption += "best less worst"
            note += f"Shaped like Table {number} of the paper, with Base added. "
        names = [f"{kind}-{role}" for role in ROLES]
        name, note = f"table-{number}-{kind}", f"{note}{parts.INTERVALS}"
        yield from summary.table(name, complete, names, caption, note, plot=f"{kind}-d")


def paper_rows(dataset: str, model: str, measure: str) -> dict[str, float] | None:
    """The paper's min, max and d for a model on a dataset."""
    name, _ = DATASETS.get(dataset, ("", 0))
    wanted = (measure, *PRINTED.get(model, ("", "", "")), name)
    for row in parts.published_rows("tetris", "paper.csv"):
        key = (row["measure"], row["method"], row["backbone"], row["train_data"], row["dataset"])
        if key == wanted:
            return {role: float(row[role]) for role in ("min", "max", "d")}
    return None


def compared_with_the_paper(summary: Summary) -> Table | None:
    """Our numbers and the printed ones, for models and data that the paper has.

    Like with like: a group is listed only with the targets of the paper's dataset, all of them,
    and ten clicks.
    """

    def here(role: str) -> Callable[[_Printed], Value]:
        return lambda r: summary.value(r[0], f"{r[1]}-{role}")

    def there(role: str) -> Callable[[_Printed], float]:
        return lambda r: r[2][role]

    kinds = {"iou": ("IoU", "iou"), "biou": ("Boundary IoU", "boundary-iou")}
    found = [
        (group, kind, printed)
        for group in summary.groups
        if group.complete and group.dataset in DATASETS
        if group.role("base").shape == (DATASETS[group.dataset][1], PAPER_ROUNDS)
        for kind, (_, measure) in kinds.items()
        if (printed := paper_rows(group.dataset, group.model.partition("?")[0], measure))
    ]
    columns: dict[Column, Callable[[_Printed], Cell]] = {
        Column("model"): lambda r: Label(r[0].model, protocol=r[0].protocol),
        **({Column("data"): lambda r: r[0].dataset} if summary.several else {}),
        Column("measure"): lambda r: kinds[r[1]][0],
        **{Column(title, "here, %", 2): here(role) for role, title in ROLES.items()},
        **{Column(ROLES[role], "paper, %", 2): there(role) for role in ("min", "max", "d")},
        Column("D", "here − paper", 2): lambda r: (here("d")(r).value or 0.0) - r[2]["d"],
    }
    if not found:
        return None
    return Table.of("beside-the-paper", found, columns, "Comparison with the paper's rows")


def first_click_tables(summary: Summary, lead: str) -> Iterator[Table]:
    """Effect of the first click alone, the true extremes, and real people's first clicks."""
    corrected = summary.of("corrected")
    kinds = ("all", "gap", "found", "search-gap", "search-found")
    yield from summary.table(
        "first-click",
        summary.of(lead),
        ("first-min", "first-base", "first-max", "first-spread", "distance-min", "distance-max"),
        "IoU after the first click: worst, centre and best click found, and how far they lie apart",
        "Distances are from the centre click, in diagonals of the object's box.",
        plot="first-spread",
    )
    yield from summary.table(
        "extremes",
        [group for group in corrected if "all-min" in group.values],
        [f"{kind}-{role}" for role in ("min", "max") for kind in kinds],
        "How far from the true extremes of the first click the attack stays",
        "True extremes by clicking at every few pixels of the object; found means within 5 "
        "points. A search that also looks between those may do better than they: it is then "
        "off by less than 0. For models without a gradient the attack is the search.",
        by={Column("objects", "", 0): lambda row: row.targets},
    )
    yield from summary.table(
        "people",
        [group for group in corrected if "coverage" in group.values],
        ("people-min", "people-max", "people-spread", "first-spread", "coverage",
         "people-distance"),
        "Real people's first clicks and the attack's range",
    )  # fmt: skip


def agreement_tables(summary: Summary, protocol: str) -> Iterator[Table]:
    """Rank correlations over models: of metrics on each dataset, of datasets in each metric.

    As in Figures 9 and 10 of the paper; over the models that have all, three at least.
    """
    held = {(g.model, g.dataset): g for g in summary.of(protocol)}
    datasets, titles = (
        summary.datasets,
        {m: m.replace("iou", "IoU").replace("bI", "BI") for m in AREAS},
    )
    asked = [(d, "metrics", [(d, metric) for metric in AREAS]) for d in datasets]
    metrics = ("iou-min", "iou-max", "iou-d", "biou-d") if summary.several else ()
    asked += [(metric, "datasets", [(d, metric) for d in datasets]) for metric in metrics]
    for which, over, places in asked:
        models = [m for m in summary.models if all((m, d) in held for d, _ in places)]
        if len(models) >= _FEWEST:
            table = [[held[m, d].each(metric).mean() for d, metric in places] for m in models]
            labels = [*titles.values()] if over == "metrics" else datasets
            caption = f"{titles.get(which, which)}: rank correlation of {over} over {len(models)} "
            name, found = f"spearman-{over}-{which}", spearman(np.array(table))
            yield parts.matrix_table(name, labels, found, f"{caption}models")
