"""Loading SAM networks: image encoders from `transformers`, everything after them our own.

MobileSAM is wholly our own, and so is SAM 2 (`_sam2`).

Our decoder gives all four masks in one pass, batches asks with their own mask prompts, and
keeps to the originals where `transformers` does not: its SAM decoder normalises with another
epsilon (1e-6 for 1e-5), its SAM-HQ decoder enlarges the image's embedding as it was before
the prompts were looked at.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models import weights
from segmeter.models.sam._cuda_graphs import EncoderGraph
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder, to_cells
from segmeter.models.sam._frames import Frame, Padded, Squeezed
from segmeter.models.sam._tiny_vit import TinyVit

if TYPE_CHECKING:
    from segmeter.models.sam.model import Family

__all__ = [
    "HubNetwork",
    "MobileNetwork",
    "decoder_tensors",
    "device_name",
    "pick_device",
    "pick_dtype",
]

_CLASSES = {
    "sam": "SamModel",
    "sam-hq": "SamHQModel",
    "sam2": "Sam2Model",
    "sam3": "Sam3TrackerModel",
    "edgetam": "EdgeTamModel",
}

_RENAMED = [
    (r"^prompt_encoder\.mask_embed\.conv1\.", "prompt_encoder.mask_downscaling.0."),
    (r"^prompt_encoder\.mask_embed\.layer_norm1\.", "prompt_encoder.mask_downscaling.1."),
    (r"^prompt_encoder\.mask_embed\.conv2\.", "prompt_encoder.mask_downscaling.3."),
    (r"^prompt_encoder\.mask_embed\.layer_norm2\.", "prompt_encoder.mask_downscaling.4."),
    (r"^prompt_encoder\.mask_embed\.conv3\.", "prompt_encoder.mask_downscaling.6."),
    (r"^prompt_encoder\.point_embed\.(\d)\.", r"prompt_encoder.point_embeddings.\1."),
    (r"\.o_proj\.", ".out_proj."),
    (r"\.layer_norm(\d)\.", r".norm\1."),
    (r"\.layer_norm_final_attn\.", ".norm_final_attn."),
    (r"(layers\.\d)\.mlp\.proj_in\.", r"\1.mlp.lin1."),
    (r"(layers\.\d)\.mlp\.proj_out\.", r"\1.mlp.lin2."),
    (r"(mlps\.\d|head|hq_mask_mlp)\.layers\.0\.", r"\1.layers.1."),
    (r"(mlps\.\d|head|hq_mask_mlp)\.proj_in\.", r"\1.layers.0."),
    (r"(mlps\.\d|head|hq_mask_mlp)\.proj_out\.", r"\1.layers.2."),
    (r"^mask_decoder\.upscale_conv1\.", "mask_decoder.output_upscaling.0."),
    (r"^mask_decoder\.upscale_layer_norm\.", "mask_decoder.output_upscaling.1."),
    (r"^mask_decoder\.upscale_conv2\.", "mask_decoder.output_upscaling.3."),
    (r"^mask_decoder\.hq_token\.", "mask_decoder.hf_token."),
    (r"^mask_decoder\.hq_mask_mlp\.", "mask_decoder.hf_mlp."),
    (r"^mask_decoder\.compress_vit_conv1\.", "mask_decoder.compress_vit_feat.0."),
    (r"^mask_decoder\.compress_vit_norm\.", "mask_decoder.compress_vit_feat.1."),
    (r"^mask_decoder\.compress_vit_conv2\.", "mask_decoder.compress_vit_feat.3."),
    (r"^mask_decoder\.encoder_conv1\.", "mask_decoder.embedding_encoder.0."),
    (r"^mask_decoder\.encoder_norm\.", "mask_decoder.embedding_encoder.1."),
    (r"^mask_decoder\.encoder_conv2\.", "mask_decoder.embedding_encoder.3."),
    (r"^mask_decoder\.mask_conv1\.", "mask_decoder.embedding_maskfeature.0."),
    (r"^mask_decoder\.mask_norm\.", "mask_decoder.embedding_maskfeature.1."),
    (r"^mask_decoder\.mask_conv2\.", "mask_decoder.embedding_maskfeature.3."),
]

_LEFT_OUT = ("mask_decoder.pred_obj_score_head.", "mask_decoder.conv_s", "shared_embedding.")


_SPARE = ("num_batches_tracked", "image_encoder.norm_head.", "image_encoder.head.")
"""What files of MobileSAM may hold or lack."""


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
        tensors = decoder_tensors(hub_model.state_dict())
        weights.load_into(parts, tensors, f"weights of a '{config.model_type}'", ())
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


class MobileNetwork:
    """MobileSAM: TinyViT before the decoder of the first SAM, from its own checkpoint."""

    second = False

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        """With random weights; `load` fills them."""
        self.device, self.dtype = pick_device(device), pick_dtype(dtype)
        self.encoder = TinyVit()
        self.prompts = PromptEncoder()
        self.decoder = MaskDecoder()
        self.parts = torch.nn.ModuleDict(
            {
                "image_encoder": self.encoder,
                "prompt_encoder": self.prompts,
                "mask_decoder": self.decoder,
            }
        )
        self.parts.eval().requires_grad_(False)
        self._graph = EncoderGraph()

    @classmethod
    def check(cls, path: Path) -> None:
        """Refuse weights of another network by the headers of their files, if they have any."""
        found = weights.sizes(path)
        if found is None:
            return
        with weights.unfilled():
            own = {k: tuple(v.shape) for k, v in cls().parts.state_dict().items()}
        weights.fits(own, found, f"the weights in '{path}'", _SPARE)

    @classmethod
    def load(cls, path: Path, device: str, dtype: str) -> MobileNetwork:
        """From the official `mobile_sam.pt` or the same tensors as safetensors."""
        network = cls(device, dtype)
        weights.load_into(network.parts, weights.read(path), f"the weights in '{path}'", _SPARE)
        network.parts.to(network.device, network.dtype)
        return network

    def frame(self, shape: tuple[int, int]) -> Frame:
        return Padded(shape)

    def encode(self, pixels: Tensor) -> Embedding:
        return self._graph(self._embedding, pixels)

    def _embedding(self, pixels: Tensor) -> Embedding:
        return Embedding(_flat(self.encoder(pixels.to(self.dtype))))


def decoder_tensors(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Prompt encoder and mask decoder of a hub model under the original SAM's names."""
    tensors: dict[str, Tensor] = {}
    for key, value in state.items():
        if not key.startswith(("prompt_encoder.", "mask_decoder.")) or _skipped(key):
            continue
        if key == "prompt_encoder.point_embed.weight":
            for i in range(4):
                tensors[f"prompt_encoder.point_embeddings.{i}.weight"] = value[i : i + 1]
            continue
        for pattern, name in _RENAMED:
            key = re.sub(pattern, name, key)
        tensors[key] = value
    matrix = "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"
    tensors[matrix] = state["shared_image_embedding.positional_embedding"]
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


def _skipped(key: str) -> bool:
    return any(part in key for part in _LEFT_OUT)


def _flat(grid: Tensor) -> Tensor:
    return grid.flatten(2).transpose(1, 2).contiguous()


def _sizes(config: Any) -> tuple[int, int]:
    """Side of the image in pixels and in cells."""
    side, patch = config.image_size, config.patch_size
    side, patch = (v if isinstance(v, int) else v[0] for v in (side, patch))
    return side, side // patch
