"""Networks of RITM and SimpleClick.

RITM: HRNetV2, four resolutions side by side, joined again and again, with an OCR head; clicks and
previous mask are added in the stem. SimpleClick: a plain ViT with windows, a simple pyramid and an
all-MLP head. Module names are those of the published checkpoints, so that their files load as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segmeter.core.errors import BadInput
from segmeter.models.clicknets.containers import Ritm, SimpleClick
from segmeter.models.sam._decoder import Scale, channels_first, channels_last, named
from segmeter.models.sam._resizing import normalised
from segmeter.models.sam._vit import VitBlock

_COLOURS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation in 0..1


def enlarge(x: Tensor, size: Sequence[int]) -> Tensor:
    """Bilinear, corners on corners: the one resizing of the RITM family."""
    return F.interpolate(x, size=list(size), mode="bilinear", align_corners=True)


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


def _normed(convolution: nn.Conv2d, *more: nn.Module) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), *more)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, planes: int) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if inputs != outputs:
            self.downsample = _normed(nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class BasicBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(channels, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv3x3(channels, channels)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + x)


class Exchange(nn.Module):
    """One module of a stage: blocks on each branch, then all branches are fused."""

    def __init__(self, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        own = ([BasicBlock(width) for _ in range(blocks)] for width in widths)
        self.branches = nn.ModuleList(nn.Sequential(*branch) for branch in own)
        self.fuse_layers = nn.ModuleList(
            nn.ModuleDict({str(j): _path(widths, j, i) for j in range(len(widths)) if j != i})
            for i in range(len(widths))
        )

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        ys = [branch(x) for branch, x in zip(self.branches, inputs, strict=True)]
        return [self._fused(ys, i) for i in range(len(ys))]

    def _fused(self, ys: list[Tensor], i: int) -> Tensor:
        paths = self.fuse_layers[i]
        assert isinstance(paths, nn.ModuleDict)
        total: Tensor | None = None
        for j, y in enumerate(ys):
            term = y if j == i else paths[str(j)](y)
            if j > i:
                term = enlarge(term, ys[i].shape[-2:])
            total = term if total is None else total + term
        assert total is not None
        return F.relu(total)


def _path(widths: Sequence[int], source: int, goal: int) -> nn.Module:
    """From one branch to another: a 1x1 on the way up, strided 3x3 steps on the way down."""
    if source > goal:
        return _normed(nn.Conv2d(widths[source], widths[goal], 1, bias=False))
    steps: list[nn.Module] = []
    for level in range(source + 1, goal + 1):
        last = level == goal
        step = conv3x3(widths[source], widths[goal] if last else widths[source], stride=2)
        steps.append(_normed(step) if last else _normed(step, nn.ReLU()))
    return nn.Sequential(*steps)


def _new_branch(inputs: int, outputs: int, stride: int = 2) -> nn.Sequential:
    return _normed(conv3x3(inputs, outputs, stride), nn.ReLU())


class HRNet(nn.Module):
    """The backbone; `small` has fewer blocks and modules.

    Gives `15 * width` channels at a quarter of the input's resolution.
    """

    def __init__(self, width: int, small: bool) -> None:
        super().__init__()
        blocks = 2 if small else 4
        widths = [width * 2**level for level in range(4)]
        self.conv1 = conv3x3(3, 64, stride=2)
        self.bn1 = nn.BatchNorm2d(64)
        self.conv2 = conv3x3(64, 64, stride=2)
        self.bn2 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(*(Bottleneck(64 if k == 0 else 256, 64) for k in range(blocks)))
        first, *lower = (nn.Sequential(_new_branch(a, b)) for a, b in pairwise([256, *widths[1:]]))
        self.transition1 = nn.ModuleList([_new_branch(256, widths[0], 1), first])
        self.stage2 = nn.Sequential(Exchange(widths[:2], blocks))
        self.transition2 = nn.ModuleDict({"2": lower[0]})
        third, fourth = (3, 2) if small else (4, 3)
        self.stage3 = nn.Sequential(*(Exchange(widths[:3], blocks) for _ in range(third)))
        self.transition3 = nn.ModuleDict({"3": lower[1]})
        self.stage4 = nn.Sequential(*(Exchange(widths, blocks) for _ in range(fourth)))

    def features(self, image: Tensor, clicks: Tensor) -> Tensor:
        """`clicks` is the click branch's output, added inside the stem."""
        x = F.relu(self.bn1(self.conv1(image))) + clicks
        x = self.layer1(F.relu(self.bn2(self.conv2(x))))
        xs: list[Tensor] = [branch(x) for branch in self.transition1]
        xs = self.stage2(xs)
        xs = self.stage3([*xs, self.transition2["2"](xs[-1])])
        xs = self.stage4([*xs, self.transition3["3"](xs[-1])])
        size = xs[0].shape[-2:]
        return torch.cat([xs[0], *(enlarge(x, size) for x in xs[1:])], dim=1)


def gather(features: Tensor, logits: Tensor) -> Tensor:
    """The mean feature under the softmax of the auxiliary logits, `(B, C, 1, 1)`."""
    weights = torch.softmax(logits.flatten(2), dim=2)
    return torch.matmul(features.flatten(2), weights.transpose(1, 2)).unsqueeze(3)


class Distribute(nn.Module):
    """Concatenates context and features and mixes the two."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.object_context_block = _Context(width)
        self.conv_bn_dropout = nn.Sequential(
            nn.Conv2d(4 * width, 2 * width, 1, bias=False),
            nn.Sequential(nn.BatchNorm2d(2 * width), nn.ReLU()),
        )

    def forward(self, features: Tensor, context: Tensor) -> Tensor:
        spread = self.object_context_block(context).expand_as(features)
        return self.conv_bn_dropout(torch.cat([spread, features], dim=1))


class _Context(nn.Module):
    """The context every pixel receives.

    With one class each pixel attends to one region, so attention is 1 everywhere:
    `f_pixel` and `f_object` are in the checkpoints and cannot change the result.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.f_pixel = _ones(2 * width, width, width)
        self.f_object = _ones(2 * width, width, width)
        self.f_down = _ones(2 * width, width)
        self.f_up = _ones(width, 2 * width)

    def forward(self, context: Tensor) -> Tensor:
        return self.f_up(self.f_down(context))


def _ones(*widths: int) -> nn.Sequential:
    """1x1 convolutions, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers.append(nn.Conv2d(inputs, outputs, 1, bias=False))
        layers.append(nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU()))
    return nn.Sequential(*layers)


class _Extractor(HRNet):
    """Backbone and head under the one prefix that the checkpoints give them."""

    def __init__(self, width: int, small: bool, ocr_width: int) -> None:
        super().__init__(width, small)
        channels = 15 * width
        ocr, last = nn.Conv2d(channels, 2 * ocr_width, 3, padding=1), nn.Conv2d(channels, 1, 1)
        self.conv3x3_ocr = _normed(ocr, nn.ReLU())
        self.ocr_distri_head = Distribute(ocr_width)
        self.cls_head = nn.Conv2d(2 * ocr_width, 1, 1)
        self.aux_head = _normed(nn.Conv2d(channels, channels, 1), nn.ReLU(), last)

    def forward(self, image: Tensor, clicks: Tensor) -> Tensor:
        """Logits at a quarter of the resolution."""
        everything = self.features(image, clicks)
        features = self.conv3x3_ocr(everything)
        context = gather(features, self.aux_head(everything))
        return self.cls_head(self.ocr_distri_head(features, context))


class RitmNetwork(nn.Module):
    """Image `(B, 3, H, W)` in 0..1 and maps `(B, C, H, W)` to logits `(B, 1, H, W)`.

    Maps are the previous probabilities (where the network takes them), the positive and
    the negative discs.
    """

    def __init__(self, shape: Ritm) -> None:
        super().__init__()
        self.with_previous = shape.with_previous
        channels = 3 if shape.with_previous else 2
        self.maps_transform = nn.Sequential(
            nn.Conv2d(channels, 16, 1),
            nn.LeakyReLU(0.2) if shape.leaky else nn.ReLU(),
            nn.Conv2d(16, 64, 3, stride=2, padding=1),
            Scale(),
        )
        self.feature_extractor = _Extractor(shape.width, shape.small, shape.ocr_width)

    def forward(self, image: Tensor, maps: Tensor) -> Tensor:
        seen = normalised(image, *_COLOURS), self.maps_transform(maps)
        return enlarge(self.feature_extractor(*seen), image.shape[-2:])


_WINDOW_PX = 224


class _Backbone(nn.Module):
    def __init__(self, shape: SimpleClick) -> None:
        super().__init__()
        self.patch, self.depth = shape.patch, shape.depth
        self.grid = (shape.image // shape.patch, shape.image // shape.patch)
        dim = shape.dim
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.grid[0] * self.grid[1] + 1, dim))
        self.patch_embed = named(proj=nn.Conv2d(3, dim, shape.patch, shape.patch))
        layers, count = ("fc1", "fc2"), range(shape.depth)
        self.blocks = nn.ModuleList(VitBlock(dim, shape.heads, layers=layers) for _ in count)
        self.fc_norm = nn.LayerNorm(dim, eps=1e-6)  # left from pre-training, as is the head
        self.head = nn.Linear(dim, 1000)

    def forward(self, image: Tensor, clicks: Tensor) -> Tensor:
        grid = (image.shape[-2] // self.patch, image.shape[-1] // self.patch)
        windows = self._windows(grid)
        x = channels_last(self.patch_embed(image) + clicks + self.positions(grid))
        every = 6 if self.depth == 12 else self.depth // 4
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, windows if number % every else None)
        return channels_first(x)

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """The position embedding of a grid, bicubic when it is not the trained one."""
        table = self.pos_embed[:, 1:].transpose(1, 2).reshape(1, -1, *self.grid)
        if grid == self.grid:
            return table
        return F.interpolate(table, size=grid, mode="bicubic", align_corners=False)

    def _windows(self, grid: tuple[int, int]) -> tuple[int, int]:
        side = _WINDOW_PX // self.patch
        down, across = grid[0] // side, grid[1] // side
        if down < 1 or across < 1 or grid[0] % down or grid[1] % across:
            raise BadInput(
                f"SimpleClick cannot cut a grid of {grid[0]} x {grid[1]} patches into windows; "
                f"use a zoom target whose sides are multiples of {_WINDOW_PX}"
            )
        return grid[0] // down, grid[1] // across


_Norm = partial(nn.GroupNorm, 1)  # over all channels and pixels of one image


class _Neck(nn.Module):
    def __init__(self, dim: int, outs: tuple[int, int, int, int]) -> None:
        super().__init__()
        c4, c8, c32 = max(2 * outs[0], dim // 2), max(outs[1], dim // 2), max(outs[3], 2 * dim)
        self.down_4 = nn.Sequential(
            nn.ConvTranspose2d(dim, c4, 2, stride=2), _Norm(c4), nn.GELU(),
            nn.ConvTranspose2d(c4, c4 // 2, 2, stride=2), _Norm(c4 // 2),
            nn.Conv2d(c4 // 2, outs[0], 1), _Norm(outs[0]), nn.GELU(),
        )  # fmt: skip
        self.down_8 = nn.Sequential(
            nn.ConvTranspose2d(dim, c8, 2, stride=2), _Norm(c8),
            nn.Conv2d(c8, outs[1], 1), _Norm(outs[1]), nn.GELU(),
        )  # fmt: skip
        self.down_16 = nn.Sequential(nn.Conv2d(dim, outs[2], 1), _Norm(outs[2]), nn.GELU())
        self.down_32 = nn.Sequential(
            nn.Conv2d(dim, c32, 2, stride=2), _Norm(c32),
            nn.Conv2d(c32, outs[3], 1), _Norm(outs[3]), nn.GELU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.down_4(x), self.down_8(x), self.down_16(x), self.down_32(x)]


def _conv_relu(inputs: int, outputs: int) -> nn.Sequential:
    return named(conv=nn.Conv2d(inputs, outputs, 1), act=nn.ReLU())


class _Head(nn.Module):
    def __init__(self, ins: tuple[int, int, int, int], channels: int) -> None:
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, 1, 1)
        self.convs = nn.ModuleList(_conv_relu(width, channels) for width in ins)
        self.fusion_conv = _conv_relu(4 * channels, channels)
        # Every checkpoint holds these two; the released ones do not use them.
        self.up_conv1 = _double(channels)
        self.up_conv2 = _double(channels // 2)

    def forward(self, levels: list[Tensor]) -> Tensor:
        size = levels[0].shape[-2:]
        parts = [
            F.interpolate(conv(x), size=size, mode="bilinear", align_corners=False)
            for conv, x in zip(self.convs, levels, strict=True)
        ]
        return self.conv_seg(self.fusion_conv(torch.cat(parts, dim=1)))


def _double(channels: int) -> nn.Sequential:
    half = channels // 2
    return nn.Sequential(
        nn.ConvTranspose2d(channels, half, 2, stride=2), _Norm(half),
        nn.Conv2d(half, half, 1), _Norm(half),
    )  # fmt: skip


class SimpleClickNetwork(nn.Module):
    """Image `(B, 3, H, W)` in 0..1 and maps `(B, 3, H, W)` to logits `(B, 1, H, W)`."""

    with_previous = True

    def __init__(self, shape: SimpleClick) -> None:
        super().__init__()
        maps = nn.Conv2d(3, shape.dim, shape.patch, shape.patch)
        self.patch_embed_coords = named(proj=maps)
        self.backbone = _Backbone(shape)
        self.neck = _Neck(shape.dim, shape.neck)
        self.head = _Head(shape.neck, shape.head)

    def forward(self, image: Tensor, maps: Tensor) -> Tensor:
        tokens = self.backbone(normalised(image, *_COLOURS), self.patch_embed_coords(maps))
        return enlarge(self.head(self.neck(tokens)), image.shape[-2:])
