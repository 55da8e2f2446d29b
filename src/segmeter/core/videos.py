"""Videos: scenes whose first axis is time, masks per frame, and tracks through the frames.

Frames are decoded when used, the next one ahead of need; a few are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core import rle
from segmeter.core.capabilities import capability
from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, moved
from segmeter.core.scenes import Lazy, Pixels, Scene, SceneHeader, Target, size_in_words

_KEPT_BYTES = 128 << 20
_MOST_DENSE = 1 << 31


class FrameMasks(Mask):
    """Masks of one object in the frames of a video.

    `counts` are COCO's compressed run lengths by frame, of frames where the object is; `known` are
    the frames that were annotated or predicted, in order: others are not judged.

    >>> square = Mask.box((4, 4), (0, 0), (2, 2))
    >>> masks = FrameMasks.of_frames({1: square}, (3, 4, 4))
    >>> masks.area, masks.slice(1) == square, masks.slice(2).area, masks.present
    (4, True, 0, (1,))
    """

    def __init__(
        self, shape: Sequence[int], counts: Mapping[int, str], known: Sequence[int] | None = None
    ) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.counts = dict(counts)
        self.known = tuple(range(self.shape[0])) if known is None else tuple(known)

    @classmethod
    def of_frames(cls, masks: Mapping[int, Mask], shape: Sequence[int]) -> FrameMasks:
        return cls(shape, {t: m.encoded() for t, m in sorted(masks.items()) if m})

    @property
    def present(self) -> tuple[int, ...]:
        """Frames in which the object is."""
        return tuple(self.counts)

    def slice(self, z: int) -> Mask:
        text = self.counts.get(z)
        return Mask.empty(self.shape[1:]) if text is None else Mask.decoded(text, self.shape[1:])

    def __bool__(self) -> bool:
        return bool(self.counts)

    @cached_property
    def area(self) -> int:
        return sum(int(rle.unpack(text)[1::2].sum()) for text in self.counts.values())

    def encoded(self) -> str:
        """Run lengths frame by frame, `-` for a frame without the object.

        >>> FrameMasks((3, 2, 2), {1: "04"}).encoded()
        '- 04 -'
        """
        return " ".join(self.counts.get(t, "-") for t in range(self.shape[0]))

    @classmethod
    def decoded(cls, text: str | bytes, shape: Sequence[int]) -> FrameMasks:
        """Masks that `encoded` wrote; each is checked when its frame is read."""
        parts = (text if isinstance(text, str) else text.decode("latin-1")).split(" ")
        if len(parts) != shape[0]:
            raise BadInput(f"{len(parts)} masks for a video of {shape[0]} frames")
        return cls(shape, {t: part for t, part in enumerate(parts) if part != "-"})

    @cached_property
    def _whole(self) -> Mask:
        if prod(self.shape) > _MOST_DENSE:
            size = size_in_words(self.shape)
            raise BadInput(f"a mask of {size} does not fit in memory; use slice(t)")
        return Mask.stack({t: self.slice(t) for t in self.counts or [0]}, self.shape[0])

    @property
    def low(self) -> tuple[int, ...]:  # type: ignore[override]  # computed, where a mask keeps it
        return self._whole.low

    @property
    def bits(self) -> Bits:  # type: ignore[override]  # computed, where a mask keeps it
        return self._whole.bits


class Video(Scene):
    """A video `(T, H, W)` whose frames are read one by one: `read(t)` is uint8 `(H, W, 3)`."""

    def __init__(
        self, dataset: str, id: str, read: Callable[[int], Pixels],
        targets: Lazy[Sequence[Target]], *, header: Lazy[SceneHeader], file_name: str = "",
    ) -> None:  # fmt: skip
        super().__init__(dataset, id, self._refuse, targets, header=header, file_name=file_name)
        self._read_frame, self._last = read, -1

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, t: int | slice) -> Any:
        """A frame, counted from the end if negative, or a list of some."""
        found = range(len(self))[t]
        return [self.frame(k) for k in found] if isinstance(found, range) else self.frame(found)

    def frame(self, t: int) -> Pixels:
        """One frame; the next in the same direction is decoded meanwhile."""
        if not 0 <= t < len(self):
            raise BadInput(f"{self.name} has no frame {t}: it has {len(self)}")
        wanted = self._decoding(t)
        then = t + (1 if t >= self._last else -1)
        if 0 <= then < len(self):
            self._decoding(then)
        self._last = t
        pixels = wanted.result()
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise BadInput(f"{self.name}: frame {t} is not H x W x 3 of uint8")
        if pixels.shape[:2] != self.shape[1:]:
            raise BadInput(
                f"{self.name}: frame {t} is {size_in_words(pixels.shape[:2])} but the video is "
                f"{size_in_words(self.shape[1:])}; all frames need one size"
            )
        return pixels

    @cached_property
    def _decoding(self) -> Callable[[int], Future[Pixels]]:
        """Frames decoded in a thread, in the order of requests; the latest are kept."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="frames")
        most = max(3, _KEPT_BYTES // max(1, prod(self.shape[1:]) * 3))
        read = self._read_frame  # no reference to this video, so that frames are freed with it
        return lru_cache(most)(lambda t: pool.submit(read, t))

    def _refuse(self) -> Pixels:
        raise BadInput(f"{self.name} is a video; its frames are read one by one with frame(t)")


class Track(Protocol):
    """One object followed through a video by a tracker.

    `prompt` takes all prompts `(y, x)` of a frame, earlier ones included, and the mask that was
    `shown` there before the first of them; it returns the frame's mask. `propagate` gives masks of
    the frames after `start` up to `stop`, which is not included, backward where it is smaller,
    and may be called again from any frame. `segment` gives masks of all frames.
    """

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask: ...

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]: ...

    def segment(self) -> Iterator[tuple[int, Mask]]: ...


@capability
class TracksObjects(Protocol):
    """An encoded video that follows objects from frame to frame; `begin` starts a track."""

    def begin(self) -> Track: ...


def at_frame(t: int, prompt: Prompt) -> Prompt:
    """A prompt `(y, x)` of a frame as a prompt `(t, y, x)` of the video.

    >>> at_frame(3, Click((4, 5)))
    Click(point=(3, 4, 5), positive=True)
    """
    if isinstance(prompt, MaskHint):
        shape = (t + 1, *prompt.mask.shape)
        return MaskHint(FrameMasks.of_frames({t: prompt.mask}, shape))
    return moved(prompt, lambda point: (t, *point))


def by_frame(prompts: Iterable[Prompt]) -> dict[int, list[Prompt]]:
    """Prompts `(t, y, x)` as prompts `(y, x)` of their frames, in the order given.

    >>> by_frame([Click((3, 4, 5))])
    {3: [Click(point=(4, 5), positive=True)]}
    """
    found: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        match prompt:
            case Click((t, _, _)) | Box((t, _, _)) | Scribble(((t, _, _), *_)):
                some = {round(t): moved(prompt, lambda point: point[1:])}
            case MaskHint(FrameMasks() as masks):
                some = {k: MaskHint(masks.slice(k)) for k in masks.present}
            case _:
                raise BadInput(f"{prompt!r:.60} is not a prompt (t, y, x) of a video")
        for k, flat in some.items():
            found.setdefault(k, []).append(flat)
    return found


def label_map(masks: Sequence[Mask], t: int) -> npt.NDArray[np.int_]:
    """Objects of a frame as 1, 2, ...; the first keeps a pixel that several claim.

    >>> label_map([Mask.box((1, 1, 4), (0, 0, a), (1, 1, a + 2)) for a in (1, 2)], 0).tolist()
    [[0, 1, 1, 2]]
    """
    labels = np.zeros(masks[0].shape[1:], int)
    for k, mask in reversed([*enumerate((m.slice(t) for m in masks), 1)]):
        labels[mask.window][mask.bits] = k
    return labels
