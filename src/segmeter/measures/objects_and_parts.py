"""Objects and parts: which regions are which, and which are fragmented, as F_op counts them.

A prediction region and a ground truth region that share nearly all of both are *objects*; one that
lies nearly whole in the other and fills a fair piece of it is a *part*; the other is then
*fragmented*, and earns the share that its parts explain. With beta = 0.1 a part,

    P_op = (objects + fragments + beta * parts) / regions

over the prediction, R_op the same over all ground truths together, and F_op their harmonic mean.

Two protocols. `published` is what the authors' program computes, with which all their numbers were
computed: gamma_o = 0.9 with >=, only regions that make up 99 % of the area are judged; the
prediction's fragments are divided by the number of ground truths. `paper` is the text: gamma_o =
0.95 with >, all regions, no division, so that its P_op can pass 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import check_choice
from segmeter.measures.tables import Comparison, Real, Table, Whole

FopProtocol = Literal["published", "paper"]
Flags = npt.NDArray[np.bool_]
Classes = npt.NDArray[np.int8]

_OBJECT: dict[FopProtocol, float] = {"published": 0.9, "paper": 0.95}
_PART = 0.25
_PART_WORTH = 0.1
_KEPT_AREA = 0.99


class RegionClass(IntEnum):
    """Classes of a region, higher is better; `small` regions are not judged."""

    small = 0
    noise = 1
    fragmented = 2
    part = 3
    object = 4


class SideCounts(NamedTuple):
    """Objects, parts, fragments and judged regions, of a prediction or of all ground truths."""

    objects: int
    parts: int
    fragments: float
    regions: int

    @property
    def earned(self) -> float:
        """Worth of the regions as a share of their number."""
        return (self.objects + self.fragments + _PART_WORTH * self.parts) / self.regions


@dataclass(frozen=True, slots=True)
class OpCounts:
    """Counts of both sides, and what follows from them."""

    prediction: SideCounts
    ground_truth: SideCounts

    @property
    def precision(self) -> float:
        return self.prediction.earned

    @property
    def recall(self) -> float:
        return self.ground_truth.earned

    @property
    def f(self) -> float:
        return harmonic(self.precision, self.recall)


class _Side(NamedTuple):
    """The regions of one partition: which are judged, and what each one is.

    `found` is 4 x regions: how often it is an object, a part or fragmented, and the fragments
    that it would earn.
    """

    judged: Flags
    found: Real

    def counts(self) -> SideCounts:
        classes = self.classes()
        return SideCounts(
            int(np.count_nonzero(classes == RegionClass.object.value)),
            int(np.count_nonzero(classes == RegionClass.part.value)),
            float(self.found[3][classes == RegionClass.fragmented.value].sum()),
            int(np.count_nonzero(self.judged)),
        )

    def classes(self) -> Classes:
        objects, parts, fragmented, _ = self.found > 0
        found = np.full(self.judged.size, RegionClass.noise, dtype=np.int8)
        found[fragmented] = RegionClass.fragmented
        found[parts] = RegionClass.part
        found[objects] = RegionClass.object
        found[~self.judged] = RegionClass.small
        return found


def harmonic(precision: float, recall: float) -> float:
    """F of precision and recall; 0 when both are 0 or one is undefined.

    >>> harmonic(0.5, 1.0)
    0.6666666666666666
    """
    total = precision + recall
    return 2 * precision * recall / total if total > 0 else 0.0


def harmonics(precision: Real, recall: Real) -> Real:
    """F of many precisions and recalls at once.

    >>> harmonics(np.array([0.5, 0.0]), np.array([0.5, 0.0])).tolist()
    [0.5, 0.0]
    """
    total = precision + recall
    return np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)


def count_objects_and_parts(
    comparison: Comparison, protocol: FopProtocol = "published"
) -> OpCounts:
    """Classify every region of the prediction and of all ground truths.

    A prediction region takes its best class over the ground truths, object before part.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> count_objects_and_parts(compare(labels, labels)).f
    1.0
    """
    prediction, sides = _sides(comparison, protocol)
    mine = prediction.counts()
    if protocol == "published":
        mine = mine._replace(fragments=mine.fragments / len(sides))
    theirs = zip(*(side.counts() for side in sides), strict=True)
    return OpCounts(mine, SideCounts(*map(sum, theirs)))


def region_classes(comparison: Comparison) -> tuple[Classes, tuple[Classes, ...]]:
    """The kind of each region of the prediction and of each ground truth, by first appearance.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> len(region_classes(compare(labels, labels))[1])
    1
    """
    prediction, ground_truths = _sides(comparison, "published")
    return prediction.classes(), tuple(side.classes() for side in ground_truths)


def _sides(comparison: Comparison, protocol: FopProtocol) -> tuple[_Side, list[_Side]]:
    check_choice("protocol of F_op", protocol, get_args(FopProtocol))
    pairs = [_judge(table, protocol) for table in comparison.tables]
    mine = np.add.reduce([side.found for side, _ in pairs])
    return _Side(pairs[0][0].judged, mine), [theirs for _, theirs in pairs]


def _judge(table: Table, protocol: FopProtocol) -> tuple[_Side, _Side]:
    """The regions of the prediction and of one ground truth."""
    paper, level = protocol == "paper", _OBJECT[protocol]
    above = np.greater if paper else np.greater_equal
    mine, theirs = table.prediction_share, table.ground_truth_share
    most_of_mine, most_of_theirs = above(mine, level), above(theirs, level)
    judged = [
        np.ones(areas.size, bool) if paper else _kept(areas)
        for areas in (table.prediction_areas, table.ground_truth_areas)
    ]
    both = judged[0][table.rows] & judged[1][table.columns]
    inside, around = most_of_mine & ~most_of_theirs, most_of_theirs & ~most_of_mine
    objects = both & most_of_mine & most_of_theirs
    part_of_theirs = both & inside & above(theirs, _PART)
    part_of_mine = both & around & above(mine, _PART)
    # Fragments need no large part: slivers and regions that are not judged add too. The paper
    # requires at least one large part.
    broken, other_broken = (part_of_mine, part_of_theirs) if paper else (around, inside)
    return (
        _side(table.rows, judged[0], objects, part_of_theirs, broken, around * mine),
        _side(table.columns, judged[1], objects, part_of_mine, other_broken, inside * theirs),
    )


def _side(places: npt.NDArray[np.int32], judged: Flags, *cells: Flags | Real) -> _Side:
    """Values of cells, added up for each region."""
    return _Side(judged, np.array([np.bincount(places, c, judged.size) for c in cells]))


def _kept(areas: Whole) -> Flags:
    """The area filter: the largest regions until 99 % of the image is reached.

    Equal areas: the one that appears later in the scan comes first.
    """
    order = areas.size - 1 - np.argsort(-areas[::-1], kind="stable")
    before = np.cumsum(areas[order] / areas.sum())
    kept = np.empty(areas.size, dtype=bool)
    kept[order] = np.concatenate(([0.0], before[:-1])) < _KEPT_AREA
    return kept
