"""Metrics as objects that are updated batch by batch, like those of torchmetrics.

>>> import numpy as np
>>> import segmeter
>>> iou = segmeter.metrics.Metric("iou")
>>> for preds, target in [(np.ones((2, 4, 4)), np.ones((2, 4, 4)))]:  # a loader's batches
...     iou.update(preds, target)
1.0
>>> iou.compute()
1.0

Arguments are `(preds, target)`, in the order of torchmetrics; measures themselves take the ground
truth first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import Measure, as_array, mask_measure

__all__ = ["Metric", "MetricCollection"]


class Metric:
    """The mean of a measure over all masks that it was updated with.

    Parameters
    ----------
    measure
        A name of `list_measures()` that compares two masks, or such a measure.

    Examples
    --------
    >>> import numpy as np
    >>> import segmeter
    >>> iou = segmeter.metrics.Metric("iou")
    >>> iou.update(preds=np.array([[[1, 0]], [[1, 1]]]), target=np.array([[[1, 1]], [[1, 1]]]))
    0.75
    >>> iou.compute(), iou.count
    (0.75, 2)
    """

    def __init__(self, measure: str | Measure[Any]) -> None:
        self.name = measure if isinstance(measure, str) else measure.id
        mask_measure(self.name)  # refused now if it does not compare two masks
        self.values: list[float] = []

    @property
    def count(self) -> int:
        """How many masks were compared."""
        return len(self.values)

    def update(self, preds: Any, target: Any, ignore: Any = None) -> float:
        """Compare predictions with targets and return their mean: a pair `(H, W)` or `(N, H, W)`.

        A channel of size one, `(N, 1, H, W)`, is dropped. Arrays and tensors on any device work;
        all non-zero values are foreground, so threshold logits and probabilities first. A volume
        is a batch of one, `(1, Z, Y, X)`. Pixels in `ignore` are not scored.
        """
        given = [one for one in (target, preds, ignore) if one is not None]
        shapes = [tuple(np.shape(one)) for one in given]
        if len(set(shapes)) > 1:
            known = " and ".join(map(str, (shapes[1], shapes[0], *shapes[2:])))
            raise BadInput(f"predictions, targets and what to ignore differ in shape: {known}")
        volumes = len(shapes[0]) == 4 and shapes[0][1] != 1
        sides = 3 if volumes else 2
        judged = mask_measure(self.name)
        found = [judged(*pair) for pair in zip(*(_masks(g, sides) for g in given), strict=True)]
        self.values += found
        return math.fsum(found) / len(found) if found else math.nan

    def compute(self) -> float:
        """The mean of all values so far."""
        if not self.values:
            raise BadInput(f"'{self.name}' has no masks yet; call update() first")
        return math.fsum(self.values) / len(self.values)

    def reset(self) -> None:
        """Reset all values."""
        self.values = []

    def merge_state(self, other: Metric) -> None:
        """Add the values of another metric of the same measure, as from another process."""
        if other.name != self.name:
            raise BadInput(f"'{other.name}' cannot be merged into '{self.name}'")
        self.values += other.values

    __call__ = update

    def __repr__(self) -> str:
        return f"Metric({self.name!r}, count={self.count})"


def _masks(given: Any, sides: int) -> list[Mask]:
    """The masks of a batch, or a single one."""
    if isinstance(given, Mask):
        return [given]
    array = as_array(given)
    if array.ndim == sides + 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == sides:
        return [Mask.of(array)]
    if array.ndim != sides + 1:
        raise BadInput(
            f"masks are (H, W), (N, H, W), (N, 1, H, W) or volumes (N, Z, Y, X), not {array.shape}"
        )
    return [Mask.of(one) for one in array]


class MetricCollection:
    """Several metrics that are updated together.

    Examples
    --------
    >>> import numpy as np
    >>> import segmeter
    >>> both = segmeter.metrics.MetricCollection(["iou", "dice"])
    >>> both.update(preds=np.array([[1, 0]]), target=np.array([[1, 1]]))
    >>> both.compute()["iou"]
    0.5
    """

    def __init__(self, measures: Sequence[str | Measure[Any]]) -> None:
        made = [Metric(measure) for measure in measures]
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in made}

    def update(self, preds: Any, target: Any, ignore: Any = None) -> None:
        """Update every metric."""
        for metric in self.metrics.values():
            metric.update(preds, target, ignore)

    def compute(self) -> dict[str, float]:
        """The means by name."""
        return {name: metric.compute() for name, metric in self.metrics.items()}

    def reset(self) -> None:
        """Reset all values."""
        for metric in self.metrics.values():
            metric.reset()

    def merge_state(self, other: MetricCollection) -> None:
        """Add the values of another collection of the same measures."""
        for name, metric in self.metrics.items():
            metric.merge_state(other.metrics[name])
