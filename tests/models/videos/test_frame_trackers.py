"""Hand-over, optical flow and functions follow an object from frame to frame."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, MaskHint
from segmeter.core.scenes import SceneHeader, Target
from segmeter.core.videos import FrameMasks, Video, at_frame
from segmeter.models.synthetic import Disc
from segmeter.models.videos.frame_trackers import FrameStore, FunctionTracker, HandOver, on_videos

SHAPE = (9, 48, 64)


def square(t: int) -> Mask:
    return Mask.box(SHAPE[1:], (16, 8 + 3 * t), (32, 24 + 3 * t))


def moving() -> Video:
    """A textured square that moves three pixels to the right per frame."""
    noise = np.random.default_rng(0)
    back, front = (noise.integers(0, 256, (*size, 3)) for size in (SHAPE[1:], (16, 16)))

    def read(t: int) -> Any:
        frame = (back // 4).astype(np.uint8)
        frame[square(t).window] = 128 + front // 2
        return frame

    masks = FrameMasks.of_frames({t: square(t) for t in range(SHAPE[0])}, SHAPE)
    return Video("drawn", "moving", read, [Target("1", masks)], header=SceneHeader("video", SHAPE))


def test_flow_carries_a_mask_both_ways() -> None:
    encoded = HandOver(Disc(), "", flow=True).encode(moving())
    track = encoded.begin()
    assert track.prompt(4, [MaskHint(square(4))]) == square(4)
    found = dict(track.segment())
    assert sorted(found) == list(range(9))
    for t, mask in found.items():
        union = (mask | square(t)).area
        assert mask.overlap(square(t)) / union > 0.8


def test_a_frame_follows_from_the_nearest_prompted_frame() -> None:
    encoded = HandOver(Disc(radius=4), "box").encode(moving())
    track = encoded.begin()
    track.prompt(0, [MaskHint(square(0))])
    track.prompt(7, [MaskHint(square(7))])
    found = dict(track.segment())
    alone = encoded.begin()
    alone.prompt(0, [MaskHint(square(0))])
    forward = dict(alone.propagate(0, 9))
    assert [t for t in range(1, 9) if found[t] == forward[t]] == [1, 2, 3]


def test_equal_prompts_are_tracked_once_and_frames_encoded_once() -> None:
    encoded = HandOver(Disc(radius=4), "centre").encode(moving())
    for _ in range(3):
        track = encoded.begin()
        track.prompt(0, [Click((20, 12))])
        found = dict(track.propagate(0, 9))
    assert (encoded.steps, encoded.frames.made, len(found)) == (8, 9, 8)


def test_propagation_resumes_from_any_prompted_frame() -> None:
    encoded = HandOver(Disc(radius=4), "box").encode(moving())
    track = encoded.begin()
    track.prompt(0, [MaskHint(square(0))])
    first = dict(track.propagate(0, 9))
    track.prompt(5, [MaskHint(square(5))], first[5])
    again = dict(track.propagate(0, 9))
    later = dict(track.propagate(5, 9))
    assert first == again
    assert sorted(later) == [6, 7, 8]
    with pytest.raises(BadInput, match="frame 3 was not prompted"):
        list(track.propagate(3, 9))


def test_a_corrected_frame_is_prompted_with_its_mask_as_well() -> None:
    encoded = HandOver(Disc(radius=4), "box").encode(moving())
    track = encoded.begin()
    track.prompt(3, [Click((20, 30))], square(3))
    high = tuple(n - 1 for n in square(3).high)
    assert track.prompts[3] == (Box(square(3).low, high), Click((20, 30)))


def test_a_lost_object_stays_lost() -> None:
    encoded = HandOver(Disc(), "box").encode(moving())
    track = encoded.begin()
    track.prompt(0, [MaskHint(Mask.empty(SHAPE[1:]))])
    assert not any(mask for _, mask in track.segment())


def test_memory_that_is_full_keeps_the_first_frames() -> None:
    store = FrameStore(3 * 8)
    for _ in range(2):
        for key in range(5):
            assert store.get(key, lambda k=key: np.full(1, k, np.int64))[0] == key  # type: ignore[misc]
    assert (store.used_bytes, store.made) == (24, 5 + 2)


def held(length: int) -> tuple[int, int]:
    """How many frames and embeddings are in memory after a 4K video was tracked twice."""
    shape = (length, 2160, 3840)
    frames: list[weakref.ref[Any]] = []

    def read(t: int) -> Any:
        pixels = np.broadcast_to(np.uint8(t), (*shape[1:], 3))  # claims 25 MB, takes one byte
        frames.append(weakref.ref(pixels))
        return pixels

    video = Video("drawn", "4K", read, [], header=SceneHeader("video", shape))
    encoded = HandOver(Disc(radius=4), "box", memory_mb=20).encode(video)
    for point in ((20, 30), (40, 50)):
        track = encoded.begin()
        track.prompt(length // 2, [Click(point)])
        assert len(dict(track.segment())) == length
    embeddings = {*encoded.frames._kept, *encoded.frames._newest}
    return sum(one() is not None for one in frames), len(embeddings)


def test_frames_and_embeddings_in_memory_do_not_grow_with_the_video() -> None:
    short, long = held(20), held(40)
    assert short == long
    assert max(long) <= 16  # 5 decoded, 1 ahead of need, 5 embeddings of 4 MB and their frames


def test_masks_that_are_shared_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = HandOver(Disc(radius=4), "box").encode(moving())
    track = encoded.begin()
    track.prompt(0, [MaskHint(square(0))])
    whole = dict(track.segment())
    monkeypatch.setattr("segmeter.models.videos.frame_trackers._MOST_CHARACTERS", 10)
    other = HandOver(Disc(radius=4), "box").encode(moving())
    track = other.begin()
    track.prompt(0, [MaskHint(square(0))])
    assert dict(track.segment()) == whole
    assert sum(len(text) for chain in other._chains.values() for text in chain) <= 10


def test_a_function_of_a_few_lines_is_a_tracker() -> None:
    def track(frames: Any, prompts: Any) -> Any:
        """Repeats the box in every frame."""
        mask = np.zeros(frames[0].shape[:2], bool)
        for some in prompts.values():
            (y0, x0), (y1, x1) = some[0].low, some[0].high
            mask[int(y0) : int(y1) + 1, int(x0) : int(x1) + 1] = True
        return [mask] * len(frames)

    model = catalogue.adapted_model(track)
    assert isinstance(model, FunctionTracker)
    (found,) = model.encode(moving()).predict([Request((at_frame(2, Box((1, 2), (3, 4))),))])
    masks = found.mask()
    assert isinstance(masks, FrameMasks)
    assert (len(masks.present), masks.area) == (9, 9 * 9)


def test_a_function_that_returns_too_few_masks_is_refused() -> None:
    tracker = FunctionTracker(lambda frames, prompts: [], "mine")
    with pytest.raises(BadInput, match="'mine' must return one mask"):
        tracker.encode(moving()).begin().prompt(0, [Click((1, 1))])


def test_an_image_model_is_a_tracker_by_hand_over() -> None:
    made = on_videos(Disc())
    assert "video" in made.card.abilities
    with pytest.raises(BadInput, match="nonsense"):
        HandOver(Disc(), "nonsense")
    with pytest.raises(BadInput, match="trackers need videos"):
        made.encode(catalogue.datasets.make("mini").load("moon"))
