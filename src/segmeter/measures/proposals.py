"""Proposals: how good is the best of the first N masks that a method offers?

An image has objects and a ranked list of proposals. For each object the best quality among
the first N counts, Jaccard's index J or the boundary's F; ties take the earliest. An object
in an image without proposals scores 0. `curve` follows N: mean over objects (J_instance),
median, recall at 0.5, 0.7 and 0.85 (strictly above), average recall (at or above 0.50,
0.55, ... 0.95), and J_class: pixels added up over the objects of a class first, always of
the proposals that are best by J.

    Pont-Tuset, Van Gool. Boosting object proposals: from Pascal to COCO. ICCV 2015.

Proposal recall: class-agnostic average recall of ranked proposals, image by image.

COCO's matching: proposals in rank order, each takes the free object that it overlaps most, if
by at least a threshold; recall is averaged over the thresholds 0.50, 0.55 .. 0.95. Objects of
another size than is asked for are ignored: they can be matched, but do not count.

Counts of images add up, so the number of a set and of every resampled set is a division.
Classes are ignored, and so is which classes were searched for in an image, unlike in evaluators
made for federated data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures.detection_matching import flags_at, pairwise_iou, taken_by
from segmeter.measures.tables import Real, Whole

Quality = Callable[[Mask, Mask], float]

NUMBERS: tuple[int, ...] = (
    *range(10, 101, 5),
    *range(125, 1001, 25),
    *range(1500, 6001, 500),
    100_000,
)
RECALL_LEVELS = (0.5, 0.7, 0.85)
_AVERAGE_LEVELS = np.arange(10, 20) / 20


@dataclass(frozen=True, slots=True)
class Judged:
    """One image: every object against every proposal, in rank order.

    All arrays are objects x proposals; `shared` and `union` count judged pixels.
    """

    quality: Real
    shared: Whole
    union: Whole
    classes: tuple[str, ...]

    @property
    def objects(self) -> int:
        return len(self.classes)

    @property
    def proposals(self) -> int:
        return int(self.quality.shape[1])

    @property
    def overlap(self) -> Real:
        """J of every object and proposal, whatever `quality` is."""
        return self.shared / self.union


@dataclass(frozen=True, slots=True)
class ProposalCurve:
    """Quality against number of proposals; arrays have one value per number asked for.

    `best` is objects x numbers, `mean_number` what was available on average over images.
    """

    numbers: tuple[int, ...]
    mean_number: Real
    best: Real
    instance: Real
    median: Real
    recall: Mapping[float, Real]
    average_recall: Real
    by_class: Mapping[str, Real]
    class_mean: Real


def judge(
    objects: Sequence[Mask],
    proposals: Sequence[Mask],
    *,
    classes: Sequence[str] | None = None,
    ignore: Mask | None = None,
    quality: Quality | None = None,
) -> Judged:
    """Compare all objects of an image with all its proposals.

    `quality` replaces J as what "best" means, for instance by a boundary measure; pixels
    of `ignore` are then cleared from both masks before it sees them.

    >>> whole = Mask.box((2, 4), (0, 0), (2, 4))
    >>> judge([whole], [Mask.box((2, 4), (0, 0), (2, 2)), whole]).quality.tolist()
    [[0.5, 1.0]]
    """
    names = tuple(classes) if classes is not None else ("",) * len(objects)
    if len(names) != len(objects):
        raise BadInput(f"{len(objects)} objects have {len(names)} class names; give one each")
    if ignore is not None:
        objects = [mask - ignore for mask in objects]
        proposals = [mask - ignore for mask in proposals]
    if not all(objects):
        raise BadInput("an object without a judged pixel has no best proposal; leave it out")
    size = (len(objects), len(proposals))
    shared = np.array([o.overlap(p) for o in objects for p in proposals], np.int64).reshape(size)
    areas = [np.array([mask.area for mask in side], np.int64) for side in (objects, proposals)]
    union = np.add.outer(*areas) - shared
    values = shared / union
    if quality is not None:
        found = [quality(o, p) for o in objects for p in proposals]
        values = np.array(found, np.float64).reshape(size)
    return Judged(values, shared, union, names)


def curve(images: Sequence[Judged], numbers: Sequence[int] = NUMBERS) -> ProposalCurve:
    """Follow the best proposal of each object as more proposals count.

    >>> ground_truth = Mask.box((4, 4), (0, 0), (2, 4))
    >>> image = judge([ground_truth], [Mask.box((4, 4), (0, 0), (1, 4)), ground_truth])
    >>> curve([image], [1, 2]).best.tolist()
    [[0.5, 1.0]]
    """
    if not any(image.objects for image in images):
        raise BadInput("proposals need at least one object to be judged by")
    if min(numbers) < 1:
        raise BadInput(f"a number of proposals is 1 or more, not {min(numbers)}")
    chosen = [_chosen(image.quality, numbers) for image in images]
    best = np.concatenate([_at(p.quality, c) for p, c in zip(images, chosen, strict=True)])
    available = np.array([[min(n, p.proposals) for n in numbers] for p in images])
    by_class = _by_class(images, [_chosen(image.overlap, numbers) for image in images])
    return ProposalCurve(
        numbers=tuple(numbers),
        mean_number=available.mean(axis=0),
        best=best,
        instance=best.mean(axis=0),
        median=np.median(best, axis=0),
        recall={level: (best > level).mean(axis=0) for level in RECALL_LEVELS},
        average_recall=(best[..., None] >= _AVERAGE_LEVELS).mean(axis=(0, 2)),
        by_class=by_class,
        class_mean=np.mean(list(by_class.values()), axis=0),
    )


def shuffled(image: Judged, rng: np.random.Generator) -> Judged:
    """The same image with its proposals in random order, for methods without a ranking.

    >>> ground_truth = Mask.box((4, 4), (0, 0), (2, 4))
    >>> image = judge([ground_truth], [Mask.box((4, 4), (0, 0), (1, 4)), ground_truth])
    >>> sorted(shuffled(image, np.random.default_rng(0)).quality[0].tolist())
    [0.5, 1.0]
    """
    order = rng.permutation(image.proposals)
    quality, shared, union = image.quality, image.shared, image.union
    return Judged(quality[:, order], shared[:, order], union[:, order], image.classes)


def _chosen(quality: Real, numbers: Sequence[int]) -> Whole:
    """Which proposal is best for each object among the first of each number; -1 for none."""
    objects, proposals = quality.shape
    if proposals == 0:
        return np.full((objects, len(numbers)), -1, dtype=np.int64)
    best = np.maximum.accumulate(quality, axis=1)
    better = np.diff(best, axis=1, prepend=-1.0) > 0
    places = np.where(better, np.arange(proposals), 0)
    running = np.maximum.accumulate(places, axis=1)
    return running[:, [min(n, proposals) - 1 for n in numbers]]


def _by_class(images: Sequence[Judged], chosen: Sequence[Whole]) -> dict[str, Real]:
    """J of added-up pixels a class; objects that were offered nothing add nothing."""
    names = np.array([name for image in images for name in image.classes])
    shared, unions = (
        np.concatenate([_at(a, c) for a, c in zip(arrays, chosen, strict=True)])
        for arrays in ([p.shared for p in images], [p.union for p in images])
    )
    found: dict[str, Real] = {}
    for name in sorted(set(names.tolist())):
        mine = names == name
        both, union = shared[mine].sum(axis=0), unions[mine].sum(axis=0)
        found[name] = np.divide(both, union, out=np.zeros(both.size), where=union > 0)
    return found


def _at(values: npt.NDArray[np.float64] | Whole, chosen: Whole) -> Real:
    """The chosen proposals' values, 0 where nothing was offered."""
    if values.shape[1] == 0:
        return np.zeros(chosen.shape)
    return np.take_along_axis(values, chosen, axis=1).astype(np.float64)


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
    """Recall of the first N proposals of an image, which come best first, by size of the objects.

    Objects are in the order of their classes, then of their file: of equal overlaps the later one
    is taken. `areas` are those that annotations state, by default of the masks; `sizes` are the
    limits of each size, both inside.

    >>> thing = Mask.box((9, 9), (0, 0), (4, 4))
    >>> recalled([thing], [Mask.box((9, 9), (0, 0), (4, 3))])["all"].average_recall
    array([0.6, 0.6, 0.6])
    """
    if not numbers or min(numbers) < 1:
        raise BadInput("recall is counted among the first 1 or more proposals")
    stated = np.array([t.area for t in ground_truths] if areas is None else areas, dtype=np.float64)
    if len(stated) != len(ground_truths):
        raise BadInput(f"{len(ground_truths)} objects have {len(stated)} areas; give one each")
    overlaps = pairwise_iou(proposals[: max(numbers)], ground_truths)
    return {
        name: _recalled(overlaps, (stated >= low) & (stated <= high), tuple(numbers))
        for name, (low, high) in sizes.items()
    }


def _recalled(overlaps: Real, regular: npt.NDArray[np.bool_], numbers: tuple[int, ...]) -> Recalled:
    taken = taken_by(overlaps, ~regular, np.zeros_like(regular))
    sums = np.cumsum(flags_at(regular, taken), axis=1, dtype=np.int64)
    if not len(overlaps):
        sums = np.zeros((len(taken), 1), np.int64)
    ends = [min(n, max(len(overlaps), 1)) - 1 for n in numbers]
    return Recalled(int(regular.sum()), numbers, sums[:, ends].T)
