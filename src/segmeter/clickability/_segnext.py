"""SegNeXt-B with a stem for object and error region: the clickability network of RClicks.

MSCAN-B (Guo et al. 2022) and a LightHam head on all four stages; modules carry the names of
the published checkpoint, so that it loads by its own keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segmeter.models.sam._decoder import Scale, named


@dataclass(frozen=True, slots=True)
class Size:
    """Widths, depths and expansions of the stages, and the head's width and rank."""

    widths: tuple[int, int, int, int]
    depths: tuple[int, int, int, int]
    expansions: tuple[int, int, int, int]
    head: int
    rank: int = 16
    drop_path: float = 0.1


BASE = Size((64, 128, 320, 512), (3, 3, 12, 3), (8, 8, 4, 4), 512)
# `small` has MSCAN-T's backbone; `tiny` is for trying out on a processor.
SIZES = {
    "base": BASE,
    "small": Size((32, 64, 160, 256), (3, 3, 5, 2), (8, 8, 4, 4), 256),
    "tiny": Size((16, 32, 64, 96), (1, 1, 2, 1), (4, 4, 2, 2), 64),
}


class Clickability(nn.Module):
    """Image and (object, error region) in, clickability map out, 0 to 1 over the frame.

    `frame` is the side of the square it was trained on, `smooth` whether images are shrunk
    by area; published checkpoints have 416 and no smoothing.
    """

    def __init__(self, size: Size = BASE, frame: int = 416, smooth: bool = False) -> None:
        super().__init__()
        self.size, self.frame, self.smooth = size, frame, smooth
        self.maps_transform = nn.Sequential(
            nn.Conv2d(2, 16, 1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, size.widths[0], 3, 2, 1),
            Scale(),
        )
        self.encoder_decoder = nn.Module()
        self.encoder_decoder.backbone = _Backbone(size)
        self.encoder_decoder.decode_head = nn.ModuleList([_LightHam(size)])

    def logits(self, image: Tensor, maps: Tensor) -> Tensor:
        """(B, 1, H/4, W/4) from a normalised image (B, 3, H, W) and maps (B, 2, H, W)."""
        backbone = cast(_Backbone, self.encoder_decoder.backbone)
        head = cast(nn.ModuleList, self.encoder_decoder.decode_head)[0]
        return cast(Tensor, head(backbone(image, self.maps_transform(maps))))

    def forward(self, image: Tensor, maps: Tensor, epsilon: float = 1e-9) -> Tensor:
        """The map at the frame's size, stretched to 0..1 over the whole frame."""
        made, size = self.logits(image, maps), image.shape[-2:]
        wide = F.interpolate(made, size=size, mode="bilinear", align_corners=True)
        low = wide.amin(dim=(1, 2, 3), keepdim=True)
        high = wide.amax(dim=(1, 2, 3), keepdim=True)
        return (wide - low) / (high - low + epsilon)


class _Backbone(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        rates = torch.linspace(0, size.drop_path, sum(size.depths)).tolist()
        widths = size.widths
        first = nn.Sequential(  # two convolutions, a quarter of the size
            nn.Conv2d(3, widths[0] // 2, 3, 2, 1),
            nn.BatchNorm2d(widths[0] // 2),
            nn.GELU(),
            nn.Conv2d(widths[0] // 2, widths[0], 3, 2, 1),
            nn.BatchNorm2d(widths[0]),
        )
        self.patch_embed1 = named(proj=first)
        for stage in range(1, 4):
            before, width = widths[stage - 1 : stage + 1]
            smaller = named(proj=nn.Conv2d(before, width, 3, 2, 1), norm=nn.BatchNorm2d(width))
            self.add_module(f"patch_embed{stage + 1}", smaller)
        for stage in range(4):
            start = sum(size.depths[:stage])
            blocks = [
                _Block(widths[stage], size.expansions[stage], rates[start + j])
                for j in range(size.depths[stage])
            ]
            self.add_module(f"block{stage + 1}", nn.ModuleList(blocks))
            self.add_module(f"norm{stage + 1}", nn.LayerNorm(widths[stage]))

    def forward(self, image: Tensor, extra: Tensor) -> list[Tensor]:
        stages: list[Tensor] = []
        x = image
        for stage in range(1, 5):
            x = getattr(self, f"patch_embed{stage}")(x)
            if stage == 1:
                x = x + extra
            for block in getattr(self, f"block{stage}"):
                x = block(x)
            norm = getattr(self, f"norm{stage}")
            x = norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            stages.append(x)
        return stages


class _Block(nn.Module):
    """Attention by large kernels, then a mixing of channels, each on a scaled side path."""

    def __init__(self, width: int, expansion: int, drop: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width)
        self.attn = _Attention(width)
        self.norm2 = nn.BatchNorm2d(width)
        hidden = width * expansion
        self.mlp = named(
            fc1=nn.Conv2d(width, hidden, 1),
            dwconv=nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden),
            gelu=nn.GELU(),
            fc2=nn.Conv2d(hidden, width, 1),
        )
        self.layer_scale_1 = nn.Parameter(0.01 * torch.ones(width))
        self.layer_scale_2 = nn.Parameter(0.01 * torch.ones(width))
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._skipped(self.layer_scale_1[:, None, None] * self.attn(self.norm1(x)))
        return x + self._skipped(self.layer_scale_2[:, None, None] * self.mlp(self.norm2(x)))

    def _skipped(self, x: Tensor) -> Tensor:
        """Drop the whole side path of some images while training."""
        if not self.training or self.drop == 0:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.drop
        return x * kept / (1 - self.drop)


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj_1 = nn.Conv2d(width, width, 1)
        self.spatial_gating_unit = _Gate(width)
        self.proj_2 = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        gated = self.spatial_gating_unit(F.gelu(self.proj_1(x)))
        return cast(Tensor, self.proj_2(gated)) + x


class _Gate(nn.Module):
    """Strips of 7, 11 and 21 pixels, both ways, weigh what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(width, width, 5, padding=2, groups=width)
        for i, n in enumerate((7, 11, 21)):
            across = nn.Conv2d(width, width, (1, n), padding=(0, n // 2), groups=width)
            down = nn.Conv2d(width, width, (n, 1), padding=(n // 2, 0), groups=width)
            self.add_module(f"conv{i}_1", across)
            self.add_module(f"conv{i}_2", down)
        self.conv3 = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        near = self.conv0(x)
        strips = [getattr(self, f"conv{i}_2")(getattr(self, f"conv{i}_1")(near)) for i in range(3)]
        return cast(Tensor, self.conv3(near + strips[0] + strips[1] + strips[2])) * x


def _normed(before: int, width: int) -> nn.Sequential:
    groups = 32 if width % 32 == 0 else 8
    return named(conv=nn.Conv2d(before, width, 1, bias=False), gn=nn.GroupNorm(groups, width))


class _LightHam(nn.Module):
    """All four stages at the first one's size, seen as a whole by a factorisation."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.conv_seg = nn.Conv2d(size.head, 1, 1)
        self.squeeze = _normed(sum(size.widths), size.head)
        self.hamburger = _Hamburger(size.head, size.rank)
        self.align = _normed(size.head, size.head)
        self.dropout = nn.Dropout2d(0.1)

    def forward(self, stages: Sequence[Tensor]) -> Tensor:
        size = stages[0].shape[-2:]
        wide = [F.interpolate(s, size=size, mode="bilinear", align_corners=False) for s in stages]
        x = F.relu(self.squeeze(torch.cat(wide, dim=1)))
        x = F.relu(self.align(self.hamburger(x)))
        return cast(Tensor, self.conv_seg(self.dropout(x)))


class _Hamburger(nn.Module):
    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.ham_in = named(conv=nn.Conv2d(width, width, 1))
        self.ham = _Factorisation(width, rank)
        self.ham_out = _normed(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.ham_out(self.ham(F.relu(self.ham_in(x)))))


class _Factorisation(nn.Module):
    """Non-negative factors by multiplicative steps, from stored bases."""

    bases: Tensor

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        start = torch.rand(1, width, rank)
        self.register_buffer("bases", F.normalize(start, dim=1))

    def forward(self, x: Tensor) -> Tensor:
        batch, width, height, columns = x.shape
        flat = x.view(batch, width, height * columns)
        bases = self.bases.repeat(batch, 1, 1)
        with torch.no_grad():
            weights = F.softmax(flat.transpose(1, 2) @ bases, dim=-1)
            for _ in range(6 if self.training else 7):
                weights = _weights(flat, bases, weights)
                over = bases @ (weights.transpose(1, 2) @ weights) + 1e-6
                bases = bases * (flat @ weights) / over
        weights = _weights(flat, bases, weights)
        return (bases @ weights.transpose(1, 2)).view(batch, width, height, columns)


def _weights(flat: Tensor, bases: Tensor, weights: Tensor) -> Tensor:
    over = weights @ (bases.transpose(1, 2) @ bases) + 1e-6
    return weights * (flat.transpose(1, 2) @ bases) / over
