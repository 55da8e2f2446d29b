"""Single clicks, thousands on one embedding and scored there, and clicks that a gradient moves.

The decoder's passes are large, in half precision where asked and compiled by torch on a GPU. Only
masks that are needed are made.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
from segmeter.models.sam._decoder import Embedding, from_cells
from segmeter.models.sam._prompt_batches import STABLE, stability
from segmeter.models.sam._resizing import Frame, Padded

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene


def compiles(device: torch.device) -> bool:
    """Whether torch can compile for a device: CUDA with Triton, which comes with torch."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


class SingleClicks:
    """Predictions for many single positive clicks, without previous masks.

    `compiled` lets torch fuse the steps between matrix products: the batch size is free, so a
    network is compiled once for all scenes, and results agree to rounding.
    """

    def __init__(
        self, encoded: SamEncodedScene, dtype: torch.dtype = torch.float32, compiled: bool = False
    ) -> None:
        self.encoded, self.dtype = encoded, dtype
        if compiled:
            self._transform = torch.compile(self._transform, dynamic=True)  # type: ignore[method-assign]
            self._masks = torch.compile(self._masks, dynamic=True)  # type: ignore[method-assign]
        self._decoder: Any = _in_precision(encoded.network.decoder, dtype)
        own = encoded.embedding
        fine = None if own.fine is None else (own.fine[0].to(dtype), own.fine[1].to(dtype))
        with torch.no_grad():
            cells = own.cells + encoded.network.prompts.no_mask()
            self._image = Embedding(cells.to(dtype), fine)
            self._position = encoded.position.to(dtype)

    def tokens(self, points: Tensor) -> Tensor:
        """Prompt tokens `(B, 2, width)` of scene points `(B, 2)`, `(y, x)`."""
        return self.encoded.encode_clicks(points).to(self.dtype)

    def logits(self, sparse: Tensor) -> Tensor:
        """Low-resolution logits `(B, low, low)` of the mask that is shown for each click."""
        tokens, cells, scores = self._scored(sparse)
        best = 1 + scores[:, 1:].argmax(dim=1)
        mlps = self._decoder.output_hypernetworks_mlps
        heads = torch.stack([mlp(tokens[:, i]) for i, mlp in enumerate(mlps)], dim=2)
        chosen = heads.take_along_dim(best[:, None, None], dim=2)
        if not (self.encoded.network.second and self.encoded.policy.masks == "published"):
            return self._masks(cells, chosen)[:, 0]
        single, other = self._masks(cells, torch.cat([heads[:, :, :1], chosen], dim=2)).unbind(1)
        return single.where((stability(single.float()) >= STABLE)[:, None, None], other)

    def candidates(
        self, sparse: Tensor, above: float, numbers: Sequence[int] = (1, 2, 3)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Maps `(m, low, low)`, scores and clicks of the masks of each click that pass.

        `numbers` say which of the decoder's masks: the three of a lone click, or 0, the one of
        an unambiguous prompt.

        The score is known before any map is made: clicks without a mask above are left there.
        """
        tokens, cells, scores = self._scored(sparse)
        scores = scores[:, list(numbers)]
        scores = (scores.sigmoid() if self._decoder.fine else scores).float()
        passed = scores > above if above > 0 else torch.ones_like(scores, dtype=torch.bool)
        click, which = passed.nonzero().unbind(1)
        some, row = click.unique_consecutive(return_inverse=True)  # type: ignore[no-untyped-call]
        if not len(some):
            low = 4 * self.encoded.network.prompts.grid_side
            return cells.new_zeros(0, low, low).float(), scores[click, which], click
        mlps = self._decoder.output_hypernetworks_mlps
        heads = torch.stack([mlps[i](tokens[some, i]) for i in numbers], dim=2)
        maps = self._masks(cells if len(some) == len(cells) else cells[some], heads)
        return maps[row, which].float(), scores[click, which], click

    def _scored(self, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens of the masks, cells, and the scores as the head gives them."""
        own = self._decoder._own_tokens().expand(len(sparse), -1, -1)
        tokens, cells = self._transform(torch.cat([own, sparse], 1))
        tokens = tokens[:, 1:] if self._decoder.fine else tokens
        return tokens[:, 1:], cells, self._decoder.iou_prediction_head(tokens[:, 0])

    def _transform(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """The two-way transformer: tokens `(B, T, C)` and cells `(B, N, C)`."""
        tokens, cells = self._decoder.transformer(start, self._image.cells, self._position)
        return tokens, cells

    def _masks(self, cells: Tensor, heads: Tensor) -> Tensor:
        """Logits `(B, k, low, low)` for mask heads `(B, width / 8, k)`."""
        pixels = self._decoder._enlarge(self._image, cells)
        answers = pixels.flatten(1, 2) @ heads
        return from_cells(answers, self.encoded.network.prompts.grid_side, 2)


def _in_precision(decoder: Any, dtype: torch.dtype) -> Any:
    """The decoder itself where it has that precision already, else a copy."""
    if decoder.iou_token.weight.dtype == dtype and not decoder.training:
        return decoder
    return copy.deepcopy(decoder).to(dtype).eval()


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
    """IoU and Boundary IoU of low-resolution logits against one target.

    Both resizings of a SAM are linear and work on rows and columns apart, so together they
    are one matrix from the left and one from the right.
    """

    def __init__(
        self,
        frame: Frame,
        target: Target,
        low: int,
        like: Tensor,
        reach: int = 0,
        compiled: bool = False,
    ) -> None:
        """`reach` is the width of the boundary's band in pixels; 0 leaves it out."""
        self._rows, self._columns = (_axis(frame, axis, low).to(like) for axis in (0, 1))
        self._reach, self._pixels = reach, frame.shape[0] * frame.shape[1]
        ignored = target.ignore or Mask.empty(target.mask.shape)
        whole, self._judged = (
            torch.from_numpy(bits)[None].to(like.device)
            for bits in (target.mask.dense(), ~ignored.dense())
        )
        self._ground_truth = whole & self._judged
        self._band = whole & ~erode(whole, reach) & self._judged
        # Where all of a band is ignored, bands of what is judged count (`measures.objects`).
        self._hidden = bool(reach) and not bool(self._band.any())
        self._inner = (
            self._ground_truth & ~erode(self._ground_truth, reach) if self._hidden else self._band
        )
        self._score = torch.compile(self._scores, dynamic=False) if compiled else self._scores

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores `(B, 2)` of logits `(B, low, low)`: IoU, and Boundary IoU or NaN."""
        step = max(1, PIXELS_AT_ONCE // self._pixels)
        parts = [logits[i : i + step] for i in range(0, len(logits), step)]
        return torch.cat([self._score(part) for part in parts])

    def _scores(self, logits: Tensor) -> Tensor:
        prediction = self._rows @ logits @ self._columns.T > 0
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
        both, either = (
            count(prediction & ground_truth),
            count((prediction | ground_truth) & self._judged),
        )
        return torch.where(either > 0, both / either.clamp_min(1), 1.0)


def _axis(frame: Frame, axis: int, low: int) -> Tensor:
    """How the frame resizes one axis: `(pixels, low)`."""
    sizes = [frame.shape[axis]]
    if isinstance(frame, Padded):
        sizes = [frame.side, frame.shape[axis]]
    weights = torch.eye(low)[None, None]
    for i, size in enumerate(sizes):
        weights = F.interpolate(weights, (size, low), mode="bilinear", align_corners=False)
        if i == 0 and isinstance(frame, Padded):
            weights = weights[:, :, : frame.inside[axis]]
    return weights[0, 0]


MANY = 1 << 16


def clicks_at_once(device: str, clicks: int) -> int:
    """Clicks that go through the decoder together: by device and number, so the same always.

    More of them would take too much memory of a GPU that several workers share.
    """
    if device == "cpu":
        return 4
    return 512 if clicks >= MANY else 256


@torch.no_grad()
def single_click_scores(
    encoded: SamEncodedScene,
    points: npt.NDArray[np.int64],
    target: Target,
    judge_pair: JudgePair,
    band_px: int,
    *,
    half: bool | None = None,
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
    half
        Compute in float16, the default on CUDA; in float32 masks are those of `predict`. Of
        3111 clicks with MobileSAM on GrabCut's first images, IoU changed by 1e-5 in the
        median and by 6e-4 at most in 99 %. Where the model can hardly decide which of its
        masks to show, a click may get another one (0.17 in one case). bfloat16 decides
        otherwise at one click in a hundred, so it is not used (perf/click_response.py --error).
    dtype
        What to compute in, if neither of these two.
    compiled
        Let torch compile decoder and judge; worth it from some ten thousand clicks on.
    """
    device = encoded.network.device
    on_cuda = device.type == "cuda"
    half = on_cuda if half is None else half
    clicks = encoded.single_clicks(dtype or (torch.float16 if half else torch.float32))
    if clicks is None:
        return None
    decode = torch.compile(clicks.logits, dynamic=False) if compiled else clicks.logits
    judge = None
    if on_cuda:
        low, like = 4 * encoded.network.prompts.grid_side, torch.empty(0, dtype=clicks.dtype)
        like = like.to(device)
        judge = DeviceJudge(encoded.frame, target, low, like, band_px, compiled)
    size = clicks_at_once(device.type, len(points))
    scores = []
    for logits in _decoded(decode, clicks.tokens, torch.from_numpy(points).to(device), size):
        if judge is not None:
            # Left on the device: waiting for each batch would leave it idle between them.
            scores.append(judge(logits))
        else:
            pairs = [judge_pair(target, mask) for mask in encoded.masks_of(logits.float())]
            scores.append(torch.tensor(pairs, dtype=torch.float64))
        if progress is not None:
            progress(min(size * len(scores), len(points)), len(points))
    return torch.cat(scores)[: len(points)].double().cpu().numpy() if scores else np.zeros((0, 2))


def _decoded(
    decode: Callable[[Tensor], Tensor],
    tokens: Callable[[Tensor], Tensor],
    points: Tensor,
    size: int,
) -> Iterator[Tensor]:
    """Logits of so many clicks at a time.

    On a GPU the last batch is filled up, lest a compiled decoder be compiled again.
    """
    places = points.float()
    for start in range(0, len(places), size):
        part = places[start : start + size]
        filled = F.pad(part, (0, 0, 0, size - len(part))) if part.is_cuda else part
        yield decode(tokens(filled))


class MovablePoints:
    """Sessions whose last click is a variable, in the frame of the network's square."""

    def __init__(self, encoded: SamEncodedScene, requests: Sequence[Request]) -> None:
        if not all(
            request.prompts and isinstance(request.prompts[-1], Click) for request in requests
        ):
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
        self._last = [
            sum(isinstance(p, Click) for p in request.prompts) - 1 for request in requests
        ]  # clicks come first among the tokens, strokes and boxes do not occur here
        with torch.no_grad():
            self._dense = [
                encoded.encode_masks([encoded.mask_prompt(request)]) for request in requests
            ]

    def start(self) -> Tensor:
        scale = torch.tensor(self._encoded.frame.scale)
        points = [t[0][last] for t, last in zip(self._tokens, self._last, strict=True)]
        return (torch.tensor(points, dtype=torch.float32) * scale).to(self._encoded.network.device)

    def logits(self, points: Tensor) -> list[Tensor]:
        moved = points / torch.tensor(self._encoded.frame.scale, device=points.device)
        found: dict[int, Tensor] = {}
        for group in self._encoded.groups([len(labels) for _, labels in self._tokens]):
            sparse = self._sparse(group, moved)
            dense = self._stack([self._dense[i] for i in group])
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
        return self._encoded.masks_of(
            [F.pad(one.detach()[None], pad, mode="replicate")[0] for one in logits]
        )

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

    def _stack(self, dense: list[Tensor]) -> Tensor:
        most = max(d.shape[1] for d in dense)
        if most == 1:
            return dense[0]
        return torch.cat([d.expand(-1, most, -1) for d in dense])
