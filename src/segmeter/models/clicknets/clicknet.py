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

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.models import ModelCard
from segmeter.core.scenes import Scene
from segmeter.models.clicknets import containers
from segmeter.models.clicknets.containers import RITM, SIMPLECLICK, Shape, SimpleClick
from segmeter.models.weights import CheckpointModel, files

if TYPE_CHECKING:
    from segmeter.models.clicknets._encoded import ClickNetEncodedScene, Settings


class ClickNet(CheckpointModel):
    """A click network.

    Parameters
    ----------
    settings
        Zoom, mirroring and threshold for a dataset's name.
    weights
        A `.pth` or `.safetensors` file, or a folder that holds the model's own.
    """

    def __init__(
        self,
        card: ModelCard,
        shape: Shape,
        settings: Callable[[str], Settings],
        weights: str | Path | None = None,
        device: str = "auto",
    ) -> None:
        self.shape, self._settings = shape, settings
        super().__init__(card, weights, device)

    def check(self) -> None:
        """Refuse weights of another network by names and shapes alone."""
        containers.check(files(self.weights_path)[0], self.shape, self.name)

    @cached_property
    def network(self) -> Any:
        import torch

        from segmeter.models.sam._loading import pick_device

        network = containers.load(files(self.weights_path)[0], self.shape, self.name)
        device = pick_device(self._device)
        # A quarter faster on a processor (answers and attack of EISeg's HRNet-18).
        order = torch.channels_last if device.type == "cpu" else torch.preserve_format
        return network.to(device, memory_format=order)

    def encode(self, scene: Scene) -> ClickNetEncodedScene:
        from segmeter.models.clicknets._encoded import ClickNetEncodedScene

        if scene.header.kind != "image":
            raise BadInput(
                f"{scene.name}: '{self.name}' takes images, and this is a volume; "
                f"try 'slicewise?model={self.name}'"
            )
        return ClickNetEncodedScene(self.network, scene, self._settings(scene.dataset))


_CITATION = "Sofiiuk et al., ICIP 2022, arXiv:2102.06583"
_CLICKS = frozenset({"click", "differentiable"})
_WITH_MASK = _CLICKS | {"mask"}  # the channel of the previous mask takes one to start from


def evaluation_settings(
    shape: Shape, zoom: int | None, skip_clicks: int | None, flip: bool, threshold: float
) -> Callable[[str], Settings]:
    """The authors' evaluation settings by dataset; what is given holds for all of them.

    RITM: the long side is 400 (600 on DAVIS) after the first click (from the first on for TETRIS);
    a zoom of 0 never zooms.
    """

    def settings(dataset: str) -> Settings:
        from segmeter.models.clicknets._encoded import Settings
        from segmeter.models.clicknets._zoom import Zoom

        davis, first = dataset.lower() == "davis", -1 if dataset.lower() == "tetris" else 1
        target: int | tuple[int, int] | None
        if isinstance(shape, SimpleClick):
            side = zoom or (672 if davis else 448)
            target, first = (side, side), -1
        else:
            target = (600 if davis else 400) if zoom is None else zoom or None
        skip = first if skip_clicks is None else skip_clicks
        return Settings(Zoom(target, skip), flip, threshold)

    return settings


def _register(card: ModelCard, shape: Shape, summary: str) -> None:
    @catalogue.models.add(card.name, summary=summary)
    def make(
        weights: str | None = None,
        device: str = "auto",
        zoom: int | None = None,
        skip_clicks: int | None = None,
        flip: bool = True,
        threshold: float = 0.49,
    ) -> ClickNet:
        settings = evaluation_settings(shape, zoom, skip_clicks, flip, threshold)
        return ClickNet(card, shape, settings, weights, device)


def _card(name: str, shape: Shape) -> ModelCard:
    if isinstance(shape, SimpleClick):
        about = f"SimpleClick, ViT of depth {shape.depth} and width {shape.dim}"
        cite = "Liu et al., ICCV 2023, arXiv:2210.11006"
        return ModelCard(name, about, _WITH_MASK, "MIT", cite, family="simpleclick")
    wide = f"HRNet-{shape.width}{'s' if shape.small else ''} + OCR-{shape.ocr_width}"
    how = "previous mask as input" if shape.with_previous else "without the previous mask"
    takes = _WITH_MASK if shape.with_previous else _CLICKS
    return ModelCard(name, f"RITM, {wide}, {how}", takes, "MIT", _CITATION, family="ritm")


for _name, _shape in (RITM | SIMPLECLICK).items():
    _made = _card(_name, _shape)
    _register(_made, _shape, f"{_made.summary}; give its .pth with weights=FILE")

_EISEG = ModelCard(
    "eiseg-hrnet18-ocr64",
    "EISeg's network of RITM's design, HRNet-18 + OCR-64, trained on COCO+LVIS",
    _WITH_MASK,
    "Apache-2.0",
    "Hao et al., EISeg, arXiv:2210.08788; " + _CITATION,
    family="ritm",
)
_register(_EISEG, RITM["ritm-h18"], _EISEG.summary.replace("trained on ", ""))
