"""The shapes of the click networks: the numbers that tell the variants apart."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RITM", "SIMPLECLICK", "Ritm", "Shape", "SimpleClick"]


@dataclass(frozen=True, slots=True)
class Ritm:
    """HRNet of a width, full or small, with an OCR head of a width."""

    width: int
    ocr_width: int
    small: bool = False
    with_previous: bool = True
    leaky: bool = True


@dataclass(frozen=True, slots=True)
class SimpleClick:
    """A plain ViT: patch side, token width, depth, heads; channels of neck and head."""

    patch: int
    dim: int
    depth: int
    heads: int
    neck: tuple[int, int, int, int]
    head: int
    image: int = 448


Shape = Ritm | SimpleClick

RITM = {
    "ritm-h18s": Ritm(width=18, ocr_width=48, small=True),
    "ritm-h18": Ritm(width=18, ocr_width=64),
    "ritm-h32": Ritm(width=32, ocr_width=128),
    "ritm-h18-baseline": Ritm(width=18, ocr_width=64, with_previous=False),
}

SIMPLECLICK = {
    "simpleclick-vit-xtiny": SimpleClick(16, 160, 8, 4, (96, 192, 288, 384), 128),
    "simpleclick-vit-b": SimpleClick(16, 768, 12, 12, (128, 256, 512, 1024), 256),
    "simpleclick-vit-l": SimpleClick(16, 1024, 24, 16, (192, 384, 768, 1536), 256),
    "simpleclick-vit-h": SimpleClick(14, 1280, 32, 16, (240, 480, 960, 1920), 256),
}
