"""Scenes: what is read when, and by whom."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.scenes import Image, Pixels, Scene, SceneHeader, Volume
from segmeter.core.videos import Video


def test_threads_that_read_an_image_and_a_volume_do_not_wait_for_each_other() -> None:
    """One needs pixels for its header, the other its header for its pixels."""
    reading, asked = Event(), Event()

    def voxels() -> Pixels:
        reading.set()
        assert asked.wait(10)
        return np.zeros((2, 4, 6), np.float32)

    class Asked(Image):
        def _of_pixels(self) -> SceneHeader:
            asked.set()
            return super()._of_pixels()

    volume = Volume("mine", "1", voxels, [], header=lambda: SceneHeader("volume", (2, 4, 6)))
    image = Asked("mine", "2", np.zeros((4, 6, 3), np.uint8), [])
    threads = [
        Thread(target=lambda: volume.pixels, daemon=True),
        Thread(target=lambda: (reading.wait(10), image.shape), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert volume.shape == (2, 4, 6)
    assert image.shape == (4, 6)


class OwnVolume(Volume):
    """A volume that is read by methods of its own, as those from files are."""

    def __init__(self) -> None:
        header = SceneHeader("volume", (2, 4, 6), spacing_mm=(1.0, 1.0, 1.0))
        super().__init__("own", "1", self._voxels, self._none, header=lambda: header)

    def _voxels(self) -> Pixels:
        return np.zeros(self.shape, np.float32)

    def _none(self) -> list[Any]:
        return []


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def built_in(dataset: str) -> Scene:
    data = catalogue.datasets.make(dataset)
    scene: Scene = data.load(data.scenes()[0])
    return scene


@pytest.mark.parametrize("dataset", ["mini", "mini-volumes", "mini-video", ""])
def test_a_scene_is_freed_with_its_pixels_once_it_is_not_used(
    dataset: str, no_collection: None
) -> None:
    """In a reference cycle each volume of a run stayed in memory."""
    scene = built_in(dataset) if dataset else OwnVolume()
    assert all(target.mask.area for target in scene.targets)
    assert len(scene.frame(0) if isinstance(scene, Video) else scene.pixels)
    held = weakref.ref(scene)
    del scene
    assert held() is None
