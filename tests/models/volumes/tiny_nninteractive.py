"""A tiny random checkpoint in nnInteractive's format, and a package that reads it where none is.

The stand-in package loads the same folder by the same names and runs a convolution over image
and prompts; it is there so that the way from folder to mask runs on every machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

STAND_IN = """
import json, os
import numpy as np
import torch

print("session initialized")


class nnInteractiveInferenceSession:
    def __init__(self, device, torch_n_threads):
        self.device = device

    def initialize_from_trained_model_folder(self, folder):
        for name in ("plans.json", "dataset.json", "inference_info.json"):
            with open(os.path.join(folder, name)) as stream:
                setattr(self, name.split(".")[0], json.load(stream))
        path = os.path.join(folder, "fold_0", "checkpoint_final.pth")
        kept = torch.load(path, map_location=self.device, weights_only=False)
        assert kept["init_args"]["configuration"] in self.plans["configurations"]
        self.weight = kept["network_weights"]["weight"]
        self.supported_interactions = self.inference_info["supported_interactions"]
        self.preferred_scribble_thickness = [2, 2, 2]

    def set_image(self, image):
        assert image.ndim == 4
        self.image = torch.from_numpy((image - image.mean()) / image.std())
        self.prompts = torch.zeros(2, *image.shape[1:])

    def set_target_buffer(self, target_buffer):
        self.target_buffer = target_buffer

    def reset_interactions(self):
        self.prompts.zero_()

    def _predict(self, part, include_interaction):
        self.prompts[int(not include_interaction)][part] = 1
        both = torch.cat([self.image, self.prompts])[None]
        logits = torch.nn.functional.conv3d(both, self.weight, padding=1)[0]
        self.target_buffer[:] = (logits[1] > logits[0]).numpy()

    def add_point_interaction(self, coordinates, include_interaction):
        self._predict(coordinates, include_interaction)

    def add_scribble_interaction(self, scribble_image, include_interaction):
        self._predict(scribble_image > 0, include_interaction)

    def add_bbox_interaction(self, bbox_coords, include_interaction):
        self._predict(tuple(slice(a, b) for a, b in bbox_coords), include_interaction)
"""
ARCHITECTURE = {
    "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
    "arch_kwargs": {
        "n_stages": 2,
        "features_per_stage": [2, 2],
        "conv_op": "torch.nn.modules.conv.Conv3d",
        "kernel_sizes": [[3, 3, 3]] * 2,
        "strides": [[1, 1, 1], [2, 2, 2]],
        "n_conv_per_stage": [1, 1],
        "n_conv_per_stage_decoder": [1],
        "conv_bias": True,
        "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
        "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "dropout_op": None,
        "dropout_op_kwargs": None,
        "nonlin": "torch.nn.LeakyReLU",
        "nonlin_kwargs": {"inplace": True},
    },
    "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
}


def write_package(folder: Path) -> None:
    """A module `nnInteractive.inference.inference_session` that can be imported from a folder."""
    home = folder / "nnInteractive" / "inference"
    home.mkdir(parents=True)
    for package in (home, home.parent):
        (package / "__init__.py").touch()  # so that it comes before one that is installed
    (home / "inference_session.py").write_text(STAND_IN)


def stand_in_weights() -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(3)
    return {"weight": torch.randn(2, 3, 3, 3, 3, generator=draws)}


def package_weights() -> dict[str, torch.Tensor]:
    """Random weights of the network the plans name, by the package's own classes."""
    import pydoc

    torch.manual_seed(3)
    given = dict(ARCHITECTURE["arch_kwargs"])
    for name in ARCHITECTURE["_kw_requires_import"]:
        given[name] = pydoc.locate(given[name]) if given[name] else None
    made = pydoc.locate(ARCHITECTURE["network_class_name"])(
        input_channels=1 + 7, num_classes=2, deep_supervision=False, **given
    )
    kept = made.state_dict()
    kept["decoder.seg_layers.0.bias"] += torch.tensor([0.15, -0.15])  # background for the most part
    return kept


def write_checkpoint(folder: Path, weights: dict[str, torch.Tensor], *, boxes: bool) -> Path:
    """A trained model's folder as nnInteractive publishes one."""
    plans = {
        "dataset_name": "Dataset000_tiny",
        "plans_name": "tiny",
        "label_manager": "LabelManager",
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "transpose_backward": [0, 1, 2],
        "configurations": {
            "3d_fullres": {
                "patch_size": [56, 56, 56],
                "batch_size": 1,
                "spacing": [1.0, 1.0, 1.0],
                "architecture": ARCHITECTURE,
            }
        },
    }
    settings = {
        "supported_interactions": {"bbox3d": boxes},
        "point_radius": 2,
        "inference_class": "nnInteractiveInferenceSession",
    }
    dataset = {"channel_names": {"0": "any"}, "labels": {"background": 0, "object": 1}}
    (folder / "fold_0").mkdir(parents=True)
    for name, content in {
        "plans.json": plans,
        "dataset.json": dataset,
        "inference_info.json": settings,
    }.items():
        (folder / name).write_text(json.dumps(content))
    kept = {
        "network_weights": weights,
        "trainer_name": "nnInteractiveTrainer_stub",
        "init_args": {"configuration": "3d_fullres", "fold": 0},
        "inference_allowed_mirroring_axes": None,
        "_best_ema": np.float64(0.5),
    }
    torch.save(kept, folder / "fold_0" / "checkpoint_final.pth")
    return folder
