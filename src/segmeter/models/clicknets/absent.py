"""Click networks of the published tables that are not here, and what each would need."""

from __future__ import annotations

from typing import NoReturn

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.models import ModelCard

__all__ = ["ABSENT"]


def _card(name: str, missing: str, citation: str) -> ModelCard:
    summary = f"not available: {missing}"
    return ModelCard(name, summary, frozenset({"click"}), citation=citation, missing=missing)


ABSENT = tuple(
    _card(name, missing, citation)
    for name, missing, citation in (
        (
            "cdnet-rn34",
            "the DeepLab network with conditional diffusion layers (its zoom would be a 384 x 384"
            " squeeze of an unscaled crop) and its weights",
            "Chen et al., ICCV 2021",
        ),
        (
            "gpcis-rn50",
            "the Gaussian-process layer on a ResNet-50 DeepLab (384 x 384 squeeze, no mirroring)"
            " and its weights",
            "Zhou et al., CVPR 2023, arXiv:2302.14577",
        ),
        (
            "cfr-icl-vit-h",
            "the cascade (the network runs again on its own answer at the first click) and weights"
            " trained with the click loss; the network itself is 'simpleclick-vit-h'",
            "Sun et al., AAAI 2024, arXiv:2303.05620",
        ),
        (
            "adaptiveclick-vit-b",
            "the click-aware mask-adaptive transformer decoder and its weights",
            "Lin et al., TNNLS 2024, arXiv:2305.04276",
        ),
        (
            "focalclick-segf-b0",
            "the SegFormer backbone, the local refiner with its two crops, and their weights",
            "Chen et al., CVPR 2022, arXiv:2204.02574",
        ),
    )
)


def _register(card: ModelCard) -> None:
    @catalogue.models.add(card.name, summary=card.summary)
    def make() -> NoReturn:
        raise NotFound(f"model '{card.name}' is not here: missing is {card.missing}")


for _absent in ABSENT:
    _register(_absent)
