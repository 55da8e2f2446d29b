"""A folder of volumes of your own: NIfTI, NRRD or DICOM with label maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.core.wording import counted
from segmeter.datasets.places import digest, known
from segmeter.datasets.volumes.cases import FileVolume, Options, options_of
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Kind, Labelling
from segmeter.datasets.volumes.layouts import Layout, recognise

__all__ = ["VolumeFolder", "VolumeSet"]


class VolumeSet:
    """Cases of one layout, listed by names and read one by one."""

    def __init__(self, card: DatasetCard, layout: Layout, options: Options) -> None:
        self.card = replace(card, missing=_missing(layout))
        self._layout, self._options = layout, options

    def scenes(self) -> Sequence[str]:
        return list(self._layout.cases)

    def load(self, scene: str) -> FileVolume:
        known(self.card.name, scene, self._layout.cases)
        return FileVolume(self._layout.cases[scene], self.card.name, self._options)

    def grid(self, scene: str) -> Grid:
        """The grid of a case's own file; its header is read."""
        return self.load(scene).grid

    def fingerprint(self) -> str:
        return digest(file for case in self._layout.cases.values() for file in case.files())


@catalogue.datasets.add("volumes", summary="a folder of volumes and label maps of your own")
class VolumeFolder(VolumeSet):
    """NIfTI, NRRD or DICOM in the layouts of nnU-Net, TotalSegmentator, or image/label pairs.

    Parameters
    ----------
    path
        The folder, or a `.csv` with columns image and label.
    kind
        `organ`: a target per class. `instance`: a target per value of the label map.
    channel
        Which channel of an image that has several.
    window
        `ct`, `lung`, `bone`, `brain` or two values such as `-160,240`.
    components, smallest
        6, 18 or 26 to cut classes into connected components of at least so many voxels.
    grid
        `affine`: labels must lie where the image lies; `shape`: arrays of one size will do.
    """

    def __init__(
        self,
        path: str,
        kind: Kind = "organ",
        channel: int | None = None,
        window: str | Sequence[float] | None = None,
        components: int = 0,
        smallest: int = 0,
        grid: str = "affine",
    ) -> None:
        place = Path(path)
        if not place.exists():
            raise NotFound(f"no folder '{path}'")
        layout = recognise(place)
        labelling = Labelling(kind, layout.names, components, smallest)
        options = options_of(f"'{path}'", labelling, channel, window, grid, layout.modality)
        self.recognised = _sentence(layout)
        card = DatasetCard(
            name=place.resolve().name.removesuffix(".csv") or "volumes",
            summary="a folder of your own",
            licence="your own",
            citation="your own",
            notes=self.recognised,
        )
        super().__init__(card, layout, options)


def _missing(layout: Layout) -> str:
    """What is left out and why, for the card."""
    parts = []
    if layout.lonely:
        parts.append(
            f"without labels and left out: {counted(len(layout.lonely), 'image')}, the first is"
            f" '{layout.lonely[0]}'"
        )
    if layout.stray:
        parts.append(
            f"without an image: {counted(len(layout.stray), 'label map')}, the first is"
            f" '{layout.stray[0]}'"
        )
    return "; ".join(parts)


def _sentence(layout: Layout) -> str:
    count = len(layout.cases)
    said = f"{count} volume{'s' * (count != 1)}, {layout.what}"
    if layout.names:
        said += f"; {len([v for v in layout.names if v != 0])} classes are named"
    if layout.modality:
        said += f"; {layout.modality}"
    missing = _missing(layout)
    return f"{said}; {missing}" if missing else said
