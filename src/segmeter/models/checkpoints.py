"""Checkpoints as released and as fine-tuned: read safely, unwrapped, recognised by their tensors.

A checkpoint may hold its tensors bare or in a dictionary (`{"model": ...}`, `{"state_dict":
...}`), with or without a prefix (`module.`, `sam.`), under the names of the authors' code or of
Hugging Face. The architecture is read off the names and shapes. Nothing in the file is executed.

`source_name` maps the name of a parameter of our networks to its name in a file, so every tensor of
a file is either the source of a parameter, not needed for images, or an error. Our
prompt encoder, mask decoder and the encoders of the first SAM and of MobileSAM use the names of the
authors' code; SAM 2's encoder has those of Hugging Face.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from segmeter.core.errors import BadWeights
from segmeter.models import weights as weight_files

_DECODER = re.compile(r"(?:^|(?<=\.))(?:sam_)?mask_decoder\.iou_token\.weight$")
_ADAPTERS = re.compile(r"linear_[ab]_[qv]|w_[ab]_linear|lora_|\bAdapter\b")

KNOWN = "SAM, SAM-HQ, SAM 2, MobileSAM, LiteMedSAM, SAM-Med2D, RITM, SimpleClick"
"""Families of checkpoints that are recognised by their tensors."""

_VITS = {(768, 12): "vit-b", (1024, 24): "vit-l", (1280, 32): "vit-h"}
_HIERAS = {(96, 12): "tiny", (96, 16): "small", (112, 24): "base-plus", (144, 48): "large"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of one SAM by their names in the file, without wrapper and prefix.

    `model` is the registry's name for the architecture; `container` and `prefix` are where the
    tensors were found in the file.
    """

    path: Path
    model: str
    layout: Layout
    container: str
    prefix: str
    tensors: Mapping[str, Any]

    @property
    def unused(self) -> list[str]:
        """Tensors that an image model does not need, such as SAM 2's video memory."""
        return [name for name in self.tensors if is_unused(name)]

    @property
    def second(self) -> bool:
        return self.model.startswith("sam2")


def read_checkpoint(path: Path, model: str = "", *, headers_only: bool = False) -> Checkpoint:
    """Read a file or folder of a SAM; tensors of a pickle stay in the file until they are used.

    Parameters
    ----------
    model
        What a Hugging Face folder holds according to its `config.json`; else the architecture
        is recognised by names and shapes.
    headers_only
        Do not read safetensors either: their tensors are names and shapes.
    """
    sizes = weight_files.sizes(path) if headers_only else None
    content: Mapping[str, Any]
    if sizes is not None:
        content = {name: SimpleNamespace(shape=shape) for name, shape in sizes.items()}
    else:
        content = weight_files.read(path, lazily=True)
    container, prefix, tensors = unwrap(content, path)
    if model and any(name.startswith("vision_encoder.") for name in tensors):
        return Checkpoint(path, model, "hub", container, prefix, tensors)
    model, layout = recognise({k: tuple(v.shape) for k, v in tensors.items()}, path)
    return Checkpoint(path, model, layout, container, prefix, tensors)


def find_marker(content: Mapping[str, Any], marker: re.Pattern[str]) -> list[tuple[str, str]]:
    """Container and name of the tensors whose names match a pattern."""
    return [
        (container, name)
        for container, tensors in _dictionaries(content)
        for name in tensors
        if marker.search(name)
    ]


def unwrap(
    content: Mapping[str, Any], path: Path, marker: re.Pattern[str] = _DECODER
) -> tuple[str, str, dict[str, Any]]:
    """The container and prefix of the one network in a file, and its tensors without the prefix.

    A SAM is found by the one tensor that every variant has, `mask_decoder.iou_token.weight`.
    """
    found = find_marker(content, marker)
    if not found:
        held = [f"'{name}'" for _, tensors in _dictionaries(content) for name in tensors]
        raise BadWeights(
            f"'{path}' holds no known network ({KNOWN}): its tensors are {', '.join(held[:3])}"
            f"{', ...' if held[3:] else ''}; for a network of your own, write a function "
            "predict(image, clicks) that loads and calls it, and give --model FILE.py:predict "
            "(docs/bring-your-own/model.md)"
        )
    if len(found) > 1:
        places = " and ".join(f"'{c}.{n}'" if c else f"'{n}'" for c, n in found[:3])
        raise BadWeights(
            f"'{path}' holds {len(found)} networks ({places}); save one of them by itself"
        )
    container, name = found[0]
    prefix = marker.sub("", name)
    whole = dict(_dictionaries(content))[container]
    tensors = {k.removeprefix(prefix): v for k, v in whole.items() if k.startswith(prefix)}
    foreign = [k for k in whole if not k.startswith(prefix)]
    if any(k.startswith("detector.") for k in foreign):
        raise BadWeights(
            f"'{path}' is SAM 3 in its authors' layout; use the model 'sam3-tracker' with the "
            "folder from Hugging Face"
        )
    if foreign:
        raise BadWeights(
            f"'{path}' holds {len(foreign)} unknown tensors outside '{prefix}': '{foreign[0]}'; "
            "save the segmentation model by itself"
        )
    return container, prefix, tensors


def _dictionaries(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file itself and what lies at most two levels deep, each with its tensors."""
    places: list[tuple[str, Any]] = [("", content)]
    for depth in range(3):
        inner: list[tuple[str, Any]] = []
        for name, held in places:
            named = {k: v for k, v in held.items() if isinstance(k, str)}
            yield name, {k: v for k, v in named.items() if hasattr(v, "shape")}
            for key, value in held.items():
                if depth < 2 and isinstance(value, Mapping):
                    inner.append((f"{name}.{key}" if name else str(key), value))
        places = inner


def recognise(sizes: Mapping[str, tuple[int, ...]], path: Path) -> tuple[str, Layout]:
    """The registry's name of the architecture that has tensors of these names and shapes."""
    adapter = next((name for name in sizes if _ADAPTERS.search(name)), None)
    if adapter is not None and "image_encoder.blocks.0.Adapter.norm.weight" not in sizes:
        raise BadWeights(
            f"'{path}' holds an adapter ('{adapter}'); merge it into the weights before you save"
        )
    hub = any(name.startswith("vision_encoder.") for name in sizes)
    layout: Layout = "hub" if hub else "original"
    tokens = ("mask_decoder.hf_token", "sam_mask_decoder.hf_token", "mask_decoder.hq_token")
    quality = "hq-" if any(f"{token}.weight" in sizes for token in tokens) else ""
    second = ("sam_mask_decoder.iou_token.weight", "mask_decoder.obj_score_token.weight")
    if any(name in sizes for name in second):
        trunk = "vision_encoder.backbone" if hub else "image_encoder.trunk"
        size = _size(sizes, path, f"{trunk}.pos_embed_window", 1, f"{trunk}.blocks.", _HIERAS)
        later = ("no_obj_embed_spatial", "occlusion_spatial_embedding_parameter")
        release = "2.1" if quality or any(name in sizes for name in later) else "2"
        return f"sam{release}-{quality}hiera-{size}", layout
    stem = sizes.get("image_encoder.patch_embed.seq.0.c.weight", ())
    if len(stem) == 4:
        if stem[-1] == 1:
            return "litemedsam", layout
        return ("sam-hq-vit-tiny" if quality else "mobile-sam"), layout
    if "image_encoder.blocks.0.Adapter.norm.weight" in sizes:
        return "sam-med2d", layout
    encoder, blocks = ("vision_encoder", "layers") if hub else ("image_encoder", "blocks")
    size = _size(sizes, path, f"{encoder}.pos_embed", -1, f"{encoder}.{blocks}.", _VITS)
    return f"sam-{quality}{size}", layout


def _size(
    sizes: Mapping[str, tuple[int, ...]],
    path: Path,
    place: str,
    axis: int,
    blocks: str,
    known: Mapping[tuple[int, int], str],
) -> str:
    """The size of an encoder by its width, an axis of its positions, and the number of blocks."""
    if len(sizes.get(place, ())) != 4:
        raise BadWeights(
            f"'{path}' has a SAM's decoder but no known encoder: no map '{place}' (EdgeTAM and "
            "EfficientTAM are read from their Hugging Face folders only)"
        )
    count = len({k.removeprefix(blocks).partition(".")[0] for k in sizes if k.startswith(blocks)})
    size = known.get((sizes[place][axis], count))
    if size is None:
        raise BadWeights(
            f"'{path}' holds a SAM of an unknown size: '{place}' is "
            f"{weight_files.by(sizes[place])} and there are {count} blocks"
        )
    return size


def fill(parts: Any, checkpoint: Checkpoint) -> None:
    """Fill our network from a checkpoint; refuse what is missing, unknown or of another shape."""
    own = parts.state_dict()
    state = {}
    for name, (source, row) in account(checkpoint, own).items():
        tensor = checkpoint.tensors[source]
        state[name] = (tensor if row is None else tensor[row : row + 1]).to(own[name].dtype)
    parts.load_state_dict(state, strict=False)


def account(checkpoint: Checkpoint, own: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Location of each of a network's `own` tensors in the file; every tensor must be used."""
    prefix, found = checkpoint.prefix, weight_files.sizes_of(checkpoint.tensors)
    sources = {
        name: source_name(name, checkpoint.layout, checkpoint.second)
        for name in own
        if not name.endswith("num_batches_tracked")  # a counter of training steps
    }
    needed = {}
    for name, (source, row) in sources.items():
        shape = tuple(own[name].shape)
        rows = shape[:1] if row is None else found.get(source, ())[:1]  # of several that share it
        needed[prefix + source] = (*rows, *shape[1:])
    given = {prefix + k: shape for k, shape in found.items() if not is_unused(k)}
    what = f"the weights in '{checkpoint.path}' for '{checkpoint.model}'"
    weight_files.fits(needed, given, what)
    return sources


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
    """Whether a tensor may be in a file although images do not need it, such as video memory.

    >>> is_unused("memory_attention.norm.weight"), is_unused("mask_decoder.iou_token.weight")
    (True, False)
    """
    return name.startswith(_UNUSED) or name.endswith(("num_batches_tracked", "bias_idxs"))
