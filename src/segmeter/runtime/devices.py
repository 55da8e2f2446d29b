"""Devices: which GPUs are there, and whether what a model is to run on is among them.

Torch takes seconds to import, so the driver is queried where possible: commands that plan, list
or run a classical segmenter need no torch.
"""

from __future__ import annotations

import ctypes
import importlib.util
import runpy
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.core.catalogue import Spec

__all__ = ["check_devices", "gpu_names", "has_cuda"]

_DRIVERS = ("libcuda.so.1", "nvcuda.dll")


def check_devices(specs: Iterable[Spec]) -> None:
    """Refuse a GPU that is not there, in a sentence and not once per image.

    >>> from segmeter.core.catalogue import Spec
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
    return bool(gpu_names())


@cache
def gpu_names() -> tuple[str, ...]:
    """The GPUs that torch would use, by name; none without a torch that can.

    >>> isinstance(gpu_names(), tuple)
    True
    """
    built = _built_for()
    if built.get("hip") or "torch" in sys.modules:
        return _names_by_torch()
    return _names_by_driver() if built.get("cuda") else ()


def _built_for() -> dict[str, Any]:
    """The platform that the installed torch was built for, read from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).with_name("version.py")
    return runpy.run_path(str(file)) if file.is_file() else {"cuda": "unknown"}


def _names_by_torch() -> tuple[str, ...]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return tuple(torch.cuda.get_device_name(i) for i in range(count))


def _names_by_driver() -> tuple[str, ...]:
    """By the driver's own library, which hides what CUDA_VISIBLE_DEVICES hides."""
    driver = _driver()
    count = ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    names = []
    for place in range(count.value):
        device, text = ctypes.c_int(), ctypes.create_string_buffer(128)
        if not driver.cuDeviceGet(ctypes.byref(device), place):
            driver.cuDeviceGetName(text, len(text), device)
        names.append(text.value.decode(errors="replace"))
    return tuple(names)


def _driver() -> Any:
    for name in _DRIVERS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
