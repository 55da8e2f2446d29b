"""Matching: one-to-one pairing of the boundary pixels of two maps.

Pixels may pair when they lie at most a tolerance apart. Of all ways to pair them we take one
with the most pairs, and of those one with the least total distance (in hundredths of a
pixel). The answer is exact and the same on every run; the original's is neither. `match_plain` is
the plain twin of the kernel: the same steps in the same order.

Tie rule, since several matchings may be equally good: pixels are numbered row by row and visited
in that order; of equally good choices the one found first is kept. In detail:

1. Some left pixels are *spare*: a maximum matching may leave them over. Any maximum matching
   determines which (alternating paths from its free ones reach them), and always the same. The
   right pixels in their reach are fewer, so every best answer takes all of these, and all
   left pixels that are not spare.
2. So there are two assignment problems in which every *row* gets a *column*: the needed
   left pixels choose among the remaining right ones, and the scarce right pixels choose
   among the spare left ones. A row of even number looks at its columns in rising order,
   one of odd number in falling order, so that ties lean neither way.
3. Rows bid in two rounds: a row takes its cheapest column (the first of equals; the second
   of equals if only that one is free), lowering the price by what the column is worth to it
   above the next; a row that loses its column waits.
4. Waiting rows, in the order they lost, search the shortest augmenting path by (distance,
   column number); of equally near free columns the first found wins.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.kernels import compiled
from segmeter.measures.outlines import Outline

MAX_DIST = 0.0075
"""Usual tolerance as a share of the diagonal: 4.34 pixels for 321 x 481."""

_MOST_DIST = 0.5


def match(
    ground_truth: Outline, prediction: Outline, max_dist: float = MAX_DIST
) -> npt.NDArray[np.int32]:
    """For each boundary pixel of the prediction the index of its match in the ground truth, or -1.

    >>> one = Outline((9, 9), np.array([40]))
    >>> two = Outline((9, 9), np.array([39, 42]))
    >>> match(two, one, 0.1).tolist(), match(one, two, 0.1).tolist()
    ([0], [0, -1])
    """
    if ground_truth.shape != prediction.shape:
        sizes = [f"{w} x {h}" for h, w in (prediction.shape, ground_truth.shape)]
        raise BadInput(
            f"the result is {sizes[0]} but a ground truth is {sizes[1]}; "
            "both must be of the image's size"
        )
    reach_squared = math.floor(tolerance_px(prediction.shape, max_dist) ** 2)
    solve = match_plain if compiled is None else compiled.match_pixels
    partners: npt.NDArray[np.int32] = solve(
        prediction.places, ground_truth.places, prediction.shape[1], reach_squared
    )
    return partners


def tolerance_px(shape: tuple[int, int], max_dist: float = MAX_DIST) -> float:
    """The tolerance in pixels of a grid: `max_dist` times its diagonal.

    >>> round(tolerance_px((321, 481)), 2)
    4.34
    """
    if not 0 <= max_dist <= _MOST_DIST:
        raise BadInput(
            f"tolerance {max_dist} is not a share of the diagonal from 0 to {_MOST_DIST}"
        )
    return max_dist * math.sqrt(shape[0] ** 2 + shape[1] ** 2)


Edges = list[list[tuple[int, int]]]
"""For each row its columns, ascending, and what they cost (distance in hundredths)."""

Places = npt.NDArray[np.int64]
_NONE = -1
_FAR = 1 << 30
_BIDDING_ROUNDS = 2


def match_plain(
    left: Places, right: Places, width: int, reach_squared: int
) -> npt.NDArray[np.int32]:
    """For each left pixel its right partner's number, or -1.

    Pixels are ascending raster indices in an image of the given width; those at most
    `reach_squared` apart may pair. As many pairs as can be, then the least distance.
    """
    edges = _candidates(left.tolist(), right.tolist(), width, reach_squared)
    spare, scarce = _spare(edges, right.size)
    needed: Edges = [[] for _ in range(left.size)]
    compared_within: Edges = [[] for _ in range(right.size)]
    for number, choices in enumerate(edges):
        for other, cost in choices:
            if number in spare:
                compared_within[other].append((number, cost))
            elif other not in scarce:
                needed[number].append((other, cost))
    result = _Assignment(needed, right.size).column_of
    for number, row in enumerate(_Assignment(compared_within, left.size).row_of):
        if row != _NONE:
            result[number] = row
    return np.array(result, dtype=np.int32)


def _candidates(left: list[int], right: list[int], width: int, reach_squared: int) -> Edges:
    reach = math.isqrt(reach_squared)
    half = [math.isqrt(reach_squared - dy * dy) for dy in range(reach + 1)]
    edges: Edges = []
    for place in left:
        y, x = divmod(place, width)
        near: list[tuple[int, int]] = []
        for dy in range(-reach, reach + 1):
            start = (y + dy) * width
            low = bisect_left(right, start + max(0, x - half[abs(dy)]))
            high = bisect_right(right, start + min(width - 1, x + half[abs(dy)]))
            for number in range(low, high):
                dx = right[number] - start - x
                near.append((number, round(100 * math.sqrt(dx * dx + dy * dy))))
        edges.append(near)
    return edges


def _spare(edges: Edges, rights: int) -> tuple[set[int], set[int]]:
    """Left nodes that a maximum matching may leave over, and the right nodes in their reach.

    Alternating paths from the free left nodes of any maximum matching lead to them.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    columns = [other for choices in edges for other, _ in choices]
    starts = np.cumsum([0, *map(len, edges)])
    graph = csr_array((np.ones(len(columns), bool), columns, starts), shape=(len(edges), rights))
    partners = maximum_bipartite_matching(graph, perm_type="column").tolist()
    owner = {other: number for number, other in enumerate(partners)}
    queue = [number for number, other in enumerate(partners) if other == _NONE]
    scarce: set[int] = set()
    for number in queue:
        reached = [other for other, _ in edges[number] if other not in scarce]
        scarce.update(reached)
        queue += [owner[other] for other in reached]
    return set(queue), scarce


class _Assignment:
    """The cheapest assignment that gives every row with edges a column of its own."""

    def __init__(self, edges: Edges, columns: int) -> None:
        self.edges = [choices[:: -1 if row % 2 else 1] for row, choices in enumerate(edges)]
        self.column_of = [_NONE] * len(edges)
        self.row_of = [_NONE] * columns
        self.price = [0] * columns
        waiting: Sequence[int] = [row for row, choices in enumerate(edges) if choices]
        for _ in range(_BIDDING_ROUNDS):
            waiting = self._bid(waiting)
        for row in waiting:
            self._find_place(row)

    def _bid(self, waiting: Sequence[int]) -> list[int]:
        lost: list[int] = []
        for row in waiting:
            first, second, least, following = self._two_best(row)
            if following == least and self.row_of[first] != _NONE:
                first = second
            owner = self.row_of[first]
            if owner != _NONE:
                if following in (least, _FAR):
                    lost.append(row)
                    continue
                self.column_of[owner] = _NONE
                lost.append(owner)
                self.price[first] -= following - least
            self.row_of[first], self.column_of[row] = row, first
        return lost

    def _two_best(self, row: int) -> tuple[int, int, int, int]:
        """The two cheapest columns of a row, the first found of equals, and their costs."""
        first = second = _NONE
        least = following = _FAR
        for column, cost in self.edges[row]:
            asked = cost - self.price[column]
            if asked < least:
                second, following = first, least
                first, least = column, asked
            elif asked < following:
                second, following = column, asked
        return first, second, least, following

    def _find_place(self, start: int) -> None:
        """Shortest augmenting path from a row; prices follow the distances."""
        distance: dict[int, int] = {}
        giver: dict[int, int] = {}
        settled: list[int] = []
        heap: list[tuple[int, int]] = []
        goal, limit, row, so_far = _NONE, _FAR, start, 0
        while True:
            worth = self._worth(row)
            for column, cost in self.edges[row]:
                there = so_far + cost - self.price[column] - worth
                if there >= limit or there >= distance.get(column, _FAR):
                    continue
                distance[column], giver[column] = there, row
                if self.row_of[column] == _NONE:
                    goal, limit = column, there
                else:
                    heapq.heappush(heap, (there, column))
            while heap and heap[0][0] != distance[heap[0][1]]:
                heapq.heappop(heap)
            if not heap or heap[0][0] >= limit:
                break
            so_far, column = heapq.heappop(heap)
            settled.append(column)
            row = self.row_of[column]
        for column in settled:
            self.price[column] += distance[column] - limit
        self._flip(start, goal, giver)

    def _worth(self, row: int) -> int:
        """Cost of the row's column less its price; 0 for a row without a column."""
        mine = self.column_of[row]
        return next((c - self.price[mine] for column, c in self.edges[row] if column == mine), 0)

    def _flip(self, start: int, goal: int, giver: dict[int, int]) -> None:
        column = goal
        while column != _NONE:
            row = giver[column]
            before = self.column_of[row]
            self.row_of[column], self.column_of[row] = row, column
            column = _NONE if row == start else before
