"""Files of edge detectors and hierarchies: edge maps and ultrametric contour maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.datasets.image_files import MOST_PIXELS, SUFFIXES, read_values
from segmeter.datasets.matlab import read_mat
from segmeter.datasets.numpy_files import read_npy

__all__ = ["read_contour_map", "read_edge_map"]

Map = npt.NDArray[Any]
_MOST_VALUES = 4 * MOST_PIXELS  # a contour map has about four per pixel


def read_contour_map(path: Path, variable: str = "ucm2") -> Map:
    """A hierarchy as its contour map, `(2H + 1, 2W + 1)`: `.npy`, or `ucm2` of a `.mat`."""
    if path.suffix.lower() not in (".npy", ".mat"):
        raise BadInput(f"'{path}' is no contour map; give a .mat with '{variable}' or a .npy")
    levels = _numbers(path, variable)
    if any(side % 2 == 0 for side in levels.shape):
        size = " x ".join(map(str, levels.shape))
        raise BadInput(f"'{path}' is {size}; a contour map has 2H + 1 rows and 2W + 1 columns")
    return levels


def read_edge_map(path: Path, variable: str = "E") -> Map:
    """Edge strengths, `(H, W)`: a grey image as 0 to 1, a `.npy`, or a `.mat`'s variable."""
    if path.suffix.lower() not in SUFFIXES:
        return _numbers(path, variable)
    values = read_values(path)
    if values.ndim != 2:
        raise BadInput(f"'{path}' is in colour; an edge map is grey")
    return values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)


def _numbers(path: Path, variable: str) -> Map:
    """A finite H x W table of numbers of a `.npy` or `.mat` file."""
    if path.suffix.lower() == ".mat":
        array = np.asarray(read_mat(path, variable))
    elif path.suffix.lower() == ".npy":
        array = read_npy(path, _MOST_VALUES)
    else:
        raise BadInput(f"'{path}' is none of the kinds that hold numbers: .npy, .mat, an image")
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        size = " x ".join(map(str, array.shape))
        raise BadInput(f"'{path}' holds {array.dtype} of {size}; a map is H x W numbers")
    if not np.isfinite(array).all():
        raise BadInput(f"'{path}' holds values that are not finite; write it again")
    return array
