"""Statistics: numbers over the objects of a group, each declared once with all it needs.

A statistic carries its title, unit, decimals and direction, so that no table, page or command
has to guess them from its name. Families with a parameter, such as NoC at q %, are functions
that return one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, compress
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np

from segmeter.core.benchmarks import Difference, Group, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.stats.comparisons import Paired, holm, pairwise_tables
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles, share_interval
from segmeter.stats.null_distributions import Null

Better = Literal["higher", "lower", ""]
Effort = Literal["clicks", "seconds", ""]
Tested = Literal["yes", "on request", "no"]
G = TypeVar("G", bound=Group)


def resampling(group: Group, resamples: int = 2000) -> Resampling:
    """Resamples of a group's images or patients; the same for all models on a dataset.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> resampling(group).clusters
    2
    """
    return _resampling(tuple(group.clusters), resamples, group.dataset)


@lru_cache(maxsize=16)  # dozens of statistics ask for the same
def _resampling(clusters: tuple[str, ...], resamples: int, seed: str) -> Resampling:
    return Resampling(clusters, resamples=resamples, seed=seed)


def mean_interval(group: Group, values: Floats) -> Interval | None:
    """The mean with its bootstrap interval; none unless every object has a value.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> mean_interval(group, np.array([1.0, 3.0])).value
    2.0
    >>> mean_interval(group, np.array([1.0, np.nan])) is None
    True
    """
    if np.isnan(values).any():
        return None
    return resampling(group).interval(values)


def mean_of_known(group: Group, values: Floats) -> Interval | None:
    """The mean over the objects that have a value, with its bootstrap interval.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> mean_of_known(group, np.array([1.0, np.nan])).value
    1.0
    """
    known = ~np.isnan(values)
    if not known.any():
        return None
    clusters = list(compress(group.clusters, known))
    return Resampling(clusters, seed=group.dataset).interval(values[known])


def count_interval(group: Group, flags: Floats) -> Interval | None:
    """How many objects are flagged, with Wilson's interval.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> count_interval(group, np.array([1.0, 0.0])).value
    1
    """
    found = share_interval(flags, group.clusters).times(len(flags))
    return Interval(round(found.value), found.low, found.high)


def share_of_known(group: Group, flags: Floats) -> Interval | None:
    """The share of flagged objects among those that are known, with Wilson's interval.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> share_of_known(group, np.array([1.0, np.nan])).value
    1.0
    """
    known = ~np.isnan(flags)
    clusters = list(compress(group.clusters, known))
    return share_interval(flags[known], clusters) if known.any() else None


def percentile_interval(group: Group, values: Floats) -> Interval | None:
    """The mean with percentiles of resampled means; none unless every object has a value.

    A single image gives no limits.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> percentile_interval(group, np.array([1.0, 3.0]))
    Interval(value=2.0, low=1.0, high=3.0)
    """
    if np.isnan(values).any():
        return None
    drawn = resampling(group)
    return percentiles(float(values.mean()), drawn.means(values)[:, 0], drawn.clusters)


def paired_by_draws(value: float, gaps: Floats, targets: int, scenes: int) -> Paired | None:
    """A difference from its values in resampled sets of images; None without any.

    Student's t with the standard deviation of the resamples. p is never below that of a
    permutation test on as many images, 2 / 2^n.

    >>> paired_by_draws(2.0, np.array([1.0, 2.0, 3.0]), 9, 3).p
    0.25
    """
    from scipy import special  # slow to import, and seldom needed

    known = gaps[~np.isnan(gaps)]
    if not known.size:
        return None
    freedom = scenes - 1
    error = known.std() * np.sqrt(scenes / freedom) if freedom else np.nan
    reach = float(special.stdtrit(freedom, 0.975) * error)
    p = 2 * special.stdtr(freedom, -abs(value) / max(error, 1e-12))  # equal models differ by 0
    least = 2.0 ** (1 - scenes)
    return Paired(
        Interval(value, value - reach, value + reach), float(np.fmax(p, least)), targets, scenes
    )


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number over the objects of a group: of their `values`, or of the group as a `whole`.

    `compare` tests its differences always, when asked (`on request`), or never (of what depends
    on the machine): object by object in `paired`, where both models have it, by default in the
    `values`, or group by group with `pair`.
    """

    name: str  # in summaries, `--json` and `compare`, such as `noc@90`
    title: str  # heading in tables
    unit: str = ""
    digits: int = 2
    better: Better = ""  # which direction is good; empty where neither is
    percent: bool = False  # values are fractions, reported times 100
    values: Callable[[Any], Floats] | None = None  # one per object, NaN where it is not known
    interval: Callable[[Any, Floats], Interval | None] = mean_interval  # estimate from the values
    whole: Callable[[Any], Interval | None] | None = None
    of: type[Group] = Group  # the class of groups that it is computed of
    tested: Tested = "on request"
    paired: Callable[[Any], Floats] | None = None
    pair: Callable[[Any, Any], Paired | None] | None = None
    # Its distribution if labels did not matter, with the excess over it.
    null: Callable[[Any], tuple[Null, Interval] | None] | None = None
    effort: Effort = ""  # what it costs a person per object; `--by` turns seconds into money
    waiting: Callable[[Any], Floats] | None = None  # seconds per object on top of such seconds
    fewest: int = 0  # images or patients that limits need

    def estimate(self, group: Group) -> tuple[Interval, int] | None:
        """Value and limits in its unit, and the number of objects behind them."""
        if not isinstance(group, self.of):
            return None
        if self.values is None:
            found, many = self.whole(group) if self.whole else None, group.size
        else:
            values = self.values(group)
            found, many = self.interval(group, values), int(np.count_nonzero(~np.isnan(values)))
        if found is None:
            return None
        return found.times(self.scale).if_enough(len(set(group.clusters)), self.fewest), many

    @property
    def scale(self) -> float:
        """Factor for reported values."""
        return 100.0 if self.percent else 1.0

    @property
    def testable(self) -> bool:
        """Whether two groups can be compared in it."""
        sources = (self.values, self.paired, self.pair)
        return self.tested != "no" and any(source is not None for source in sources)

    def compared(self, group: Group) -> Floats | None:
        """One number per object to compare groups by, in its unit."""
        source = self.paired or self.values
        if source is None or not isinstance(group, self.of):
            return None
        return self.scale * source(group)


Drawn = tuple[float, Floats]
"""A number of a group, and the same in each resampled set of its images; none for no limits."""


def statistic_of_draws(
    name: str, title: str, drawn: Callable[[Any], Drawn | None], **card: Any
) -> Statistic:
    """A statistic of whole groups whose limits and differences come from resampled images.

    Groups are compared on the same resamples, so only if they have the same images.

    >>> group = Group("m", "d", "", "corrected", (("s1", ""), ("s2", "")), ("s1", "s2"))
    >>> size = statistic_of_draws("n", "n", lambda group: (2.0, np.array([1.0, 2.0, 3.0])))
    >>> size.estimate(group)[0].value, size.pair(group, group).p
    (2.0, 1.0)
    """

    def whole(group: Group) -> Interval | None:
        found = drawn(group)
        return None if found is None else percentiles(*found, len(set(group.clusters)))

    def pair(first: Group, second: Group) -> Paired | None:
        a, b = drawn(first), drawn(second)
        if a is None or b is None or first.keys != second.keys:
            return None
        return paired_by_draws(a[0] - b[0], a[1] - b[1], first.size, len(set(first.clusters)))

    return Statistic(name, title, whole=whole, pair=pair, **card)


def cards_by_name(statistics: Iterable[Statistic]) -> dict[str, Statistic]:
    """Statistics by their names; the first of each counts.

    >>> list(cards_by_name([Statistic("auc", "AuC"), Statistic("auc", "another")]))
    ['auc']
    """
    found: dict[str, Statistic] = {}
    for statistic in statistics:
        found.setdefault(statistic.name, statistic)
    return found


def summary_of(groups: Iterable[Group], statistics: Sequence[Statistic]) -> Iterator[SummaryRow]:
    """Every statistic of every group that has it; `:null`, `:excess` and `:p` follow.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> size = Statistic("size", "size", values=lambda group: np.array([1.0, 3.0]))
    >>> [(row.statistic, row.value) for row in summary_of([group], [size])]
    [('size', 2.0)]
    """
    for group in groups:
        for statistic in statistics:
            found = statistic.estimate(group)
            if found is not None:
                interval, many = found
                yield _row(group, statistic.name, interval, many)
        for statistic in statistics:
            yield from _null_rows(group, statistic)


def comparisons(groups: Iterable[G]) -> list[list[G]]:
    """Groups of one kind that differ in their model alone, in the order of the first of each.

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> [len(members) for members in comparisons([group, group])]
    [2]
    """
    return list(grouped(groups, lambda group: (type(group), *group.comparison)).values())


def differences_of(
    groups: Iterable[Group], statistics: Sequence[Statistic], names: Sequence[str] | None = None
) -> list[Difference]:
    """Every pair of models on the objects that both have, by dataset, user and protocol.

    `names` are the statistics that `compare` tests unless given; one in which some model of a
    comparison has an object without a value is left out. The pairs of a statistic are corrected
    together (Holm).

    >>> group = Group("m", "d", "", "corrected", (("s1", "a"), ("s2", "b")), ("s1", "s2"))
    >>> from dataclasses import replace
    >>> length = Statistic("n", "n", tested="yes", values=lambda g: np.full(2, len(g.model)))
    >>> [d.value for d in differences_of([group, replace(group, model="mm")], [length])]
    [-1.0]
    """
    asked = [
        s
        for s in statistics
        if s.testable and (s.tested == "yes" if names is None else s.name in names)
    ]
    found: list[Difference] = []
    for members in comparisons(groups):
        found += _pairs(members, asked)
    return corrected_together(found)


def corrected_together(
    found: Sequence[Difference],
    family: Callable[[Difference], Hashable] = attrgetter("protocol", "statistic"),
) -> list[Difference]:
    """Differences with p values that hold for all pairs of a family together (Holm).

    By default pairs on all datasets and with all users count; each protocol and statistic is a
    family of its own.

    >>> corrected_together([])
    []
    """
    made = list(found)
    for places in grouped(range(len(found)), lambda i: family(found[i])).values():
        adjusted = holm([found[i].p for i in places])
        for i, p in zip(places, adjusted, strict=True):
            made[i] = replace(found[i], p_holm=p)
    return made


def standing_out(
    rows: Iterable[SummaryRow], found: Iterable[Difference], cards: Mapping[str, Statistic]
) -> set[tuple[tuple[str, str, str, str], str]]:
    """Groups and statistics in which a model is significantly better than every other one.

    >>> standing_out([], [], {})
    set()
    """
    models = Counter((row.key[1:], row.statistic) for row in rows)
    won: Counter[tuple[tuple[str, str, str, str], str]] = Counter()
    for d in found:
        sign = {"lower": -1, "higher": 1, "": 0}[cards[d.statistic].better]
        if d.significant and sign * d.value:
            better = d.first if sign * d.value > 0 else d.second
            won[(better, d.dataset, d.user, d.protocol), d.statistic] += 1
    return {(key, name) for (key, name), n in won.items() if n == models[key[1:], name] - 1}


def _pairs(members: Sequence[Group], asked: Sequence[Statistic]) -> list[Difference]:
    """All pairs of one comparison in all statistics, those with equal draws at once."""
    made: dict[str, list[Difference]] = {s.name: [] for s in asked}
    together: list[Statistic] = []
    columns: list[list[Floats]] = []
    for statistic in asked:
        if statistic.pair is not None:
            made[statistic.name] = _by_group(members, statistic)
            continue
        found = [statistic.compared(group) for group in members]
        values = [one for one in found if one is not None]
        partial = statistic.paired is not None or statistic.interval is not mean_interval
        lost = [np.isnan(v).all() if partial else np.isnan(v).any() for v in values]
        if len(values) == len(members) and not any(lost):
            together.append(statistic)
            columns.append(values)
    for chosen in _alike(columns):
        values = [np.stack([columns[k][i] for k in chosen], axis=1) for i in range(len(members))]
        for d in pairwise_tables([together[k].name for k in chosen], members, values):
            made[d.statistic].append(d)
    # Without limits where the statistic needs more cases for them, or too few are tested.
    return [
        replace(d, low=np.nan, high=np.nan) if s.fewest and d.too_few else d
        for s in asked
        for d in made[s.name]
    ]


def _alike(columns: Sequence[Sequence[Floats]]) -> list[list[int]]:
    """Places of statistics that are known of the same objects."""

    def known(place: int) -> bytes:
        return b"".join(np.isfinite(values).tobytes() for values in columns[place])

    return list(grouped(range(len(columns)), known).values())


def _by_group(members: Sequence[Group], statistic: Statistic) -> list[Difference]:
    """Pairs of a statistic of whole groups."""
    assert statistic.pair is not None
    made = []
    for a, b in combinations(members, 2):
        paired = statistic.pair(a, b) if isinstance(a, statistic.of) else None
        if paired is not None:
            i = paired.interval.times(statistic.scale)
            where = (a.model, b.model, *a.comparison, statistic.name)
            numbers = (i.value, i.low, i.high, paired.p, paired.p)
            made.append(Difference(*where, *numbers, paired.targets, paired.scenes, a.unit))
    return made


def _null_rows(group: Group, statistic: Statistic) -> Iterator[SummaryRow]:
    found = statistic.null(group) if statistic.null and isinstance(group, statistic.of) else None
    if found is not None:
        null, excess = found
        many, scale = group.size, statistic.scale
        shown = Interval(null.mean, null.low, null.high).times(scale)
        yield _row(group, f"{statistic.name}:null", shown, many)
        yield _row(group, f"{statistic.name}:excess", excess.times(scale), many)
        yield _row(group, f"{statistic.name}:p", Interval(null.p, null.p, null.p), many)


def _row(group: Group, name: str, interval: Interval, many: int) -> SummaryRow:
    return SummaryRow(*group.key, name, interval.value, interval.low, interval.high, many)
