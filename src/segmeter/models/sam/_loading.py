"""Loading SAM networks from checkpoints and Hugging Face folders.

The decoder is our own for all of them: it returns all four masks in one pass, batches requests
that have mask prompts, and agrees with the authors' code where `transformers` does not (its SAM
decoder normalises with an epsilon of 1e-6 instead of 1e-5, its SAM-HQ decoder uses the image
embedding from before the transformer).
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from segmeter.core.errors import NotFound
from segmeter.models import weights
from segmeter.models.checkpoints import Checkpoint, fill, source_name
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_tokens
from segmeter.models.sam._hiera import encoder_of
from segmeter.models.sam._resizing import SAM3, Frame, Padded, Squeezed
from segmeter.models.sam._vit import SamVit, TinyVit

if TYPE_CHECKING:
    from segmeter.models.sam.model import Family

_CLASSES = {"sam3": "Sam3TrackerModel", "edgetam": "EdgeTamModel"}


class SamNetwork:
    """A SAM in its authors' design: an encoder, a prompt encoder and a mask decoder.

    `second` is for SAM 2, whose decoder takes finer maps too.
    """

    def __init__(
        self,
        encoder: Any,
        side: int = 1024,
        quality: int = 0,
        device: str = "cpu",
        dtype: str = "float32",
        *,
        second: bool = False,
        grid: int = 0,
    ) -> None:
        """With random weights; `filled` reads them. `quality` is SAM-HQ's encoder width, or 0."""
        self.device, self.dtype = weights.pick_device(device), weights.pick_dtype(dtype)
        self.side = side
        self.encoder, self.second, self._quality = encoder, second, bool(quality)
        self.prompts = PromptEncoder(side, grid or side // 16)
        width, token = (0, bool(quality)) if second else (quality, False)
        self.decoder = MaskDecoder(fine=second, quality=width, quality_token=token)
        named = {"prompt_encoder": self.prompts, "mask_decoder": self.decoder}
        named["vision_encoder" if second else "image_encoder"] = encoder
        if second:
            self._finer = FinerMaps()
            named["finer_maps"] = self._finer
        self.parts = torch.nn.ModuleDict(named)
        self.parts.eval().requires_grad_(False)

    @classmethod
    def sized(cls, checkpoint: Checkpoint, device: str, dtype: str) -> SamNetwork:
        """The network that a checkpoint is for, not filled yet."""
        model = checkpoint.model
        if checkpoint.second:
            encoder, side = encoder_of(checkpoint)
            return cls(encoder, side, int("-hq-" in model), device, dtype, second=True)
        if model in ("mobile-sam", "sam-hq-vit-tiny"):
            quality = 160 if model == "sam-hq-vit-tiny" else 0
            return cls(TinyVit(), quality=quality, device=device, dtype=dtype)
        vit = SamVit.sized(weights.sizes_of(checkpoint.tensors))
        side, width = 16 * vit.pos_embed.shape[1], vit.pos_embed.shape[-1]
        return cls(vit, side, width if model.startswith("sam-hq") else 0, device, dtype)

    @classmethod
    def load(cls, checkpoint: Checkpoint, device: str, dtype: str) -> SamNetwork:
        """From a checkpoint, in float32 first and converted to `dtype` then."""
        with weights.unfilled():
            network = cls.sized(checkpoint, device, dtype)
        return network.filled(checkpoint)

    def filled(self, checkpoint: Checkpoint) -> Self:
        fill(self.parts, checkpoint)
        self.parts.to(self.device, self.dtype)
        return self

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Squeezed(shape, self.side) if self.second else Padded(shape, self.side)

    def encode(self, pixels: Tensor) -> Embedding:
        if self.second:
            made = _pyramid(*self._finer(*self.encoder(pixels.to(self.dtype))))
            nothing = made.cells.new_zeros(len(pixels), 1, 1, 1)  # HQ-SAM 2 fuses no features
            return replace(made, quality=nothing) if self._quality else made
        if not self._quality:
            return Embedding(to_tokens(self.encoder(pixels.to(self.dtype))).contiguous())
        coarse, early = self.encoder.features(pixels.to(self.dtype))
        quality = self.decoder.embedding_encoder(coarse) + self.decoder.compress_vit_feat(early)
        return Embedding(to_tokens(coarse).contiguous(), quality=quality)


class HubNetwork(SamNetwork):
    """The image part of SAM 3's tracker or EdgeTAM, whose encoder `transformers` builds."""

    def __init__(self, hub_model: Any, family: Family, device: str, dtype: str) -> None:
        sizes = hub_model.config.prompt_encoder_config
        side, patch = (int(np.ravel(n)[0]) for n in (sizes.image_size, sizes.patch_size))
        grid = side // patch
        super().__init__(hub_model, side, device=device, dtype=dtype, second=True, grid=grid)
        own = torch.nn.ModuleDict({"prompt_encoder": self.prompts, "mask_decoder": self.decoder})
        theirs, tensors = hub_model.state_dict(), {}
        for name in own.state_dict():
            source, row = source_name(name, "hub", True)
            tensors[name] = theirs[source] if row is None else theirs[source][row : row + 1]
        own.load_state_dict(tensors)
        self.parts.to(self.device, self.dtype)
        self.family = family

    @classmethod
    def open(cls, path: Path, family: Family, device: str, dtype: str) -> HubNetwork:
        """From a folder; the tensors are read as float32 and turned to `dtype` afterwards."""
        if family == "edgetam" and importlib.util.find_spec("timm") is None:
            raise NotFound("EdgeTAM's image encoder needs the package 'timm'; install it")
        made = weights.pretrained(path, _CLASSES[family], family, dtype=torch.float32)
        return cls(made, family, device, dtype)

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Squeezed(shape, self.side, *(SAM3 if self.family == "sam3" else ()))

    def encode(self, pixels: Tensor) -> Embedding:
        return _pyramid(*self.encoder.get_image_embeddings(pixels.to(self.dtype)))


class FinerMaps(torch.nn.Module):
    """SAM 2's maps as its decoder takes them: the finer ones narrower, the coarse one marked."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.conv_s0 = torch.nn.Conv2d(width, width // 8, 1)
        self.conv_s1 = torch.nn.Conv2d(width, width // 4, 1)
        self.no_memory_embedding = torch.nn.Parameter(torch.zeros(1, 1, width))

    def forward(
        self, fine: Tensor, middle: Tensor, coarse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        marked = coarse + self.no_memory_embedding.reshape(1, -1, 1, 1)
        return self.conv_s0(fine), self.conv_s1(middle), marked


def _pyramid(fine: Tensor, middle: Tensor, coarse: Tensor) -> Embedding:
    # Channels last, as the decoder's products have them.
    middle, fine = (x.contiguous(memory_format=torch.channels_last) for x in (middle, fine))
    return Embedding(to_tokens(coarse).contiguous(), (middle, fine))
