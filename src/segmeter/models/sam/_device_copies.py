"""Copies between the host and a device, of which a GPU makes its own while the host goes on.

A plain copy waits until the device has done all that was asked of it before; from and to
pinned memory it takes its turn among the device's other work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["all_done", "arriving", "constant", "fetched", "leaving"]


def arriving(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """An array on the device; it must be writeable, since torch knows no other."""
    host = torch.from_numpy(array)
    if device.type != "cuda":
        return host.to(device)
    pinned = torch.empty(host.shape, dtype=host.dtype, pin_memory=True)
    np.copyto(pinned.numpy(), array)  # torch would wake all its threads for it
    return pinned.to(device, non_blocking=True)


@lru_cache(maxsize=256)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Some numbers on the device, sent once; nobody writes to them."""
    return torch.tensor(values, device=device)


def leaving(tensor: Tensor) -> Tensor:
    """A copy on the host that is there once the device has come so far."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor, non_blocking=True)


def all_done(device: torch.device) -> Callable[[], None]:
    """What waits for all that the device has been asked for until now."""
    if device.type != "cuda":
        return _nothing  # copies to the host have waited
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has none
    done.record(torch.cuda.current_stream(device))
    return done.synchronize


def _nothing() -> None:
    """Nothing is under way."""


def fetched(bits: Tensor) -> npt.NDArray[np.bool_]:
    """Bits on the host, through memory that a GPU may write to by itself: four times as fast."""
    host = torch.empty(bits.shape, dtype=torch.bool, pin_memory=bits.is_cuda)
    found: npt.NDArray[np.bool_] = host.copy_(bits).numpy()
    return found
