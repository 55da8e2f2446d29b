"""Devices: whether what a model is to run on is there, asked once before anything runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput

__all__ = ["check_devices", "has_cuda"]


def check_devices(specs: Iterable[Spec]) -> None:
    """Refuse a GPU that is not there, in a sentence and not once per picture.

    >>> check_devices([Spec("mobile-sam", {"device": "cpu"})])
    """
    for spec in specs:
        device = str(spec.options.get("device", ""))
        if device.partition(":")[0] == "cuda" and not has_cuda():
            raise BadInput(f"'{spec}' wants a CUDA device and there is none here; use device=cpu")


def has_cuda() -> bool:
    """Whether there is a CUDA device; without torch there is none.

    >>> isinstance(has_cuda(), bool)
    True
    """
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
