"""Models by path: a checkpoint, a Hugging Face folder or ONNX graphs instead of a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models.onnx_models import onnx_files, open_onnx

__all__ = ["entry_of_path"]

_CHECKPOINTS = (".pth", ".pt", ".ckpt", ".bin", ".torch", ".safetensors")


def entry_of_path(name: str) -> catalogue.Entry[Any] | None:
    """How to open a model that is given by its file or folder; None for other names."""
    path = Path(name).expanduser()
    if path.suffix in _CHECKPOINTS:
        if not path.is_file():
            raise NotFound(f"no file '{name}' to open as a model")
        return catalogue.Entry(name, lambda **o: open_checkpoint(path, **o), "a checkpoint", name)
    if onnx_files(path) and ("/" in name or path.suffix == ".onnx"):
        return catalogue.Entry(name, lambda **o: open_onnx(path, **o), "ONNX graphs", name)
    if "/" in name and (path / "config.json").is_file():
        return catalogue.Entry(name, lambda **o: open_folder(path, **o), "a folder", name)
    return None


def open_checkpoint(path: Path, **options: Any) -> Any:
    """The model whose architecture a checkpoint's tensors show, with its weights."""
    if "weights" in options:
        raise BadInput(f"'{path}' is the weights itself; leave out weights={options['weights']}")
    return catalogue.models.make(catalogue.Spec(architecture(path), options), weights=str(path))


def architecture(path: Path) -> str:
    """The registry's name of the model that a checkpoint file is for."""
    from segmeter.models.checkpoints import read_checkpoint
    from segmeter.models.clicknets.containers import recognise as click_network

    found = click_network(path)
    return found if found is not None else read_checkpoint(path, headers_only=True).model


def open_folder(path: Path, **options: Any) -> Any:
    """The model of a Hugging Face folder, by its `config.json` and the names of its tensors."""
    try:
        kind = json.loads((path / "config.json").read_text()).get("model_type")
    except (ValueError, AttributeError) as error:
        raise BadWeights(f"'{path / 'config.json'}' is not a model's config ({error})") from error
    whole = {"edgetam": "edgetam", "edgetam_video": "edgetam"}
    whole |= dict.fromkeys(("sam3_tracker", "sam3_tracker_video", "sam3"), "sam3-tracker")
    name = whole[kind] if kind in whole else architecture(path)
    return catalogue.models.make(catalogue.Spec(name, options), weights=str(path))
