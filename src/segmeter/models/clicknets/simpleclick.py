"""SimpleClick: interactive segmentation with plain vision transformers.

Q. Liu, Z. Xu, G. Bertasius, M. Niethammer, "SimpleClick: Interactive Image Segmentation
with Simple Vision Transformers", ICCV 2023. The image is always zoomed to 448 x 448
(672 x 672 on DAVIS), aspect not kept, from the first click on.
"""

from __future__ import annotations

from collections.abc import Callable

from segmeter.core import catalogue
from segmeter.core.models import ModelCard
from segmeter.models.clicknets.architectures import SIMPLECLICK, SimpleClick
from segmeter.models.clicknets.clicknet import ClickNet
from segmeter.models.clicknets.encoded import Settings
from segmeter.models.clicknets.zoom import Zoom

__all__ = ["simpleclick_settings"]


def simpleclick_settings(
    zoom: int | None = None, flip: bool = True, threshold: float = 0.49
) -> Callable[[str], Settings]:
    """SimpleClick's evaluation settings by data set; a zoom given holds for all of them."""

    def settings(dataset: str) -> Settings:
        side = zoom or (672 if dataset.lower() == "davis" else 448)
        return Settings(Zoom((side, side), skip_clicks=-1), flip, threshold)

    return settings


def _register(name: str, shape: SimpleClick) -> None:
    what = f"SimpleClick, ViT of depth {shape.depth} and width {shape.dim}"

    @catalogue.models.add(name, summary=f"{what}; give its .pth with weights=FILE")
    def make(
        weights: str | None = None,
        device: str = "auto",
        zoom: int | None = None,
        flip: bool = True,
        threshold: float = 0.49,
    ) -> ClickNet:
        card = ModelCard(
            name,
            what,
            frozenset({"click", "differentiable"}),
            "MIT",
            "Liu et al., ICCV 2023, arXiv:2210.11006",
            family="simpleclick",
        )
        return ClickNet(card, shape, simpleclick_settings(zoom, flip, threshold), weights, device)


for _name, _shape in SIMPLECLICK.items():
    _register(_name, _shape)
