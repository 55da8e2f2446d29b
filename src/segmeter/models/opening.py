"""Models by path: a checkpoint, a Hugging Face folder, ONNX graphs or a service."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models.onnx_models import onnx_files, open_onnx
from segmeter.models.services import ServiceModel

_CHECKPOINTS = (".pth", ".pt", ".ckpt", ".bin", ".torch", ".safetensors")


def entry_of_path(name: str) -> catalogue.Entry[Any] | None:
    """How to open a model that is given by its file or folder; None for other names.

    Checkpoints and folders count as models of ours, which are made before the first job.
    """
    if name.startswith(("http://", "https://")):
        return catalogue.Entry(name, lambda **o: ServiceModel(name, **o), "a service", name)
    path = Path(name).expanduser()
    if path.suffix in _CHECKPOINTS:
        if not path.is_file():
            raise NotFound(f"no file '{name}' to open as a model")
        return catalogue.Entry(name, partial(open_checkpoint, path), "a checkpoint", __name__)
    if onnx_files(path) and ("/" in name or path.suffix == ".onnx"):
        return catalogue.Entry(name, partial(open_onnx, path), "ONNX graphs", name)
    if "/" in name and (path / "config.json").is_file():
        return catalogue.Entry(name, partial(open_folder, path), "a folder", __name__)
    return None


def open_checkpoint(path: Path, **options: Any) -> Any:
    """The model whose architecture a checkpoint's tensors show, with its weights."""
    if "weights" in options:
        raise BadInput(f"'{path}' is already the weights; leave out weights={options['weights']}")
    return catalogue.models.make(catalogue.Spec(architecture(path), options), weights=str(path))


def architecture(path: Path) -> str:
    from segmeter.models.checkpoints import read_checkpoint
    from segmeter.models.clicknets.containers import recognise as click_network

    found = click_network(path)
    return found if found is not None else read_checkpoint(path, headers_only=True).model


def open_folder(path: Path, **options: Any) -> Any:
    """The model of a Hugging Face folder, by its `config.json` and the names of its tensors."""
    try:
        kind = str(json.loads((path / "config.json").read_text("utf-8")).get("model_type"))
    except (ValueError, AttributeError, RecursionError, OSError) as error:
        raise BadWeights(f"'{path / 'config.json'}' is not a model's config ({error})") from error
    whole = {"edgetam": "edgetam", "edgetam_video": "edgetam"}
    whole |= dict.fromkeys(("sam3_tracker", "sam3_tracker_video", "sam3"), "sam3-tracker")
    whole |= {name: name for name in ("grounding-dino", "owlv2", "clipseg")}
    whole["clip"] = "clip-masks"
    name = whole[kind] if kind in whole else architecture(path)
    return catalogue.models.make(catalogue.Spec(name, options), weights=str(path))


def described(name: str) -> list[str]:
    """The network recognised in a checkpoint file, in a few lines; else nothing."""
    path = Path(name.partition("?")[0]).expanduser()
    if path.suffix not in _CHECKPOINTS or not path.is_file():
        return []
    from segmeter.models.checkpoints import read_checkpoint
    from segmeter.models.clicknets.containers import recognise as click_network
    from segmeter.models.weights import fingerprint

    digest = fingerprint(path)
    network = click_network(path)
    if network is not None:
        return [f"{path.name} ({digest}): {network}"]
    found = read_checkpoint(path, headers_only=True)
    where = f"under '{found.container}'" if found.container else "at the top"
    prefix = f" with the prefix '{found.prefix}'" if found.prefix else ""
    layout = "Hugging Face" if found.layout == "hub" else "the authors' code"
    lines = [
        f"{path.name} ({digest}): {found.model}",
        f"{len(found.tensors)} tensors {where}{prefix}, named as by {layout}",
    ]
    if found.unused:
        kinds = sorted({name.partition(".")[0] for name in found.unused})
        lines.append(f"{len(found.unused)} not needed for images: {', '.join(kinds)}")
    if found.model == "sam-vit-b":
        lines.append(f"if these are MedSAM's weights, use --model 'medsam?weights={path}'")
    return lines
