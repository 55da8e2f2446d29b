"""A folder of volumes of your own (NIfTI, NRRD, DICOM with label maps), and those of benchmarks.

IntRaBench's datasets are nnU-Net folders. Cases of the CVPR 2025 challenge on interactive
segmentation are one `.npz` each: arrays are `(z, y, x)`, `spacing` is (x, y, z). Their boxes and
text prompts, which NumPy pickles, are not read: boxes are drawn by the user `cvpr25-clicks`.

`mini-volumes` are three small labelled MR volumes that ship inside the package: cut-outs around one
hippocampus each from the Medical Segmentation Decathlon, CC BY-SA 4.0; `mini_volumes.LICENCE.txt`
next to the data states their source and the changes.
"""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import HasScanInfo, capable
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.scenes import DatasetCard, SceneHeader, Target, Volume
from segmeter.core.sections import SCENE_NUMBERS
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted
from segmeter.datasets.data_roots import SceneSet, card_of, own_card, set_folder
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.volumes.cases import Case, FileVolume, Options, options_of
from segmeter.datasets.volumes.labels import Kind, Labelling, named_values, targets_in
from segmeter.datasets.volumes.layouts import Layout, recognise
from segmeter.datasets.volumes.stored import Grid

INTRABENCH = tomllib.loads(Path(__file__).with_name("intrabench.toml").read_text("utf-8"))
_DATA = Path(__file__).with_name("mini_volumes.npz")
_NAMES = {1: "anterior hippocampus", 2: "posterior hippocampus"}
_SCENES = ("hippocampus_001", "hippocampus_133", "hippocampus_244")
_MOST_BYTES = 1 << 33
_CITATION = (
    "Ma et al. Foundation models for interactive 3D biomedical image segmentation. CVPR 2025 "
    "challenge"
)


class VolumeSet(SceneSet[Case]):
    def __init__(self, card: DatasetCard, layout: Layout, options: Options) -> None:
        def read(_: str, case: Case) -> FileVolume:
            return FileVolume(case, card.name, options)

        noted = replace(card, missing=layout.missing())
        super().__init__(noted, layout.cases, read, lambda _, case: case.files())


@catalogue.datasets.add("volumes", "your own folder of volumes and label maps")
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
        `CT`, `MR`, `PT`, ... where the data lacks it or has it wrong.
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
    """All named classes, if every case names its own; numbered from 1."""
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


def _register(name: str, table: Mapping[str, Any]) -> None:
    """A dataset of IntRaBench or its successor: a table of `intrabench.toml`."""
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

    @catalogue.datasets.add(name, card.summary)
    def make(data: str | Path | None = None, channel: int | str | None = None) -> VolumeSet:
        folder = set_folder(card, data, (f"Dataset{table['number']:03d}_*",), ())
        labelling, modality = Labelling(**rule), table["modality"]
        options = options_of(f"'{folder}'", labelling, channel, modality=modality)
        return VolumeSet(card, recognise(folder), options)


for _name, _table in INTRABENCH.items():
    _register(_name, _table)


@capable(HasScanInfo)
class MiniVolume(Volume):
    """A volume with the grid of the decathlon's file; its modality is MR."""

    modality = "MR"
    window = None

    def __init__(self, id: str) -> None:
        self.grid = Grid(_array(f"{id}.labels").shape, _array(f"{id}.affine"))
        self.slice_numbers = self.grid.slice_numbers
        turned, rule = partial(_turned, self.grid, id), Labelling(names=_NAMES)
        lazily = partial(turned, "image"), lambda: targets_in(turned("labels"), rule)
        super().__init__("mini-volumes", id, *lazily, header=self.grid.header())


@catalogue.datasets.add("mini-volumes", card_of("mini-volumes").summary)
class MiniVolumes(SceneSet[None]):
    """Two targets per volume, about 35 x 50 x 35 voxels of 1 mm."""

    def __init__(self) -> None:
        card, scenes = card_of("mini-volumes"), dict.fromkeys(_SCENES)
        super().__init__(card, scenes, lambda scene, _: MiniVolume(scene), lambda *_: (_DATA,))

    def fingerprint(self) -> str:
        return fingerprint("mini-volumes", _DATA.read_bytes())


def _turned(grid: Grid, id: str, name: str) -> npt.NDArray[Any]:
    return np.ascontiguousarray(grid.to_scene(_array(f"{id}.{name}")))


@cache
def _array(name: str) -> npt.NDArray[Any]:
    with np.load(_DATA) as archive:
        found: npt.NDArray[Any] = archive[name]
    found.flags.writeable = False
    return found


def read_member(path: Path, name: str) -> npt.NDArray[Any] | None:
    """One array of a case; None if absent. Pickled ones are refused: nothing is executed."""
    with named_errors(path, f"'{name}' cannot be read"), np.load(path) as archive:
        if name not in archive.files:
            return None
        size = archive.zip.getinfo(f"{name}.npy").file_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has {size} bytes; at most {_MOST_BYTES} are read")
        found: npt.NDArray[Any] = archive[name]
        return found


def holds_cases(folder: Path) -> bool:
    """Whether a folder holds cases of the challenge: `.npz` files with `imgs`."""
    first = next(iter(sorted(folder.glob("*.npz"))), None)
    if first is None or not zipfile.is_zipfile(first):
        return False
    with zipfile.ZipFile(first) as archive:
        return "imgs.npy" in archive.namelist()


@capable(HasScanInfo)
class ChallengeCase(Volume):
    """One case; its modality is the beginning of its name."""

    window = None
    slice_numbers = SCENE_NUMBERS

    def __init__(self, dataset: str, path: Path, ground_truth: Path) -> None:
        def targets() -> list[Target]:
            return targets_in(_volume(ground_truth, "gts"), Labelling(), f"'{ground_truth}'")

        self.path, voxels = path, partial(_volume, path, "imgs")
        first = path.stem.partition("_")[0]
        self.modality = "PT" if first == "PET" else first
        super().__init__(dataset, path.stem, voxels, targets, header=self._head)

    @cached_property
    def grid(self) -> Grid:
        """The grid of its arrays, which have no affine: axes as those of the scene."""
        z, y, x = self.header.spacing_mm or (1.0, 1.0, 1.0)
        return Grid(self.shape[::-1], np.diag((x, y, z, 1.0)))

    def _head(self) -> SceneHeader:
        spacing = read_member(self.path, "spacing")
        found = [1.0, 1.0, 1.0] if spacing is None else np.ravel(spacing).tolist()
        if len(found) != 3 or not all(0 < s < float("inf") for s in found):
            raise BadInput(f"'{self.path}': spacing is three positive numbers, not {found}")
        x, y, z = found
        return SceneHeader("volume", _volume(self.path, "imgs").shape, spacing_mm=(z, y, x))


def _volume(path: Path, name: str) -> npt.NDArray[Any]:
    found = read_member(path, name)
    if found is None or found.ndim != 3:
        raise BadInput(f"'{path}' has no volume '{name}'; give the folder of ground truths")
    return found


@catalogue.datasets.add("cvpr25", "cases of the CVPR 2025 interactive challenge (.npz)")
class Cvpr25(SceneSet[tuple[Path, Path]]):
    """A folder of `.npz` files with `imgs`, `spacing` and maybe `boxes` and `gts`.

    `ground_truth` is a folder of files of the same names with `gts`; `path` if empty.
    """

    def __init__(self, path: str, ground_truth: str = "") -> None:
        folder, other = Path(path), Path(ground_truth or path)
        if not folder.is_dir():
            raise NotFound(f"no folder '{path}'")
        cases = {file.stem: (file, other / file.name) for file in sorted(folder.glob("*.npz"))}
        if not cases:
            raise NotFound(f"no .npz file in '{path}'")
        card = replace(own_card(folder.resolve().name), citation=_CITATION)
        super().__init__(
            card, cases, lambda _, files: ChallengeCase(card.name, *files), lambda _, files: files
        )
