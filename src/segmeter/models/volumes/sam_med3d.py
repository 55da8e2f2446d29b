"""SAM-Med3D: clicks on a cube of 128 voxels of 1.5 mm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import FollowsProtocol, LosesPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, ProtocolName, Request
from segmeter.core.prompts import Click, Prompt, Scribble
from segmeter.core.scenes import Scene, Volume
from segmeter.models.adapters import as_volume
from segmeter.models.fetching import ByHand, offer
from segmeter.models.volumes.slices import PromptHistory, interpolated, percentiles
from segmeter.models.weights import CheckpointModel, named_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from segmeter.models.volumes._networks import SamMed3dNetwork

Values = npt.NDArray[np.float32]
Point3 = tuple[float, ...]
_MM = 1.5
_SIDE = 128
_KEPT_CUBES = 8
_SPARE = ("pixel_mean", "pixel_std")
_ANISOTROPIC = 3.0
Size = tuple[int, ...]


class SamMed3d(CheckpointModel):
    """SAM-Med3D or SAM-Med3D-turbo with its published checkpoint."""

    def __init__(self, name: str, weights: str | None = None, device: str = "auto") -> None:
        super().__init__(_CARDS[name], weights, device)

    @cached_property
    def network(self) -> SamMed3dNetwork:
        from segmeter.models.volumes._networks import SamMed3dNetwork

        tensors = named_tensors(self.weights_path, "model_state_dict")
        return self.filled(SamMed3dNetwork(), tensors, _SPARE)

    def encode(self, scene: Scene) -> SamMed3dEncodedScene:
        """Resample; cubes are embedded when prompts say where they lie."""
        return SamMed3dEncodedScene(self.network, as_volume(scene, self.name))


@capable(FollowsProtocol, LosesPrompts)
class SamMed3dEncodedScene:
    """A volume at 1.5 mm; the network sees one cube of it.

    The network was trained on axes right, anterior, superior. `corrected` puts every volume so;
    `published` leaves the file's axes as they are. Published too: voxel sizes are read from
    the affine's diagonal, which is 0 for turned files, so there they are taken as they are.
    """

    def __init__(
        self, network: SamMed3dNetwork, volume: Volume, protocol: ProtocolName = "corrected"
    ):
        self.network, self.volume = network, volume
        self.protocol: ProtocolName = protocol

    def in_protocol(self, protocol: ProtocolName) -> SamMed3dEncodedScene:
        if protocol == self.protocol:
            return self
        return SamMed3dEncodedScene(self.network, self.volume, protocol)

    @cached_property
    def _turned(self) -> Values:
        """The voxels on the network's axes, clipped to their percentiles."""
        voxels = np.asarray(self.volume.voxels, dtype=np.float32)
        low, high = percentiles(voxels)
        return self._to_axes(voxels).clip(low, high)

    @cached_property
    def spacing_mm(self) -> tuple[float, ...]:
        """Along the network's axes."""
        own = (self.volume.header.spacing_mm or (1.0, 1.0, 1.0))[::-1]
        return own if self._file is None else tuple(own[axis] for axis in self._file.axes[0])

    @cached_property
    def resampled(self) -> Values:
        """The volume at 1.5 mm."""
        size = resampled_size(self._turned.shape, self.spacing_mm, _MM)
        return resampled(self._turned, size, self.spacing_mm)

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self._one(request) for request in requests]

    def place(self, point: Sequence[float]) -> Size:
        """A scene's point `(z, y, x)` in voxels of the resampled volume.

        Published scales from first to last voxel, and by the size that the resampled volume
        would have if it were resampled again; corrected maps voxel centres.
        """
        axes = point[::-1] if self._file is None else self._file.file_index(point)
        if self.protocol == "published":
            old = self.resampled.shape
            new = resampled_size(old, self.spacing_mm, _MM)
            sizes = zip(axes, old, new, strict=True)
            return tuple(round(p * (m - 1) / max(n - 1, 1)) for p, n, m in sizes)
        pairs = zip(axes, self._turned.shape, self.resampled.shape, strict=True)
        return tuple(min(max(round((p + 0.5) * m / n - 0.5), 0), m - 1) for p, n, m in pairs)

    def lost_prompts(self, rounds: Sequence[Sequence[Prompt]]) -> list[int]:
        """Number of prompts of each round that the network does not get.

        The first round's points fix the cube; prompts outside it are lost. `published` passes on
        one point per round.
        """
        lost, cube = [], None
        for prompts in rounds:
            places = [[self.place(point) for point, _ in _points(prompt)] for prompt in prompts]
            if cube is None and prompts:
                cube = cube_around([place for own in places for place in own], _SIDE)
            kept = sum(any(map(cube.holds, own)) for own in places) if cube is not None else 0
            kept = min(kept, 1) if self.protocol == "published" else kept
            lost.append(len(prompts) - kept)
        return lost

    def vanishes(self, target: Mask) -> bool:
        """Whether nothing of a target is left at 1.5 mm, by the rule for labels."""
        if not target:
            return False
        bits = self._to_axes(target.dense()).astype(np.float32)
        return not bool((resampled(bits, self.resampled.shape, self.spacing_mm) > 0.5).any())

    def _one(self, request: Request) -> MaskPrediction:
        state = request.state if isinstance(request.state, _State) else None
        history = PromptHistory() if state is None else state.history
        published = self.protocol == "published"
        passed = history.newest_first(request.prompts) if published else request.prompts
        given = [pair for prompt in passed for pair in _points(prompt)]
        passed_on = PromptHistory(request.prompts, passed)
        if not given:
            return MaskPrediction(partial(Mask.empty, self.volume.shape))
        places = [self.place(point) for point, _ in given]
        cube = state.cube if state is not None else cube_around(places, _SIDE)
        before = state.logits if state is not None else None
        points, labels = self._passed(cube, places, [positive for _, positive in given])
        logits = before
        if points:
            if published and history.repeated_in(request.prompts):
                before = None  # prompts that are merged with earlier ones lose the mask there
            logits = self._decoded(cube, points, labels, before)
        made = _State(cube, logits, passed_on)
        return MaskPrediction(partial(self.rendered, cube, logits), state=made)

    def _passed(
        self, cube: Cube, places: Sequence[Point3], signs: Sequence[bool]
    ) -> tuple[list[Point3], list[int]]:
        """Points within the cube. Published: one, the first there, with the first's sign."""
        inside = [(p, s) for p, s in zip(places, signs, strict=True) if cube.holds(p)]
        if self.protocol == "published":
            one = inside[0][0] if inside else np.mean(places, axis=0)
            return [tuple(np.subtract(one, cube.begin))], [int(signs[0])]
        return [tuple(np.subtract(p, cube.begin)) for p, _ in inside], [int(s) for _, s in inside]

    def _decoded(
        self, cube: Cube, points: Sequence[Point3], labels: Sequence[int], before: Values | None
    ) -> Values:
        import torch

        device = next(self.network.parameters()).device
        with torch.no_grad():
            cells = self.embedded(cube)
            start = np.zeros((_SIDE // 4,) * 3, np.float32)
            mask = torch.from_numpy(start if before is None else before).to(device)
            at = torch.tensor(list(points), dtype=torch.float32, device=device)
            found = self.network.decode(cells, at, torch.tensor(list(labels), device=device), mask)
        return np.asarray(found[0].float().cpu().numpy())

    @cached_property
    def embedded(self) -> Callable[[Cube], Tensor]:
        """A function that embeds cubes; it keeps the cells of those used last."""
        import torch

        network, whole = self.network, self.resampled  # not `self`: it would keep itself alive
        device = next(network.parameters()).device

        @lru_cache(_KEPT_CUBES)
        def embed(cube: Cube) -> Tensor:
            values = cube.cut(whole)
            inside = values[values > 0]
            if inside.size:
                values = (values - inside.mean()) / (inside.std() or 1.0)
            return network.encode(torch.from_numpy(values)[None, None].to(device))

        return embed

    def rendered(self, cube: Cube, logits: Values | None) -> Mask:
        """A mask at the scene's size; published cuts at 0.5 where 0 is meant.

        An empty one where no click was in the cube yet.
        """
        if logits is None:
            return Mask.empty(self.volume.shape)
        large = interpolated(logits, (_SIDE,) * 3, "trilinear")
        threshold = 0.5 if self.protocol == "published" else 0.0
        whole = np.zeros(self.resampled.shape, np.float32)
        cube.paste((large > threshold).astype(np.float32), whole)
        back = resampled(whole, self._turned.shape, (_MM,) * 3) > 0.5
        turned = back.T if self._file is None else self._file.to_scene(back)
        return Mask.of(np.ascontiguousarray(turned))

    @property
    def _file(self) -> Any | None:
        """The grid of the volume's file, in `published`."""
        return getattr(self.volume, "grid", None) if self.protocol == "published" else None

    def _to_axes(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(array.T if self._file is None else self._file.to_file(array))


@dataclass(frozen=True, slots=True)
class _State:
    """The cube, which the first prompt fixes, and the last logits in it."""

    cube: Cube
    logits: Values | None
    history: PromptHistory


def _points(prompt: Prompt) -> list[tuple[Sequence[float], bool]]:
    match prompt:
        case Click(point, positive):
            return [(point, positive)]
        case Scribble(points, positive):
            step = max(1, math.ceil(len(points) / 8))
            return [(point, positive) for point in points[::step]]
        case _:
            raise BadInput("SAM-Med3D takes clicks and strokes only")


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube of a volume by its first voxel on each axis; it may reach past the volume."""

    begin: Size
    side: int

    def cut(self, values: Values) -> Values:
        """The cube's values; zeros where it reaches past the volume."""
        found = np.zeros((self.side,) * 3, values.dtype)
        here, there = self._both(values.shape)
        found[here] = values[there]
        return found

    def paste(self, cube: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Put a cube's values back into the volume."""
        here, there = self._both(into.shape)
        into[there] = cube[here]

    def holds(self, point: Sequence[float]) -> bool:
        return all(b <= p < b + self.side for b, p in zip(self.begin, point, strict=True))

    def _both(self, shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The overlap of cube and volume, as slices of each."""
        begin = np.array(self.begin)
        low = begin.clip(0)
        high = np.minimum(begin + self.side, shape).clip(low)
        return tuple(map(slice, low - begin, high - begin)), tuple(map(slice, low, high))


def cube_around(points: Sequence[Sequence[int]], side: int = 128) -> Cube:
    """The cube around the middle of all points; half a voxel is rounded down.

    >>> cube_around([(100, 90, 80)]).begin
    (36, 26, 16)
    """
    low, high = np.min(points, axis=0), np.max(points, axis=0) + 1
    return Cube(tuple(int(n) // 2 - side // 2 for n in low + high), side)


def resampled_size(size: Sequence[int], spacing_mm: Sequence[float], to_mm: float) -> Size:
    """Voxels on each axis at another spacing, at least one."""
    return tuple(max(1, round(n * s / to_mm)) for n, s in zip(size, spacing_mm, strict=True))


def resampled(values: Values, size: Sequence[int], spacing_mm: Sequence[float]) -> Values:
    """A volume at another size, linear between voxel centres, without antialias.

    Along the one axis of much larger spacing (three times the smallest) the nearest voxel
    counts: nothing lies between slices that far apart.
    """
    largest = max(spacing_mm)
    coarse = [axis for axis, spacing in enumerate(spacing_mm) if spacing == largest]
    if largest / min(spacing_mm) <= _ANISOTROPIC or len(coarse) > 1:
        return interpolated(values, size, "trilinear")
    within = [n if axis not in coarse else values.shape[axis] for axis, n in enumerate(size)]
    return interpolated(interpolated(values, within, "trilinear"), size, "nearest-exact")


_TAKES = frozenset({"click", "scribble", "volume"})
_CARDS = {
    name: ModelCard(
        name, f"{title}, clicks on a cube of 128 voxels", _TAKES, "Apache-2.0", "wang2023",
        "sam-med3d",
    )
    for name, title in (("sam-med3d", "SAM-Med3D"), ("sam-med3d-turbo", "SAM-Med3D-turbo"))
}  # fmt: skip


for _name, _card in _CARDS.items():
    catalogue.models.add(_name, _card.summary)(partial(SamMed3d, _name))
    _file = f"{_name.replace('-', '_')}.pth"
    offer(_name, ByHand("https://github.com/uni-medical/SAM-Med3D", _file))
