"""Encodings of images kept from test to test, where an encoder is not what a test is about."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def remembering(folder: Path) -> Callable[[Any, Any], Any]:
    """`SamNetwork.encode`, which reads from the folder what equal weights made of equal pixels."""
    import torch

    from segmeter.models.sam._decoder import Embedding
    from segmeter.models.sam._loading import SamNetwork

    encode = SamNetwork.encode

    def encode_once(network: SamNetwork, pixels: torch.Tensor) -> Embedding:
        file = folder / f"{_digest(network, pixels)}.pt"
        if file.exists():
            return Embedding(*torch.load(file))
        made = encode(network, pixels)
        assert made.quality is None, "SAM-HQ's maps are not kept"
        written = file.with_suffix(f".{os.getpid()}")
        torch.save((made.cells, made.fine), written)
        written.replace(file)
        return made

    return encode_once


def _digest(network: Any, pixels: Any) -> str:
    parts = [network.parts[name] for name in network.parts if "encoder" in name or "finer" in name]
    held = [item for part in parts for item in part.state_dict().items()]
    # Counts of training steps are no part of what an encoder computes, and some files lack them.
    tensors = [tensor for name, tensor in held if not name.endswith("num_batches_tracked")]
    digest = hashlib.blake2b(repr((network.second, pixels.shape)).encode(), digest_size=16)
    for tensor in (*tensors, pixels):
        digest.update(tensor.detach().contiguous().numpy())
    return digest.hexdigest()
