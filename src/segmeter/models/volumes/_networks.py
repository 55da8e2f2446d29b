"""Networks of LiteMedSAM, MedSAM, SAM-Med2D and ScribblePrompt, and of SAM-Med3D and SegVol.

Those of the first three are filled from their published checkpoints. The last two are SAM's prompts
and decoder in three dimensions, written from the papers (Wang et al., arXiv 2310.15161; Du et al.,
NeurIPS 2024, arXiv 2311.13385); parameter names are those of the published checkpoints.

In three dimensions the cells stay a list of tokens `(requests, cells, channels)`. Positions follow
the original networks, which were trained with them: those of the cells have their first two axes
swapped against those of the points; in SAM-Med3D the sine stands twice, in SegVol the first two
coordinates of a point are divided by each other's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement
from segmeter.models.sam._decoder import (
    MaskDecoder,
    PromptTokens,
    mask_downscaling,
    named,
    to_tokens,
)
from segmeter.models.sam._loading import SamNetwork
from segmeter.models.sam._resizing import (
    DEVIATION,
    MEAN,
    Frame,
    Padded,
    Squeezed,
    antialiased,
    bilinear,
    channels,
    normalised,
    padded,
)
from segmeter.models.sam._vit import SamVit, TinyVit, VitBlock


@dataclass(frozen=True, slots=True)
class LiteMedSamFrame(Padded):
    """The long side fills 256 pixels, values are stretched to 0..1, the rest is zero."""

    side: int = 256

    @property
    def scale(self) -> tuple[float, float]:
        """One factor for both axes: sizes are rounded, places are not."""
        factor = self.side / max(self.shape)
        return factor, factor

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        resized = antialiased(channels(pixels, device), self.inside)
        return padded(_stretched(resized), self.side)


@dataclass(frozen=True, slots=True)
class MedSamFrame(Squeezed):
    """The slice fills 1024 x 1024 by bicubic curves, and values are stretched to 0..1."""

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        import cv2

        size = (self.side, self.side)
        values: npt.NDArray[np.float32] = np.ascontiguousarray(pixels, dtype=np.float32)
        if np.ptp(values) == 0:  # the curves' rounding would be stretched to full contrast
            return torch.zeros((1, 3, *size), device=device)
        resized = np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_CUBIC))
        return _stretched(channels(resized, device))

    def leave(self, logits: Tensor) -> Tensor:
        """Probabilities less a half: this kind is enlarged after the sigmoid."""
        return bilinear(logits.float().sigmoid(), self.shape) - 0.5


@dataclass(frozen=True, slots=True)
class SamMed2dFrame(Squeezed):
    """The slice fills 256 x 256 by nearest neighbours, after SAM's normalisation."""

    side: int = 256

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        normal = normalised(channels(pixels, device), MEAN, DEVIATION)
        return F.interpolate(normal, (self.side, self.side), mode="nearest")

    def leave(self, logits: Tensor) -> Tensor:
        return bilinear(bilinear(logits, (self.side, self.side)), self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, (self.side, self.side))


def _stretched(x: Tensor) -> Tensor:
    low, high = x.amin(), x.amax()
    return (x - low) / (high - low).clamp(min=1e-8)


_BUILT: Mapping[str, tuple[Callable[[], nn.Module], int, int, type[Frame]]] = {
    "litemedsam": (lambda: TinyVit(fine=True), 256, 64, LiteMedSamFrame),
    "medsam": (SamVit, 1024, 64, MedSamFrame),
    "sam-med2d": (lambda: SamVit(256, adapters=True), 256, 16, SamMed2dFrame),
}
"""Encoder, sides of the square and of the grid, and frame of each kind."""


class MedicalNetwork(SamNetwork):
    """An image encoder before the first SAM's prompt encoder and mask decoder."""

    def __init__(self, kind: str, device: str = "cpu", dtype: str = "float32") -> None:
        encoder, side, grid, self._frame = _BUILT[kind]
        super().__init__(encoder(), side, device=device, dtype=dtype, grid=grid)

    def frame(self, shape: tuple[int, int]) -> Frame:
        return self._frame(shape)


class ScribbleUNet(nn.Module):
    """Five channels `(B, 5, side, side)` to logits `(B, 1, side, side)`."""

    def __init__(self, width: int = 192, levels: int = 4) -> None:
        super().__init__()
        self.downs = nn.ModuleList([_layer(5 if i == 0 else width, width) for i in range(levels)])
        # Odd places only: the checkpoint counts the enlargements between them.
        self.ups = nn.ModuleList(
            [nn.Identity() if i % 2 == 0 else _layer(2 * width, width) for i in range(2 * levels)]
        )
        self.bottleneck = _layer(width, width)
        self.final_conv = _layer(width, 1, side=1, active=False)

    def forward(self, x: Tensor) -> Tensor:
        across: list[Tensor] = []
        for layer in self.downs:
            across.append(layer(x))
            x = F.max_pool2d(across[-1], 2)
        x = self.bottleneck(x)
        for layer, skipped in zip(self.ups[1::2], reversed(across), strict=True):
            larger = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            x = layer(torch.cat([skipped, larger], dim=1))
        return self.final_conv(x)


def _layer(width: int, out: int, side: int = 3, active: bool = True) -> nn.Sequential:
    """A convolution, and a PReLU with one slope for all channels."""
    convolution = nn.Conv2d(width, out, side, padding=side // 2)
    return named(conv=nn.Sequential(convolution, *([nn.PReLU()] if active else [])))


Size = tuple[int, int, int]
_PATCH = 16


class VolumePromptEncoder(PromptTokens):
    """Points in volumes as tokens; `cells` of the embedding along each axis."""

    def __init__(self, cells: Size, *shape: Any) -> None:
        super().__init__(*shape)
        self.cells = cells

    def padded(self, tokens: Tensor) -> Tensor:
        """Tokens with one behind them that is not a point."""
        padding = self.not_a_point_embed.weight.expand(len(tokens), 1, -1)
        return torch.cat([tokens, padding], dim=1)

    def position(self) -> Tensor:
        """Positional code of the cells, their first two axes swapped."""
        device = self.no_mask_embed.weight.device
        centres = [(torch.arange(n, device=device) + 0.5) / n for n in self.cells]
        first, second, third = torch.meshgrid(*centres, indexing="ij")
        code = self.pe_layer(torch.stack([second, first, third], dim=-1))
        return code.reshape(1, -1, code.shape[-1])


class VolumeMaskDecoder(MaskDecoder):
    """From cells and prompts to the single mask; the three of an ambiguous prompt rest.

    `norm` makes the norm between the two enlargements, by its channels.
    """

    def __init__(
        self, cells: Size, width: int, norm: Callable[[int], nn.Module] | None = None
    ) -> None:
        super().__init__(width=width, enlarger=nn.ConvTranspose3d, norm=norm)
        self.cells = cells

    def single(self, cells: Tensor, position: Tensor, sparse: Tensor) -> Tensor:
        """Logits of the single mask, four times as fine as the cells."""
        start = torch.cat([self._own_tokens().expand(len(sparse), -1, -1), sparse], dim=1)
        tokens, cells = self.transformer(start, cells, position)
        grid = cells.transpose(1, 2).reshape(len(cells), -1, *self.cells)
        head = self.output_hypernetworks_mlps[0](tokens[:, 1])
        return torch.einsum("bc,bcdhw->bdhw", head, self.output_upscaling(grid))


class SamMed3dNetwork(nn.Module):
    """Image encoder, prompt encoder and mask decoder for cubes of `side` voxels."""

    def __init__(self, side: int = 128, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.side = side
        cells = (side // _PATCH,) * 3
        self.image_encoder = SamVit(side, width, depth, heads, axes="dhw", out=384)
        masks = partial(mask_downscaling, convolution=nn.Conv3d)
        self.prompt_encoder = VolumePromptEncoder(cells, 384, 2, 3, 3, masks)
        self.mask_decoder = VolumeMaskDecoder(cells, 384)

    def encode(self, cube: Tensor) -> Tensor:
        """Cells `(1, cells, 384)` of a cube `(1, 1, side, side, side)`."""
        return to_tokens(self.image_encoder(cube)).contiguous()

    def decode(self, cells: Tensor, points: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Logits `(1, side / 4, ...)` for points `(n, 3)` and a low-resolution mask like them."""
        prompts = self.prompt_encoder
        sparse = prompts.padded(prompts.known((points[None] + 0.5) / self.side, labels[None]))
        dense = to_tokens(prompts.mask_downscaling(mask[None, None]))
        return self.mask_decoder.single(cells + dense, prompts.position(), sparse)


SPARE = ("text_encoder.", "pixel_mean", "pixel_std")


class SegVolNetwork(nn.Module):
    """A ViT on blocks of one size before SAM's decoder; its text encoder is left out."""

    def __init__(
        self,
        size: Size = (32, 256, 256),
        patch: Size = (4, 16, 16),
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
    ) -> None:
        super().__init__()
        self.size = size
        first, second, third = (n // p for n, p in zip(size, patch, strict=True))
        self.cells = (first, second, third)
        self.image_encoder = _Encoder(self.cells, patch, width, depth, heads)
        # The layers for masks and words are in the checkpoint but never used.
        self.prompt_encoder = VolumePromptEncoder(self.cells, width, 4, 3, 2, mask_downscaling)
        doubled = [2 * n for n in self.cells]
        self.mask_decoder = VolumeMaskDecoder(
            self.cells, width, lambda channels: nn.LayerNorm([channels, *doubled])
        )
        self.mask_decoder.txt_align_upscaled_embedding = nn.Linear(768, 96)

    def encode(self, block: Tensor) -> Tensor:
        """Cells `(1, cells, width)` of a block `(1, 1, *size)`."""
        return self.image_encoder(block)

    def decode(self, cells: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """Logits `size` for points `(n, 3)`; labels 0 and 1 are points, 2 and 3 corners."""
        prompts, (first, second, third) = self.prompt_encoder, self.size
        swapped = points.new_tensor([second, first, third])
        sparse = prompts.known((points[None] + 0.5) / swapped, labels[None])
        if not bool((labels >= 2).any()):  # points without a box are followed by a padding one
            sparse = prompts.padded(sparse)
        low = self.mask_decoder.single(cells + prompts.no_mask(), prompts.position(), sparse)
        return F.interpolate(low[:, None], self.size, mode="trilinear")[0, 0]


class _Encoder(nn.Module):
    """A plain ViT; every cell sees every other."""

    def __init__(self, cells: Size, patch: Size, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patch_embedding = _Patches(cells, patch, width)
        names, eps = ("linear1", "linear2"), 1e-5
        self.blocks = nn.ModuleList(
            [VitBlock(width, heads, layers=names, eps=eps, bias=False) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, block: Tensor) -> Tensor:
        x = self.patch_embedding(block)
        for layer in self.blocks:
            x = layer(x, None)
        return self.norm(x)


class _Patches(nn.Module):
    """Blocks of voxels as tokens; the checkpoint counts the cutting as a layer."""

    def __init__(self, cells: Size, patch: Size, width: int) -> None:
        super().__init__()
        self.cells, self.patch = cells, patch
        self.patch_embeddings = nn.ModuleList([nn.Identity(), nn.Linear(math.prod(patch), width)])
        self.position_embeddings = nn.Parameter(torch.zeros(1, math.prod(cells), width))

    def forward(self, block: Tensor) -> Tensor:
        (a, b, c), (p, q, r) = self.cells, self.patch
        cut = block.reshape(len(block), a, p, b, q, c, r).permute(0, 1, 3, 5, 2, 4, 6)
        tokens = self.patch_embeddings[1](cut.reshape(len(block), a * b * c, p * q * r))
        return tokens + self.position_embeddings
