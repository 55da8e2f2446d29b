"""RITM: iterative training with mask guidance, HRNet and OCR.

K. Sofiiuk, I. Petrov, A. Konushin, "Reviving Iterative Training with Mask Guidance for
Interactive Segmentation", ICIP 2022. Zoom, mirroring and threshold are those of its
evaluation; data sets for which it used others get those.
"""

from __future__ import annotations

from collections.abc import Callable

from segmeter.core import catalogue
from segmeter.core.models import ModelCard
from segmeter.models.clicknets.architectures import RITM, Ritm
from segmeter.models.clicknets.clicknet import ClickNet
from segmeter.models.clicknets.encoded import Settings
from segmeter.models.clicknets.zoom import Zoom

__all__ = ["ritm_settings"]

_CITATION = "Sofiiuk et al., ICIP 2022, arXiv:2102.06583"
_CLICKS = frozenset({"click", "differentiable"})


def ritm_settings(
    zoom: int | None = None,
    skip_clicks: int | None = None,
    flip: bool = True,
    threshold: float = 0.49,
) -> Callable[[str], Settings]:
    """RITM's evaluation settings by data set; what is given holds for all of them.

    The long side is 400 (600 on DAVIS) after the first click (from the first on for
    TETRIS); a zoom of 0 never zooms.
    """

    def settings(dataset: str) -> Settings:
        side = zoom if zoom is not None else 600 if dataset.lower() == "davis" else 400
        first = -1 if dataset.lower() == "tetris" else 1
        skip = skip_clicks if skip_clicks is not None else first
        return Settings(Zoom(side or None, skip), flip, threshold)

    return settings


def _register(card: ModelCard, shape: Ritm, summary: str) -> None:
    @catalogue.models.add(card.name, summary=summary)
    def make(
        weights: str | None = None,
        device: str = "auto",
        zoom: int | None = None,
        skip_clicks: int | None = None,
        flip: bool = True,
        threshold: float = 0.49,
    ) -> ClickNet:
        settings = ritm_settings(zoom, skip_clicks, flip, threshold)
        return ClickNet(card, shape, settings, weights, device)


def _ritm_card(name: str, shape: Ritm) -> ModelCard:
    wide = f"HRNet-{shape.width}{'s' if shape.small else ''} + OCR-{shape.ocr_width}"
    how = "previous mask as input" if shape.with_previous else "without the previous mask"
    return ModelCard(name, f"RITM, {wide}, {how}", _CLICKS, "MIT", _CITATION, family="ritm")


_EISEG = ModelCard(
    "eiseg-hrnet18-ocr64",
    "EISeg's network of RITM's design, HRNet-18 + OCR-64, trained on COCO+LVIS",
    _CLICKS,
    "Apache-2.0",
    "Hao et al., EISeg, arXiv:2210.08788; " + _CITATION,
    family="ritm",
)

for _name, _shape in RITM.items():
    _card = _ritm_card(_name, _shape)
    _register(_card, _shape, f"{_card.summary}; give its .pth with weights=FILE")

_register(_EISEG, RITM["ritm-h18"], _EISEG.summary.replace("trained on ", ""))
