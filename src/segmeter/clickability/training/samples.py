"""Training samples for the clickability network: what people were shown, and where they clicked.

A training sample is one key of a clicks file: an image, the object, the error region, all
clicks on it. Framed, it is what the network sees, and the map it should give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import blurred_clicks, soft_error_region
from segmeter.clickability.network import FRAME, Letterbox, normalised
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Dataset
from segmeter.core.seeds import generator
from segmeter.datasets.recorded_clicks import Clicks, Key, previous_mask

Floats = npt.NDArray[np.float32]
_COLOURS = 3
_ERROR_REGION = 4
_SMALLEST, _LARGEST = 0.75, 1.5
# In deviations of the normalised colours.
_BRIGHTER, _TINT = 0.4, 0.15
Shown = tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], Floats]
# Framed training samples kept in memory by all workers together, 2.4 MB each at the full frame.
_MOST_KEPT = 512


def varied(
    planes: Floats, box: Letterbox, rng: np.random.Generator, protocol: ProtocolName = "corrected"
) -> Floats:
    """Planes `(7, F, F)` as another photographer might have taken them."""
    if protocol == "corrected":
        planes = _scaled(_coloured(planes, box, rng), rng)
    if rng.random() < 0.5:
        planes = planes[..., ::-1]
    return np.ascontiguousarray(planes)


def _coloured(planes: Floats, box: Letterbox, rng: np.random.Generator) -> Floats:
    """Contrast, brightness, tint and saturation of the image; padding stays as it is."""
    (y, x), (height, width) = box.low, box.size
    inside = (slice(0, _COLOURS), slice(y, y + height), slice(x, x + width))
    colours = planes[inside]
    grey = colours.mean(axis=0, keepdims=True)
    colours = grey + (colours - grey) * rng.uniform(0.5, 1.5)
    colours = colours * rng.uniform(0.7, 1.4) + rng.uniform(-_BRIGHTER, _BRIGHTER)
    planes = planes.copy()
    planes[inside] = colours + rng.uniform(-_TINT, _TINT, (_COLOURS, 1, 1))
    return planes


def _scaled(planes: Floats, rng: np.random.Generator) -> Floats:
    """Larger or smaller and moved, with the error region still inside the frame."""
    frame = planes.shape[-1]
    filled = planes[_ERROR_REGION] > 0.5
    ends = [np.flatnonzero(filled.any(axis=1 - k)) for k in (0, 1)]
    if not ends[0].size:
        return planes
    low = np.array([e[0] for e in ends], dtype=float)
    high = np.array([e[-1] + 1 for e in ends], dtype=float)
    most = max(_SMALLEST, min(_LARGEST, 0.95 * frame / float((high - low).max())))
    scale = math.exp(rng.uniform(math.log(_SMALLEST), math.log(most)))
    # The frame's middle stays about where it is, unless the error region would leave.
    shift = frame / 2 * (1 - scale) + rng.uniform(-0.1, 0.1, 2) * frame
    shift = np.clip(shift, -scale * low, frame - scale * high)
    way = np.array([[scale, 0, shift[1]], [0, scale, shift[0]]])
    flags = cv2.INTER_LINEAR
    moved = [cv2.warpAffine(plane, way, (frame, frame), flags=flags) for plane in planes]
    return np.stack(moved)


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One key: its name and image, its clicks, and a function that reads the rest.

    `points` are `(y, x)` pixels of images of `sizes`; `show()` gives image `(H, W, 3)`,
    object `(H, W)` and error region `(H, W)`, 0..1.
    """

    name: str
    image: str
    points: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    show: Callable[[], Shown]

    def clicks(self, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
        return np.asarray(self.points * np.array(shape) // self.sizes, dtype=np.int64)


def samples_of(
    clicks: Clicks, datasets: Mapping[str, Dataset], previous: Path | None = None
) -> list[TrainingSample]:
    """The training samples of a clicks file, for datasets by the names that the file has for them.

    Keys of other datasets are left out; keys of later rounds are left out without
    `previous`, the folder of the masks that people saw.
    """
    known = {name: frozenset(data.scenes()) for name, data in datasets.items()}
    found = []
    for key, places in clicks.groups():
        if key.dataset not in datasets or (key.kind != "first" and previous is None):
            continue
        if key.image not in known[key.dataset]:
            raise NotFound(
                f"the clicks name image '{key.image}' of '{key.dataset}', which is not available"
            )
        show = partial(_shown, datasets[key.dataset], key, previous)
        name = f"{key.dataset}/{key.full_stem}/{key.kind}"
        image = f"{key.dataset}/{key.image}"
        found.append(TrainingSample(name, image, clicks.points[places], clicks.sizes[places], show))
    if not found:
        raise BadInput("the clicks file has no clicks on the given datasets")
    return found


def split(
    training_samples: Sequence[TrainingSample], seed: int
) -> tuple[list[TrainingSample], list[TrainingSample]]:
    """Samples to learn from, and a tenth to choose by; an image's samples stay together."""
    images = sorted({sample.image for sample in training_samples})
    order = generator(seed, "choose").permutation(len(images))
    validation = {images[i] for i in order[: max(1, round(0.1 * len(images)))]}
    if len(validation) == len(images):
        raise BadInput("one image is too few to train and to validate on")
    learn = [sample for sample in training_samples if sample.image not in validation]
    return learn, [sample for sample in training_samples if sample.image in validation]


@dataclass(slots=True)
class TrainingSamples:
    """Training samples as arrays for the network, framed once, augmented at every access."""

    samples: Sequence[TrainingSample]
    protocol: ProtocolName
    frame: int = FRAME
    seed: int = 0
    workers: int = 0
    _kept: dict[int, tuple[Letterbox, npt.NDArray[np.float16]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, at: tuple[int, int]) -> Floats:
        """Planes `(7, F, F)` of a sample in an epoch: colours, object, error region, softened
        error region, goal; epoch -1 is the sample as it is."""
        epoch, index = at
        known = self._kept.get(index)
        if known is None:
            box, planes = framed(self.samples[index], self.protocol, self.frame)
            known = box, planes.astype(np.float16)
            if len(self._kept) < _MOST_KEPT // max(1, self.workers):
                self._kept[index] = known
        if epoch < 0:
            return known[1].astype(np.float32)
        rng = generator(self.seed, "vary", epoch, self.samples[index].name)
        return varied(known[1].astype(np.float32), known[0], rng, self.protocol)


def framed(
    sample: TrainingSample, protocol: ProtocolName, frame: int = FRAME
) -> tuple[Letterbox, Floats]:
    """A training sample's planes `(7, F, F)` and the position of its image in them."""
    image, target, error_region = sample.show()
    shape = (image.shape[0], image.shape[1])
    soft = soft_error_region(error_region, protocol)
    goal = soft * blurred_clicks(sample.clicks(shape), shape)
    if not goal.any():
        raise BadInput(f"{sample.name}: no click is near the error region")
    box = Letterbox(shape, frame)
    parts = [box.put(part, protocol == "corrected") for part in (target, error_region, soft, goal)]
    colours = box.put(normalised(image), protocol == "corrected")
    return box, np.concatenate([colours.transpose(2, 0, 1), np.stack(parts)])


def _shown(data: Dataset, key: Key, previous: Path | None) -> Shown:
    scene = data.load(key.image)
    # The file leaves the name of an object out where there is but one.
    alone = not key.object and len(scene.targets) == 1
    objects = [t.mask for t in scene.targets if alone or t.id == key.object]
    if not objects:
        raise NotFound(f"image '{key.image}' of '{key.dataset}' has no object '{key.object}'")
    target = objects[0].dense()
    if key.kind == "first" or previous is None:
        return scene.pixels, target, target.astype(np.float32)
    before = previous_mask(previous, key)
    if before.shape != target.shape:
        wide = cv2.resize(before, target.shape[::-1], interpolation=cv2.INTER_LINEAR)
        before = np.asarray(wide, dtype=np.float32)
    wrong = target * (1 - before) if key.kind == "fn" else (1 - target) * before
    return scene.pixels, target, wrong.astype(np.float32)
