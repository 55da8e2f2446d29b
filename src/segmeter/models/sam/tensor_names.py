"""Names of SAM's tensors: in our networks, in the authors' checkpoints and on Hugging Face.

`source_name` maps the name of a parameter of our networks to its name in a file, so every
tensor of a file is either the source of a parameter, known to be unnecessary for images, or
an error. Our prompt encoder, mask decoder and the encoders of the first SAM and of MobileSAM
use the names of the authors' code; SAM 2's encoder has those of Hugging Face.
"""

from __future__ import annotations

import re
from typing import Literal

Layout = Literal["original", "hub"]

_Rules = tuple[tuple[str, str], ...]


def _layers(own: str, hub: str, names: dict[int, str]) -> _Rules:
    """Rules for layers that are numbered in the authors' code and named on Hugging Face."""
    return tuple((rf"^{own}\.{number}\.", f"{hub}{name}.") for number, name in names.items())


_MLP = r"(\.output_hypernetworks_mlps\.\d|\.iou_prediction_head|\.hf_mlp)"
_TWO = {0: "conv1", 1: "norm", 3: "conv2"}
_THREE = {0: "conv1", 1: "layer_norm1", 3: "conv2", 4: "layer_norm2", 6: "conv3"}
_HUB_DECODER: _Rules = (
    (r"^prompt_encoder\.pe_layer\..*", "shared_image_embedding.positional_embedding"),
    *_layers("prompt_encoder.mask_downscaling", "prompt_encoder.mask_embed.", _THREE),
    (r"^prompt_encoder\.point_embeddings\.", "prompt_encoder.point_embed."),
    *_layers("mask_decoder.output_upscaling", "mask_decoder.upscale_", {**_TWO, 1: "layer_norm"}),
    (rf"^(mask_decoder){_MLP}\.layers\.0\.", r"\1\2.proj_in."),
    (rf"^(mask_decoder){_MLP}\.layers\.1\.", r"\1\2.layers.0."),
    (rf"^(mask_decoder){_MLP}\.layers\.2\.", r"\1\2.proj_out."),
    (r"^(mask_decoder\.transformer\..*)\bnorm(\d|_final_attn)\.", r"\1layer_norm\2."),
    (r"^mask_decoder\.hf_token\.", "mask_decoder.hq_token."),
    (r"^mask_decoder\.hf_mlp\.", "mask_decoder.hq_mask_mlp."),
    *_layers("mask_decoder.compress_vit_feat", "mask_decoder.compress_vit_", _TWO),
    *_layers("mask_decoder.embedding_encoder", "mask_decoder.encoder_", _TWO),
    *_layers("mask_decoder.embedding_maskfeature", "mask_decoder.mask_", _TWO),
)
_NECK = {0: "conv1", 1: "layer_norm1", 2: "conv2", 3: "layer_norm2"}
_HUB_FIRST: _Rules = (
    *_HUB_DECODER,
    (r"^image_encoder\.blocks\.(\d+)\.norm(\d)\.", r"image_encoder.layers.\1.layer_norm\2."),
    (r"^image_encoder\.blocks\.", "image_encoder.layers."),
    (r"^image_encoder\.patch_embed\.proj\.", "image_encoder.patch_embed.projection."),
    *_layers("image_encoder.neck", "image_encoder.neck.", _NECK),
    (r"^image_encoder\.", "vision_encoder."),
)
_HUB_SECOND: _Rules = (
    *_HUB_DECODER,
    (r"^prompt_encoder\.point_embed\.\d\.weight$", "prompt_encoder.point_embed.weight"),
    (r"^(mask_decoder\.transformer\..*)\.out_proj\.", r"\1.o_proj."),
    (r"^(mask_decoder\.transformer\..*\.mlp)\.lin1\.", r"\1.proj_in."),
    (r"^(mask_decoder\.transformer\..*\.mlp)\.lin2\.", r"\1.proj_out."),
    (r"^finer_maps\.conv_s", "mask_decoder.conv_s"),
    (r"^finer_maps\.no_memory_embedding$", "no_memory_embedding"),
)
_ORIGINAL_SECOND: _Rules = (
    (r"^(mask_decoder\.transformer\..*\.mlp)\.lin1\.", r"\1.layers.0."),
    (r"^(mask_decoder\.transformer\..*\.mlp)\.lin2\.", r"\1.layers.1."),
    (r"^(prompt_encoder|mask_decoder)\.", r"sam_\1."),
    (r"^finer_maps\.conv_s", "sam_mask_decoder.conv_s"),
    (r"^finer_maps\.no_memory_embedding$", "no_mem_embed"),
    (r"^vision_encoder\.neck\.convs\.(\d)\.", r"image_encoder.neck.convs.\1.conv."),
    (r"^vision_encoder\.backbone\.", "image_encoder.trunk."),
    (r"^(image_encoder\.trunk\..*)\.layer_norm(\d)\.", r"\1.norm\2."),
    (r"^(image_encoder\.trunk\..*\.mlp)\.proj_in\.", r"\1.layers.0."),
    (r"^(image_encoder\.trunk\..*\.mlp)\.proj_out\.", r"\1.layers.1."),
    (r"^(image_encoder\.trunk\.patch_embed)\.projection\.", r"\1.proj."),
)
_RULES: dict[tuple[Layout, bool], _Rules] = {
    ("original", False): (),
    ("original", True): _ORIGINAL_SECOND,
    ("hub", False): _HUB_FIRST,
    ("hub", True): _HUB_SECOND,
}

_VIDEO = (
    "memory_attention.", "memory_encoder.", "mask_downsample.", "obj_ptr_proj.",
    "obj_ptr_tpos_proj.", "no_obj_ptr", "no_obj_embed_spatial", "maskmem_tpos_enc",
    "no_mem_pos_enc", "memory_temporal_positional_encoding", "object_pointer_proj.",
    "temporal_positional_encoding_projection_layer.", "no_memory_positional_encoding",
    "no_object_pointer", "occlusion_spatial_embedding_parameter",
)  # fmt: skip
_UNUSED = (
    *_VIDEO, "pixel_mean", "pixel_std", "image_encoder.norm_head.", "image_encoder.head.",
    "sam_mask_decoder.pred_obj_score_head.", "mask_decoder.pred_obj_score_head.",
    "prompt_encoder.shared_embedding.",
)  # fmt: skip


def source_name(name: str, layout: Layout, second: bool) -> tuple[str, int | None]:
    """The tensor of a file that holds a parameter, and its row where several share a tensor.

    `second` is for SAM 2 and later.

    >>> source_name("mask_decoder.output_upscaling.0.bias", "hub", False)
    ('mask_decoder.upscale_conv1.bias', None)
    >>> source_name("prompt_encoder.point_embeddings.2.weight", "hub", True)
    ('prompt_encoder.point_embed.weight', 2)
    """
    found = name
    for pattern, replacement in _RULES[layout, second]:
        found = re.sub(pattern, replacement, found)
    rows = re.fullmatch(r"prompt_encoder\.point_embeddings\.(\d)\.weight", name)
    shared = rows is not None and layout == "hub" and second
    return found, int(rows[1]) if rows and shared else None


def is_unused(name: str) -> bool:
    """Whether a tensor may be in a file although images need it not, such as video memory.

    >>> is_unused("memory_attention.norm.weight"), is_unused("mask_decoder.iou_token.weight")
    (True, False)
    """
    return name.startswith(_UNUSED) or name.endswith(("num_batches_tracked", "bias_idxs"))
