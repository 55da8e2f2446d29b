"""SAM 2 and 2.1 from a folder in the hub's layout, without the hub's library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from segmeter.core.errors import BadWeights
from segmeter.models import weights
from segmeter.models.sam._cuda_graphs import EncoderGraph
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_cells
from segmeter.models.sam._frames import Frame, Squeezed
from segmeter.models.sam._hiera import HieraSizes, Sam2Encoder, hub_names
from segmeter.models.sam._networks import decoder_tensors, pick_device, pick_dtype

__all__ = ["Sam2Network"]

_VIDEO_ONLY = (
    "memory_",
    "mask_downsample",
    "object_pointer_proj",
    "temporal_positional_encoding_projection_layer",
    "no_memory_positional_encoding",
    "no_object_pointer",
    "occlusion_spatial_embedding_parameter",
)
"""What files of the whole SAM 2 hold for following things from frame to frame."""

_OURS = (
    "vision_encoder.",
    "prompt_encoder.",
    "mask_decoder.",
    "no_memory_embedding",
    "shared_image_embedding.",
)


class Sam2Network:
    """SAM 2's encoder, prompt encoder and decoder, all our own."""

    second = True

    def __init__(
        self,
        sizes: HieraSizes,
        side: int = 1024,
        patch: int = 16,
        top_down: tuple[int, ...] = (2, 3),
    ) -> None:
        """With random weights on the CPU; `load` fills them."""
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.side = side
        self.encoder = Sam2Encoder(sizes, top_down)
        self.prompts = PromptEncoder(side, side // patch)
        self.decoder = MaskDecoder(fine=True)
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
    def load(cls, path: Path, device: str, dtype: str) -> Self:
        """From `config.json` and safetensors; read as float32 and turned to `dtype` then."""
        chosen = pick_device(device), pick_dtype(dtype)
        with weights.unfilled():
            network = cls._sized(json.loads((path / "config.json").read_text()), path)
        whole = {name: value.float() for name, value in weights.read(path).items()}
        try:
            tensors = network._own(whole)
        except KeyError as missing:
            raise BadWeights(
                f"the weights in '{path}' are of another architecture: they lack {missing}"
            ) from missing
        weights.load_into(network.parts, tensors, f"the weights in '{path}'", (), assign=True)
        return network.to(*chosen)

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """Moved to a device and a precision."""
        self.device, self.dtype = device, dtype
        self.parts.requires_grad_(False).to(device, dtype)
        return self

    @classmethod
    def _sized(cls, config: dict[str, Any], path: Path) -> Self:
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

    @staticmethod
    def _own(whole: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a hub's file by the names of our parts; strange ones stay as they are."""
        encoder = {f"vision_encoder.{name}": value for name, value in hub_names(whole).items()}
        strange = {k: v for k, v in whole.items() if not k.startswith((*_OURS, *_VIDEO_ONLY))}
        return decoder_tensors(whole) | encoder | strange

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Squeezed(shape, self.side)

    def encode(self, pixels: Tensor) -> Embedding:
        return self._graph(self._embedding, pixels)

    def _embedding(self, pixels: Tensor) -> Embedding:
        fine, middle, coarse = self.encoder(pixels.to(self.dtype))
        cells = coarse.flatten(2).transpose(1, 2).contiguous()
        return Embedding(cells, (to_cells(middle, 1), to_cells(fine, 2)))
