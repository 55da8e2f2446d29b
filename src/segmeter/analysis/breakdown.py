"""Any benchmark's statistics and differences by group: class, size, shape, or a groups file.

Each group's mean has an interval (`published` normal over objects, `corrected` from resampling
images), and every pair of groups is tested by permuting the groups of whole images.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.analysis.report_parts import P_VALUE, titled
from segmeter.core.benchmarks import Benchmark, Difference, Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.sections import Cell, Column, Label, Note, Section, Table, Value
from segmeter.datasets.groups import read_groups
from segmeter.stats.fairness import GroupDifference, GroupMean, group_differences, group_means
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, corrected_together

_MOST_COMPARED = 12
_METHOD = (
    "Protocol **published** has the normal interval of Segment Anything's supplement, which treats "
    "masks as independent; **corrected** resamples images. Overlapping intervals do not mean that "
    "there is no difference: every pair of groups is tested by permuting the groups of whole "
    "images 10 000 times, with Holm's correction."
)


@dataclass(frozen=True, slots=True)
class Split:
    """One statistic of one model, dataset, user and protocol, group by group."""

    model: str
    dataset: str
    user: str
    protocol: str
    statistic: Statistic
    means: tuple[GroupMean, ...]
    paid: tuple[GroupMean, ...]  # the same with waiting for the model, where that is known
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
    tables = [_means(found, by), *_costs(led, by, objects, rate), *_differences(found, by)]
    many = max(len(split.means) for split in found)
    text = f"{many} groups are too many to compare in pairs; the limit is {_MOST_COMPARED}."
    notes = [text, _METHOD] if many > _MOST_COMPARED else [_METHOD]
    return Section(f"Results by {by}", blocks=[*tables, *map(Note, notes)])


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
    named = groups_of_targets(known_of_groups(run, chosen, by), by, groups)
    return [_split(group, card, found, named) for group, card, found in values]


def _split(group: Group, card: Statistic, values: Floats, named: Mapping[Key, str | None]) -> Split:
    kept = np.flatnonzero(~np.isnan(values))
    names = [named[(group.dataset, *group.keys[i])] for i in kept]
    clusters = [group.clusters[i] for i in kept]
    seed = (*group.key, card.name)

    def means_of(values: Floats) -> tuple[GroupMean, ...]:
        means = group_means(values[kept], names, clusters, group.protocol, seed=seed)
        enough = (mean.interval.if_enough(mean.images, card.fewest) for mean in means)
        return tuple(replace(mean, interval=one) for mean, one in zip(means, enough, strict=True))

    means = means_of(values)
    paid = means_of(values + card.waiting(group)) if card.waiting else means
    tested = 1 < len(means) <= _MOST_COMPARED and group.protocol == "corrected"
    found = group_differences(values[kept], names, clusters, seed=seed) if tested else []
    many = len(set(clusters))
    pairs = [replace(d, interval=d.interval.if_enough(many, card.fewest)) for d in found]
    return Split(*group.key, card, means, paid, tuple(pairs))


CellOf = Callable[[tuple[Any, ...]], Cell]
"""A cell of a split and one of its groups, or of its differences."""
_WHERE: dict[Column, CellOf] = {
    Column("model"): lambda r: r[0].model,
    Column("dataset"): lambda r: r[0].dataset,
    Column("user"): lambda r: r[0].user,
}
_STATISTIC: dict[Column, CellOf] = {Column("statistic"): lambda r: titled(r[0].statistic)}


def _means(found: Sequence[Split], by: str) -> Table:
    columns: dict[Column, CellOf] = {
        **_WHERE,
        Column("model"): lambda r: Label(r[0].model, protocol=r[0].protocol),
        **_STATISTIC,
        Column(by): lambda r: r[1].group,
        Column("mean", "95 % interval", 2, plot=True): lambda r: Value.of(r[1].interval),
        Column("objects", digits=0): lambda r: r[1].targets,
        Column("images", digits=0): lambda r: r[1].images,
    }
    records = [(split, mean) for split in found for mean in split.means]
    return Table.of(f"by-{by}", records, columns, f"Statistics by {by}")


def _costs(found: Sequence[Split], by: str, objects: int, rate: float | None) -> list[Table]:
    """Clicks per object, and hours and money for so many objects, as if all were of one group.

    A record is a split with a group's mean and the same with waiting, which is paid.
    """
    effort = {
        (s.statistic.effort, s.model, s.dataset, s.user, mean.group): mean.interval
        for s in found
        for mean in s.means
    }

    def clicks(r: tuple[Any, ...]) -> Cell:
        return Value.of(effort.get(("clicks", r[0].model, r[0].dataset, r[0].user, r[1].group)))

    def times(factor: float, place: int) -> CellOf:
        return lambda r: Value.of(r[place].interval).times(objects / 3600 * factor)

    priced = [split for split in found if split.statistic.effort == "seconds"]
    waited = any(split.statistic.waiting for split in priced)
    columns: dict[Column, CellOf] = {
        **_WHERE,
        Column(by): lambda r: r[1].group,
        Column("clicks", "per object", 2): clicks,
        Column("time", "hours", 1): times(1.0, 1),
        **({Column("with waiting", "hours", 1): times(1.0, 2)} if waited else {}),
        **({} if rate is None else {Column("money", f"at {rate:g} per hour", 0): times(rate, 2)}),
        Column("objects", "measured", 0): lambda r: r[1].targets,
    }
    records = [(s, *both) for s in priced for both in zip(s.means, s.paid, strict=True)]
    title = f"Costs by {by}: {objects} objects, if all were of that group"
    note = " and ".join(dict.fromkeys(titled(s.statistic) for s in priced))
    paid = "money includes waiting" if waited else "waiting is not included"
    text = f"Hours and money are of: {note}; {paid}."
    return [Table.of(f"by-{by}-costs", records, columns, title, text)] if records else []


def _differences(found: Sequence[Split], by: str) -> list[Table]:
    columns: dict[Column, CellOf] = {
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
    return [Table.of(f"by-{by}-differences", records, columns, title)] if records else []


@dataclass(frozen=True, slots=True)
class GroupedDifference:
    """A difference on the targets of one group; its p holds for all groups together."""

    by: str
    group: str
    difference: Difference


def differences_by_group(
    benchmark: Benchmark, run: Results, by: str, groups: Path | None = None
) -> list[GroupedDifference]:
    """Every pair of models on the targets of each group.

    A benchmark's correction for multiplicity stays within one group; here the pairs of a
    measure are corrected over all groups (Holm).
    """
    if "target" not in run.columns("rows"):
        raise BadInput(
            f"rows of '{run.plan.benchmark}' are not of objects; models are compared by group in "
            "sessions with users, and 'segmeter report RUN --by' compares groups here"
        )
    named = groups_of_targets(stored_groups(run, by), by, groups)
    members = grouped_pairs((group, key) for key, group in named.items() if group is not None)
    found = [
        (group, d)
        for group in sorted(members)
        for d in benchmark.differences(run.only(set(members[group])))
    ]
    every = corrected_together([d for _, d in found], attrgetter("protocol", "statistic"))
    return [GroupedDifference(by, found[k][0], d) for k, d in enumerate(every)]


_BANDS = {
    "size": {
        32**2: "small (below 32²)", 96**2: "medium (32² to 96²)", np.inf: "large (96² and more)"
    },
    "shape": {
        0.25: "thin (axes below 1:4)", 0.5: "long (1:4 to 1:2)", np.inf: "compact (1:2 and more)"
    },
    "boundary": {
        1.25: "smooth (below 1.25)", 2.0: "uneven (1.25 to 2)", np.inf: "ragged (2 and more)"
    },
}  # fmt: skip
"""Groups of attributes that are derived rather than stored in rows, by their upper bounds."""


def band(by: str, value: float) -> str:
    """The group of a value of an attribute.

    >>> band("size", 100), band("boundary", 100 / (4 * 100**0.5))
    ('small (below 32²)', 'ragged (2 and more)')
    """
    return next(name for bound, name in _BANDS[by].items() if value < bound)


def shape_group(mask: Mask) -> str:
    """Ratio of a target's length to its width.

    By the shorter over the longer axis of the ellipse with the target's second moments.

    >>> shape_group(Mask.box((20, 20), (0, 0), (2, 20)))
    'thin (axes below 1:4)'
    >>> shape_group(Mask.box((9, 9), (1, 1), (4, 7)))
    'compact (1:2 and more)'
    """
    places = np.argwhere(mask.bits).astype(float)
    spread = np.cov(places.T, bias=True) + np.eye(places.shape[1]) / 12  # a pixel has an extent
    axes = np.linalg.eigvalsh(np.atleast_2d(spread))
    return band("shape", float(np.sqrt(axes[0] / axes[-1])))


Key = tuple[str, str, str]
"""Dataset, scene and target; the target is empty where whole images are judged."""

GroupsOfTargets = Mapping[Key, Mapping[str, str]]


def groups_of_targets(
    known: GroupsOfTargets, by: str, file: Path | None = None
) -> dict[Key, str | None]:
    """The group of every target under one heading (`size`, `class`, ...); None for no group.

    BadInput where no target has one.
    """
    given = None if file is None else read_groups(file)
    names = [facts.get(by) or None for facts in known.values()]
    if given is not None:
        # A mask is named with or without its dataset; a whole image by its own name.
        plain = {key: "/".join(filter(None, key[1:])) for key in known}
        aliases = [(name, f"{key[0]}/{name}") for key, name in plain.items()]
        given.check({name for both in aliases for name in both})
        names = given.of(aliases, by)
    if any(names):
        return dict(zip(known, names, strict=True))
    if given is not None:
        offered = f"'{given.path}' has {', '.join(given.attributes)}"
    elif any(target for _, _, target in known):
        held = sorted({name for facts in known.values() for name, value in facts.items() if value})
        offered = f"available: {', '.join(dict.fromkeys((*held, *_BANDS)))}; --groups FILE adds "
        offered += "your own"
    else:
        raise BadInput(
            f"whole images are scored here, which have no '{by}'; name their groups "
            "with --groups FILE, a CSV of mask,group with the image's name as mask"
        )
    raise BadInput(f"no mask has a group under '{by}'; {offered}")


def known_of_groups(run: Results, groups: Sequence[Group], by: str) -> GroupsOfTargets:
    """Facts about each object of the groups: from the groups themselves, or from rows."""
    own = [group for group in groups if group.breakdowns is not None]
    if own:
        return {(g.dataset, *k): known for g in own for k, known in (g.breakdowns or {}).items()}
    if not any(target for group in groups for _, target in group.keys):
        return {(g.dataset, *key): {} for g in groups for key in g.keys}
    return stored_groups(run, by)


def stored_groups(run: Results, by: str) -> dict[Key, dict[str, str]]:
    """Class and groups of every target as the rows have them, and what follows from it."""
    there = run.columns("rows")
    if "target" not in there:
        return {}
    order = ", ".join(f'"{n}"' for n in ("model", "user", "protocol", "round") if n in there)
    asked = {"groups": f"arg_min(groups, ({order}))"}
    asked |= {name: f"min({name})" for name in ("label", "area", "outline_px")}
    chosen = [f"{how if name in there else 'null'} as {name}" for name, how in asked.items()]
    rows = run.sql(f"""
        select dataset, scene, target, {", ".join(chosen)}
        from rows group by dataset, scene, target order by dataset, scene, target
    """).to_pylist()
    found = {}
    for row in rows:
        known = {"class": row["label"] or ""} | _mapping(row["groups"])
        if by == "organ":  # what radiologists call a class
            known.setdefault("organ", known["class"])
        found[row["dataset"], row["scene"], row["target"]] = known
    if by not in _BANDS or any(by in known for known in found.values()):
        return found
    if by == "shape":  # of the targets themselves, so the data has to be available
        for dataset, scene in dict.fromkeys((row["dataset"], row["scene"]) for row in rows):
            for target in run.scene(dataset, scene).targets:
                if target.mask:
                    found.get((dataset, scene, target.id), {})[by] = shape_group(target.mask)
        return found
    for row, known in zip(rows, found.values(), strict=True):
        area, outline = row["area"], row["outline_px"]
        if by == "size" and area is not None:  # COCO's, in pixels
            known[by] = band(by, area)
        elif by == "boundary" and outline and area:  # over that of a square of the same area
            known[by] = band(by, outline / (4 * area**0.5))
    return found


def _mapping(stored: Any) -> dict[str, str]:
    """Groups as a map column or as JSON has them."""
    if not stored:
        return {}
    try:
        pairs = json.loads(stored) if isinstance(stored, str) else dict(stored)
        return {str(key): str(value) for key, value in pairs.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"column 'groups': {stored!r:.80} names no groups ({error})") from error
