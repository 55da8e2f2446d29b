"""Label maps: whole numbers from 0, one per pixel, that name the regions of a partition."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["Labels", "check_labels"]

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
