"""Any benchmark's statistics and differences by group: class, size, shape, or a groups file.

Each group's mean has an interval (`published` normal over objects, `corrected` from resampling
images), and every pair of groups is tested by permuting the groups of whole images.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.benchmarks.by_group.target_groups import (
    TargetGroups,
    known_of_groups,
    said_of_targets,
)
from segmeter.benchmarks.report_parts import P_VALUE, titled
from segmeter.core.benchmarks import Benchmark, Difference, Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.scores_by_step import columns_in
from segmeter.core.sections import Block, Cell, Column, Label, Note, Section, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.fairness import GroupDifference, GroupMean, group_differences, group_means
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Statistic, corrected_together

_MOST_COMPARED = 12
_METHOD = (
    "Protocol **published** has the normal interval of Segment Anything's supplement, as if "
    "every mask were drawn independently; **corrected** resamples images. Intervals that overlap "
    "do not mean that there is no difference: every pair of groups is tested by permuting the "
    "groups of whole images, 10 000 times, and corrected by Holm."
)


@dataclass(frozen=True, slots=True)
class Split:
    """One statistic of one model, dataset, user and reading, group by group."""

    model: str
    dataset: str
    user: str
    protocol: str
    statistic: Statistic
    means: tuple[GroupMean, ...]
    differences: tuple[GroupDifference, ...]


def breakdown(
    benchmark: Benchmark,
    run: Results,
    by: str,
    groups: Path | None = None,
    objects: int = 1000,
    rate: float | None = None,
) -> Section:
    """The section that a report adds for `--by`; hours and money are for so many objects."""
    found = splits(benchmark, run, by, groups)
    both = {"published", "corrected"} <= set(run.plan.protocols)
    led = [split for split in found if not both or split.protocol == "corrected"]
    costs = _costs(led, by, objects, rate)
    blocks: list[Block] = [_means(found, by), *([] if costs is None else [costs])]
    if any(split.differences for split in found):
        blocks.append(_differences(found, by))
    many = max(len(split.means) for split in found)
    if many > _MOST_COMPARED:
        blocks.append(
            Note(f"{many} groups are too many to compare pair by pair; at most {_MOST_COMPARED}.")
        )
    return Section(f"Results by {by}", blocks=[*blocks, Note(_METHOD)])


def splits(benchmark: Benchmark, run: Results, by: str, groups: Path | None = None) -> list[Split]:
    """Means and differences of the groups, in the statistics that the benchmark breaks down."""
    wanted = benchmark.split_by
    cards = [
        card
        for card in benchmark.statistics(run)
        if card.effort or (card.name in wanted if wanted else card.tested == "yes")
    ]
    values = [
        (group, card, found)
        for group in benchmark.groups(run)
        for card in cards
        if (found := card.compared(group)) is not None and not np.isnan(found).all()
    ]
    if not values:
        raise BadInput(f"benchmark '{benchmark.name}' has no statistic of single objects to split")
    chosen = list({group.key: group for group, _, _ in values}.values())
    named = TargetGroups(known_of_groups(run, chosen, by), by, groups)
    made = [_split(group, card, found, named) for group, card, found in values]
    if not any(split.means for split in made):
        raise named.unknown()
    return made


def _split(group: Group, card: Statistic, values: Floats, named: TargetGroups) -> Split:
    kept = np.flatnonzero(~np.isnan(values))
    names = named.of([(group.dataset, *group.keys[i]) for i in kept])
    clusters = [group.clusters[i] for i in kept]
    seed = (*group.key, card.name)
    means = [
        replace(mean, interval=mean.interval.if_enough(mean.images, card.fewest))
        for mean in group_means(values[kept], names, clusters, group.protocol, seed=seed)
    ]
    tested = 1 < len(means) <= _MOST_COMPARED and group.protocol == "corrected"
    found = group_differences(values[kept], names, clusters, seed=seed) if tested else []
    many = len(set(clusters))
    pairs = [replace(d, interval=d.interval.if_enough(many, card.fewest)) for d in found]
    return Split(*group.key, card, tuple(means), tuple(pairs))


Told = Callable[[tuple[Split, Any]], Cell]
"""A cell of a split and one of its groups, or of its differences."""
_WHERE: dict[Column, Told] = {
    Column("model"): lambda r: r[0].model,
    Column("dataset"): lambda r: r[0].dataset,
    Column("user"): lambda r: r[0].user,
}
_STATISTIC: dict[Column, Told] = {Column("statistic"): lambda r: titled(r[0].statistic)}


def _known(found: Interval | None) -> Value:
    """An interval as a cell; without limits where there are none."""
    lost = found is not None and np.isnan([found.low, found.high]).any()
    return replace(Value.of(found), low=None, high=None) if lost else Value.of(found)


def _means(found: Sequence[Split], by: str) -> Table:
    columns: dict[Column, Told] = {
        **_WHERE,
        Column("model"): lambda r: Label(r[0].model, protocol=r[0].protocol),
        **_STATISTIC,
        Column(by): lambda r: r[1].group,
        Column("mean", "95 % interval", 2, plot=True): lambda r: _known(r[1].interval),
        Column("objects", digits=0): lambda r: r[1].targets,
        Column("images", digits=0): lambda r: r[1].images,
    }
    records = [(split, mean) for split in found for mean in split.means]
    return Table.of(f"by-{by}", records, columns, f"Statistics by {by}")


def _costs(found: Sequence[Split], by: str, objects: int, rate: float | None) -> Table | None:
    """Clicks per object, and hours and money for so many objects, as if all were of one group.

    None where no statistic is a person's seconds.
    """
    clicks = {
        (s.model, s.dataset, s.user, mean.group): mean.interval
        for s in found
        if s.statistic.effort == "clicks"
        for mean in s.means
    }

    def times(factor: float) -> Told:
        return lambda r: _known(r[1].interval).times(objects / 3600 * factor)

    columns: dict[Column, Told] = {
        **_WHERE,
        Column(by): lambda r: r[1].group,
        Column("clicks", "per object", 2): lambda r: _known(
            clicks.get((r[0].model, r[0].dataset, r[0].user, r[1].group))
        ),
        Column("time", "hours", 1): times(1.0),
        **({} if rate is None else {Column("money", f"at {rate:g} per hour", 0): times(rate)}),
        Column("objects", "measured", 0): lambda r: r[1].targets,
    }
    priced = [split for split in found if split.statistic.effort == "seconds"]
    records = [(split, mean) for split in priced for mean in split.means]
    title = f"Costs by {by}: {objects} objects, if all were of that group"
    note = " and ".join(dict.fromkeys(titled(s.statistic) for s in priced))
    text = f"Hours and money are of: {note}; waiting for the model is not included."
    return Table.of(f"by-{by}-costs", records, columns, title, text) if records else None


def _differences(found: Sequence[Split], by: str) -> Table:
    columns: dict[Column, Told] = {
        **_WHERE,
        **_STATISTIC,
        Column("first"): lambda r: r[1].first,
        Column("second"): lambda r: r[1].second,
        Column("difference", "first − second", 2): lambda r: Value.of(r[1].interval),
        P_VALUE: lambda r: r[1].p_holm,
        Column("significant"): lambda r: "yes" if r[1].significant else "no",
    }
    records = [(split, d) for split in found for d in split.differences]
    title = f"Differences between groups of {by}"
    return Table.of(f"by-{by}-differences", records, columns, title)


@dataclass(frozen=True, slots=True)
class GroupedDifference:
    """A difference on the targets of one group; its p holds for all groups together.

    `comparisons` is how many p values were corrected together.
    """

    by: str
    group: str
    difference: Difference
    comparisons: int

    def sentence(self) -> str:
        """One sentence: which model has more in the group, by how much, and if it is significant.

        >>> d = Difference("a", "b", "x", "u", "corrected", "noc@90", -1.5, -2.0, -1, 0.01, 0.02, 9)
        >>> GroupedDifference("size", "small", d, 2).sentence()
        'size small, 9 objects: a has 1.50 less noc@90 than b (95 % interval 1.00 to 2.00 less), significant (p 0.020, Holm over 2 comparisons).'
        """  # noqa: E501  # one line of output
        d = self.difference
        objects = counted(d.targets, "object")
        over = f"(p {d.p_holm:.3f}, Holm over {counted(self.comparisons, 'comparison')})"
        sure = d.too_few or f"{'' if d.significant else 'not '}significant {over}"
        amount = f"has {_signed(d.value)} {d.statistic} than {d.second}{_interval(d)}"
        if d.value == 0:
            amount = f"has as much {d.statistic} as {d.second}{_interval(d)}"
        return f"{self.by} {self.group}, {objects}: {d.first} {amount}, {sure}."


def differences_by_group(
    benchmark: Benchmark, run: Results, by: str, groups: Path | None = None
) -> list[GroupedDifference]:
    """Every pair of models on the targets of each group.

    What a benchmark corrects together it corrects within one group; here the pairs of a
    measure are corrected over all groups (Holm).
    """
    if "target" not in columns_in(run, "rows"):
        raise BadInput(
            f"rows of '{run.plan.benchmark}' are not of objects; models are compared by group in "
            "sessions with users, and 'segmeter report RUN --by' compares groups here"
        )
    members = TargetGroups(said_of_targets(run, by), by, groups).members()
    found = [
        (group, d) for group, keys in members.items() for d in benchmark.differences(run.only(keys))
    ]
    family = attrgetter("dataset", "user", "protocol", "statistic")
    corrected = corrected_together([d for _, d in found], family)
    counts = Counter(map(family, corrected))
    return [
        GroupedDifference(by, group, d, counts[family(d)])
        for (group, _), d in zip(found, corrected, strict=True)
    ]


def _signed(value: float) -> str:
    return f"{abs(value):.2f} {'more' if value > 0 else 'less'}"


def _interval(d: Difference) -> str:
    """In brackets, where images differ and so give one."""
    if math.isnan(d.low) or math.isnan(d.high) or d.low == d.high:
        return ""
    if d.high <= 0:
        return f" (95 % interval {abs(d.high):.2f} to {abs(d.low):.2f} less)"
    low = f"{d.low:.2f}" if d.low >= 0 else _signed(d.low)
    return f" (95 % interval {low} to {_signed(d.high)})"
