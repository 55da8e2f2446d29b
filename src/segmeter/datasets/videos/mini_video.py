"""`mini-video`: twelve frames of a swan with masks, which ship inside the package.

From DAVIS 2016, BSD and CC BY 4.0; `mini_video.LICENCE.txt` next to the data states source and
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segmeter.core import catalogue
from segmeter.core.scenes import DatasetCard
from segmeter.core.videos import Video
from segmeter.datasets.places import digest, known
from segmeter.datasets.videos.video_folder import Files, read_sequence

_DATA = Path(__file__).with_name("mini_video")
_SCENES = ("blackswan",)

_CARD = DatasetCard(
    name="mini-video",
    summary="12 frames of a swan from DAVIS 2016, at half size",
    licence="BSD-3-Clause; frames CC BY 4.0",
    citation="perazzi2016",
    targets=1,
    homepage="https://davischallenge.org",
    notes="Comes with segmeter; nothing to get. One easy object: use it to see how things work.",
)


@catalogue.datasets.add("mini-video", summary=_CARD.summary)
class MiniVideo:
    """One video with one object in every frame."""

    card = _CARD

    def scenes(self) -> Sequence[str]:
        return _SCENES

    def load(self, scene: str) -> Video:
        known(_CARD.name, scene, dict.fromkeys(_SCENES))
        return read_sequence(_CARD.name, scene, _files(scene))

    def fingerprint(self) -> str:
        return digest(file for scene in _SCENES for file in _files(scene).files())


def _files(scene: str) -> Files:
    return Files(_DATA / "JPEGImages" / scene, _DATA / "Annotations" / scene)
