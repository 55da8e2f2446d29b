"""Checkpoint files of the click networks, opened without running what is in them.

A published `.pth` is a pickle of weights and of a class path with its arguments. The
weights are read with torch's weights-only reader; the class path is looked up in a list
and never imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadWeights
from segmeter.models.checkpoints import find_marker, unwrap
from segmeter.models.weights import Sizes, fits, load_into, opened, sizes, sizes_of, unfilled


@dataclass(frozen=True, slots=True)
class Ritm:
    """HRNet of a width, full or small, with an OCR head of a width."""

    width: int
    ocr_width: int
    small: bool = False
    with_previous: bool = True
    leaky: bool = True


@dataclass(frozen=True, slots=True)
class SimpleClick:
    """A plain ViT: patch side, token width, depth, heads; channels of neck and head."""

    patch: int
    dim: int
    depth: int
    heads: int
    neck: tuple[int, int, int, int]
    head: int
    image: int = 448


Shape = Ritm | SimpleClick

RITM = {
    "ritm-h18s": Ritm(width=18, ocr_width=48, small=True),
    "ritm-h18": Ritm(width=18, ocr_width=64),
    "ritm-h32": Ritm(width=32, ocr_width=128),
    "ritm-h18-baseline": Ritm(width=18, ocr_width=64, with_previous=False),
}

SIMPLECLICK = {
    "simpleclick-vit-xtiny": SimpleClick(16, 160, 8, 4, (96, 192, 288, 384), 128),
    "simpleclick-vit-b": SimpleClick(16, 768, 12, 12, (128, 256, 512, 1024), 256),
    "simpleclick-vit-l": SimpleClick(16, 1024, 24, 16, (192, 384, 768, 1536), 256),
    "simpleclick-vit-h": SimpleClick(14, 1280, 32, 16, (240, 480, 960, 1920), 256),
}


_LOSS = "isegm.model.modeling.transformer_helper.cross_entropy_loss"
_MARKER = re.compile(
    r"(?:^|(?<=\.))(?:feature_extractor\.conv3x3_ocr\.0|patch_embed_coords\.proj)\.weight$"
)
_SPARE = ("num_batches_tracked", "head.up_conv")  # in some files only, and not used
_NORMS = {"torch.nn.modules.batchnorm.BatchNorm2d", "torch.nn.modules.batchnorm.SyncBatchNorm"}


def check(path: Path, shape: Shape, name: str) -> None:
    """Refuse the file of another network by the names and shapes of its tensors."""
    found, stated = _sizes_and_shape(path)
    _refuse_shape(path, shape, name, stated)
    with unfilled():
        own = {k: tuple(v.shape) for k, v in _network(shape).state_dict().items()}
    fits(own, found, f"the weights in '{path}' for '{name}'", _SPARE)


def load(path: Path, shape: Shape, name: str) -> Any:
    """The network of a shape with the weights of a file, in evaluation mode."""
    import torch

    state, stated = read(path)
    _refuse_shape(path, shape, name, stated)
    if not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise BadWeights(f"{path}: its weights hold something that is not a tensor")
    network = _network(shape)
    # Weights stored in half precision are computed with in single.
    single = {k: t.float() if t.is_floating_point() else t for k, t in state.items()}
    load_into(network, single, f"the weights in '{path}' for '{name}'", _SPARE)
    # Frozen: gradients are taken with respect to the click, not the weights.
    return network.eval().requires_grad_(False)


def _refuse_shape(path: Path, shape: Shape, name: str, stated: Shape | None) -> None:
    if stated is not None and stated != shape:
        named = _name(RITM | SIMPLECLICK, lambda s: s == stated)
        hint = f"use model '{named}'" if named else "no model here has that shape"
        raise BadWeights(f"{path}: these weights are {stated}, not '{name}'; {hint}")


def read(path: Path) -> tuple[Mapping[str, Any], Shape | None]:
    content = opened(path, True, _INERT)
    if path.suffix == ".safetensors":
        return content, None
    if isinstance(content, list) and content:
        content = content[0]  # several networks by click number: the first is the default
    if not isinstance(content, Mapping):
        raise BadWeights(f"{path}: holds a {type(content).__name__} where weights should be")
    if "config" in content and "state_dict" in content:
        return content["state_dict"], _shape(path, content["config"])
    if not find_marker(content, _MARKER):
        return content, None
    return unwrap(content, path, _MARKER)[2], None


def _sizes_and_shape(path: Path) -> tuple[Sizes, Shape | None]:
    """Names and shapes of a file's tensors, by its header if it has one, and what `read` finds."""
    if (found := sizes(path)) is not None:
        return found, None
    state, stated = read(path)
    return sizes_of(state), stated


def recognise(path: Path) -> str | None:
    """The registry's name of the click network in a file; None if it holds none.

    A container states its architecture; of bare tensors it is read off the shapes. Only a container
    shows whether a RITM network was built with leaky units.
    """
    found, shape = _sizes_and_shape(path)
    if shape is not None:
        return _name(RITM | SIMPLECLICK, lambda s: s == shape)
    head = found.get("feature_extractor.conv3x3_ocr.0.weight", ())
    maps = found.get("maps_transform.0.weight", ())
    if len(head) == len(maps) == 4:
        key = (head[1] // 15, head[0] // 2, maps[1] == 3)
        return _name(RITM, lambda s: (s.width, s.ocr_width, s.with_previous) == key)
    place = found.get("backbone.pos_embed")
    if not place or "patch_embed_coords.proj.weight" not in found:
        return None
    depth = len({k.split(".")[2] for k in found if k.startswith("backbone.blocks.")})
    return _name(SIMPLECLICK, lambda s: (s.dim, s.depth) == (place[-1], depth))


def _name(known: Mapping[str, Any], fits: Callable[[Any], bool]) -> str | None:
    return next((name for name, shape in known.items() if fits(shape)), None)


def _network(shape: Shape) -> Any:
    if isinstance(shape, Ritm):
        from segmeter.models.clicknets._networks import RitmNetwork

        return RitmNetwork(shape)
    from segmeter.models.clicknets._networks import SimpleClickNetwork

    return SimpleClickNetwork(shape)


class _Stored:
    """Placeholder for the training loss that SimpleClick's files contain."""

    def __setstate__(self, state: object) -> None:
        """Keep nothing: the loss is not needed for predictions."""


def _unused(*_: object) -> None:
    raise BadWeights("a training loss inside a checkpoint is never called")


_INERT = ((_Stored, f"{_LOSS}.CrossEntropyLoss"), (_unused, f"{_LOSS}.cross_entropy"))


def _shape(path: Path, config: Any) -> Shape:
    """The architecture that a container's class path and arguments describe."""
    try:
        kind = config["class"]
        given = {key: value["value"] for key, value in config["params"].items()}
        norm = given.get("norm_layer")
        if norm is not None and norm not in _NORMS:
            raise BadWeights(f"{path}: asks for the layer '{norm}', which is not on the list")
        shape = _SHAPES[kind](given) if kind in _SHAPES else None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadWeights(f"{path}: its configuration has no valid {error}") from error
    if shape is None:
        raise BadWeights(
            f"{path}: is made for the class '{kind}', which is not on the list "
            f"({', '.join(_SHAPES)}); it is not imported"
        )
    _refuse_other_ways(path, config["params"], given)
    return shape


def _refuse_other_ways(path: Path, params: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Ways to build these networks that no released file uses, and unknown arguments."""
    ways = ("use_rgb_conv", "conv_extend", "binary_prev_mask", "random_split")
    refused = [way for way in ways if given.get(way)]
    if not given.get("use_disks", True) or given.get("norm_radius", 5) != 5:
        refused.append("clicks other than discs of radius 5")
    if given.get("head_params", {}).get("upsample", "x1") != "x1":
        refused.append("an upsampling head")
    refused += [k for k, v in params.items() if v.get("specified") and k not in _KNOWN]
    if refused:
        raise BadWeights(f"{path}: was built with {refused[0]}, which is not supported")


def _ritm(given: Mapping[str, Any]) -> Ritm:
    return Ritm(
        width=given.get("width", 48),
        ocr_width=given.get("ocr_width", 256),
        small=given.get("small", False),
        with_previous=given.get("with_prev_mask", False),
        leaky=given.get("use_leaky_relu", False),
    )


def _simpleclick(given: Mapping[str, Any]) -> SimpleClick:
    backbone, neck, head = (given[f"{part}_params"] for part in ("backbone", "neck", "head"))
    size, patch = backbone["img_size"], backbone["patch_size"]
    outs = neck["out_dims"]
    return SimpleClick(
        patch=patch[0] if isinstance(patch, list | tuple) else patch,
        dim=backbone["embed_dim"],
        depth=backbone["depth"],
        heads=backbone["num_heads"],
        neck=(outs[0], outs[1], outs[2], outs[3]),
        head=head.get("channels", 256),
        image=size[0] if isinstance(size, list | tuple) else size,
    )


_KNOWN = {
    "width", "ocr_width", "small", "backbone_lr_mult", "norm_layer", "use_rgb_conv",
    "with_aux_output", "norm_radius", "use_disks", "cpu_dist_maps", "clicks_groups",
    "with_prev_mask", "use_leaky_relu", "binary_prev_mask", "conv_extend", "norm_mean_std",
    "backbone_params", "neck_params", "head_params", "random_split",
}  # fmt: skip

_SHAPES: dict[str, Callable[[Mapping[str, Any]], Shape]] = {
    "isegm.model.is_hrnet_model.HRNetModel": _ritm,
    "isegm.model.is_plainvit_model.PlainVitModel": _simpleclick,
}
