"""Scenes: what is read when, and by whom."""

from __future__ import annotations

from threading import Event, Thread

import numpy as np

from segmeter.core.scenes import Image, Pixels, SceneHeader, Volume


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
