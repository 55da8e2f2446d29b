"""Clicks of autoPET IV, drawn before any prediction: on lesions and on hot background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import components
from segmeter.core.prompts import Click, Prompts
from segmeter.core.scenes import Volume
from segmeter.core.users import Observation
from segmeter.users.volumes.volume_clicks import Clicks

Voxels = list[tuple[int, ...]]
_HOT_PERCENT = 99.75
_SEED = 42


class AutopetClicks(NamedTuple):
    """Voxels `(x, y, z)` on lesions and on background; step k gives the first k of each."""

    tumor: Voxels
    background: Voxels


def autopet_clicks(
    lesions: Bits,
    pet: npt.NDArray[np.floating] | None = None,
    n: int = 10,
    *,
    memory: Literal["file", "array"] = "file",
    protocol: ProtocolName = "published",
) -> AutopetClicks:
    """Simulate the clicks of a case: centres of components first, then their border.

    Parameters
    ----------
    lesions, pet
        `(x, y, z)`; without PET there are no background clicks.
    memory
        The script numbers components in the order of memory: `file` for arrays read by nibabel,
        whose first axis runs fastest, `array` for others. `corrected` always takes `array`.
    protocol
        `published`: background clicks of a thin component are drawn from all voxels outside of
        it; one on a lesion ends the script, BadInput here. `corrected`: from its border layer.

    >>> lesions = np.zeros((9, 9, 9), bool); lesions[2:5, 2:5, 2:5] = True
    >>> autopet_clicks(lesions, n=1).tumor
    [(3, 3, 3)]
    """
    draws = np.random.RandomState(_SEED)
    order = memory if protocol == "published" else "array"
    tumor = _clicks(lesions, n, draws, order, thin_rule=False, border=True)
    if pet is None or lesions.all():
        return AutopetClicks(tumor, [])
    hot = (pet > np.percentile(pet[~lesions], _HOT_PERCENT)) & ~lesions
    published = protocol == "published"
    background = _clicks(hot, n, draws, order, thin_rule=published, border=not published)
    if any(lesions[voxel] for voxel in background):
        raise BadInput("a background click is on a lesion, where the challenge's script stops")
    return AutopetClicks(tumor, background)


@catalogue.users.add(
    "autopet-clicks", summary="volumes: clicks on lesions and hot background, as in autoPET IV"
)
@dataclass(frozen=True, slots=True)
class AutopetUser(Clicks):
    """The protocol of autoPET IV: each round gives one more click of either kind.

    All clicks are drawn beforehand, whatever the model predicts. The volume shown is the PET;
    with `background=false` only lesions are clicked, as in its task on CT.
    """

    background: bool = True
    paper_interactions: ClassVar[str] = "2/2"

    @property
    def name(self) -> str:
        return "autopet-clicks" if self.background else "autopet-clicks?background=false"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        scene, target = observation.scene, observation.target
        if not isinstance(scene, Volume):
            raise BadInput(f"{scene.name} is an image; autoPET's clicks need a volume")
        pet = np.asarray(scene.voxels, float).T if self.background else None
        found = autopet_clicks(target.mask.dense().T, pet, protocol=observation.protocol)
        at = slice(observation.round - 1, observation.round)
        return [
            Click(voxel[::-1], positive)
            for voxels, positive in ((found.tumor, True), (found.background, False))
            for voxel in voxels[at]
        ]


def _clicks(
    bits: Bits, n: int, draws: np.random.RandomState, order: str, *, thin_rule: bool, border: bool
) -> Voxels:
    labels = components(bits.T)[0].T if order == "file" else components(bits)[0]
    count = int(labels.max())
    if not count:
        return []
    chosen = draws.choice(np.arange(1, count + 1), min(n, count), replace=False)
    boxes = ndimage.find_objects(labels)
    parts = [_part(labels, int(label), boxes[label - 1]) for label in chosen]
    made = [_raster(depth == depth.max(), low)[0] for depth, low in parts]
    while len(made) < n:
        for depth, low in parts[: n - len(made)]:
            if border:
                candidates = _raster(depth == depth[depth > 0].min(), low)
            elif thin_rule and depth.max() == 1:
                outside = np.ones(bits.shape, bool)
                window = tuple(slice(a, a + s) for a, s in zip(low, depth.shape, strict=True))
                outside[window] = depth == 0
                candidates = _raster(outside, (0, 0, 0))
            else:
                candidates = _raster(depth > 0, low)
            made.append(candidates[int(draws.randint(len(candidates)))])
    return [tuple(int(c) for c in voxel) for voxel in made]


def _part(
    labels: npt.NDArray[np.int32], label: int, box: tuple[slice, ...]
) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
    """Distances of a component to its outside in voxels, and where they start.

    The border of the image is no boundary.
    """
    low = tuple(max(0, side.start - 1) for side in box)
    window = tuple(slice(a, side.stop + 1) for a, side in zip(low, box, strict=True))
    return ndimage.distance_transform_edt(labels[window] == label), low


def _raster(bits: Bits, low: tuple[int, ...]) -> npt.NDArray[np.intp]:
    return np.asarray(np.argwhere(bits) + np.asarray(low))
