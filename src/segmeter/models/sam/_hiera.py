"""Hiera: SAM 2's image encoder with its neck, from the papers (arXiv 2306.00989 and 2408.00714).

Names of parameters and order of the arithmetic are those of `transformers`, so maps are equal bit
for bit (tests/models/sam/test_hiera.py). Without that library's import the first row of a run is
there after half the time: 7.6 and 8.0 s against 15.5 to 16.3 s on an H200 (perf/throughput.py).
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.core.errors import BadWeights
from segmeter.models.checkpoints import Checkpoint
from segmeter.models.sam._decoder import named
from segmeter.models.sam._vit import in_windows


def _sizes(width: int, heads: int, *own: Any) -> dict[str, Any]:
    """The numbers of a size by their names in `config.json`; widths and heads double by stage."""
    names = (
        "blocks_per_stage", "window_size_per_stage", "global_attention_blocks",
        "window_positional_embedding_background_size",
    )  # fmt: skip
    return {
        "embed_dim_per_stage": [width * n for n in (1, 2, 4, 8)],
        "num_attention_heads_per_stage": [heads * n for n in (1, 2, 4, 8)],
        **{"mlp_ratio": 4.0, "num_query_pool_stages": 3, "layer_norm_eps": 1e-6},
        **dict(zip(names, own, strict=True)),
    }


_SIZES: dict[str, dict[str, Any]] = {
    "tiny": _sizes(96, 1, [1, 2, 7, 2], [8, 4, 14, 7], [5, 7, 9], [7, 7]),
    "small": _sizes(96, 1, [1, 2, 11, 2], [8, 4, 14, 7], [7, 10, 13], [7, 7]),
    "base-plus": _sizes(112, 2, [2, 3, 16, 3], [8, 4, 14, 7], [12, 16, 20], [14, 14]),
    "large": _sizes(144, 2, [2, 6, 36, 4], [8, 4, 16, 8], [23, 33, 43], [7, 7]),
}
"""Heads, windows and global blocks cannot be read off a checkpoint's tensors."""

_MOST_SIDE = 1 << 13


class Sam2Encoder(nn.Module):
    """Images `(B, 3, side, side)` to the fine, middle and coarse maps `(B, 256, h, w)`."""

    def __init__(self, vision: dict[str, Any]) -> None:
        """`vision` is the `vision_config` of a `config.json`; what it lacks is SAM 2 tiny's."""
        super().__init__()
        backbone = vision.get("backbone_config") or {}
        for activation in (vision.get("hidden_act"), backbone.get("hidden_act")):
            if activation not in (None, "gelu"):
                raise ValueError(f"activation {activation!r:.40}, where SAM 2 has gelu")
        tiny = _SIZES["tiny"]
        sizes = tiny | {k: v for k, v in backbone.items() if k in tiny and v is not None}
        self.backbone = _Hiera(sizes)
        self.top_down = vision.get("fpn_top_down_levels") or [2, 3]
        laterals = [nn.Conv2d(own, 256, 1) for own in reversed(sizes["embed_dim_per_stage"])]
        self.neck = nn.ModuleDict({"convs": nn.ModuleList(laterals)})

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps = self.backbone(pixels)
        convs: Any = self.neck["convs"]
        made: list[Tensor] = []  # from the coarsest, which is added to the next where configured
        for conv, stage in zip(convs, reversed(range(len(maps))), strict=True):
            own = conv(maps[stage].permute(0, 3, 1, 2))
            if made and stage in self.top_down:
                own = own + F.interpolate(made[-1], scale_factor=2.0, mode="nearest")
            made.append(own)
        return made[3], made[2], made[1]


class _Hiera(nn.Module):
    """Four stages of blocks; each stage's last map, `(B, h, w, C)`, comes out."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__()
        width, window = sizes["embed_dim_per_stage"][0], sizes["window_size_per_stage"][0]
        coarse = sizes["window_positional_embedding_background_size"]
        self.patch_embed = nn.ModuleDict({"projection": nn.Conv2d(3, width, 7, 4, 3)})
        self.pos_embed = nn.Parameter(torch.zeros(1, width, *coarse))
        self.pos_embed_window = nn.Parameter(torch.zeros(1, width, window, window))
        self.blocks = nn.ModuleList()
        self.ends: list[int] = []
        for stage, count in enumerate(sizes["blocks_per_stage"]):
            for place in range(count):
                self.blocks.append(_Block(sizes, stage, place, len(self.blocks)))
            self.ends.append(len(self.blocks) - 1)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        x = self.patch_embed["projection"](pixels).permute(0, 2, 3, 1)
        x = x + self._position(x.shape[1], x.shape[2])
        maps = []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in self.ends:
                maps.append(x)
        return maps

    def _position(self, height: int, width: int) -> Tensor:
        """A coarse code enlarged, and a code of the place in a window, repeated."""
        coarse = F.interpolate(self.pos_embed, size=(height, width), mode="bicubic")
        side = self.pos_embed_window.shape[-1]
        repeated = self.pos_embed_window.tile(1, 1, height // side, width // side)
        return (coarse + repeated).permute(0, 2, 3, 1)


class _Block(nn.Module):
    """Attention within windows or over the whole map, then a perceptron.

    The first block of a later stage widens the map and halves its sides, still in the windows of
    the stage before.
    """

    def __init__(self, sizes: dict[str, Any], stage: int, place: int, number: int) -> None:
        super().__init__()
        first = stage > 0 and place == 0
        widths = sizes["embed_dim_per_stage"]
        narrow, wide = widths[stage - first], widths[stage]
        whole = number in sizes["global_attention_blocks"]
        self.window = 0 if whole else sizes["window_size_per_stage"][stage - first]
        self.halves = first and stage <= sizes["num_query_pool_stages"]
        self.layer_norm1 = nn.LayerNorm(narrow, sizes["layer_norm_eps"])
        heads = sizes["num_attention_heads_per_stage"][stage]
        self.attn = _Attention(narrow, wide, heads, self.halves)
        self.layer_norm2 = nn.LayerNorm(wide, sizes["layer_norm_eps"])
        inner = int(wide * sizes["mlp_ratio"])
        layers = {"proj_in": nn.Linear(wide, inner), "act": nn.GELU()}
        self.mlp = named(**layers, proj_out=nn.Linear(inner, wide))
        self.proj = nn.Linear(narrow, wide) if narrow != wide else None

    def forward(self, x: Tensor) -> Tensor:
        normal = self.layer_norm1(x)
        if self.proj is not None:
            x = _halved(self.proj(normal)) if self.halves else self.proj(normal)
        sides = (self.window, self.window)
        x = x + (in_windows(normal, sides, self.attn) if self.window else self.attn(normal))
        return x + self.mlp(self.layer_norm2(x))


class _Attention(nn.Module):
    """Self-attention of a map or window `(B, h, w, C)`; queries may be pooled two by two."""

    def __init__(self, narrow: int, wide: int, heads: int, halves: bool) -> None:
        super().__init__()
        self.heads, self.halves = heads, halves
        self.scale = (wide // heads) ** -0.5
        self.qkv = nn.Linear(narrow, 3 * wide)
        self.proj = nn.Linear(wide, wide)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, _ = x.shape
        each = self.qkv(x).reshape(batch, height * width, 3, self.heads, -1)
        query, key, value = each.unbind(2)
        if self.halves:
            pooled = _halved(query.reshape(batch, height, width, -1))
            height, width = pooled.shape[1:3]
            query = pooled.reshape(batch, height * width, self.heads, -1)
        q, k, v = (part.transpose(1, 2) for part in (query, key, value))
        mixed = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(batch, height, width, -1))


def _halved(x: Tensor) -> Tensor:
    return F.max_pool2d(x.permute(0, 3, 1, 2), 2, 2).permute(0, 2, 3, 1)


def encoder_of(checkpoint: Checkpoint) -> tuple[Sam2Encoder, int]:
    """The encoder that a checkpoint is for, and the side of its images in pixels.

    By `config.json` if there is one, else by the model's name.
    """
    file = checkpoint.path / "config.json"
    if checkpoint.layout != "hub" or not file.is_file():
        sizes = _SIZES[checkpoint.model.partition("hiera-")[2]]
        return Sam2Encoder({"backbone_config": sizes}), 1024
    config = json.loads(file.read_text("utf-8"))
    prompts = config.get("prompt_encoder_config") or {}
    side = prompts.get("image_size", 1024) if isinstance(prompts, dict) else None
    side = side[0] if isinstance(side, list) and side else side
    if not isinstance(side, int) or not 16 <= side <= _MOST_SIDE:
        raise BadWeights(f"'{checkpoint.path}' states images of {side!r:.40} pixels a side")
    try:
        return Sam2Encoder(config.get("vision_config") or {}), side
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as e:
        reason = " ".join(str(e).split())[:200]
        raise BadWeights(f"'{checkpoint.path}' has no config of a SAM 2 ({reason})") from e
