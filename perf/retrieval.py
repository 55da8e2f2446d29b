"""Retrieval: how well similarities find objects of the same class, with chance next to it.

Used by mask_embeddings.py; the numbers are those of golden values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.stats.intervals import Floats, Interval, Resampling

Ints = npt.NDArray[np.int64]


def cosines(vectors: npt.ArrayLike) -> Floats:
    """Cosine of every pair, rounded to 12 decimals so that equal vectors tie everywhere.

    >>> cosines([[1.0, 0.0], [2.0, 0.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    values = np.asarray(vectors, dtype=float)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(np.round(unit @ unit.T, 12))


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Per query: recall at 1, average precision and chance; `queries` are their places."""

    queries: Ints
    recall: Floats
    precision: Floats
    chance: Floats

    def interval(self, images: Sequence[object], values: Floats) -> Interval:
        """The mean of values per query, bootstrapped over images."""
        return Resampling([images[i] for i in self.queries], seed="retrieval").interval(values)


def retrieval(
    similarity: Floats, classes: Sequence[int], images: Sequence[int], *, same_image: bool
) -> Retrieval:
    """Rank candidates for every object, those of the same image or of all other images.

    A query needs a candidate of its class and one of another. Ties count as a group: recall at 1
    is the share of the class among the most similar, average precision is step-wise.

    >>> similar = cosines([[1.0, 0], [1, 0.1], [0, 1]])
    >>> retrieval(similar, [0, 0, 1], [0, 0, 0], same_image=True).recall.tolist()
    [1.0, 1.0]
    """
    kinds, places = np.asarray(classes), np.asarray(images)
    rows = []
    for query in range(len(kinds)):
        near = places == places[query]
        candidates = near if same_image else ~near
        candidates[query] = False
        right = kinds[candidates] == kinds[query]
        if right.any() and not right.all():
            values = similarity[query, candidates]
            best = values == values.max()
            found = _average_precision(values, right)
            rows.append((query, right[best].mean(), found, right.mean()))
    table = np.array(rows, dtype=float).reshape(-1, 4)
    return Retrieval(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], table[:, 3])


def pair_auroc(similarity: Floats, classes: Sequence[int], images: Sequence[int]) -> list[float]:
    """Per image with both kinds of pairs: chance that a pair of one class is more similar.

    >>> pair_auroc(cosines([[1.0, 0], [1, 0.1], [0, 1]]), [0, 0, 1], [0, 0, 0])
    [1.0]
    """
    kinds, places = np.asarray(classes), np.asarray(images)
    found = []
    for image in dict.fromkeys(places.tolist()):
        own = np.flatnonzero(places == image)
        first, second = np.triu_indices(len(own), 1)
        values = similarity[own[first], own[second]]
        same = kinds[own[first]] == kinds[own[second]]
        if same.any() and not same.all():
            above = values[same][:, None] - values[~same][None]
            found.append(float((above > 0).mean() + 0.5 * (above == 0).mean()))
    return found


def knn_accuracy(
    similarity: Floats, classes: Sequence[int], images: Sequence[int], k: int
) -> tuple[float, float, int]:
    """Accuracy and class-balanced accuracy of k nearest objects of other images, and queries.

    Votes are weighted by max(0, similarity); the smallest class wins ties. Only objects whose
    class occurs in another image are asked for.

    >>> knn_accuracy(cosines([[1.0, 0], [1, 0.1], [0, 1]]), [0, 0, 1], [0, 1, 1], 1)
    (1.0, 1.0, 2)
    """
    kinds, places = np.asarray(classes), np.asarray(images)
    right: dict[int, list[bool]] = {}
    for query in range(len(kinds)):
        candidates = np.flatnonzero(places != places[query])
        if not (kinds[candidates] == kinds[query]).any():
            continue
        order = candidates[np.argsort(-similarity[query, candidates], kind="stable")][:k]
        names = np.unique(kinds[order])
        votes = [np.maximum(0, similarity[query, order[kinds[order] == n]]).sum() for n in names]
        guess = names[int(np.argmax(np.round(votes, 12)))]
        right.setdefault(int(kinds[query]), []).append(bool(guess == kinds[query]))
    every = [hit for hits in right.values() for hit in hits]
    if not every:
        return float("nan"), float("nan"), 0
    balanced = float(np.mean([np.mean(hits) for hits in right.values()]))
    return float(np.mean(every)), balanced, len(every)


def _average_precision(values: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Step-wise area under precision and recall; equal values are one step."""
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)
    hits = np.cumsum(right[order])[ends]
    precision = hits / (ends + 1)
    steps = np.diff(hits, prepend=0) / hits[-1]
    return float((precision * steps).sum())
