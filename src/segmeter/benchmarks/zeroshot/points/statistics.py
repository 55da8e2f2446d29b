"""Statistics of points (mIoU after N points, the oracle) and the sections that show them.

mIoU of a dataset is the mean over all its masks, not over images or classes; the top line
is the unweighted mean over datasets, so a set of 546 masks counts as much as one of 11 953.
Intervals resample images inside every dataset, 2000 times, and take percentiles; of the mean over
datasets, tails are widened for the dataset of fewest images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.response_section import followed_notes, response_sections
from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.analysis.responses import response_groups
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE, OWN_RULES, named, short_name
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Group, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.core.scores_by_step import Tables
from segmeter.stats.goals import at_round
from segmeter.stats.intervals import Floats, Interval, percentiles
from segmeter.stats.statistics import Statistic, percentile_interval, resampling

POINTS = (1, 2, 3, 5, 9)
Values = Callable[[Tables], Floats]
ALL = "all datasets, unweighted"
_TESTED = ("iou@1", "oracle@1", "iou@3", "iou@9")


def _after(points: int) -> Values:
    """IoU of each object after so many points; NaN where fewer were given."""

    def values(group: Tables) -> Floats:
        iou = group.table("iou")
        return at_round(iou, points) if points <= iou.shape[1] else np.full(group.size, np.nan)

    return values


_VALUES: dict[str, Values] = {
    **{f"iou@{n}": _after(n) for n in POINTS},
    "oracle@1": lambda group: group.table("oracle_iou")[:, 0],
}


@dataclass(frozen=True, slots=True)
class OverDatasets(Group):
    """A model's groups on several datasets."""

    members: tuple[Tables, ...]

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members)

    def mean(self, values: Values) -> Interval | None:
        """The unweighted mean over datasets; images are resampled inside each of them."""
        found = [values(member) for member in self.members]
        if any(np.isnan(one).any() for one in found):
            return None
        pairs = zip(self.members, found, strict=True)
        draws = [resampling(member).means(one)[:, 0] for member, one in pairs]
        fewest = min(len(set(member.clusters)) for member in self.members)
        value = float(np.mean([one.mean() for one in found]))
        return percentiles(value, np.mean(draws, axis=0), fewest)


def groups(run: Results) -> list[Group]:
    """Sessions, the mean over datasets of every model that has several, and responses."""
    return [*with_means(Tables.load(run, ["iou", "oracle_iou"])), *response_groups(run)]


def with_means(groups: Sequence[Tables]) -> list[Group]:
    together = grouped(groups, lambda group: (group.model, group.user, group.protocol))
    means = [
        OverDatasets(model, ALL, user, protocol, (), (), tuple(members))
        for (model, user, protocol), members in together.items()
        if len(members) > 1
    ]
    return [*groups, *means]


def _statistics(name: str, values: Values) -> list[Statistic]:
    """A mean IoU of one dataset, and the same over datasets."""
    one = Statistic(
        name, name.replace("iou", "mIoU"), "%", 1, "higher", percent=True, of=Tables,
        interval=percentile_interval, values=values,
        tested="yes" if name in _TESTED else "on request",
    )  # fmt: skip
    over = replace(one, values=None, whole=lambda g: g.mean(values), of=OverDatasets, tested="no")
    return [one, over]


STATISTICS = [card for of in _VALUES.items() for card in _statistics(*of)] + RESPONSES
"""mIoU@1 to 9 and the oracle's, each of a dataset and over datasets; responses to prompts."""


_SHOWN = ("iou@1", "oracle@1", *(f"iou@{n}" for n in POINTS[1:]))
_PROTOCOLS = (
    "**published** and **corrected** differ if a prediction is perfect (published clicks pixel "
    "(0, 0) as background, corrected accepts the mask) and if false negatives and false positives "
    "are equally deep (published clicks a false positive, corrected the larger component)."
)


def sections(run: Results) -> list[page.Section]:
    found = parts.Findings(run, short_name)
    top = [r for r in found.rows if r.dataset == ALL] or found.rows
    leading = [r for r in top if r.protocol == found.lead]
    rule = "The oracle uses the best of the masks that a model returns after one point."
    detail = f"{rule} Protocol {found.lead}."
    blocks: list[page.Block] = [
        *parts.best_answer(leading, ("iou@1", "oracle@1"), found.cards, detail, found.differences),
        *followed_notes(run),
        _table(found, "points", top, "mIoU after N points and the oracle's after one"),
        page.Note(f"{_PROTOCOLS} {OWN_RULES}"),
        page.Note(NOT_REPRODUCIBLE, "warning"),
    ]
    return [
        page.Section("Results", blocks=blocks),
        *_side_by_side(found),
        _growth(leading),
        *([] if top is found.rows else [_by_dataset(found)]),
        *response_sections(run),
        *found.difference_section(folded=True),
    ]


def baseline_of(run: Results) -> str:
    """The model that others are compared with: the given one, else the first."""
    asked = str(run.plan.options.get("baseline") or "")
    return str(named(asked, run.plan.segmenters) or run.plan.segmenters[0])


def _table(
    found: parts.Findings, name: str, rows: Sequence[SummaryRow], caption: str
) -> page.Table:
    note = "95 % intervals from resampling images."
    return found.table(name, rows, _SHOWN, caption=caption, note=note)


def _side_by_side(found: parts.Findings) -> list[page.Section]:
    """Each model minus the baseline on every dataset, sorted, and the same of its oracle."""
    baseline = short_name(baseline_of(found.run))
    turned = (side for d in found.differences for side in (d, d.turned) if d.protocol == found.lead)
    asked = [d for d in turned if (d.statistic, d.second) == ("iou@1", baseline)]
    gaps = sorted(asked, key=lambda d: -d.value)
    if not gaps:
        return []

    def oracle(d: Difference) -> float:
        where = (d.dataset, d.user, d.protocol)
        mine, other = (d.first, *where), (baseline, *where)
        return found.numbers[mine, "oracle@1"].value - found.numbers[other, "iou@1"].value

    several = len({(d.first, d.user) for d in gaps}) > 1
    named: dict[page.Column, Callable[[Difference], page.Cell]] = {
        page.Column("model"): lambda d: d.first,
        page.Column("user"): lambda d: d.user,
    }
    columns: dict[page.Column, Callable[[Difference], page.Cell]] = {
        page.Column("data"): lambda d: d.dataset,
        **(named if several else {}),
        page.Column("one point minus baseline", "% points", 1, plot=True): page.Value.of,
        page.Column("oracle minus baseline", "% points", 1): oracle,
    }
    caption = f"{'Models' if several else gaps[0].first} minus {baseline}, by dataset"
    text = (
        f"Difference from **{baseline}** after one point, by dataset, largest first, with 95 % "
        "intervals of the paired difference. The oracle uses the best of the masks that the model "
        "returns."
    )
    table = page.Table.of("points-baseline", gaps, columns, caption)
    return [page.Section("Side by side with the baseline", text, [table])]


def _growth(leading: Sequence[SummaryRow]) -> page.Section:
    axes = page.Axis("points", ticks=POINTS, digits=0), page.Axis("mIoU, %")
    charts = []
    for (dataset, user), rows in grouped(leading, lambda row: row.key[1:3]).items():
        held = {(row.model, row.statistic): row for row in rows}
        lines = [
            parts.line_of(model, {n: row for n in POINTS if (row := held.get((model, f"iou@{n}")))})
            for model in dict.fromkeys(row.model for row in rows)
        ]
        charts.append(page.Chart(f"mIoU after N points: {dataset}, {user}", *axes, lines))
    text = "Mean IoU after each number of points; bands are 95 % intervals from resampling images."
    return page.Section("Quality by number of points", text, [page.Multiples(charts)])


def _by_dataset(found: parts.Findings) -> page.Section:
    blocks: list[page.Block] = []
    for dataset, _, mine in found.datasets(found.groups(Tables)):
        caption = f"{dataset}: {max(r.targets for r in mine)} masks"
        blocks.append(_table(found, f"points-{dataset.partition('?')[0]}", mine, caption))
    text = "The numbers of the first table for each dataset by itself."
    return page.Section("Dataset by dataset", text, blocks)
