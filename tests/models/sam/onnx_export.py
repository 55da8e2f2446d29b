"""Exports for tests: a SAM as ONNX graphs in the interface of Meta's exporter."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._resizing import DEVIATION, MEAN


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


def export_pair(network: Any, folder: Path) -> Path:
    """Write `encoder.onnx` and `decoder.onnx`."""
    side = network.side
    folder.mkdir(parents=True, exist_ok=True)
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
    return export_decoder(network, folder)


def export_decoder(network: Any, folder: Path, single: bool = False) -> Path:
    """Write `decoder.onnx`, of all masks or of a single one."""
    side, grid = network.side, network.prompts.grid_side
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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


class Stem(torch.nn.Module):
    """Stands in for an encoder: maps of the shapes that a SAM's decoder takes, quickly."""

    def __init__(self, second: bool, last: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        sizes = ((4, 32), (8, 64), (16, 256)) if second else ((16, 256),)
        self.steps = torch.nn.ModuleList([torch.nn.Conv2d(3, n, s, s) for s, n in sizes])
        self.last = last

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.last:  # samexporter's --use-preprocess: normalise, then pad
            x = (x.float() - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
            x = x.permute(2, 0, 1)[None]
            x = F.pad(x, (0, 256 - x.shape[3], 0, 256 - x.shape[2]))
        elif x.dtype == torch.uint8:
            x = x.float()
        return tuple(step(x) for step in self.steps)


class Half(MetaDecoder):
    """A decoder in one of the other interfaces: which inputs it takes, what it returns."""

    def __init__(self, network: Any, names: list[str], returned: str) -> None:
        super().__init__(network)
        self.names, self.returned, self.second = names, returned, network.second

    def forward(self, *inputs: Tensor) -> Any:
        given = dict(zip(self.names, inputs, strict=True))
        known = ("image_embed", "image_embeddings.2", "image_embeddings")
        coarse = next(given[name] for name in known if name in given)
        finer = ("high_res", "image_embeddings.0", "image_embeddings.1")
        fine = [given[name] for name in self.names if name.startswith(finer)]
        maps = (fine[1], fine[0]) if fine else None
        if "input_points" in given:
            places, labels = given["input_points"][:, 0], given["input_labels"][:, 0]
        else:
            places, labels = given["point_coords"], given["point_labels"]
        if "input_boxes" in given:
            corners = given["input_boxes"].reshape(len(places), -1, 2)
            kinds = torch.tensor([2, 3]).repeat(1, corners.shape[1] // 2).to(labels.dtype)
            places, labels = torch.cat([places, corners], 1), torch.cat([labels, kinds], 1)
        if self.returned not in ("meta", "metrics"):  # these graphs append the padding point
            places = torch.cat([places, torch.zeros_like(places[:, :1])], 1)
            labels = torch.cat([labels, -torch.ones_like(labels[:, :1])], 1)
        sparse, dense = self.prompts.points(places.float(), labels.long()), self.prompts.no_mask()
        if "mask_input" in given:
            has = given["has_mask_input"].reshape(-1, 1, 1)
            dense = has * self.prompts.masks(given["mask_input"]) + (1 - has) * dense
        cells = coarse.float().flatten(2).transpose(1, 2)
        embedding = Embedding(cells, maps)
        low, scores = self.decoder(embedding, self.prompts.position(), sparse, dense)
        cropped = low[..., :40, :30]  # the crop of another image, frozen
        if self.returned == "meta":
            return cropped, scores, low
        if self.returned == "metrics":
            return cropped, scores, scores * 0, (low > 0).sum((-1, -2)), low
        if self.returned == "three":
            return low[:, 1:], scores[:, 1:]
        return scores, low  # EdgeSAM's order


def export_variant(
    network: Any,
    folder: Path,
    pixels: tuple[str, Tensor, dict[int, str]],
    maps: list[str],
    taken: dict[str, tuple[Tensor, dict[int, str]]],
    returned: tuple[str, list[str]],
    last: bool = False,
    decoder: Path | None = None,
) -> Path:
    """A pair with a stem for an encoder, by the names and example inputs given.

    `decoder` is one that was written before from the same inputs and outputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name, example, axes = pixels
    stem = Stem(network.second, last)
    made = dict(zip(maps, stem(example), strict=True))
    taken = {n: (made[n], {}) for n in maps} | taken
    settings: dict[str, Any] = {"opset_version": 17, "dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing says what it makes constant
        torch.onnx.export(
            stem, (example,), str(folder / "encoder.onnx"), input_names=[name],
            output_names=maps, dynamic_axes={name: axes}, **settings,
        )  # fmt: skip
        if decoder is not None:
            shutil.copy(decoder, folder / "decoder.onnx")
            return folder
        half = Half(network, list(taken), returned[0])
        torch.onnx.export(
            half, tuple(t for t, _ in taken.values()), str(folder / "decoder.onnx"),
            input_names=list(taken), output_names=returned[1],
            dynamic_axes={n: a for n, (_, a) in taken.items() if a}, **settings,
        )  # fmt: skip
    return folder
