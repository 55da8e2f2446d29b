"""Exports for tests: a SAM as ONNX graphs in the interface of Meta's exporter."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.models.sam._decoder import Embedding


class MetaDecoder(torch.nn.Module):
    """Prompt encoder and mask decoder with the inputs of `export_onnx_model.py`."""

    def __init__(self, network: Any, single: bool = False) -> None:
        super().__init__()
        self.prompts, self.decoder = network.prompts, network.decoder
        self.side, self.single = network.side, single

    def forward(
        self,
        image_embeddings: Tensor,
        point_coords: Tensor,
        point_labels: Tensor,
        mask_input: Tensor,
        has_mask_input: Tensor,
        orig_im_size: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        cells = image_embeddings.flatten(2).transpose(1, 2)
        sparse = self.prompts.points(point_coords, point_labels.long())
        given, none = self.prompts.masks(mask_input), self.prompts.no_mask()
        dense = has_mask_input * given + (1 - has_mask_input) * none
        position = self.prompts.position()
        low, scores = self.decoder(Embedding(cells), position, sparse, dense)
        if self.single:
            low, scores = low[:, :1], scores[:, :1]
        full = F.interpolate(low, (self.side, self.side), mode="bilinear", align_corners=False)
        return full[:, :, : orig_im_size[0].long(), : orig_im_size[1].long()], scores, low


def export_pair(network: Any, folder: Path, single: bool = False) -> Path:
    """Write `encoder.onnx` and `decoder.onnx`."""
    folder.mkdir(parents=True, exist_ok=True)
    side, grid = network.side, network.prompts.grid_side
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing says what it makes constant
        torch.onnx.export(
            network.encoder,
            (torch.zeros(1, 3, side, side),),
            str(folder / "encoder.onnx"),
            input_names=["input_image"],
            output_names=["image_embeddings"],
            opset_version=17,
            dynamo=False,
        )
        torch.onnx.export(
            MetaDecoder(network, single),
            (
                torch.zeros(1, 256, grid, grid),
                torch.rand(1, 3, 2) * side,
                torch.tensor([[1.0, 0.0, -1.0]]),
                torch.zeros(1, 1, 4 * grid, 4 * grid),
                torch.ones(1),
                torch.tensor([300.0, 200.0]),
            ),
            str(folder / "decoder.onnx"),
            input_names=[
                "image_embeddings",
                "point_coords",
                "point_labels",
                "mask_input",
                "has_mask_input",
                "orig_im_size",
            ],
            output_names=["masks", "iou_predictions", "low_res_masks"],
            dynamic_axes={"point_coords": {1: "num_points"}, "point_labels": {1: "num_points"}},
            opset_version=17,
            dynamo=False,
        )
    return folder
