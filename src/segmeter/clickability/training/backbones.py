"""A backbone that was trained before: MSCAN weights from a user's file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch import nn

from segmeter.clickability._segnext import Clickability
from segmeter.clickability.network import read_tensors
from segmeter.core.errors import BadWeights

__all__ = ["load_backbone"]

_PREFIXES = ("module.", "encoder_decoder.", "backbone.")


def load_backbone(network: Clickability, path: Path) -> None:
    """Fill the backbone from a checkpoint of MSCAN, SegNeXt, or a clickability network.

    Prefixes are dropped, the original's doubled name of the inner convolution is accepted,
    and tensors of heads are left aside; every tensor of the backbone must be there.
    """
    backbone = cast(nn.Module, network.encoder_decoder.backbone)
    given = {_plain(name): value for name, value in _flat(read_tensors(path)[0], path).items()}
    wanted = backbone.state_dict()
    for name, value in wanted.items():
        if name.endswith("num_batches_tracked"):
            given.setdefault(name, value)
        found = given.get(name)
        if found is None:
            raise BadWeights(f"'{path.name}' has no tensor '{name}' of the backbone")
        if found.shape != value.shape:
            sizes = [" x ".join(map(str, shape)) for shape in (found.shape, value.shape)]
            raise BadWeights(
                f"'{path.name}': '{name}' is {sizes[0]} instead of {sizes[1]}; "
                "choose the network size that fits the file"
            )
    backbone.load_state_dict({name: given[name] for name in wanted})


def _flat(state: dict[str, object], path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint, which may lie one level down under `state_dict`."""
    inner = state.get("state_dict", state)
    if not isinstance(inner, dict):
        raise BadWeights(f"'{path.name}' holds no tensors by name")
    return {k: v for k, v in inner.items() if isinstance(v, torch.Tensor)}


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace(".dwconv.dwconv.", ".dwconv.")
