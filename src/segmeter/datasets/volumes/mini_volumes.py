"""`mini-volumes`: three small labelled MR volumes that ship inside the package.

Cut-outs around one hippocampus each from the Medical Segmentation Decathlon, CC BY-SA 4.0;
`mini_volumes.LICENCE.txt` next to the data states their source and the changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import KnowsItsScan, capable
from segmeter.core.scenes import DatasetCard, Volume
from segmeter.core.seeds import fingerprint
from segmeter.datasets.data_roots import known
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Labelling, targets_in

_DATA = Path(__file__).with_name("mini_volumes.npz")
_NAMES = {1: "anterior hippocampus", 2: "posterior hippocampus"}
_SCENES = ("hippocampus_001", "hippocampus_133", "hippocampus_244")

_CARD = DatasetCard(
    name="mini-volumes",
    summary="3 MR cut-outs with the two halves of a hippocampus, from the decathlon",
    licence="CC BY-SA 4.0, the data only (mini_volumes.LICENCE.txt says what was changed)",
    citation="antonelli2022, simpson2019",
    targets=6,
    homepage="http://medicaldecathlon.com",
    notes="Comes with segmeter; nothing to get. Three of the decathlon's hippocampus cases, labels "
    "by experts. Small, easy and of one organ: use it to see how things work, and a benchmark to "
    "claim something.",
)


@capable(KnowsItsScan)
class MiniVolume(Volume):
    """A volume with the grid of the decathlon's file; its modality is MR."""

    modality = "MR"
    window = None

    def __init__(self, id: str) -> None:
        self.grid = Grid(_array(f"{id}.labels").shape, _array(f"{id}.affine"))
        self.slice_numbers = self.grid.slice_numbers
        super().__init__(
            _CARD.name,
            id,
            lambda: self._turned("image"),
            lambda: targets_in(self._turned("labels"), Labelling(names=_NAMES)),
            header=self.grid.header(),
        )

    def _turned(self, name: str) -> npt.NDArray[Any]:
        return np.ascontiguousarray(self.grid.to_scene(_array(f"{self.id}.{name}")))


@catalogue.datasets.add("mini-volumes", summary=_CARD.summary)
class MiniVolumes:
    """Two targets per volume, about 35 x 50 x 35 voxels of 1 mm."""

    card = _CARD

    def scenes(self) -> Sequence[str]:
        return _SCENES

    def load(self, scene: str) -> MiniVolume:
        known(_CARD.name, scene, dict.fromkeys(_SCENES))
        return MiniVolume(scene)

    def fingerprint(self) -> str:
        return fingerprint(_CARD.name, _DATA.read_bytes())


@cache
def _array(name: str) -> npt.NDArray[Any]:
    with np.load(_DATA) as archive:
        found: npt.NDArray[Any] = archive[name]
    found.flags.writeable = False
    return found
