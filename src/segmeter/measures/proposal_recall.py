"""Proposal recall: class-agnostic average recall of ranked proposals, image by image.

COCO's matching: proposals in rank order, each takes the free object that it overlaps most, if
by at least a threshold; recall is averaged over the thresholds 0.50, 0.55 .. 0.95. Objects of
another size than is asked for are ignored: they can be taken, and count nowhere.

Counts of images add up, so the number of a set and of every resampled set is a division.
Classes never matter, nor does it whether a class was searched for in an image, which breaks
evaluators made for federated data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = ["THRESHOLDS", "Recalled", "average_recall_of", "overlaps_of", "recalled"]

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

THRESHOLDS: Real = np.minimum(np.linspace(0.5, 0.95, 10), 1 - 1e-10)
Limits = tuple[float, float]
_EVERY: Mapping[str, Limits] = {"all": (0.0, np.inf)}


@dataclass(frozen=True, slots=True)
class Recalled:
    """One image: how many objects there are, and how many are matched at each threshold.

    `matched` is numbers of proposals x thresholds.
    """

    objects: int
    numbers: tuple[int, ...]
    matched: Whole

    @property
    def average_recall(self) -> Real:
        """By number of proposals; NaN without objects."""
        return average_recall_of(self.matched, np.array(self.objects))


def average_recall_of(matched: npt.NDArray[np.generic], objects: npt.NDArray[np.generic]) -> Real:
    """Matched objects (thresholds in the last place) over all objects, averaged.

    >>> import numpy as np
    >>> float(average_recall_of(np.array([1.0, 0.0]), np.array(1)))
    0.5
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.asarray(matched, dtype=np.float64) / np.asarray(objects)[..., None]
    return np.asarray(shares.mean(axis=-1))


def recalled(
    ground_truths: Sequence[Mask],
    proposals: Sequence[Mask],
    *,
    numbers: Sequence[int] = (10, 100, 1000),
    areas: Sequence[float] | None = None,
    sizes: Mapping[str, Limits] = _EVERY,
) -> dict[str, Recalled]:
    """Recall of the first N proposals of an image, by size of the objects.

    Parameters
    ----------
    ground truths
        Objects in the order of their classes, then of their file: of equal overlaps the
        later one is taken.
    proposals
        Best first.
    areas
        Of each object, as its annotation states it; its mask's pixels by default.
    sizes
        Limits of the area of each size, both inside.

    Examples
    --------
    >>> thing = Mask.box((9, 9), (0, 0), (4, 4))
    >>> recalled([thing], [Mask.box((9, 9), (0, 0), (4, 3))])["all"].average_recall
    array([0.6, 0.6, 0.6])
    """
    if not numbers or min(numbers) < 1:
        raise BadInput("recall is counted among the first 1 or more proposals")
    stated = np.array([t.area for t in ground_truths] if areas is None else areas, dtype=np.float64)
    if len(stated) != len(ground_truths):
        raise BadInput(f"{len(ground_truths)} objects have {len(stated)} areas; give one each")
    overlaps = overlaps_of(ground_truths, proposals[: max(numbers)])
    return {
        name: _recalled(overlaps, (stated >= low) & (stated <= high), tuple(numbers))
        for name, (low, high) in sizes.items()
    }


def overlaps_of(ground_truths: Sequence[Mask], proposals: Sequence[Mask]) -> Real:
    """IoU of proposals (rows) and objects; 0 where it cannot reach half.

    >>> thing = Mask.box((4, 4), (0, 0), (2, 2))
    >>> overlaps_of([thing], [thing]).tolist()
    [[1.0]]
    """
    found = np.zeros((len(proposals), len(ground_truths)))
    if not len(ground_truths) or not len(proposals):
        return found
    ours, theirs = _boxes(proposals), _boxes(ground_truths)
    low = np.maximum(ours[:, None, :2], theirs[None, :, :2])
    high = np.minimum(ours[:, None, 2:], theirs[None, :, 2:])
    shared = np.maximum(high - low, 0).prod(axis=2)
    areas = (
        np.array([p.area for p in proposals])[:, None],
        np.array([t.area for t in ground_truths]),
    )
    # No more than the boxes' overlap is shared, nor than the smaller area: a bound on the IoU.
    most = np.minimum(shared, np.minimum(*areas))
    possible = (most > 0) & (most / np.maximum(areas[0] + areas[1] - most, 1) >= 0.5)
    for i, j in np.argwhere(possible):
        inside = proposals[i].overlap(ground_truths[j])
        found[i, j] = inside / (areas[0][i, 0] + areas[1][j] - inside)
    return found


def _recalled(overlaps: Real, regular: npt.NDArray[np.bool_], numbers: tuple[int, ...]) -> Recalled:
    """Matching at all thresholds at once; a proposal that reaches no object is passed over."""
    free = np.ones((len(THRESHOLDS), overlaps.shape[1]), dtype=bool)
    hits = np.zeros((len(THRESHOLDS), len(overlaps)), dtype=np.int64)
    for place in np.flatnonzero(overlaps.max(axis=1, initial=0) >= THRESHOLDS[0]):
        near = np.flatnonzero(overlaps[place] >= THRESHOLDS[0])
        if len(near) == 1:
            (only,) = near
            taken = free[:, only] & (overlaps[place, only] >= THRESHOLDS)
            free[taken, only] = False
            hits[taken, place] = regular[only]
            continue
        open_ = np.ones(len(THRESHOLDS), dtype=bool)
        for kind in (near[regular[near]], near[~regular[near]]):
            # Ignored objects are looked at only where no regular one was taken.
            best = _best(np.where(free[:, kind], overlaps[place, kind], -1.0))
            levels = np.flatnonzero(open_ & (best >= 0))
            chosen = kind[best[levels]]
            free[levels, chosen] = False
            hits[levels, place] = regular[chosen]
            open_[levels] = False
    sums = np.cumsum(hits, axis=1) if len(overlaps) else np.zeros((len(THRESHOLDS), 1), np.int64)
    ends = [min(n, max(len(overlaps), 1)) - 1 for n in numbers]
    return Recalled(int(regular.sum()), numbers, sums[:, ends].T)


def _best(values: Real) -> npt.NDArray[np.intp]:
    """At each threshold the last of the highest values that reach it, or -1."""
    if not values.shape[1]:
        return np.full(len(values), -1)
    last = values.shape[1] - 1 - np.argmax(values[:, ::-1], axis=1)
    reached = values[np.arange(len(values)), last] >= THRESHOLDS
    return np.where(reached, last, -1)


def _boxes(masks: Sequence[Mask]) -> Real:
    return np.array([(*m.low, *m.high) for m in masks], dtype=np.float64)
