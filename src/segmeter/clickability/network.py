"""The clickability network as a click source: a checkpoint, an image, an error region, a map."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import ClickabilityMap, ClickSource
from segmeter.core.errors import BadWeights
from segmeter.models.weights import load_into, named_tensors

if TYPE_CHECKING:
    from segmeter.clickability._segnext import Clickability

FRAME = 416
_MEAN = np.array([0.485, 0.456, 0.406])
_DEVIATION = np.array([0.229, 0.224, 0.225])
_SIZE_KEY, _FRAME_KEY, _RECIPE_KEY = "segmeter.size", "segmeter.frame", "segmeter.recipe"
COUNTERS = ("num_batches_tracked",)  # of training steps: a file may lack them
# What the benchmark's wrapper adds to the range before it divides by it.
_EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Position of an image in the frame.

    The longer side fills the frame, the other is cut to a whole number of pixels; the image
    is centred by halving, and the rest is zero. Resizing is bilinear without smoothing, as
    the original does, or by area (`smooth`), which loses no peak when shrinking.
    """

    shape: tuple[int, int]
    frame: int = FRAME

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.shape
        if height > width:
            return self.frame, max(1, width * self.frame // height)
        return max(1, height * self.frame // width), self.frame

    @property
    def low(self) -> tuple[int, int]:
        height, width = self.size
        return (self.frame - height) // 2, (self.frame - width) // 2

    def put(self, values: npt.NDArray[Any], smooth: bool = False) -> npt.NDArray[np.float32]:
        """An image or map, `(H, W)` or `(H, W, C)`, in the frame."""
        height, width = self.size
        shrinks = height < self.shape[0] or width < self.shape[1]
        way = cv2.INTER_AREA if smooth and shrinks else cv2.INTER_LINEAR
        small = cv2.resize(values.astype(np.float32), (width, height), interpolation=way)
        framed = np.zeros((self.frame, self.frame, *values.shape[2:]), dtype=np.float32)
        y, x = self.low
        framed[y : y + height, x : x + width] = small
        return framed


def network_source(checkpoint: Path) -> ClickSource:
    """A trained clickability network.

    `published` spreads the map over frame and padding before the error region is cut; `corrected`
    does the same forward pass, and the cut makes it a distribution on the error region alone.
    """
    network = load(checkpoint)
    return lambda region: ClickabilityMap.of(
        apply(network, region.scene.pixels, region.target.mask.dense(), region.mask.dense())
    )


def apply(
    network: Clickability,
    image: npt.NDArray[np.uint8],
    target: npt.NDArray[np.bool_],
    error_region: npt.NDArray[Any],
) -> npt.NDArray[np.float32]:
    """The map of an image `(H, W, 3)`, 0..1, as the benchmark's wrapper computes it."""
    import torch

    box = Letterbox((image.shape[0], image.shape[1]), network.frame)
    framed = [box.put(part, network.smooth) for part in (normalised(image), target, error_region)]
    device = next(network.parameters()).device
    pixels = torch.from_numpy(framed[0].transpose(2, 0, 1)[None].copy()).to(device)
    maps = torch.from_numpy(np.stack(framed[1:])[None]).to(device)
    with torch.inference_mode():
        made = network.eval()(pixels, maps, _EPSILON)[0, 0]
        y, x = box.low
        height, width = box.size
        part = made[y : y + height, x : x + width][None, None]
        wide = torch.nn.functional.interpolate(
            part, size=box.shape, mode="bilinear", align_corners=False
        )
    values: npt.NDArray[np.float32] = wide[0, 0].float().cpu().numpy()
    return values


def normalised(image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Colours by ImageNet's mean and deviation; done before padding, which is mean colour."""
    return np.asarray(((image / 255.0) - _MEAN) * (1 / _DEVIATION), dtype=np.float32)


def load(path: Path) -> Clickability:
    """A checkpoint by its published keys: safetensors, or a bare state dict of torch."""
    from segmeter.clickability._segnext import BASE, Clickability, Size

    state, notes = named_tensors(path), _notes(path)
    try:
        size = Size(**json.loads(notes[_SIZE_KEY])) if _SIZE_KEY in notes else BASE
        smooth = notes.get(_RECIPE_KEY) == "corrected"
        network = Clickability(size, int(notes.get(_FRAME_KEY, FRAME)), smooth)
    except (RuntimeError, TypeError, ValueError) as error:
        raise BadWeights(f"'{path}' has an invalid size or frame: {error}") from None
    load_into(network, state, f"the weights of a clickability network in '{path}'", COUNTERS)
    return network.eval()


def save(network: Clickability, path: Path, notes: Mapping[str, str]) -> None:
    """Write a network that `load` reads, whole or not at all."""
    from dataclasses import asdict

    from safetensors.torch import save_file

    known = {
        _SIZE_KEY: json.dumps(asdict(network.size)),
        _FRAME_KEY: str(network.frame),
        _RECIPE_KEY: "corrected" if network.smooth else "published",
    }
    fresh = path.with_suffix(".partial")
    state = {k: v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    save_file(state, fresh, metadata={**notes, **known})
    fresh.replace(path)


def _notes(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    if path.suffix != ".safetensors":
        return {}
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}
