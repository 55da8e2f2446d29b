"""Trackers without a memory: hand-over from frame to frame, optical flow, your own function.

`hand-over` prompts an image model in each frame with its mask of the frame before, which may be
moved along the optical flow first; `flow` does no more than that. A prompted frame is segmented
by the image model. Each frame is encoded once for all objects, users and protocols; predictions for
the same prompts are reused. A function of frames and prompts, or masks of another program, are
trackers as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, capable
from segmeter.core.error_regions import deepest
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, MaskPrediction, Model, ModelCard, Request, render
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.scenes import Image, Scene, Target
from segmeter.core.videos import FrameMasks, Track, TracksObjects, Video, by_frame
from segmeter.models.volumes.slices import EncodesTogether, ReadsTargets
from segmeter.models.weights import on_gpu

MEMORY_MB = 2048
TAKEN = frozenset({"click", "box", "scribble", "mask", "video"})
"""Abilities of trackers that take every prompt."""
_TOGETHER = 8
_STROKE_CLICKS = 3
_MOST_CHARACTERS = 128 << 20  # of masks that are kept to be shared
Kept = TypeVar("Kept")
Flow = npt.NDArray[np.float16]
Text = str | None
Labels = npt.NDArray[Any]
TrackFunction = Callable[[Video, Mapping[int, list[Prompt]]], Any]


class FrameStore:
    """Computed values of frames, up to a number of bytes; `made` counts computations.

    Frames are visited in order, again and again: when memory is full the first ones stay, since
    dropping the oldest would drop each just before it is needed. The newest is always kept.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes, self.used_bytes, self.made = budget_bytes, 0, 0
        self._kept: dict[Any, Any] = {}
        self._newest: dict[Any, Any] = {}

    def __contains__(self, key: Any) -> bool:
        return key in self._kept or key in self._newest

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        if key not in self:
            self.put(key, make())
        found: Kept = (self._kept if key in self._kept else self._newest)[key]
        return found

    def put(self, key: Any, value: Any) -> None:
        size = int(getattr(value, "nbytes", 0)) or 4 << 20
        self.made += 1
        self._newest = {key: value}
        if self.used_bytes + size <= self.budget_bytes:
            self._kept[key] = value
            self.used_bytes += size


@capable(TracksObjects)
class EncodedVideo:
    def __init__(self, video: Video) -> None:
        self.video = video

    def begin(self) -> Track:
        """A new track; subclasses define it."""
        raise NotImplementedError

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        found = []
        for request in requests:
            track = self.begin()
            for t, some in sorted(by_frame(request.prompts).items()):
                track.prompt(t, some)
            masks = FrameMasks.of_frames(dict(track.segment()), self.video.shape)
            found.append(MaskPrediction(masks))
        return found


@catalogue.models.add("hand-over", summary="tracker: an image model, each mask prompts the next")
@capable(OnDevice)
class HandOver:
    """A tracker made from an image model, which segments prompted frames.

    `by` is what of the last mask prompts the next frame: `mask`, `box`, `centre`, or several as
    `mask+box`; empty for optical flow alone. With `flow` the last mask is moved along the optical
    flow first. Embeddings and flow take at most `memory_mb`; the rest is computed again.
    """

    def __init__(
        self, model: str | Model, by: str = "box", flow: bool = False, weights: Text = None,
        device: Text = None, memory_mb: int = MEMORY_MB,
    ) -> None:  # fmt: skip
        inner = model
        if isinstance(inner, str):
            inner = catalogue.models.make(inner, weights=weights, device=device)
        for part in by.split("+") if by else ():
            check_choice("by", part, ["mask", "box", "centre"])
            kind = "click" if part == "centre" else part
            if kind not in inner.card.abilities:
                name = inner.card.name
                raise BadInput(f"model '{name}' takes no {kind} prompts; choose another by=")
        self.inner, self.by, self.flow, self.memory_mb = inner, by, flow, memory_mb

    @property
    def card(self) -> ModelCard:
        inner = self.inner.card
        abilities = (inner.abilities - {"differentiable", "automatic"}) | {"video", "mask"}
        abilities |= {"scribble"} if "click" in abilities else set()
        how = [f"{self.by} passed on"] if self.by else []
        how += ["optical flow"] if self.flow else []
        summary = f"{inner.summary}, frame by frame: {' and '.join(how)}"
        return replace(inner, summary=summary, abilities=frozenset(abilities))

    @property
    def device(self) -> Any:
        return self.inner.device if isinstance(self.inner, OnDevice) else "cpu"

    def encode(self, scene: Scene) -> HandOverVideo:
        return HandOverVideo(self, as_video(scene))


class HandOverVideo(EncodedVideo):
    """A video whose frames are encoded when a prompt or mask first reaches them.

    `steps` counts masks that were carried to a next frame; those of equal prompts are shared.
    """

    def __init__(self, tracker: HandOver, video: Video) -> None:
        super().__init__(video)
        self.tracker = tracker
        half = (tracker.memory_mb << 20) // (2 if tracker.by and tracker.flow else 1)
        self.frames, self.flows = FrameStore(half), FrameStore(half)
        self.steps, self._on_gpu = 0, on_gpu(str(tracker.device))
        self._answers: dict[Any, Any] = {}  # predictions
        self._chains: dict[tuple[int, Mask, int], list[str]] = {}
        self._characters = 0

    def begin(self) -> HandOverTrack:
        return HandOverTrack(self)

    def prompted(self, t: int, prompts: Sequence[Prompt], before: Any) -> tuple[Mask, Any]:
        """The mask of a prompted frame: a given mask as it is, else what the model predicts.

        Its key names the frame and all prompts so far, `before` is the key of the track's last
        prediction there: results depend on the track alone, not on what else was tracked.
        """
        if (only := only_masks(prompts)) is not None:
            return only, before
        abilities = self.tracker.inner.card.abilities
        flat = prompts if "scribble" in abilities else clicks_for_strokes(prompts, _STROKE_CLICKS)
        taken = (p for p in flat if not isinstance(p, MaskHint) or "mask" in abilities)
        key = (t, before, tuple(taken))
        if key not in self._answers:
            state = self._answers[before].state if before else None
            (self._answers[key],) = self.encoded(t).predict([Request(key[2], state)])
        (mask,) = render(self.encoded(t), [self._answers[key]])
        return mask, key

    def carried(self, start: int, mask: Mask, stop: int) -> Iterator[tuple[int, Mask]]:
        """The mask of a frame carried to the frames up to `stop`; a lost object stays lost."""
        step = 1 if stop > start else -1
        chain = self._chains.setdefault((start, mask, step), [])
        size = self.video.shape[1:]
        for place, t in enumerate(range(start + step, stop, step)):
            if place == len(chain):
                mask = self._step(t - step, t, mask)
                chain.append(mask.encoded())
                self._characters += len(chain[-1])
                if self._characters > _MOST_CHARACTERS:
                    self._chains, self._characters = {}, 0
            else:
                mask = Mask.decoded(chain[place], size)
            yield t, mask

    def encoded(self, t: int) -> EncodedScene:
        """A frame as the image model sees it; a GPU encodes blocks of frames, always the same."""
        inner = self.tracker.inner
        if t not in self.frames and isinstance(inner, EncodesTogether) and self._on_gpu:
            start = t - t % _TOGETHER
            block = range(start, min(start + _TOGETHER, len(self.video)))
            made = inner.encode_together([self._image(k) for k in block])
            for k in sorted(block, key=lambda k: k == t):  # the frame in use is the newest
                if k not in self.frames:
                    self.frames.put(k, made[k - start])
        return self.frames.get(t, lambda: inner.encode(self._image(t)))

    def _image(self, t: int) -> Image:
        video, inner, targets = self.video, self.tracker.inner, []
        if isinstance(inner, ReadsTargets):
            targets = [Target(x.id, x.mask.slice(t)) for x in video.targets]
        return Image(video.dataset, f"{video.id} frame {t}", video.frame(t), targets)

    def _step(self, source: int, t: int, mask: Mask) -> Mask:
        """The mask of a neighbouring frame, from that of frame `source`."""
        self.steps += 1
        if mask and self.tracker.flow:
            mask = _warped(mask, self.flows.get((source, t), lambda: self._flow(source, t)))
        if not mask or not self.tracker.by:
            return mask
        encoded = self.encoded(t)
        (found,) = render(encoded, encoded.predict([Request(self.hints(mask))]))
        return found

    def hints(self, mask: Mask) -> tuple[Prompt, ...]:
        by = (self.tracker.by or "mask").split("+") if mask else []
        hints: list[Prompt] = [MaskHint(mask)] if "mask" in by else []
        hints += [Box.around(mask)] if "box" in by else []
        return (*hints, *([Click(deepest(mask).point or mask.low)] if "centre" in by else []))

    def _flow(self, source: int, t: int) -> Flow:
        """Position of each pixel of frame `t` in frame `source` (OpenCV's DIS)."""
        import cv2

        now, then = (cv2.cvtColor(self.video.frame(k), cv2.COLOR_RGB2GRAY) for k in (t, source))
        dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        start = np.zeros((*now.shape, 2), np.float32)
        return np.asarray(dis.calc(now, then, start)).astype(np.float16)


class HandOverTrack:
    """An object's prompted frames; each other frame follows from the nearest of them.

    State: the prompts and one mask per prompted frame.
    """

    def __init__(self, encoded: HandOverVideo) -> None:
        self.encoded = encoded
        self.prompts: dict[int, tuple[Prompt, ...]] = {}
        self._masks: dict[int, Mask] = {}
        self._keys: dict[int, Any] = {}

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        """A frame that had a mask is prompted with it as well, as a next frame would be."""
        hints = self.encoded.hints(shown) if shown and frame not in self.prompts else ()
        known = self.prompts.get(frame, ())
        self.prompts[frame] = (*(tuple(p for p in known if p not in prompts) or hints), *prompts)
        self._masks[frame], self._keys[frame] = self.encoded.prompted(
            frame, self.prompts[frame], self._keys.get(frame)
        )
        return self._masks[frame]

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        """From the mask of the prompted frame `start`."""
        if start not in self._masks:
            raise BadInput(f"frame {start} was not prompted; propagation starts at one that was")
        yield from self.encoded.carried(start, self._masks[start], stop)

    def segment(self) -> Iterator[tuple[int, Mask]]:
        """Each frame from the nearest prompted frame, the earlier of two at equal distance."""
        frames, length = sorted(self._masks), len(self.encoded.video)
        last = [-1, *((a + b) // 2 for a, b in pairwise(frames)), length - 1]
        for t, (before, final) in zip(frames, pairwise(last), strict=True):
            yield from self.propagate(t, before)
            yield t, self._masks[t]
            yield from self.propagate(t, final + 1)


@catalogue.models.add("flow", summary="tracker: optical flow carries the mask to the next frame")
def _flow(
    model: str = "grabcut", weights: Text = None, device: Text = None, memory_mb: int = MEMORY_MB
) -> HandOver:
    return HandOver(model, "", True, weights, device, memory_mb)


def on_videos(model: Model) -> Model:
    if "video" in model.card.abilities:
        return model
    by = next((b for b in ("box", "click", "mask") if b in model.card.abilities), "box")
    return HandOver(model, "centre" if by == "click" else by)


def clicks_for_strokes(prompts: Sequence[Prompt], many: int) -> Iterator[Prompt]:
    """Prompts with so many clicks along each stroke in its place."""
    for prompt in prompts:
        if isinstance(prompt, Scribble):
            places = (np.arange(many) + 0.5) / many * len(prompt.points)
            yield from (Click(prompt.points[k], prompt.positive) for k in places.astype(int))
        else:
            yield prompt


def only_masks(prompts: Sequence[Prompt]) -> Mask | None:
    """The last mask, where all prompts are masks."""
    masks = [p.mask for p in prompts if isinstance(p, MaskHint)]
    return masks[-1] if len(masks) == len(prompts) else None


def as_video(scene: Scene) -> Video:
    if not isinstance(scene, Video):
        raise BadInput(f"{scene.name} is {scene.header.kind} data; trackers need videos")
    return scene


def _warped(mask: Mask, flow: Flow) -> Mask:
    import cv2

    rows, columns = np.indices(flow.shape[:2], dtype=np.float32)
    where = flow.astype(np.float32)
    dense = mask.dense().astype(np.float32)
    moved = cv2.remap(dense, columns + where[..., 0], rows + where[..., 1], cv2.INTER_LINEAR)
    return Mask.of(moved > 0.5)


@dataclass(frozen=True, slots=True)
class FunctionTracker:
    """A function `track(frames, prompts) -> masks` as a tracker.

    `frames[t]` is uint8 `(H, W, 3)` and decoded when read; `prompts` are lists of prompts
    `(y, x)` by frame; `masks` has one bool `(H, W)` per frame and may be a generator.
    """

    wrapped: TrackFunction
    name: str = "track"

    @property
    def card(self) -> ModelCard:
        summary = (self.wrapped.__doc__ or "a function").strip().split("\n")[0]
        return ModelCard(self.name, summary, TAKEN)

    def encode(self, scene: Scene) -> EncodedVideo:
        return _FunctionVideo(as_video(scene), self.wrapped, self.name)


@catalogue.models.add("recorded-masks", summary="tracker: PNG masks from another tool")
class RecordedMasks:
    """Masks of a folder, `SEQUENCE/00000.png` with one value per object, or 0 and 255.

    The object is the one with most of the positive prompts.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise NotFound(f"no folder '{path}'")

    @property
    def card(self) -> ModelCard:
        return ModelCard(self.path.name, f"masks in the folder {self.path.name}", TAKEN)

    def encode(self, scene: Scene) -> EncodedVideo:
        video, folder, size = as_video(scene), self.path / scene.id, scene.shape[1:]
        files = sorted(folder.glob("*.png"))
        if len(files) != len(video):
            raise BadInput(
                f"'{folder}' has {len(files)} masks for the {len(video)} frames of {video.name}; "
                "it needs SEQUENCE/00000.png for every frame"
            )

        def track(frames: Video, prompts: Mapping[int, list[Prompt]]) -> Iterator[Labels]:
            shown = ((read_label_png(files[t], size), some) for t, some in prompts.items())
            inside = np.concatenate([[0], *(_under(labels, p) for labels, s in shown for p in s)])
            value = int(np.bincount(inside[inside > 0].astype(int), minlength=1).argmax())
            for file in files:
                labels = read_label_png(file, size)
                yield labels == value if value else np.zeros(size, bool)

        return _FunctionVideo(video, track, self.path.name)


class _FunctionVideo(EncodedVideo):
    """A video with prompts, so it is a track as well; tracks share the masks `found` so far."""

    def __init__(self, video: Video, track: TrackFunction, name: str, found: Any = None) -> None:
        super().__init__(video)
        self.track, self.name = track, name
        self.prompts: dict[int, tuple[Prompt, ...]] = {}
        self._found: dict[Any, FrameMasks] = {} if found is None else found

    def begin(self) -> _FunctionVideo:
        return _FunctionVideo(self.video, self.track, self.name, self._found)

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        self.prompts[frame] = tuple(prompts)
        return self._masks().slice(frame)

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        step = 1 if stop > start else -1
        masks = self._masks()
        return ((t, masks.slice(t)) for t in range(start + step, stop, step))

    def segment(self) -> Iterator[tuple[int, Mask]]:
        return self.propagate(-1, len(self.video))

    def _masks(self) -> FrameMasks:
        """The function's masks of all frames, encoded as they come."""
        key, shape = tuple(sorted(self.prompts.items())), self.video.shape
        if key not in self._found:
            prompts, video = {t: list(some) for t, some in key}, self.video
            frames = Video(video.dataset, video.id, video.frame, [], header=video.header)
            made = [
                None if mask.shape != shape[1:] else Mask.of(mask).encoded() if mask.any() else ""
                for mask in map(np.asarray, self.track(frames, prompts))
            ]
            if None in made or len(made) != shape[0]:
                size = f"{shape[1:]} per frame, {shape[0]}"
                raise BadInput(f"'{self.name}' must return one mask of {size}")
            self._found[key] = FrameMasks(shape, {t: text for t, text in enumerate(made) if text})
        return self._found[key]


def _under(labels: Labels, prompt: Prompt) -> Labels:
    match prompt:
        case MaskHint(mask):
            return np.asarray(labels[mask.window][mask.bits])
        case Box(low, high):
            (top, left), (bottom, right) = (tuple(map(round, p)) for p in (low, high))
            return labels[max(top, 0) : bottom + 1, max(left, 0) : right + 1].ravel()
        case Click(point, True):
            return _under(labels, Scribble((point,)))
        case Scribble(points, True):
            return np.asarray(labels[tuple(np.rint(points).astype(int).T)])
        case _:
            return np.array([0])


def read_label_png(file: Path, size: Sequence[int]) -> Labels:
    """A PNG's own values, palette indices included, of a known size."""
    from PIL import Image

    try:
        with Image.open(file, formats=["PNG"]) as image:
            if image.size != tuple(size)[::-1]:
                raise BadInput(f"'{file}' is {image.size[0]} x {image.size[1]}, not as its frame")
            values = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadInput(f"'{file}' cannot be read as PNG: {error}") from error
    return (values[..., :3].max(axis=2) if values.ndim == 3 else values).astype(int)
