"""The tables of TETRIS: Min, Base, Max and D as in the paper, first clicks, correlations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.tetris.statistics import AREAS, ROLES, AttackedSessions
from segmeter.core.benchmarks import Difference
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


class Attacks(parts.Findings):
    """A run with its attacks."""

    @cached_property
    def attacked(self) -> list[AttackedSessions]:
        return self.groups(AttackedSessions)

    @cached_property
    def areas(self) -> list[Difference]:
        """Differences in all areas."""
        return self.run.benchmark.differences(self.run, AREAS)

    @property
    def several(self) -> bool:
        """Whether a table has to name the dataset."""
        return len({group.dataset for group in self.attacked}) > 1

    @property
    def tested(self) -> list[Difference]:
        """The leading differences in the statistics that are tested unasked."""
        own = [d for d in self.areas if d.protocol == self.lead]
        return [d for d in own if self.cards[d.statistic].tested == "yes"]

    def of(self, protocol: str = "") -> list[AttackedSessions]:
        """Groups that have both attacks, of one protocol or of all."""
        return [g for g in self.groups(AttackedSessions, protocol) if g.complete]

    def shown(
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
        rows = [row for row in self.rows if row.key in keys]
        where: parts.By = {**(parts.DATA if self.several else {}), **(by or {})}
        best = None
        if set(names) <= set(AREAS):
            found = standing_out(self.rows, self.areas, self.cards)
            best = {key for key in found if self.numbers[key].value >= 0}
        told = {"caption": caption, "note": note}
        table = self.table(name, rows, names, plot, by=where, best=best, **told)
        if table.rows:
            yield table


def area_tables(found: Attacks, prompt: str = "click") -> Iterator[Table]:
    """Min, Base, Max and D of IoU and Boundary IoU, as in the paper's tables."""
    for number, (kind, title) in enumerate((("iou", "IoU"), ("biou", "Boundary IoU")), 1):
        caption = f"{title} after one box: worst, tight, best, and D, best less worst"
        note = "Chosen by IoU, so Min and Max of Boundary IoU may turn. " if number == 2 else ""
        if prompt == "click":
            caption = f"{title} over the clicks: worst clicks, centre clicks, best clicks, and D, "
            caption += "best less worst"
            note += f"Shaped like Table {number} of the paper, with Base added. "
        names = [f"{kind}-{role}" for role in ROLES]
        name, note = f"table-{number}-{kind}", f"{note}{parts.INTERVALS}"
        yield from found.shown(name, found.of(), names, caption, note, plot=f"{kind}-d")


def paper_rows(dataset: str, model: str, measure: str) -> dict[str, float] | None:
    """The paper's min, max and d for a model on a dataset."""
    name, _ = DATASETS.get(dataset, ("", 0))
    wanted = (measure, *PRINTED.get(model, ("", "", "")), name)
    for row in parts.published_rows("tetris", "paper.csv"):
        key = (row["measure"], row["method"], row["backbone"], row["train_data"], row["dataset"])
        if key == wanted:
            return {role: float(row[role]) for role in ("min", "max", "d")}
    return None


def compared_with_the_paper(
    groups: Sequence[AttackedSessions], numbers: parts.Numbers
) -> Table | None:
    """Our numbers and the printed ones, for models and data that the paper has.

    Like with like: a group is listed only with the targets of the paper's dataset, all of them,
    and ten clicks.
    """

    def here(role: str) -> Callable[[_Printed], Value]:
        return lambda r: Value.of(numbers.get((r[0].key, f"{r[1]}-{role}")))

    def there(role: str) -> Callable[[_Printed], float]:
        return lambda r: r[2][role]

    kinds = {"iou": ("IoU", "iou"), "biou": ("Boundary IoU", "boundary-iou")}
    found = [
        (group, kind, printed)
        for group in groups
        if group.complete and group.dataset in DATASETS
        if group.role("base").shape == (DATASETS[group.dataset][1], PAPER_ROUNDS)
        for kind, (_, measure) in kinds.items()
        if (printed := paper_rows(group.dataset, group.model.partition("?")[0], measure))
    ]
    several = len({group.dataset for group in groups}) > 1
    columns: dict[Column, Callable[[_Printed], Cell]] = {
        Column("model"): lambda r: Label(r[0].model, protocol=r[0].protocol),
        **({Column("data"): lambda r: r[0].dataset} if several else {}),
        Column("measure"): lambda r: kinds[r[1]][0],
        **{Column(title, "here, %", 2): here(role) for role, title in ROLES.items()},
        **{Column(ROLES[role], "paper, %", 2): there(role) for role in ("min", "max", "d")},
        Column("D", "here − paper", 2): lambda r: (here("d")(r).value or 0.0) - r[2]["d"],
    }
    if not found:
        return None
    return Table.of("beside-the-paper", found, columns, "Comparison with the paper's rows")


def first_click_tables(found: Attacks) -> Iterator[Table]:
    """Effect of the first click alone, the true extremes, and real people's first clicks."""
    corrected = found.of("corrected")
    kinds = ("all", "gap", "found", "search-gap", "search-found")
    yield from found.shown(
        "first-click",
        found.of(found.lead),
        ("first-min", "first-base", "first-max", "first-spread", "distance-min", "distance-max"),
        "IoU after the first click: worst, centre and best click found, and how far they lie apart",
        "Distances are from the centre click, in diagonals of the object's box.",
        plot="first-spread",
    )
    yield from found.shown(
        "extremes",
        [group for group in corrected if "all-min" in group.values],
        [f"{kind}-{role}" for role in ("min", "max") for kind in kinds],
        "How far from the true extremes of the first click the attack stays",
        "True extremes by clicking at every few pixels of the object; found means within 5 "
        "points. A search that also looks between those may do better than they: it is then "
        "off by less than 0. For models without a gradient the attack is the search.",
        by={Column("objects", "", 0): lambda row: row.targets},
    )
    yield from found.shown(
        "people",
        [group for group in corrected if "coverage" in group.values],
        ("people-min", "people-max", "people-spread", "first-spread", "coverage",
         "people-distance"),
        "Real people's first clicks and the attack's range",
    )  # fmt: skip


def agreement_tables(found: Attacks) -> Iterator[Table]:
    """Rank correlations over models: of metrics on each dataset, of datasets in each metric.

    As in Figures 9 and 10 of the paper; over the models that have all, three at least.
    """
    held = {(g.model, g.dataset): g for g in found.of(found.lead)}
    datasets = list(dict.fromkeys(group.dataset for group in found.attacked))
    titles = {m: m.replace("iou", "IoU").replace("bI", "BI") for m in AREAS}
    asked = [(d, "metrics", [(d, metric) for metric in AREAS]) for d in datasets]
    metrics = ("iou-min", "iou-max", "iou-d", "biou-d") if found.several else ()
    asked += [(metric, "datasets", [(d, metric) for d in datasets]) for metric in metrics]
    for which, over, places in asked:
        every = dict.fromkeys(group.model for group in found.attacked)
        models = [m for m in every if all((m, d) in held for d, _ in places)]
        if len(models) >= _FEWEST:
            table = [[held[m, d].each(metric).mean() for d, metric in places] for m in models]
            labels = [*titles.values()] if over == "metrics" else datasets
            caption = f"{titles.get(which, which)}: rank correlation of {over} over {len(models)} "
            name, values = f"spearman-{over}-{which}", spearman(np.array(table))
            yield parts.matrix_table(name, labels, values, f"{caption}models")
