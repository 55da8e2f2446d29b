"""SAM 2, SAM 2.1 and HQ-SAM 2 from checkpoints or Hugging Face folders.

The image encoder (Hiera with SAM 2's neck) is written from the papers of Hiera (arXiv 2306.00989)
and SAM 2 (2408.00714); parameter names are those of the hub's files. The order of the arithmetic is
that of `transformers`, so embeddings are equal bit for bit (tests/models/sam/test_hiera.py). It is
1.15 times as fast on an H200 (`perf/decoder_paths.py`), and 3.2 times as fast to import and load
on a CPU, which decides when the first row of a run is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.core.errors import BadWeights
from segmeter.models import weights
from segmeter.models.checkpoints import Checkpoint, fill
from segmeter.models.sam._cuda_graphs import EncoderGraph
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_cells
from segmeter.models.sam._loading import pick_device, pick_dtype
from segmeter.models.sam._resizing import Frame, Squeezed


@dataclass(frozen=True, slots=True)
class HieraSizes:
    """Sizes of a Hiera; the defaults are SAM 2 tiny's.

    `windows` is the side of a stage's attention windows; blocks in `everywhere` have none and
    look at the whole image. A stage after the first starts with a block that halves both
    sides while it still has the windows of the stage before.
    """

    blocks: tuple[int, ...] = (1, 2, 7, 2)
    widths: tuple[int, ...] = (96, 192, 384, 768)
    heads: tuple[int, ...] = (1, 2, 4, 8)
    windows: tuple[int, ...] = (8, 4, 14, 7)
    everywhere: tuple[int, ...] = (5, 7, 9)
    background: tuple[int, int] = (7, 7)
    wider: float = 4.0
    halvings: int = 3
    epsilon: float = 1e-6

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """From the `backbone_config` of a hub's `config.json`."""
        names = {
            "blocks": "blocks_per_stage",
            "widths": "embed_dim_per_stage",
            "heads": "num_attention_heads_per_stage",
            "windows": "window_size_per_stage",
            "everywhere": "global_attention_blocks",
            "background": "window_positional_embedding_background_size",
            "wider": "mlp_ratio",
            "halvings": "num_query_pool_stages",
            "epsilon": "layer_norm_eps",
        }
        given: dict[str, Any] = {}
        for own, name in names.items():
            value = config.get(name)
            if value is not None:
                given[own] = tuple(value) if isinstance(value, list) else value
        return cls(**given)


class Hiera(nn.Module):
    """Four stages of blocks; each stage's last map, `(B, h, w, C)`, comes out."""

    def __init__(self, sizes: HieraSizes) -> None:
        super().__init__()
        width, window = sizes.widths[0], sizes.windows[0]
        self.patch_embed = nn.ModuleDict({"projection": nn.Conv2d(3, width, 7, 4, 3)})
        self.pos_embed = nn.Parameter(torch.zeros(1, width, *sizes.background))
        self.pos_embed_window = nn.Parameter(torch.zeros(1, width, window, window))
        self.blocks = nn.ModuleList()
        self.ends: list[int] = []
        for stage, count in enumerate(sizes.blocks):
            for place in range(count):
                self.blocks.append(_block(sizes, stage, place, len(self.blocks)))
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


def _block(sizes: HieraSizes, stage: int, place: int, number: int) -> _Block:
    first = stage > 0 and place == 0
    window = 0 if number in sizes.everywhere else sizes.windows[stage - first]
    narrow, wide = sizes.widths[stage - first], sizes.widths[stage]
    halves = first and stage <= sizes.halvings
    return _Block(narrow, wide, sizes.heads[stage], window, halves, sizes)


class _Block(nn.Module):
    """Attention within windows, then a perceptron; may halve the map and widen it."""

    def __init__(
        self, narrow: int, wide: int, heads: int, window: int, halves: bool, sizes: HieraSizes
    ) -> None:
        super().__init__()
        self.window, self.halves = window, halves
        self.layer_norm1 = nn.LayerNorm(narrow, sizes.epsilon)
        self.attn = _Attention(narrow, wide, heads, halves)
        self.layer_norm2 = nn.LayerNorm(wide, sizes.epsilon)
        self.mlp = _TwoLayers(wide, int(wide * sizes.wider))
        self.proj = nn.Linear(narrow, wide) if narrow != wide else None

    def forward(self, x: Tensor) -> Tensor:
        normal = self.layer_norm1(x)
        if self.proj is not None:
            wide = self.proj(normal)
            x = _halved(wide) if self.halves else wide
        x = x + self._attended(normal, x.shape[1], x.shape[2])
        out: Tensor = x + self.mlp(self.layer_norm2(x))
        return out

    def _attended(self, x: Tensor, height: int, width: int) -> Tensor:
        """Attention on `(B, h, w, C)`; the answer has the given height and width."""
        if not self.window:
            whole: Tensor = self.attn(x)
            return whole
        side = self.window // 2 if self.halves else self.window
        windows = self.attn(_in_windows(x, self.window))
        return _out_of_windows(windows, side, height, width)


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
        out: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, height, width, -1))
        return out


class _TwoLayers(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj_in = nn.Linear(width, inner)
        self.proj_out = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.proj_out(F.gelu(self.proj_in(x)))
        return out


class Sam2Encoder(nn.Module):
    """Hiera, the neck that brings its maps to one width, and what the decoder needs of them.

    Attributes
    ----------
    top_down
        Stages to whose map the next coarser one is added, enlarged.
    """

    def __init__(self, sizes: HieraSizes, top_down: tuple[int, ...] = (2, 3), width: int = 256):
        super().__init__()
        self.top_down = top_down
        self.backbone = Hiera(sizes)
        laterals = [nn.Conv2d(own, width, 1) for own in reversed(sizes.widths)]
        self.neck = nn.ModuleDict({"convs": nn.ModuleList(laterals)})
        self.conv_s0 = nn.Conv2d(width, width // 8, 1)
        self.conv_s1 = nn.Conv2d(width, width // 4, 1)
        self.no_memory_embedding = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Fine, middle and coarse maps `(B, C, h, w)` of images `(B, 3, side, side)`."""
        fine, middle, coarse, _ = self._pyramid(self.backbone(pixels))
        coarse = coarse + self.no_memory_embedding.reshape(1, -1, 1, 1)
        return self.conv_s0(fine), self.conv_s1(middle), coarse

    def _pyramid(self, maps: list[Tensor]) -> list[Tensor]:
        """One width for all maps, from the finest; coarser ones are added where configured."""
        convs: Any = self.neck["convs"]
        last = len(maps) - 1
        made: list[Tensor] = []
        for stage in range(last, -1, -1):
            own = convs[last - stage](maps[stage].permute(0, 3, 1, 2))
            if made and stage in self.top_down:
                own = own + F.interpolate(made[-1], scale_factor=2.0, mode="nearest")
            made.append(own)
        return made[::-1]


def _halved(x: Tensor) -> Tensor:
    """The largest of each two by two pixels of `(B, h, w, C)`."""
    return F.max_pool2d(x.permute(0, 3, 1, 2), 2, 2).permute(0, 2, 3, 1)


def _in_windows(x: Tensor, side: int) -> Tensor:
    """A map `(B, h, w, C)`, padded by zeros, as windows `(B * count, side, side, C)`."""
    batch, height, width, channels = x.shape
    x = F.pad(x, (0, 0, 0, -width % side, 0, -height % side))
    rows, columns = x.shape[1] // side, x.shape[2] // side
    split = x.view(batch, rows, side, columns, side, channels)
    return split.permute(0, 1, 3, 2, 4, 5).reshape(-1, side, side, channels)


def _out_of_windows(windows: Tensor, side: int, height: int, width: int) -> Tensor:
    """The inverse: the map `(B, height, width, C)` without its padding."""
    rows, columns = -(-height // side), -(-width // side)
    split = windows.view(-1, rows, columns, side, side, windows.shape[-1])
    whole = split.permute(0, 1, 3, 2, 4, 5).reshape(
        -1, rows * side, columns * side, split.shape[-1]
    )
    return whole[:, :height, :width].contiguous()


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
