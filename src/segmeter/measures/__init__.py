"""Measures: pure functions of masks, partitions, boundaries and clicks.

Each is found by its name, with underscores: `segmeter.measures.iou`, `segmeter.measures.hd95`.

>>> import numpy as np
>>> import segmeter
>>> segmeter.measures.iou(np.array([[1, 1]]), np.array([[1, 0]]))
0.5
"""

from __future__ import annotations

import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    """A measure by its name; modules of this package are found as always."""
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from segmeter.core import catalogue
    from segmeter.core.errors import NotFound

    try:
        return catalogue.measures.make(name.replace("_", "-"))
    except NotFound as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    from segmeter.core import catalogue

    return [name.replace("-", "_") for name in catalogue.measures.names()]
