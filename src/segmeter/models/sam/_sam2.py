"""SAM 2, SAM 2.1 and HQ-SAM 2 from checkpoints or Hugging Face folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from segmeter.core.errors import BadWeights
from segmeter.models import weights
from segmeter.models.checkpoints import Checkpoint, fill
from segmeter.models.sam._cuda_graphs import EncoderGraph
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_cells
from segmeter.models.sam._frames import Frame, Squeezed
from segmeter.models.sam._hiera import HieraSizes, Sam2Encoder
from segmeter.models.sam._networks import pick_device, pick_dtype

__all__ = ["Sam2Network"]

_SIZES = {
    "tiny": HieraSizes(),
    "small": HieraSizes(blocks=(1, 2, 11, 2), everywhere=(7, 10, 13)),
    "base-plus": HieraSizes(
        blocks=(2, 3, 16, 3),
        widths=(112, 224, 448, 896),
        heads=(2, 4, 8, 16),
        everywhere=(12, 16, 20),
        background=(14, 14),
    ),
    "large": HieraSizes(
        blocks=(2, 6, 36, 4),
        widths=(144, 288, 576, 1152),
        heads=(2, 4, 8, 16),
        windows=(8, 4, 16, 8),
        everywhere=(23, 33, 43),
    ),
}
"""Heads, windows and global blocks cannot be read off a checkpoint's tensors."""


class Sam2Network:
    """SAM 2's encoder, prompt encoder and decoder, all our own."""

    second = True

    def __init__(
        self,
        sizes: HieraSizes,
        side: int = 1024,
        patch: int = 16,
        top_down: tuple[int, ...] = (2, 3),
        quality: bool = False,
    ) -> None:
        """With random weights on the CPU; `load` fills them. `quality` for HQ-SAM 2."""
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.side = side
        self.encoder = Sam2Encoder(sizes, top_down)
        self.prompts = PromptEncoder(side, side // patch)
        self.decoder = MaskDecoder(fine=True, quality_token=quality)
        self._quality = quality
        self.parts = torch.nn.ModuleDict(
            {
                "vision_encoder": self.encoder,
                "prompt_encoder": self.prompts,
                "mask_decoder": self.decoder,
            }
        )
        self.parts.eval().requires_grad_(False)
        self._graph = EncoderGraph()

    @classmethod
    def sized(cls, checkpoint: Checkpoint) -> Self:
        """The network that a checkpoint is for: by `config.json` if there is one, else by name."""
        quality = "-hq-" in checkpoint.model
        config = checkpoint.path / "config.json"
        if config.is_file() and checkpoint.layout == "hub":
            return cls._configured(json.loads(config.read_text()), checkpoint.path)
        return cls(_SIZES[checkpoint.model.partition("hiera-")[2]], quality=quality)

    @classmethod
    def load(cls, checkpoint: Checkpoint, device: str, dtype: str) -> Self:
        """From a checkpoint or a folder; in float32 first and converted to `dtype` then."""
        chosen = pick_device(device), pick_dtype(dtype)
        with weights.unfilled():
            network = cls.sized(checkpoint)
        fill(network.parts, checkpoint)
        return network.to(*chosen)

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """Moved to a device and a precision."""
        self.device, self.dtype = device, dtype
        self.parts.requires_grad_(False).to(device, dtype)
        return self

    @classmethod
    def _configured(cls, config: dict[str, Any], path: Path) -> Self:
        vision = config.get("vision_config") or {}
        backbone = vision.get("backbone_config") or {}
        for act in (vision.get("hidden_act"), backbone.get("hidden_act")):
            if act not in (None, "gelu"):
                raise BadWeights(f"'{path}' wants the activation '{act}', and SAM 2 has gelu")
        prompts = config.get("prompt_encoder_config") or {}
        side, patch = prompts.get("image_size", 1024), prompts.get("patch_size", 16)
        side, patch = (v if isinstance(v, int) else v[0] for v in (side, patch))
        top_down = vision.get("fpn_top_down_levels") or (2, 3)
        return cls(HieraSizes.of(backbone), side, patch, tuple(top_down))

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Squeezed(shape, self.side)

    def encode(self, pixels: Tensor) -> Embedding:
        if self._quality:
            return self._embedding(pixels)
        return self._graph(self._embedding, pixels)

    def _embedding(self, pixels: Tensor) -> Embedding:
        fine, middle, coarse = self.encoder(pixels.to(self.dtype))
        cells = coarse.flatten(2).transpose(1, 2).contiguous()
        quality = cells.new_zeros(()) if self._quality else None
        return Embedding(cells, (to_cells(middle, 1), to_cells(fine, 2)), quality)
