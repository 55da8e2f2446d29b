"""The deterministic weights of `golden/networks/RULE.md`, for networks of a hundred million."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

EMBEDDED = ("_token.weight", "_tokens.weight", "_embed.weight")
AT_ONCE = 1 << 15  # doubles that stay in a processor's cache


def rule_tensor(key: str, shape: tuple[int, ...], floating: bool = True) -> Any:
    """The tensor that the rule gives to a key of a state dict.

    >>> rule_tensor("norm.weight", (2,)).round(2).tolist()
    [0.9200000166893005, 1.0299999713897705]
    """
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    last = key.rpartition(".")[2]
    if not floating:
        return np.zeros(shape, np.int64)
    if last == "running_var":
        return np.asarray(rng.uniform(1.0, 3.0, shape)).astype(np.float32)
    if last == "scale":
        return np.full(shape, -4.0, np.float32)
    made = np.empty(shape, np.float32)
    flat, normal = made.reshape(-1), np.empty(min(made.size, AT_ONCE))
    for start in range(0, made.size, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        drawn = rng.standard_normal(out=normal[: part.size])
        if last == "running_mean":
            drawn *= 0.1
        elif last == "weight" and len(shape) == 1:
            drawn *= 0.1
            drawn += 1.0
        elif len(shape) <= 1:
            drawn *= 0.05
        elif last != "weight" or "embeddings." in key or key.endswith(EMBEDDED):
            drawn *= 0.5
        else:
            drawn /= np.sqrt(np.prod(shape[1:]))
        part[:] = drawn
    return made
