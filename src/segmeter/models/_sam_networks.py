"""Loading SAM networks: image encoders from `transformers`, everything after them our own.

Our decoder gives all four masks in one pass, batches asks with their own mask prompts, and
keeps to the originals where `transformers` does not: its SAM decoder normalises with another
epsilon (1e-6 for 1e-5), its SAM-HQ decoder enlarges the picture's embedding as it was before
the prompts were looked at.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models import weights
from segmeter.models._frames import Frame, Padded, Squeezed
from segmeter.models._sam_decoder import Embedding, MaskDecoder, PromptEncoder, to_cells

__all__ = ["Family", "HubNetwork", "check_config", "decoder_tensors", "pick_device", "pick_dtype"]

Family = Literal["sam", "sam-hq", "sam2", "sam3", "edgetam"]

_CLASSES: dict[Family, tuple[str, tuple[str, ...]]] = {
    "sam": ("SamModel", ("sam",)),
    "sam-hq": ("SamHQModel", ("sam_hq",)),
    "sam2": ("Sam2Model", ("sam2", "sam2_video")),
    "sam3": ("Sam3TrackerModel", ("sam3_tracker", "sam3_tracker_video", "sam3_video", "sam3")),
    "edgetam": ("EdgeTamModel", ("edgetam", "edgetam_video")),
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

        made = getattr(transformers, _CLASSES[family][0], None)
        if made is None:
            raise NotFound(
                f"this version of transformers ({transformers.__version__}) has no "
                f"{_CLASSES[family][0]}; install a newer one"
            )
        if family == "edgetam" and importlib.util.find_spec("timm") is None:
            raise NotFound("EdgeTAM's image encoder needs the package 'timm'; install it")
        transformers.utils.logging.disable_progress_bar()
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
            raise BadWeights(
                f"'{path}' does not load as {_CLASSES[family][0]}: {reason}"
            ) from error
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


def check_config(path: Path, family: Family, blocks: int) -> None:
    """Refuse a folder that is not of this kind, by its `config.json` alone."""
    file = path / "config.json"
    if not file.is_file():
        raise BadWeights(f"'{path}' has no config.json; it is not in the layout of the hub")
    try:
        config = json.loads(file.read_text())
        kind, vision = config["model_type"], config.get("vision_config") or {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadWeights(f"'{file}' is not a model's config ({error}); fetch it again") from error
    if kind not in _CLASSES[family][1]:
        raise BadWeights(
            f"'{path}' holds weights of another architecture: a '{kind}', not a '{family}'"
        )
    found = _blocks(vision)
    if blocks and found and found != blocks:
        raise BadWeights(
            f"'{path}' holds weights of another size: {found} blocks where {blocks} are needed"
        )


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
    """Side of the picture in pixels and in cells."""
    side, patch = config.image_size, config.patch_size
    side, patch = (v if isinstance(v, int) else v[0] for v in (side, patch))
    return side, side // patch


def _blocks(vision: dict[str, Any]) -> int:
    stages = (vision.get("backbone_config") or {}).get("blocks_per_stage")
    return sum(stages) if stages else int(vision.get("num_hidden_layers") or 0)
