"""Fairness: is a model as good for one group of people or places as for another?

`published` is what Segment Anything's supplement prints: a mean for each group with a normal
interval, as if masks were independent, and no test. `corrected` resamples images, since masks
of one image are not independent, and tests every pair of groups: intervals that
overlap do not mean that there is no difference, and disjoint ones are not the test at 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles

_NORMAL_95 = 1.96
_TOGETHER = 1 << 22


@dataclass(frozen=True, slots=True)
class GroupMean:
    """The mean of one group's values with its interval."""

    group: str
    interval: Interval
    targets: int
    images: int


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """First group minus second: mean, interval, and p of no difference, corrected by Holm."""

    first: str
    second: str
    interval: Interval
    p: float
    p_holm: float

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 5 % after correction."""
        return self.p_holm < 0.05


@dataclass(frozen=True, slots=True)
class GroupShare:
    """How much of a dataset comes from one group of images, such as a region."""

    group: str
    countries: int
    images: int
    masks: int
    masks_per_image: Interval
    share: float


def normal_interval(values: npt.ArrayLike) -> Interval:
    """Mean and 1.96 standard errors either way; the deviation divides by n - 1.

    >>> interval = normal_interval([1.0, 2.0, 3.0, 4.0])
    >>> round(interval.low, 3), round(interval.high, 3)
    (1.235, 3.765)
    """
    found = np.asarray(values, dtype=float)
    if not found.size:
        raise BadInput("an interval needs at least one value, and there is none")
    mean = float(found.mean())
    if found.size == 1:
        return Interval(mean, np.nan, np.nan)
    reach = _NORMAL_95 * float(found.std(ddof=1)) / math.sqrt(found.size)
    return Interval(mean, mean - reach, mean + reach)


def group_means(
    values: npt.ArrayLike,
    groups: Sequence[str | None],
    clusters: Sequence[Hashable],
    protocol: Literal["published", "corrected"] = "corrected",
    *,
    seed: object = 0,
) -> list[GroupMean]:
    """Means of each group, groups in order of their names; None belongs to no group.

    `published` has normal intervals over targets, `corrected` intervals from drawing images.

    >>> means = group_means([0.9, 0.7, 0.8], ['old', 'young', 'old'], ['a', 'b', 'c'])
    >>> [(m.group, float(round(m.interval.value, 2))) for m in means]
    [('old', 0.85), ('young', 0.7)]
    """
    found = _checked(values, groups, clusters)
    made = []
    for group in _names(groups):
        mine = [k for k, g in enumerate(groups) if g == group]
        images = [clusters[k] for k in mine]
        if protocol == "published":
            interval = normal_interval(found[mine])
        else:
            interval = Resampling(images, seed=(seed, group)).interval(found[mine])
        made.append(GroupMean(group, interval, len(mine), len(set(images))))
    return made


def group_differences(
    values: npt.ArrayLike,
    groups: Sequence[str | None],
    clusters: Sequence[Hashable],
    *,
    permutations: int = 10_000,
    seed: object = 0,
) -> list[GroupDifference]:
    """Every pair of groups: difference with its interval, tested, corrected together (Holm).

    >>> values, groups = [0.9, 0.7, 0.8, 0.6], ['old', 'young'] * 2
    >>> (found,) = group_differences(values, groups, ['a', 'b', 'c', 'd'], permutations=100)
    >>> (found.first, found.second)
    ('old', 'young')
    """
    found = _checked(values, groups, clusters)
    pairs = []
    for first, second in combinations(_names(groups), 2):
        places = [k for k, g in enumerate(groups) if g in (first, second)]
        inside = np.array([groups[k] == first for k in places])
        images = [clusters[k] for k in places]
        interval = _difference(found[places], inside, images, seed=(seed, first, second))
        p = permutation_test(
            found[places], inside, images, permutations=permutations, seed=(seed, first, second)
        )
        pairs.append(GroupDifference(first, second, interval, p, p))
    corrected = holm([pair.p for pair in pairs])
    return [replace(pair, p_holm=p) for pair, p in zip(pairs, corrected, strict=True)]


def permutation_test(
    values: npt.ArrayLike,
    inside: npt.ArrayLike,
    clusters: Sequence[Hashable],
    *,
    permutations: int = 10_000,
    seed: object = 0,
) -> float:
    """Two-sided p of the difference of two groups' means, by permuting the groups of images.

    Under the null, an image could as well be of the other group. Groups are permuted among images
    that have one group; an image that has both keeps its targets' groups or swaps them all, with
    equal probability. The observed value counts as one of the permutations, so p is never zero.
    `inside` are the targets of the first group.

    >>> permutation_test([1.0, 1.0, 1.0, 1.0], [True, False] * 2, ['a', 'b', 'c', 'd'])
    1.0
    """
    found, first = np.asarray(values, dtype=float), np.asarray(inside, dtype=bool)
    drawn = Resampling(clusters, resamples=1)
    sums = drawn.sums(np.column_stack([found * first, first, found * ~first, ~first]))
    seen = abs(_gap(sums.sum(axis=0)))
    mixed = (sums[:, 1] > 0) & (sums[:, 3] > 0)
    pure = sums[~mixed]
    totals = np.column_stack([pure[:, 0] + pure[:, 2], pure[:, 1] + pure[:, 3]])
    draw = generator("group permutations", seed)
    as_far = 0
    most = max(1, _TOGETHER // max(1, len(sums)))  # no table of labels grows large
    for start in range(0, permutations, most):
        count = min(most, permutations - start)
        labels = draw.permuted(np.tile(pure[:, 1] > 0, (count, 1)), axis=1)
        turned = draw.integers(0, 2, size=(count, int(mixed.sum()))).astype(float)
        ours = labels @ totals + ((1 - turned) @ sums[mixed, :2] + turned @ sums[mixed, 2:])
        whole = sums[:, :2].sum(axis=0) + sums[:, 2:].sum(axis=0)
        gaps = _gap(np.column_stack([ours, whole - ours]))
        as_far += int(np.count_nonzero(~(np.abs(gaps) < seen - 1e-12)))
    return (1 + as_far) / (1 + permutations)


def group_shares(
    masks: Mapping[str, int], countries: Mapping[str, str], table: Mapping[str, str]
) -> list[GroupShare]:
    """Images and masks by group of countries, such as region or income, as Table 1 has them.

    `masks` is how many masks each image has, `countries` the country of an image (images without
    one are left out), `table` the group of a country.

    >>> masks, countries = {'1': 4, '2': 6}, {'1': 'Chad', '2': 'Peru'}
    >>> shares = group_shares(masks, countries, {'Chad': 'Africa', 'Peru': 'America'})
    >>> [(s.group, s.images, s.masks) for s in shares]
    [('Africa', 1, 4), ('America', 1, 6)]
    """
    lost = sorted({countries[p] for p in masks if p in countries} - table.keys())
    if lost:
        raise BadInput(f"country '{lost[0]}' is in no group; add a line for it to the table")
    unknown = sorted(p for p in countries if p not in masks)
    if unknown:
        raise BadInput(f"image '{unknown[0]}' has a country but is not in the dataset")
    located = {image: table[countries[image]] for image in masks if image in countries}
    made = []
    for group in sorted(set(located.values())):
        mine = [image for image, name in located.items() if name == group]
        counts = [float(masks[image]) for image in mine]
        each = Resampling(mine, seed=(0, group)).interval(counts)
        named = len({countries[image] for image in mine})
        made.append(
            GroupShare(group, named, len(mine), int(sum(counts)), each, len(mine) / len(located))
        )
    return made


def _difference(
    values: Floats, inside: npt.NDArray[np.bool_], clusters: Sequence[Hashable], seed: object
) -> Interval:
    """Difference of two means with bootstrap limits over images; none for a group of one image."""
    seen = float(values[inside].mean() - values[~inside].mean())
    drawn = Resampling(clusters, seed=seed)
    columns = np.column_stack([values * inside, inside, values * ~inside, ~inside])
    fewest = min(np.unique(drawn.cluster[side]).size for side in (inside, ~inside))
    return percentiles(seen, _gap(drawn.totals(columns)), fewest)


def _gap(sums: Floats) -> Floats:
    """Difference of means from `(..., sum, count, sum, count)`; NaN where a group is empty."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1] - sums[..., 2] / sums[..., 3])


def _names(groups: Sequence[str | None]) -> list[str]:
    return sorted({group for group in groups if group is not None})


def _checked(
    values: npt.ArrayLike, groups: Sequence[str | None], clusters: Sequence[Hashable]
) -> Floats:
    found = np.asarray(values, dtype=float)
    if not len(found) == len(groups) == len(clusters):
        raise BadInput(
            f"{len(found)} values, {len(groups)} groups and {len(clusters)} images do not belong"
            " together"
        )
    return found
