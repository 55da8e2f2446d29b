"""An image encoded by a click network: RITM's predictor, many sessions at a time.

The state of a session is the last map of probabilities and the box of its zoom.
Sessions whose inputs have the same size go through the network together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, Request
from segmeter.core.prompts import Click, MaskHint, Prompt
from segmeter.core.scenes import Scene
from segmeter.models.clicknets._zoom import (
    Spot,
    Zoom,
    ZoomBox,
    ZoomFrame,
    hard_discs,
    points_tensor,
    soft_discs,
)

_PIXELS_AT_ONCE = 4_000_000  # of network input; about 6 GB of activations for HRNet-18


@dataclass(frozen=True, slots=True)
class Settings:
    """How a network is used: zoom, averaging over the mirrored image, threshold."""

    zoom: Zoom
    flip: bool = True
    threshold: float = 0.49


@dataclass(frozen=True, slots=True)
class State:
    """State between clicks: probabilities `(H, W)` and the kept box."""

    probabilities: Tensor
    box: ZoomBox | None = None

    def mask(self, threshold: float) -> Mask:
        return Mask.of((self.probabilities > threshold).cpu().numpy())


@dataclass(frozen=True, slots=True)
class Session:
    """A prepared request: clicks, state and the network's input."""

    spots: tuple[Spot, ...]
    previous: Tensor
    frame: ZoomFrame
    box: ZoomBox | None


class ClickNetEncodedScene:
    def __init__(self, network: Any, scene: Scene, settings: Settings) -> None:
        self.network, self.settings, self.name = network, settings, scene.name
        self.device = next(network.parameters()).device
        pixels = torch.from_numpy(np.array(scene.pixels)).to(self.device)
        self.image = pixels.permute(2, 0, 1).float() / 255

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        """Probabilities of one mask each; these networks give no score of their own."""
        with torch.no_grad():
            sessions = [self.session(request) for request in requests]
            maps = self._probabilities(sessions)
            sessions, maps = self._encode_again(sessions, maps)
            maps = [m if s.spots else s.previous for s, m in zip(sessions, maps, strict=True)]
        states = [State(found, s.box) for s, found in zip(sessions, maps, strict=True)]
        return [MaskPrediction(partial(s.mask, self.settings.threshold), state=s) for s in states]

    def session(self, request: Request) -> Session:
        state, given = request.state, [p for p in request.prompts if isinstance(p, MaskHint)]
        if state is None and given:
            if not self.network.with_previous:
                raise BadInput(f"{self.name}: this network has no input for a mask; give clicks")
            state = State(self.image.new_tensor(given[-1].mask.dense()))
        elif state is None:
            state = State(self.image.new_zeros(self.image.shape[1:]))
        spots = _spots(request.prompts, self.name)
        frame, box = self.settings.zoom.frame(spots, state.probabilities, state.box)
        return Session(spots, state.probabilities, frame, box)

    def movable_clicks(self, requests: Sequence[Request]) -> MovableDiscs:
        return MovableDiscs(self, [self.session(request) for request in requests])

    def logits(self, sessions: Sequence[Session], discs: Tensor) -> Tensor:
        """Logits `(B, h, w)` of sessions with inputs of one size, mirrored and averaged."""
        seen = [session.frame.cut(self.image) for session in sessions]
        images, maps = torch.stack(seen), discs
        if self.network.with_previous:
            before = torch.stack([s.frame.cut(s.previous[None]) for s in sessions])
            maps = torch.cat([before, discs], dim=1)
        if not self.settings.flip:
            direct: Tensor = self.network(images, maps)
            return direct[:, 0]
        both = self.network(torch.cat([images, images.flip(3)]), torch.cat([maps, maps.flip(3)]))
        straight, mirrored = both.chunk(2)
        mean: Tensor = 0.5 * (straight + mirrored.flip(3))
        return mean[:, 0]

    def discs(self, sessions: Sequence[Session]) -> Tensor:
        moved = [[(*s.frame.into(spot[:2]), spot[2]) for spot in s.spots] for s in sessions]
        return hard_discs(points_tensor(moved).to(self.device), sessions[0].frame.input)

    def _probabilities(self, sessions: Sequence[Session]) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for part in batches(sessions):
            group = [sessions[i] for i in part]
            maps = self.logits(group, self.discs(group)).sigmoid()
            found |= {i: sessions[i].frame.paste(one) for i, one in zip(part, maps, strict=True)}
        return [found[i] for i in range(len(sessions))]

    def _encode_again(
        self, sessions: list[Session], maps: list[Tensor]
    ) -> tuple[list[Session], list[Tensor]]:
        """Small objects are predicted again, zoomed in, if the rule requires it."""
        zoom = self.settings.zoom
        again = [i for i, s in enumerate(sessions) if zoom.encodes_again(maps[i], s.box)]
        for i in again:
            old = sessions[i]
            # The box comes from the new map; the network still gets the old one.
            frame, box = zoom.frame(old.spots, maps[i], None)
            sessions[i] = Session(old.spots, old.previous, frame, box)
        for i, found in zip(again, self._probabilities([sessions[i] for i in again]), strict=True):
            maps[i] = found
        return sessions, maps


def batches(sessions: Sequence[Session]) -> list[list[int]]:
    """Batches of sessions: equal input sizes, not too many."""
    groups = grouped(range(len(sessions)), lambda i: sessions[i].frame.input)
    parts: list[list[int]] = []
    for (height, width), members in groups.items():
        most = max(1, _PIXELS_AT_ONCE // (height * width))
        parts += [members[k : k + most] for k in range(0, len(members), most)]
    return parts


def _spots(prompts: Sequence[Prompt], name: str) -> tuple[Spot, ...]:
    spots: list[Spot] = []
    for prompt in prompts:
        if isinstance(prompt, MaskHint):
            continue
        if not isinstance(prompt, Click):
            kind = type(prompt).__name__.lower()
            raise BadInput(f"{name}: a click network takes clicks and a mask, not a {kind}")
        spots.append((float(prompt.point[0]), float(prompt.point[1]), prompt.positive))
    return tuple(spots)


class MovableDiscs:
    """Sessions whose last click is a variable, in the frame of the network's input.

    All clicks are drawn as soft discs, the earlier ones without a gradient. The frame is
    the one of the click they start with.
    """

    def __init__(self, encoded: ClickNetEncodedScene, sessions: Sequence[Session]) -> None:
        self._encoded = encoded
        self._sessions = list(sessions)
        self.sizes = [session.frame.input for session in sessions]
        self.step_sizes = self.sizes

    def start(self) -> Tensor:
        last = [session.frame.into(session.spots[-1][:2]) for session in self._sessions]
        return torch.tensor(last, device=self._encoded.device)

    def logits(self, points: Tensor) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for part in batches(self._sessions):
            group = [self._sessions[i] for i in part]
            found |= zip(part, self._encoded.logits(group, self._discs(part, points)), strict=True)
        return [found[i] for i in range(len(self._sessions))]

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        threshold = self._encoded.settings.threshold
        return [
            Mask.of((session.frame.paste(one.detach().sigmoid()) > threshold).cpu().numpy())
            for session, one in zip(self._sessions, logits, strict=True)
        ]

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        return (self.into_frame(index, mask.dense().astype(np.float32)) > 0.5).float()

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        whole = torch.from_numpy(plane).to(self._encoded.device)
        return self._sessions[index].frame.cut(whole[None])[0]

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        pairs = points.detach().tolist()
        return [s.frame.out_of((y, x)) for s, (y, x) in zip(self._sessions, pairs, strict=True)]

    def _discs(self, part: Sequence[int], points: Tensor) -> Tensor:
        """The discs of sessions of one input size, the last click of each where it is now."""
        group = [self._sessions[i] for i in part]
        spots = [[(*s.frame.into(p[:2]), p[2]) for p in s.spots] for s in group]
        table = points_tensor(spots).to(self._encoded.device)
        place = torch.zeros(table.shape[:3], dtype=torch.bool, device=table.device)
        for b, session in enumerate(group):
            sign = session.spots[-1][2]
            count = sum(spot[2] is sign for spot in session.spots)
            place[b, 0 if sign else 1, count - 1] = True
        moved = table.masked_scatter(place[..., None].expand_as(table), points[list(part)])
        return soft_discs(moved, group[0].frame.input)
