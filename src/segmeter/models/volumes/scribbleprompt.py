"""ScribblePrompt-UNet: clicks, boxes and strokes drawn on slices of 128 x 128 pixels.

Written from the paper (Wong et al., ECCV 2024, arXiv 2312.07381); parameter names are those
of the published checkpoint `ScribblePrompt_unet_v1_nf192_res128.pt`.
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
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard, ProtocolName, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble
from segmeter.core.scenes import Scene
from segmeter.models.adapters import LazyPrediction, as_image
from segmeter.models.fetching import ByHand, offer
from segmeter.models.volumes.slices import EncodesValues, ReadsSlices, interpolated
from segmeter.models.weights import CheckpointModel, named_tensors

if TYPE_CHECKING:
    from segmeter.models.volumes._networks import ScribbleUNet

Values = npt.NDArray[np.float32]
_SIDE = 128
_NAME = "scribbleprompt"
_SUMMARY = "ScribblePrompt-UNet at 128: clicks, boxes, strokes"
_TAKES = frozenset({"click", "box", "scribble", "mask"})
_CARD = ModelCard(_NAME, _SUMMARY, _TAKES, "Apache-2.0", "wong2024", _NAME)
_HOME = "https://github.com/halleewong/ScribblePrompt"
offer(_NAME, ByHand(_HOME, "ScribblePrompt_unet_v1_nf192_res128.pt"))


@catalogue.models.add(_NAME, _SUMMARY)
@capable(EncodesValues, ReadsSlices)
class ScribblePrompt(CheckpointModel):
    """ScribblePrompt's U-Net for images and slices."""

    def __init__(self, weights: str | None = None, device: str = "auto") -> None:
        super().__init__(_CARD, weights, device)

    @cached_property
    def network(self) -> ScribbleUNet:
        """Read from its file when first needed, strictly."""
        from segmeter.models.volumes._networks import ScribbleUNet

        return self.filled(ScribbleUNet(), named_tensors(self.weights_path))

    def encode(self, scene: Scene) -> ScribbleEncodedScene:
        """An image's grey values, stretched from its darkest to its brightest."""
        return self.encode_values([as_image(scene, _NAME).pixels.mean(axis=2, dtype=np.float32)])[0]

    def encode_values(self, values: Sequence[Values]) -> list[ScribbleEncodedScene]:
        """Slices of grey values."""
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

    def predict(self, requests: Sequence[Request]) -> list[LazyPrediction]:
        """All requests in one pass."""
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
        masks = [partial(self._mask, own) for own in logits]
        return [LazyPrediction(*made) for made in zip(masks, states, strict=True)]

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
            case Click(point, positive):
                self._draw(drawn, Scribble((point,), positive))
            case Scribble(points, positive):
                for point in points:
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
