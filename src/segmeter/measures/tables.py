"""Tables of shared pixels: the contingency table of the regions of two partitions.

A region is all pixels of one label, connected or not, and 0 is a label like any other.
Regions are numbered by first appearance along the rows. Every region and pair measure of
`segmeter.measures.partitions` is computed from one table per ground truth, counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.kernels import compiled

Labels = npt.NDArray[Any]


def check_labels(labels: Labels, what: str, most_pixels: int) -> None:
    """Refuse what is no label map of an image, naming it `what`; true and false are labels.

    >>> import numpy as np
    >>> check_labels(np.array([[0, 0, 7]]), "the partition", most_pixels=100)
    """
    if labels.ndim != 2:
        raise BadInput(f"{what} has {labels.ndim} axes; a label map is H x W")
    if labels.size == 0:
        raise BadInput(f"{what} has no pixel")
    if labels.size > most_pixels:
        raise BadInput(f"{what} has {labels.size} pixels; at most {most_pixels} can be compared")
    if labels.dtype.kind not in "iub":
        raise BadInput(f"{what} holds {labels.dtype} values; labels are whole numbers, so round it")
    if labels.dtype.kind == "i" and labels.min() < 0:
        raise BadInput(f"{what} holds {labels.min()}; labels start at 0")


GroundTruths = Labels | Sequence[Labels]
Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]
_MOST_PIXELS = (1 << 31) - 1


@dataclass(frozen=True)
class Regions:
    """A partition with its regions numbered from 0 by first appearance.

    `numbers` is flat, int32, one per pixel; `areas` has one count per region.
    """

    shape: tuple[int, int]
    numbers: npt.NDArray[np.int32]
    areas: Whole

    @property
    def pixels(self) -> int:
        return int(self.numbers.size)

    @property
    def count(self) -> int:
        return int(self.areas.size)


@dataclass(frozen=True)
class Table:
    """Non-zero cells: prediction in rows, one ground truth in columns; by row, then column."""

    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    shared: Whole
    prediction_areas: Whole
    ground_truth_areas: Whole

    @cached_property
    def pixels(self) -> int:
        return int(self.prediction_areas.sum())

    @cached_property
    def prediction_share(self) -> Real:
        """Each cell's share of its prediction region."""
        return self.shared / self.prediction_areas[self.rows]

    @cached_property
    def ground_truth_share(self) -> Real:
        """Each cell's share of its ground truth region."""
        return self.shared / self.ground_truth_areas[self.columns]

    @cached_property
    def overlap(self) -> Real:
        """Each cell's Jaccard index J of the two regions."""
        both = self.prediction_areas[self.rows] + self.ground_truth_areas[self.columns]
        return self.shared / (both - self.shared)

    @cached_property
    def kept_by_row(self) -> int:
        """Pixels of the predicted regions that are in their best true region."""
        return int(self.best_by_row(self.shared).sum())

    @cached_property
    def kept_by_column(self) -> int:
        """Pixels of the true regions that are in their best predicted region."""
        return int(self.best_by_column(self.shared).sum())

    def best_by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The largest of a cell value in each row."""
        starts = np.searchsorted(self.rows, np.arange(self.prediction_areas.size))
        return np.asarray(np.maximum.reduceat(values, starts))

    def best_by_column(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The largest of a cell value in each column."""
        best = np.zeros(self.ground_truth_areas.size, dtype=values.dtype)
        np.maximum.at(best, self.columns, values)
        return best

    def merged(self, groups: npt.NDArray[np.int64]) -> Table:
        """The table after prediction regions are joined: `groups[i]` is the new number of i."""
        keys = groups[self.rows] * self.ground_truth_areas.size + self.columns
        cells, place = np.unique(keys, return_inverse=True)
        shared = np.bincount(place, self.shared).astype(np.int64)
        areas = np.bincount(groups, self.prediction_areas).astype(np.int64)
        rows, columns = (n.astype(np.int32) for n in np.divmod(cells, self.ground_truth_areas.size))
        return Table(rows, columns, shared, areas, self.ground_truth_areas)


@dataclass(frozen=True)
class Comparison:
    """One prediction against all ground truths of an image: a table each."""

    tables: tuple[Table, ...]

    @property
    def pixels(self) -> int:
        return self.tables[0].pixels

    def merged(self, groups: npt.NDArray[np.int64]) -> Comparison:
        """A coarser level of the same prediction, without looking at a pixel again."""
        return Comparison(tuple(table.merged(groups) for table in self.tables))


def compare(
    ground_truths: GroundTruths | Sequence[Regions], prediction: Labels | Regions
) -> Comparison:
    """Count the tables of a prediction against one or several ground truths.

    Ground truths that serve several predictions may be numbered once, with `regions`.

    >>> halves, whole = np.array([[1, 1, 2, 2]]), np.array([[7, 7, 7, 7]])
    >>> compare([halves, whole], halves).tables[0].shared.tolist()
    [2, 2]
    """
    several: Sequence[Labels | Regions] = (
        [ground_truths] if isinstance(ground_truths, np.ndarray) else ground_truths
    )
    if len(several) == 0:
        raise BadInput("a partition needs at least one ground truth to be compared with")
    numbered = [regions(truth, f"ground truth {place}") for place, truth in enumerate(several, 1)]
    prediction = regions(prediction, "the partition")
    return Comparison(tuple(_table(truth, prediction) for truth in numbered))


def regions(labels: Labels | Regions, what: str = "the label map") -> Regions:
    """Number the regions of a label map; refuse what is not one, naming it `what`.

    >>> regions(np.array([[7, 7, 3]])).count
    2
    """
    if isinstance(labels, Regions):
        return labels
    check_labels(labels, what, _MOST_PIXELS)
    counted = labels.dtype in (np.uint8, np.uint16, np.int32, np.int64)  # types of the kernel
    flat = np.ascontiguousarray(labels if counted else labels.astype(np.int64)).reshape(-1)
    count = number_regions if compiled is None else compiled.number_regions
    return Regions((labels.shape[0], labels.shape[1]), *count(flat))


def _table(ground_truth: Regions, prediction: Regions) -> Table:
    if ground_truth.shape != prediction.shape:
        sizes = [f"{w} x {h}" for h, w in (prediction.shape, ground_truth.shape)]
        raise BadInput(
            f"the partition is {sizes[0]} but a ground truth is {sizes[1]}; "
            "both must be of the image's size"
        )
    count = shared_pixels if compiled is None else compiled.shared_pixels
    rows, columns, shared = count(
        prediction.numbers, ground_truth.numbers, prediction.count, ground_truth.count
    )
    return Table(rows, columns, shared, prediction.areas, ground_truth.areas)


def number_regions(labels: Labels) -> tuple[npt.NDArray[np.int32], Whole]:
    """Plain twin of the kernel: numbers by first appearance, and the area of each."""
    _, first, inverse, areas = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    number = np.empty(order.size, dtype=np.int32)
    number[order] = np.arange(order.size)
    return number[inverse], areas[order].astype(np.int64)


def shared_pixels(
    row_numbers: npt.NDArray[np.int32],
    column_numbers: npt.NDArray[np.int32],
    rows: int,
    columns: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Whole]:
    """Plain twin of the kernel: the non-zero cells by row, then column."""
    keys = row_numbers.astype(np.int64) * columns + column_numbers
    cells, shared = np.unique(keys, return_counts=True)
    cell_rows, cell_columns = np.divmod(cells, columns)
    return cell_rows.astype(np.int32), cell_columns.astype(np.int32), shared.astype(np.int64)
