"""A folder of volumes of your own (NIfTI, NRRD, DICOM with label maps); IntRaBench; `mini-volumes`.

`mini-volumes` are three small labelled MR volumes that ship inside the package: cut-outs around one
hippocampus each from the Medical Segmentation Decathlon, CC BY-SA 4.0; `mini_volumes.LICENCE.txt`
next to the data states their source and the changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import KnowsItsScan, capable
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard, Volume
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted
from segmeter.datasets.data_roots import SceneSet, card_of, known, own_card, set_folder
from segmeter.datasets.volumes.cases import Case, FileVolume, Options, options_of
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Kind, Labelling, named_values, targets_in
from segmeter.datasets.volumes.layouts import Layout, recognise


class VolumeSet(SceneSet[Case]):
    """Cases of one layout, listed by names and read one by one."""

    def __init__(self, card: DatasetCard, layout: Layout, options: Options) -> None:
        def read(_: str, case: Case) -> FileVolume:
            return FileVolume(case, card.name, options)

        super().__init__(replace(card, missing=layout.missing()), layout.cases, read, Case.files)


@catalogue.datasets.add("volumes", summary="your own folder of volumes and label maps")
class VolumeFolder(VolumeSet):
    """NIfTI, NRRD, MetaImage or DICOM in the layouts of nnU-Net, TotalSegmentator, or pairs.

    Parameters
    ----------
    path
        The folder, or a `.csv` with columns image and label.
    kind
        `organ`: a target per class. `instance`: a target per value of the label map.
    classes
        Names of the classes to use, such as `liver,spleen`; all of them by default.
    labels
        Names of values, such as `1:spleen,2:liver`; those of a `dataset.json` by default.
    channel
        Which channel of an image that has several, by number or name.
    window
        `ct`, `lung`, `bone`, `brain` or the lowest and the highest value, such as `-160,240`.
    modality
        `CT`, `MR`, `PT`, ... where the data says nothing or something wrong.
    components, smallest
        6, 18 or 26 to split classes into connected components of at least so many voxels.
    grid
        `affine`: labels must lie where the image lies; `shape`: arrays of one size are enough.
    patient
        A regular expression that finds the patient in a case's name, such as `^P\\d+`.
    """

    def __init__(
        self,
        path: str,
        kind: Kind = "organ",
        channel: int | str | None = None,
        window: str | Sequence[float] | None = None,
        components: int = 0,
        smallest: int = 0,
        grid: str = "affine",
        classes: str | Sequence[str] = "",
        modality: str = "",
        patient: str = "",
        labels: str = "",
    ) -> None:
        place = Path(path)
        if not place.exists():
            raise NotFound(f"no folder '{path}'")
        layout = recognise(place)
        wanted = classes.split(",") if isinstance(classes, str) else classes
        names = named_values(f"'{path}'", labels)
        labelling = Labelling(
            kind,
            names or _shared_names(layout),
            classes=tuple(str(name).strip() for name in wanted if str(name).strip()),
            components=components,
            smallest=smallest,
        ).check(f"'{path}'")
        labelling = replace(labelling, names=names)  # each case has its own
        options = options_of(f"'{path}'", labelling, channel, window, grid, modality, patient)
        name = place.resolve().name.removesuffix(".csv") or "volumes"
        super().__init__(own_card(name, _sentence(layout)), layout, options)
        self.recognised = self.card.notes


def _shared_names(layout: Layout) -> dict[int, str]:
    """Every class that is named, where all cases name theirs; numbered from 1."""
    namings = [case.naming for case in layout.cases.values()]
    if not all(n.names or n.regions for n in namings):
        return {}
    found = dict.fromkeys(
        name
        for n in namings
        for name in (n.regions or [w for v, w in n.names.items() if v and v not in n.ignore])
    )
    return dict(enumerate(found, 1))


def _sentence(layout: Layout) -> str:
    sentence = f"{counted(len(layout.cases), 'volume')}, {layout.what}"
    names = _shared_names(layout)
    if names:
        sentence += f"; {counted(len(names), 'named class')}"
    ignored = any(case.naming.ignore for case in layout.cases.values())
    sentence += "; voxels labelled 'ignore' are not scored" if ignored else ""
    channels = dict.fromkeys(n for case in layout.cases.values() for n in case.naming.channels)
    if channels:
        sentence += f"; channels: {', '.join(channels)}"
    missing = layout.missing()
    return f"{sentence}; {missing}" if missing else sentence


@dataclass(frozen=True, slots=True)
class Published:
    """One dataset: the number of its nnU-Net folder, and how its labels were prepared."""

    number: int
    labelling: Labelling
    modality: str
    card: DatasetCard


def _published(name: str, table: Mapping[str, Any]) -> Published:
    """A table of `intrabench.toml`."""
    rule = dict(table.get("labelling", {}))
    rule["names"] = {int(value): word for value, word in rule.get("names", {}).items()}
    notes = (
        f"Put it as nnU-Net folder 'Dataset{table['number']:03d}_NAME' under the data folder. "
        f"{table['paper']} of IntRaBench. Preparation: {table['preparation']}."
    )
    if rule.get("components"):
        notes += " A map with one value only is cut into components by that rule when it is read."
    card = DatasetCard(
        name, table["summary"], "see its source", table["citation"],
        homepage=table["homepage"], notes=notes,
    )  # fmt: skip
    return Published(table["number"], Labelling(**rule), table["modality"], card)


_TABLES = tomllib.loads((files("segmeter.datasets.volumes") / "intrabench.toml").read_text("utf-8"))
SETS = tuple(_published(name, table) for name, table in _TABLES.items())
"""The datasets of the paper and its successor; those of one paper number share it."""


def _register(published: Published) -> None:
    @catalogue.datasets.add(published.card.name, summary=published.card.summary)
    def make(data: str | Path | None = None, channel: int | str | None = None) -> VolumeSet:
        pattern = f"Dataset{published.number:03d}_*"
        folder = set_folder(published.card, data, (pattern,), ())
        rule, modality = published.labelling, published.modality
        options = options_of(f"'{folder}'", rule, channel, modality=modality)
        return VolumeSet(published.card, recognise(folder), options)


for _set in SETS:
    _register(_set)


_DATA = Path(__file__).with_name("mini_volumes.npz")
_NAMES = {1: "anterior hippocampus", 2: "posterior hippocampus"}
_SCENES = ("hippocampus_001", "hippocampus_133", "hippocampus_244")


@capable(KnowsItsScan)
class MiniVolume(Volume):
    """A volume with the grid of the decathlon's file; its modality is MR."""

    modality = "MR"
    window = None

    def __init__(self, id: str) -> None:
        self.grid = Grid(_array(f"{id}.labels").shape, _array(f"{id}.affine"))
        self.slice_numbers = self.grid.slice_numbers
        super().__init__(
            "mini-volumes",
            id,
            lambda: self._turned("image"),
            lambda: targets_in(self._turned("labels"), Labelling(names=_NAMES)),
            header=self.grid.header(),
        )

    def _turned(self, name: str) -> npt.NDArray[Any]:
        return np.ascontiguousarray(self.grid.to_scene(_array(f"{self.id}.{name}")))


@catalogue.datasets.add("mini-volumes", summary=card_of("mini-volumes").summary)
class MiniVolumes:
    """Two targets per volume, about 35 x 50 x 35 voxels of 1 mm."""

    card = card_of("mini-volumes")

    def scenes(self) -> Sequence[str]:
        return _SCENES

    def load(self, scene: str) -> MiniVolume:
        known(self.card.name, scene, dict.fromkeys(_SCENES))
        return MiniVolume(scene)

    def fingerprint(self) -> str:
        return fingerprint("mini-volumes", _DATA.read_bytes())


@cache
def _array(name: str) -> npt.NDArray[Any]:
    with np.load(_DATA) as archive:
        found: npt.NDArray[Any] = archive[name]
    found.flags.writeable = False
    return found
