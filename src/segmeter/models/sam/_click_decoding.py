"""Single clicks, thousands on one embedding and scored there, and clicks that a gradient moves.

The decoder's passes are large, in half precision on request and compiled by torch on a GPU.
Candidates at the points of a grid are logits: on a CPU these go to the kernel that follows
contours; on a GPU they stay and are enlarged there, and only counts, boxes and finished bits leave
it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.capabilities import JudgePair
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Target
from segmeter.models._enlarging import Measured
from segmeter.models.automatic.candidates import Logits
from segmeter.models.sam._prompt_batches import (
    MOST_FEEDBACK,
    STABLE,
    chosen_of,
    shown_masks,
    stability,
)
from segmeter.models.sam._resizing import RENDERED_PIXELS, Frame, Padded, enlarged, fetched

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene


def click_decoder(encoded: SamEncodedScene, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """From scene points `(B, 2)`, `(y, x)`, to low-resolution logits `(B, low, low)`.

    They are those of the mask that is shown for a single positive click.
    """
    network, own = encoded.network, encoded.embedding
    decoder: Any = network.decoder
    if decoder.training or decoder.iou_token.weight.dtype != dtype:
        decoder = copy.deepcopy(decoder).to(dtype).eval()
    image = replace(own, cells=own.cells + network.prompts.no_mask()).each(lambda x: x.to(dtype))
    position, nothing = encoded.position.to(dtype), image.cells.new_zeros(())

    def decode(points: Tensor) -> Tensor:
        sparse = encoded.encode_clicks(points).to(dtype)
        logits, scores = decoder(image, position, sparse, nothing)
        lone = torch.ones(len(points), dtype=torch.bool, device=points.device)
        first = logits[:, :1].float()
        return chosen_of(logits, shown_masks(encoded.policy, network.second, first, scores, lone))

    return decode


def count(bits: Tensor) -> Tensor:
    """Pixels of each set `(B, H, W)`: `(B,)`."""
    return bits.sum((1, 2), dtype=torch.int32)


def erode(bits: Tensor, reach: int) -> Tensor:
    """Pixels whose square of side `2 reach + 1` lies wholly inside, by running sums."""
    whole = 2 * reach + 1
    for axis, pad in ((1, (0, 0, reach + 1, reach)), (2, (reach + 1, reach))):
        sums = F.pad(bits.int(), pad).cumsum(axis, dtype=torch.int32)
        length = bits.shape[axis]
        bits = sums.narrow(axis, whole, length) - sums.narrow(axis, 0, length) == whole
    return bits


PIXELS_AT_ONCE = 1 << 26
"""Pixels that are up-sampled, thresholded and counted in one go."""


class DeviceJudge:
    """IoU and Boundary IoU of low-resolution logits against one target, on a device."""

    def __init__(
        self, frame: Frame, target: Target, device: torch.device, reach: int, compiled: bool
    ) -> None:
        """`reach` is the width of the boundary's band in pixels; 0 leaves it out."""
        self._frame, self._reach = frame, reach
        self._score = torch.compile(self._scores, dynamic=False) if compiled else self._scores
        ignored = target.ignore or Mask.empty(target.mask.shape)
        whole, self._judged = (
            torch.from_numpy(bits)[None].to(device)
            for bits in (target.mask.dense(), ~ignored.dense())
        )
        self._ground_truth = whole & self._judged
        self._band = whole & ~erode(whole, reach) & self._judged
        # Where all of a band is ignored, bands of what is judged count (`measures.objects`).
        self._hidden = bool(reach) and not bool(self._band.any())
        self._inner = (
            self._ground_truth & ~erode(self._ground_truth, reach) if self._hidden else self._band
        )

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores `(B, 2)` of logits `(B, low, low)`: IoU, and Boundary IoU or NaN."""
        height, width = self._frame.shape
        step = max(1, PIXELS_AT_ONCE // max(height * width, self._frame.side**2))
        return torch.cat([self._score(part) for part in torch.split(logits, step)])

    def _scores(self, logits: Tensor) -> Tensor:
        prediction = self._frame.leave(logits[:, None])[:, 0] > 0
        iou = self._ratio(prediction, self._ground_truth)
        if not self._reach:
            return torch.stack([iou, torch.full_like(iou, torch.nan)], dim=1)
        band = prediction & ~erode(prediction, self._reach)
        boundary = self._ratio(band, self._band)
        if self._hidden:
            seen = prediction & self._judged
            inner = self._ratio(seen & ~erode(seen, self._reach), self._inner)
            boundary = torch.where(count(band & self._judged) == 0, inner, boundary)
        return torch.stack([iou, boundary.masked_fill(count(prediction) == 0, 0.0)], dim=1)

    def _ratio(self, prediction: Tensor, ground_truth: Tensor) -> Tensor:
        """IoU of sets with one ground truth; 1 where neither holds a judged pixel."""
        both = count(prediction & ground_truth)
        either = count((prediction | ground_truth) & self._judged)
        return torch.where(either > 0, both / either.clamp_min(1), 1.0)


TOGETHER = {"cpu": 2, "cuda": 512}
"""Clicks that share a pass of the decoder, at most (perf/automatic.py)."""

CLICK_BYTES = 128 << 20
"""Memory of a device for each click that shares a pass, three times what a click takes."""


def together(device: torch.device) -> int:
    """Clicks that share a pass; the device's whole memory decides, not what is free just now."""
    most = TOGETHER.get(device.type, 64)
    if device.type != "cuda":
        return most
    memory = torch.cuda.get_device_properties(device).total_memory
    return int(min(most, max(16, memory // CLICK_BYTES)))


@torch.no_grad()
def single_click_scores(
    encoded: SamEncodedScene,
    points: npt.NDArray[np.int64],
    target: Target,
    judge_pair: JudgePair,
    band_px: int,
    *,
    dtype: torch.dtype | None = None,
    compiled: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float64] | None:
    """IoU and Boundary IoU `(n, 2)` after a single positive click at each point `(n, 2)`.

    None where there is no fast path, as for SAM-HQ.

    Parameters
    ----------
    judge_pair
        IoU and Boundary IoU of a mask: on a processor the quicker way.
    band_px
        Width of the boundary's band; 0 leaves Boundary IoU out.
    dtype
        By default float16 on CUDA, else float32, in which masks are those of `predict`. Of
        3111 clicks with MobileSAM on GrabCut's first images, IoU changed by 1e-5 in the
        median and by 6e-4 at most in 99 %. Where the model can hardly decide which of its
        masks to show, a click may get another one (0.17 in one case). bfloat16 differs at one click
        in a hundred, so it is not used (perf/click_response.py --error).
    compiled
        Let torch compile decoder and judge; worthwhile from about ten thousand clicks on.
    """
    if encoded.embedding.quality is not None:
        return None
    device = encoded.network.device
    usual = torch.float16 if device.type == "cuda" else torch.float32
    decode = click_decoder(encoded, dtype or usual)
    decode = torch.compile(decode, dynamic=False) if compiled else decode
    judge = None
    if device.type == "cuda":
        judge = DeviceJudge(encoded.frame, target, device, band_px, compiled)
    size = together(device)
    scores = []
    for part in torch.split(torch.from_numpy(points).to(device).float(), size):
        # The last batch is filled up, lest a compiled decoder be compiled again.
        filled = F.pad(part, (0, 0, 0, size - len(part))) if compiled else part
        logits = decode(filled)
        if judge is not None:
            # Left on the device: waiting for each batch would leave it idle between them.
            scores.append(judge(logits))
        else:
            pairs = [judge_pair(target, mask) for mask in encoded.masks_of(logits.float())]
            scores.append(torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2))
        if progress is not None:
            progress(min(size * len(scores), len(points)), len(points))
    return torch.cat(scores)[: len(points)].double().cpu().numpy()


class MovablePoints:
    """Sessions whose last click is a variable, in the frame of the network's square."""

    def __init__(self, encoded: SamEncodedScene, requests: Sequence[Request]) -> None:
        if not all(r.prompts and isinstance(r.prompts[-1], Click) for r in requests):
            raise BadInput("only a session whose last prompt is a click has a gradient")
        self._encoded, self._requests = encoded, list(requests)
        frame = encoded.frame
        inside = frame.inside if isinstance(frame, Padded) else (frame.side, frame.side)
        self.sizes = [inside] * len(requests)
        self.step_sizes = [frame.shape] * len(requests)
        low = 4 * encoded.network.prompts.grid_side
        self._answered = tuple(-(-n * low // frame.side) for n in inside)
        self._low = low
        self._tokens = [encoded.tokens(request.prompts) for request in requests]
        # Clicks come first among the tokens, strokes and boxes do not occur here.
        self._last = [sum(isinstance(p, Click) for p in r.prompts) - 1 for r in requests]
        self._masks = [encoded.mask_prompt(request) for request in requests]

    def start(self) -> Tensor:
        scale = torch.tensor(self._encoded.frame.scale)
        points = [t[0][last] for t, last in zip(self._tokens, self._last, strict=True)]
        return (torch.tensor(points, dtype=torch.float32) * scale).to(self._encoded.network.device)

    def logits(self, points: Tensor) -> list[Tensor]:
        moved = points / torch.tensor(self._encoded.frame.scale, device=points.device)
        found: dict[int, Tensor] = {}
        for group in self._encoded.groups([len(labels) for _, labels in self._tokens]):
            sparse = self._sparse(group, moved)
            with torch.no_grad():
                dense = self._encoded.encode_masks([self._masks[i] for i in group])
            logits, scores = self._encoded.decode(sparse, dense)
            first = [len(self._requests[i].prompts) == 1 for i in group]
            shown = self._encoded.choose(logits.detach(), scores.detach(), first)
            for k, (i, index) in enumerate(zip(group, shown, strict=True)):
                found[i] = logits[k, int(index)]
        rows, columns = self._answered
        return [found[i][:rows, :columns] for i in range(len(self._requests))]

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        rows, columns = self._answered
        pad = (0, self._low - columns, 0, self._low - rows)
        # Only the first cell beyond the image matters; it is replaced by its neighbour.
        wide = [F.pad(one.detach()[None], pad, mode="replicate")[0] for one in logits]
        return self._encoded.masks_of(wide)

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        bits = torch.from_numpy(mask.dense()).to(self._encoded.network.device)
        rows, columns = self._answered
        low = self._encoded.frame.shrink(bits[None, None].float(), self._low)[0, 0]
        return (low[:rows, :columns] > 0.5).float()

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        whole = torch.from_numpy(plane).to(self._encoded.network.device)[None, None]
        size = self.sizes[index]
        return F.interpolate(whole, size=size, mode="bilinear", align_corners=True)[0, 0]

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        high, wide = self._encoded.frame.scale
        return [(y / high, x / wide) for y, x in points.detach().tolist()]

    def _sparse(self, group: Sequence[int], moved: Tensor) -> Tensor:
        points = torch.tensor([self._tokens[i][0] for i in group], dtype=torch.float32)
        labels = torch.tensor([self._tokens[i][1] for i in group], dtype=torch.long)
        points = points.to(moved.device)
        place = torch.zeros(points.shape[:2], dtype=torch.bool, device=moved.device)
        for k, i in enumerate(group):
            place[k, self._last[i]] = True
        free = points.masked_scatter(place[..., None].expand_as(points), moved[list(group)])
        return self._encoded.encode_points(free, labels)


Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DeviceEnlargement:
    """`Enlargement` of maps that stay on a device."""

    frame: Frame
    pixels: ClassVar[int] = 8 * RENDERED_PIXELS

    def measure(self, maps: Tensor, threshold: float, offset: float) -> Measured:
        parts = enlarged(self.frame, maps, self.pixels)
        found = [_counts_and_boxes(values, threshold, offset) for values in parts]
        return Measured.of(torch.cat(found).cpu().numpy())

    def masks(self, maps: Tensor, threshold: float) -> list[Mask]:
        parts = enlarged(self.frame, maps, self.pixels)
        return [Mask.of(bits) for values in parts for bits in fetched(values > threshold)]

    def values(self, maps: Tensor) -> npt.NDArray[np.float32]:
        parts = enlarged(self.frame, maps, self.pixels)
        return np.concatenate([values.cpu().numpy() for values in parts])


@torch.no_grad()
def candidates(
    encoded: SamEncodedScene, points: Points, above: float, tokens: Sequence[int] = (1, 2, 3)
) -> Logits:
    """The masks of each lone click `(y, x)` whose score is above a number, as logits.

    `tokens` selects among the decoder's masks: the three of a lone click, or 0, the one of an
    unambiguous prompt; there is no fall-back to another.
    """
    device, dense = encoded.network.device, encoded.network.prompts.no_mask()
    places = torch.tensor(points, dtype=torch.float32, device=device)
    parts, start = [], 0
    for some in torch.split(places, together(device)):
        found = encoded.decode(encoded.encode_clicks(some), dense)
        logits, scores = (own[:, list(tokens)] for own in found)
        passed = scores > above if above > 0 else torch.ones_like(scores, dtype=torch.bool)
        parts.append((logits[passed], scores[passed], passed.nonzero()[:, 0] + start))
        start += len(some)
    return _gathered(encoded, parts)


@torch.no_grad()
def refined(encoded: SamEncodedScene, points: Points, candidates: Logits) -> Logits:
    """Each candidate again, from its click and its own logits; the single mask is taken.

    SAM 2 falls back to the best of three where the single mask is unstable.
    """
    device = encoded.network.device
    maps = torch.as_tensor(candidates.maps, device=device).clamp(-MOST_FEEDBACK, MOST_FEEDBACK)
    clicks = torch.tensor(points[candidates.places], dtype=torch.float32, device=device)
    given, parts = (maps, clicks, torch.from_numpy(candidates.places)), []
    step = min(together(device), 128)  # with images of their own from the start
    for own, some, places in zip(*(torch.split(column, step) for column in given), strict=True):
        dense = encoded.network.prompts.masks(own[:, None])
        logits, scores = encoded.decode(encoded.encode_clicks(some), dense)
        shown = torch.zeros(len(logits), dtype=torch.long, device=device)
        if encoded.network.second:
            shown = (1 + scores[:, 1:].argmax(dim=1)).where(stability(logits[:, 0]) < STABLE, 0)
        score = scores.take_along_dim(shown[:, None], 1)[:, 0]
        parts.append((chosen_of(logits, shown), score, places))
    return _gathered(encoded, parts)


def _gathered(encoded: SamEncodedScene, parts: list[tuple[Tensor, Tensor, Tensor]]) -> Logits:
    maps, scores, places = (torch.cat(column) for column in zip(*parts, strict=True))
    own, of = scores.float().cpu().numpy(), places.cpu().numpy().astype(np.intp)
    if encoded.network.device.type != "cpu":
        return Logits(own, of, maps, DeviceEnlargement(encoded.frame))
    to = encoded.frame.enlargement((maps.shape[1], maps.shape[2]))
    return Logits(own, of, maps.numpy(), replace(to, threads=torch.get_num_threads()))


def _counts_and_boxes(values: Tensor, threshold: float, offset: float) -> Tensor:
    """Three counts and the box of each map, `(n, 7)`, on the device."""
    # Row by row first: thousands of short sums keep a GPU busy, a few long ones do not.
    by_row = [(values > threshold + d).sum(dim=2) for d in (-offset, 0.0, offset)]
    counts = [row.sum(dim=1) for row in by_row]
    columns, rows = (values > threshold).any(dim=1).int(), (by_row[1] > 0).int()
    ends = [
        columns.argmax(dim=1),
        rows.argmax(dim=1),
        columns.shape[1] - 1 - columns.flip(1).argmax(dim=1),
        rows.shape[1] - 1 - rows.flip(1).argmax(dim=1),
    ]
    there = rows.any(dim=1).long()
    return torch.stack([*counts, *(end * there for end in ends)], dim=1)
