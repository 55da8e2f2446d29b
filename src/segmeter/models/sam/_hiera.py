"""Hiera: SAM 2's image encoder with its neck, as `transformers` has it.

An encoder of our own was 1.15 times as fast on an H200 and 1.15 times as fast to the first row of a
run on a CPU (perf/first_row.py), not the two times that would be worth its code.
"""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor, nn

from segmeter.core.errors import BadWeights
from segmeter.models.checkpoints import Checkpoint

_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "small": {"blocks_per_stage": [1, 2, 11, 2], "global_attention_blocks": [7, 10, 13]},
    "base-plus": {
        "blocks_per_stage": [2, 3, 16, 3],
        "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "global_attention_blocks": [12, 16, 20],
        "window_positional_embedding_background_size": [14, 14],
    },
    "large": {
        "blocks_per_stage": [2, 6, 36, 4],
        "embed_dim_per_stage": [144, 288, 576, 1152],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_size_per_stage": [8, 4, 16, 8],
        "global_attention_blocks": [23, 33, 43],
    },
}
"""Heads, windows and global blocks cannot be read off a checkpoint's tensors."""

_MOST_SIDE = 1 << 13


class Sam2Encoder(nn.Module):
    """Images `(B, 3, side, side)` to the fine, middle and coarse maps `(B, 256, h, w)`."""

    def __init__(self, vision: dict[str, Any]) -> None:
        """`vision` is the `vision_config` of a `config.json`."""
        super().__init__()
        from transformers import Sam2VisionConfig
        from transformers.models.sam2.modeling_sam2 import Sam2HieraDetModel, Sam2VisionNeck

        config: Any = Sam2VisionConfig(**vision)
        self.backbone: Any = Sam2HieraDetModel(config.backbone_config)
        self.neck = Sam2VisionNeck(config)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps = self.backbone(pixels).intermediate_hidden_states
        _, coarse, middle, fine = self.neck(maps)[0]
        return fine, middle, coarse


def encoder_of(checkpoint: Checkpoint) -> Sam2Encoder:
    """The encoder that a checkpoint is for: by `config.json` if there is one, else by name."""
    config = _config(checkpoint)
    if config is None:
        backbone = _SIZES[checkpoint.model.partition("hiera-")[2]]
        widths = backbone.get("embed_dim_per_stage", [96, 192, 384, 768])
        kind = {"model_type": "sam2_hiera_det_model", "hidden_size": widths[0], **backbone}
        return Sam2Encoder({"backbone_config": kind, "backbone_channel_list": widths[::-1]})
    try:
        return Sam2Encoder(config.get("vision_config") or {})
    except Exception as error:  # transformers checks a config with error classes of its own
        reason = " ".join(str(error).split())[:200]
        raise BadWeights(f"'{checkpoint.path}' has no config of a SAM 2 ({reason})") from error


def image_side(checkpoint: Checkpoint) -> int:
    """Side of the network's input in pixels."""
    prompts = (_config(checkpoint) or {}).get("prompt_encoder_config") or {}
    side = prompts.get("image_size", 1024) if isinstance(prompts, dict) else None
    side = side[0] if isinstance(side, list) and side else side
    if not isinstance(side, int) or not 16 <= side <= _MOST_SIDE:
        raise BadWeights(f"'{checkpoint.path}' states images of {side!r:.40} pixels a side")
    return side


def _config(checkpoint: Checkpoint) -> Any:
    file = checkpoint.path / "config.json"
    return json.loads(file.read_text()) if file.is_file() and checkpoint.layout == "hub" else None
