"""Loading SAM networks: SAM, SAM-HQ and MobileSAM from checkpoints, others from Hugging Face.

The decoder is our own for all of them: it returns all four masks in one pass, batches requests
that have mask prompts, and agrees with the authors' code where `transformers` does not (its SAM
decoder normalises with an epsilon of 1e-6 instead of 1e-5, its SAM-HQ decoder uses the image
embedding from before the transformer). SAM 2 is in `_sam2`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models import weights
from segmeter.models.checkpoints import Checkpoint, fill
from segmeter.models.sam._cuda_graphs import EncoderGraph
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_cells
from segmeter.models.sam._resizing import Frame, Padded, Squeezed
from segmeter.models.sam._vit import SamVit, TinyVit
from segmeter.models.sam.tensor_names import source_name

if TYPE_CHECKING:
    from segmeter.models.sam.model import Family

__all__ = ["pick_device"]

_CLASSES = {
    "sam": "SamModel",
    "sam-hq": "SamHQModel",
    "sam2": "Sam2Model",
    "sam3": "Sam3TrackerModel",
    "edgetam": "EdgeTamModel",
}


class HubNetwork:
    """A SAM in the layout of the hub: `config.json` and safetensors in a folder."""

    def __init__(self, hub_model: Any, family: Family, device: str, dtype: str) -> None:
        self.family = family
        self.second = family in ("sam2", "sam3", "edgetam")
        self.device = pick_device(device)
        self.dtype = pick_dtype(dtype)
        config = hub_model.config
        self.side, grid = _sizes(config.prompt_encoder_config)
        self.prompts = PromptEncoder(self.side, grid)
        quality = config.mask_decoder_config.vit_dim if family == "sam-hq" else 0
        self.decoder = MaskDecoder(fine=self.second, quality=quality)
        parts = torch.nn.ModuleDict({"prompt_encoder": self.prompts, "mask_decoder": self.decoder})
        parts.load_state_dict(decoder_tensors(hub_model.state_dict(), parts, self.second))
        for part in (hub_model, parts):
            part.eval().requires_grad_(False).to(self.device, self.dtype)
        self._hub_model = hub_model

    @classmethod
    def load(cls, path: Path, family: Family, device: str, dtype: str) -> HubNetwork:
        """From a folder; the tensors are read as float32 and turned to `dtype` afterwards."""
        import transformers

        made = getattr(transformers, _CLASSES[family], None)
        if made is None:
            raise NotFound(
                f"this version of transformers ({transformers.__version__}) has no "
                f"{_CLASSES[family]}; install a newer one"
            )
        if family == "edgetam" and importlib.util.find_spec("timm") is None:
            raise NotFound("EdgeTAM's image encoder needs the package 'timm'; install it")
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            hub_model, report = made.from_pretrained(
                path,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            reason = str(error).strip().split("\n")[0]
            raise BadWeights(f"'{path}' does not load as {_CLASSES[family]}: {reason}") from error
        absent = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
        if absent:
            raise BadWeights(
                f"'{path}' holds weights of another architecture than its config.json says: "
                f"'{absent[0]}' is missing or of another shape"
            )
        return cls(hub_model, family, device, dtype)

    def frame(self, shape: tuple[int, int]) -> Frame:
        if self.family == "sam3":
            half = (0.5, 0.5, 0.5)
            return Squeezed(shape, self.side, half, half)
        return Squeezed(shape, self.side) if self.second else Padded(shape, self.side)

    def encode(self, pixels: Tensor) -> Embedding:
        model, pixels = self._hub_model, pixels.to(self.dtype)
        if self.second:
            fine, middle, coarse = model.get_image_embeddings(pixels)
            return Embedding(_flat(coarse), (to_cells(middle, 1), to_cells(fine, 2)))
        if self.family == "sam":
            return Embedding(_flat(model.get_image_embeddings(pixels)))
        coarse, early = model.get_image_embeddings(pixels)
        quality = self.decoder.fuse(coarse, early[0].permute(0, 3, 1, 2))
        return Embedding(_flat(coarse), quality=quality)


class SamNetwork:
    """The first SAM in its authors' design: an encoder, a prompt encoder and a mask decoder."""

    second = False

    def __init__(
        self,
        encoder: SamVit | TinyVit,
        side: int = 1024,
        quality: int = 0,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        """With random weights; `load` fills them. `quality` is SAM-HQ's encoder width, or 0."""
        self.device, self.dtype, self.side = pick_device(device), pick_dtype(dtype), side
        self.encoder = encoder
        self.prompts = PromptEncoder(side, side // 16)
        self.decoder = MaskDecoder(quality=quality)
        self.parts = torch.nn.ModuleDict(
            {
                "image_encoder": self.encoder,
                "prompt_encoder": self.prompts,
                "mask_decoder": self.decoder,
            }
        )
        self.parts.eval().requires_grad_(False)
        self._quality = bool(quality)
        self._graph = EncoderGraph()

    @classmethod
    def sized(cls, checkpoint: Checkpoint, device: str, dtype: str) -> SamNetwork:
        """The network that a checkpoint is for, not filled yet."""
        if checkpoint.model in ("mobile-sam", "sam-hq-vit-tiny"):
            quality = 160 if checkpoint.model == "sam-hq-vit-tiny" else 0
            return cls(TinyVit(), quality=quality, device=device, dtype=dtype)
        encoder = SamVit.sized(_encoder_sizes(checkpoint))
        side, width = 16 * encoder.pos_embed.shape[1], encoder.pos_embed.shape[-1]
        quality = width if checkpoint.model.startswith("sam-hq") else 0
        return cls(encoder, side, quality, device, dtype)

    @classmethod
    def load(cls, checkpoint: Checkpoint, device: str, dtype: str) -> SamNetwork:
        """From a checkpoint, in float32 first and converted to `dtype` then."""
        with weights.unfilled():
            network = cls.sized(checkpoint, device, dtype)
        fill(network.parts, checkpoint)
        network.parts.to(network.device, network.dtype)
        return network

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Padded(shape, self.side)

    def encode(self, pixels: Tensor) -> Embedding:
        if self._quality:
            return self._with_quality(pixels.to(self.dtype))
        return self._graph(self._embedding, pixels)

    def _embedding(self, pixels: Tensor) -> Embedding:
        return Embedding(_flat(self.encoder(pixels.to(self.dtype))))

    def _with_quality(self, pixels: Tensor) -> Embedding:
        coarse, early = self.encoder.features(pixels)
        return Embedding(_flat(coarse), quality=self.decoder.fuse(coarse, early))


def mobile_sam(device: str = "cpu", dtype: str = "float32") -> SamNetwork:
    """MobileSAM with random weights."""
    return SamNetwork(TinyVit(), device=device, dtype=dtype)


def _encoder_sizes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """Shapes of the encoder's parameters by their names in `SamVit`."""
    start, blocks = (
        ("vision_encoder.", "layers.")
        if checkpoint.layout == "hub"
        else ("image_encoder.", "blocks.")
    )
    found = {}
    for name, tensor in checkpoint.tensors.items():
        if name.startswith(start):
            own = name.removeprefix(start).replace(blocks, "blocks.", 1)
            found[own] = tuple(tensor.shape)
    return found


def decoder_tensors(
    state: Mapping[str, Tensor], parts: torch.nn.Module, second: bool
) -> dict[str, Tensor]:
    """Prompt encoder and mask decoder of a `transformers` model under our names."""
    tensors = {}
    for name in parts.state_dict():
        source, row = source_name(name, "hub", second)
        tensors[name] = state[source] if row is None else state[source][row : row + 1]
    return tensors


def device_name(device: torch.device) -> str:
    """`cpu`, or which card it is: a report says on what its seconds were measured."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def pick_device(name: str) -> torch.device:
    """`auto` is the first CUDA device when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise BadInput(f"no device '{name}'; say auto, cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device '{name}' is asked for but torch sees no CUDA device here")
    return device


def pick_dtype(name: str) -> torch.dtype:
    dtypes = {t: getattr(torch, t) for t in ("float32", "float16", "bfloat16")}
    if name not in dtypes:
        raise BadInput(f"no dtype '{name}'; say one of {', '.join(dtypes)}")
    return dtypes[name]  # type: ignore[no-any-return]


def _flat(grid: Tensor) -> Tensor:
    return grid.flatten(2).transpose(1, 2).contiguous()


def _sizes(config: Any) -> tuple[int, int]:
    """Side of the image in pixels and in cells."""
    side, patch = config.image_size, config.patch_size
    side, patch = (v if isinstance(v, int) else v[0] for v in (side, patch))
    return side, side // patch
