"""Click networks: RITM, EISeg and SimpleClick.

RITM: iterative training with mask guidance, HRNet and OCR.

K. Sofiiuk, I. Petrov, A. Konushin, "Reviving Iterative Training with Mask Guidance for
Interactive Segmentation", ICIP 2022. Zoom, mirroring and threshold are those of its
evaluation; datasets for which it used others get those.

SimpleClick: interactive segmentation with plain vision transformers.

Q. Liu, Z. Xu, G. Bertasius, M. Niethammer, "SimpleClick: Interactive Image Segmentation
with Simple Vision Transformers", ICCV 2023. The image is always zoomed to 448 x 448
(672 x 672 on DAVIS), aspect not kept, from the first click on.
"""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.core import catalogue
from segmeter.core.models import ModelCard
from segmeter.core.scenes import Scene
from segmeter.models.adapters import as_image
from segmeter.models.clicknets import containers
from segmeter.models.clicknets.containers import RITM, SIMPLECLICK, Shape, SimpleClick
from segmeter.models.fetching import ByHand, Page, offer
from segmeter.models.weights import CheckpointModel, files, pick_device

if TYPE_CHECKING:
    from segmeter.models.clicknets._encoded import ClickNetEncodedScene, Settings


class ClickNet(CheckpointModel):
    """A click network, used as in its authors' evaluation where nothing else is given.

    Parameters
    ----------
    weights
        A `.pth` or `.safetensors` file, or a folder that holds the model's own.
    zoom, skip_clicks
        RITM: the long side is 400 (600 on DAVIS) after the first click (from the first on for
        TETRIS); a zoom of 0 never zooms. SimpleClick: side of the square, from the first click on.
    flip, threshold
        Averaging over the mirrored image, and the probability above which a pixel is in the mask.
    """

    def __init__(
        self,
        card: ModelCard,
        shape: Shape,
        weights: str | Path | None = None,
        device: str = "auto",
        zoom: int | None = None,
        skip_clicks: int | None = None,
        flip: bool = True,
        threshold: float = 0.49,
    ) -> None:
        self.shape, self.zoom, self.skip_clicks = shape, zoom, skip_clicks
        self.flip, self.threshold = flip, threshold
        super().__init__(card, weights, device)

    def check(self) -> None:
        containers.check(files(self.weights_path)[0], self.shape, self.name)

    @cached_property
    def network(self) -> Any:
        import torch

        network = containers.load(files(self.weights_path)[0], self.shape, self.name)
        device = pick_device(self._device)
        # A quarter faster on a processor (answers and attack of EISeg's HRNet-18).
        order = torch.channels_last if device.type == "cpu" else torch.preserve_format
        return network.to(device, memory_format=order)

    def encode(self, scene: Scene) -> ClickNetEncodedScene:
        from segmeter.models.clicknets._encoded import ClickNetEncodedScene

        as_image(scene, self.name)
        return ClickNetEncodedScene(self.network, scene, self._settings(scene.dataset.lower()))

    def _settings(self, dataset: str) -> Settings:
        from segmeter.models.clicknets._encoded import Settings
        from segmeter.models.clicknets._zoom import Zoom

        davis, first = dataset == "davis", -1 if dataset == "tetris" else 1
        target: int | tuple[int, int] | None
        if isinstance(self.shape, SimpleClick):
            side = self.zoom or (672 if davis else 448)
            target, first = (side, side), -1
        else:
            target = (600 if davis else 400) if self.zoom is None else self.zoom or None
        skip = first if self.skip_clicks is None else self.skip_clicks
        return Settings(Zoom(target, skip), self.flip, self.threshold)


_CLICKS = frozenset({"click", "differentiable"})
_WITH_MASK = _CLICKS | {"mask"}  # the channel of the previous mask takes one to start from


def _card(name: str, shape: Shape) -> ModelCard:
    if isinstance(shape, SimpleClick):
        about = f"SimpleClick, ViT of depth {shape.depth} and width {shape.dim}"
        return ModelCard(name, about, _WITH_MASK, "MIT", "liu2023", family="simpleclick")
    wide = f"HRNet-{shape.width}{'s' if shape.small else ''} + OCR-{shape.ocr_width}"
    how = "previous mask as input" if shape.with_previous else "without the previous mask"
    takes = _WITH_MASK if shape.with_previous else _CLICKS
    return ModelCard(name, f"RITM, {wide}, {how}", takes, "MIT", "sofiiuk2022", family="ritm")


_RITM = "https://github.com/SamsungLabs/ritm_interactive_segmentation/releases/download/v1.0"
_FILES = {
    "ritm-h18s": "coco_lvis_h18s_itermask.pth",
    "ritm-h18": "coco_lvis_h18_itermask.pth",
    "ritm-h32": "coco_lvis_h32_itermask.pth",
    "ritm-h18-baseline": "coco_lvis_h18_baseline.pth",
    "simpleclick-vit-xtiny": "cocolvis_vit_xtiny.pth",
    "simpleclick-vit-b": "cocolvis_vit_base.pth",
    "simpleclick-vit-l": "cocolvis_vit_large.pth",
    "simpleclick-vit-h": "cocolvis_vit_huge.pth",
}

for _name, _shape in (RITM | SIMPLECLICK).items():
    _made, _file = _card(_name, _shape), _FILES[_name]
    _summary = f"{_made.summary}; give its .pth with weights=FILE"
    catalogue.models.add(_name, _summary)(partial(ClickNet, _made, _shape))
    _by_hand = ByHand("https://github.com/uncbiag/SimpleClick", _file)
    offer(_name, _by_hand if isinstance(_shape, SimpleClick) else Page(f"{_RITM}/{_file}"))

_EISEG = ModelCard(
    "eiseg-hrnet18-ocr64",
    "EISeg's network of RITM's design, HRNet-18 + OCR-64, trained on COCO+LVIS",
    _WITH_MASK,
    "Apache-2.0",
    "hao2022, sofiiuk2022",
    family="ritm",
)
_summary = _EISEG.summary.replace("trained on ", "")
catalogue.models.add(_EISEG.name, _summary)(partial(ClickNet, _EISEG, RITM["ritm-h18"]))
