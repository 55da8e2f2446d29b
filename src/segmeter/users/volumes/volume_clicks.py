"""Volume clicks: users who place clicks or a lasso in the whole volume, round by round.

Those of autoPET IV, on lesions and on hot background, are drawn before any prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from segmeter.clickability.groups import draw_voxel, share_of_group, volume_prior
from segmeter.clickability.maps import Round
from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.capabilities import CountsEffort, GivesLater, GivesPrompts, capable
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import components, deepest_voxel, largest_component, squared_depths
from segmeter.core.prompts import Box, Click, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target, Volume
from segmeter.core.users import Observation
from segmeter.users.error_prompts import clicked_pixels
from segmeter.users.volumes.initial_prompts import check_target, foreground_slices

# The challenge draws ties with this seed, set again for each click.
_TIE_SEED = 42
_LARGE_VOXELS = 60_000_000
Voxels = list[tuple[int, ...]]
_HOT_PERCENT = 99.75
_SEED = 42


def challenge_box(target: Mask) -> Box:
    """First to last slice, with the rows and columns of the middle one, all inside.

    The middle slice is the one half way through the list of the target's slices.
    """
    own = foreground_slices(target)
    middle = target.slice(own[len(own) // 2])
    return Box((own[0], *middle.low), (own[-1], *(h - 1 for h in middle.high)))


def middle_click(
    target: Mask, prediction: Mask, rng: np.random.Generator | None = None
) -> Click | None:
    """A click on the deepest voxel of the largest wrong part; None when nothing is wrong.

    False negatives and false positives that touch are one part, as in the challenge's
    script; the first in raster order is taken on a tie. Ties of depth are drawn: by the
    script's own generator, seeded each time, unless another is given. Without one, depth in a
    part whose padded box has more than 6e7 voxels is found on blocks of 2 x 2 x 2, as there.
    """
    wrong = (target - prediction) | (prediction - target)
    if not wrong:
        return None
    deepest, _ = deepest_voxels(largest_component(wrong), exact=rng is not None)
    if rng is None:
        chosen = int(np.random.RandomState(_TIE_SEED).randint(len(deepest)))
    else:
        chosen = int(rng.integers(len(deepest)))
    voxel = tuple(int(c) for c in deepest[chosen])
    return Click(voxel, target[voxel])


def deepest_voxels(part: Mask, *, exact: bool) -> tuple[npt.NDArray[np.intp], float]:
    """The voxels of a part that are farthest from its outside, and their squared depth."""
    pads = [max(1, n // 4) for n in part.bits.shape]
    padded = np.prod([n + 2 * pad for n, pad in zip(part.bits.shape, pads, strict=True)])
    find = _deepest if exact or padded <= _LARGE_VOXELS else partial(_deepest_in_blocks, pads)
    voxels, depth = find(part.bits)
    return voxels + part.low, depth


def _deepest(bits: Bits) -> tuple[npt.NDArray[np.intp], float]:
    """Places of the deepest voxels, and the squared distance to the nearest one outside."""
    depth = np.rint(squared_depths(bits, (1.0, 1.0, 1.0))) * bits
    return np.argwhere(depth == depth.max()), float(depth.max())


def _deepest_in_blocks(pads: Sequence[int], bits: Bits) -> tuple[npt.NDArray[np.intp], float]:
    """The same in blocks of two voxels, counted from the corner of the padded box.

    A block is inside if any of its voxels is; each voxel has the depth of its block.
    """
    before = [(pad % 2, (pad + n) % 2) for n, pad in zip(bits.shape, pads, strict=True)]
    even = np.pad(bits, before)
    halves = [n for side in even.shape for n in (side // 2, 2)]
    blocks, depth = _deepest(np.asarray(even.reshape(halves).any(axis=(1, 3, 5))))
    voxels = (2 * blocks[:, None] + np.indices((2, 2, 2)).reshape(3, 8).T).reshape(-1, 3)
    voxels = voxels[even[tuple(voxels.T)]]
    return voxels[np.lexsort(voxels.T[::-1])] - np.array(before)[:, 0], depth


@capable(CountsEffort)
class Clicks:
    """A user who needs no scrolling; one interaction per round unless stated otherwise."""

    __slots__ = ()
    paper_interactions: ClassVar[str] = "1/1"

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        """A click is a point; the challenge's box is a box in one slice and two named slices."""
        boxes = sum(isinstance(p, Box) for p in prompts)
        strokes = [p for p in prompts if isinstance(p, Scribble)]
        return Effort(
            points=len(prompts) - boxes - len(strokes), boxes=boxes, slices=2 * boxes,
            scribbles=len(strokes), stroke_px=float(sum(len(p.points) for p in strokes)),
        )  # fmt: skip


@catalogue.users.add(
    "volume-centre-click", "volumes: clicks the deepest wrong voxel, in millimetres"
)
@dataclass(frozen=True, slots=True)
class VolumeCentreClick(Clicks):
    """Clicks the deepest wrong voxel that was not clicked before, by distance in mm.

    Positive when the false negatives are deeper; a tie is a negative click; first in raster
    order among equally deep voxels. Spacing is the volume's own, so that in a volume of thick
    slices depth is not counted in slices.
    """

    name: str = "volume-centre-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        return _centre(observation)


@catalogue.users.add(
    "volume-clicking-group", "volumes: clicks of an RClicks group (group=1..10; 0 for all)"
)
@dataclass(frozen=True, slots=True)
class VolumeClickingGroup(Clicks):
    """Clicks drawn from the click model of error regions, carried over to volumes.

    The centre click's rule chooses the side to correct. Group 1 holds the least likely tenth
    of clicks, 10 the likeliest, 0 all of them.
    """

    group: int = 0
    repeat: int = 1

    def __post_init__(self) -> None:
        share_of_group(self.group)

    @property
    def name(self) -> str:
        again = f"&repeat={self.repeat}" if self.repeat != 1 else ""
        return f"volume-clicking-group?group={self.group}{again}"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        click = _centre(observation)
        if click is None:
            return None
        side = error_regions(observation.target, observation.mask)[not click.positive]
        round: Round = "later" if observation.mask else "first"
        weights = volume_prior(side, _spacing(observation), round=round)
        share, done = share_of_group(self.group), clicked_pixels(observation.prompts)
        voxel = draw_voxel(side, weights, share, float(rng.random()), done)
        return None if voxel is None else Click(voxel, click.positive)


@catalogue.users.add("cvpr25-clicks", "volumes: a box, then clicks as in the CVPR 2025 challenge")
@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class ChallengeClicks(Clicks):
    """The protocol of the CVPR 2025 challenge on interactive segmentation of volumes.

    In `published` ties of depth are drawn as the challenge's script draws them, by one seed;
    in `corrected` by the session's own generator.
    """

    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    box: bool = True
    paper_interactions: ClassVar[str] = "4/1"

    @property
    def name(self) -> str:
        return "cvpr25-clicks" if self.box else "cvpr25-clicks?box=false"

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"box"}) if self.box else frozenset()

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if self.box and not observation.prompts:
            return challenge_box(observation.target.mask)
        own = None if observation.protocol == "published" else rng
        return middle_click(observation.target.mask, observation.mask, own)


def _centre(observation: Observation) -> Click | None:
    """The deepest wrong voxel in millimetres that was not clicked before."""
    spacing, done = _spacing(observation), clicked_pixels(observation.prompts)
    negatives, positives = error_regions(observation.target, observation.mask)
    deep, inside = deepest_voxel(negatives, spacing, done)
    other, outside = deepest_voxel(positives, spacing, done)
    if deep > other and inside is not None:
        return Click(inside, True)
    return None if outside is None else Click(outside, False)


def _spacing(observation: Observation) -> tuple[float, ...]:
    spacing = observation.scene.spacing_mm
    if spacing is None:
        raise BadInput(
            f"{observation.scene.name}: clicks in volumes need a volume with its spacing; "
            "images have 'centre-click' and 'clicking-group'"
        )
    return spacing


def lasso(region: Mask, positive: bool = True) -> Scribble:
    """A closed stroke around the largest part of a region, in the slice that holds most of it.

    The stroke runs over the part's outermost pixels and ends where it began; the first slice,
    and the first part in raster order, on a tie.
    """
    import cv2

    check_target(region)
    part = largest_component(region)
    z = int(part.bits.sum(axis=(1, 2)).argmax()) + part.low[0]
    flat = largest_component(part.slice(z))
    found, _ = cv2.findContours(
        flat.bits.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    around = [(z, int(y) + flat.low[0], int(x) + flat.low[1]) for x, y in found[0][:, 0]]
    return Scribble((*around, around[0]), positive)


@catalogue.users.add(
    "lasso", "volumes: a closed line around the larger kind of error, in one slice"
)
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class Lasso(Clicks):
    """Draws around the largest part of whichever error has more voxels; a tie is positive."""

    gives: ClassVar[frozenset[str]] = frozenset({"scribble"})
    name: str = "lasso"
    paper_interactions: ClassVar[str] = "3/3"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        negatives, positives = error_regions(observation.target, observation.mask)
        if not negatives and not positives:
            return None
        positive = negatives.area >= positives.area
        return lasso(negatives if positive else positives, positive)


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
    tumor = _clicks(lesions, n, draws, order, border=True)
    if pet is None or lesions.all():
        return AutopetClicks(tumor, [])
    hot = (pet > np.percentile(pet[~lesions], _HOT_PERCENT)) & ~lesions
    background = _clicks(hot, n, draws, order, border=protocol == "corrected")
    if any(lesions[voxel] for voxel in background):
        raise BadInput("a background click is on a lesion, where the challenge's script stops")
    return AutopetClicks(tumor, background)


@catalogue.users.add(
    "autopet-clicks", "volumes: clicks on lesions and hot background, as in autoPET IV"
)
@dataclass(frozen=True, slots=True)
class AutopetUser(Clicks):
    """The protocol of autoPET IV: each round gives one more click of either kind.

    All clicks are drawn beforehand, independent of the predictions. The volume shown is the PET;
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
    bits: Bits, n: int, draws: np.random.RandomState, order: str, *, border: bool
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
            elif depth.max() == 1:
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
