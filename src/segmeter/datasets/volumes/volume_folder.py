"""A folder of volumes of your own, and the data sets of IntRaBench in nnU-Net's layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.places import digest, known
from segmeter.datasets.volumes.cases import FileVolume, Options, options_of
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Kind, Labelling
from segmeter.datasets.volumes.layouts import Layout, recognise

__all__ = ["SETS", "VolumeFolder", "VolumeSet"]


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


@dataclass(frozen=True, slots=True)
class _Published:
    """One data set of IntRaBench: where its folder is, and how its labels were prepared."""

    number: int
    labelling: Labelling
    modality: str
    card: DatasetCard


def _published(
    name: str,
    paper: str,
    number: int,
    modality: str,
    summary: str,
    source: str,
    preparation: str,
    labelling: Labelling,
    citation: str,
) -> _Published:
    notes = (
        f"Put it as nnU-Net folder 'Dataset{number:03d}_NAME' under the data folder. {paper} of"
        f" IntRaBench. Preparation: {preparation}. A map with one value only is cut into"
        " components by that rule when it is read."
        if labelling.components
        else f"Put it as nnU-Net folder 'Dataset{number:03d}_NAME' under the data folder. {paper}"
        f" of IntRaBench. Preparation: {preparation}."
    )
    card = DatasetCard(name, summary, "see its source", citation, homepage=source, notes=notes)
    return _Published(number, labelling, modality, card)


def _lesions(name: str, neighbours: int = 0, smallest: int = 0, bridged: bool = False) -> Labelling:
    return Labelling("instance", {1: name}, neighbours, smallest, bridged)


SETS = (
    _published(
        "ms-flair",
        "D1",
        201,
        "MR",
        "60 brains with multiple sclerosis, MR T2-FLAIR, lesions",
        "https://data.mendeley.com/datasets/8bctsm8jz7",
        "through-plane spacing set from the supplementary table; 26-connected components",
        _lesions("MS lesion", 26),
        "Muslim et al. Data in Brief 42, 2022",
    ),
    _published(
        "han-seg",
        "D2",
        209,
        "MR",
        "42 heads and necks, MR T1, 30 organs at risk",
        "https://zenodo.org/records/7442914",
        "labels of the CT moved to the MR by rigid registration, nearest neighbour; where organs"
        " overlap the later file wins",
        Labelling(),
        "Podobnik et al. HaN-Seg. Medical Physics 50, 2023",
    ),
    _published(
        "hnts-mrg",
        "D3",
        501,
        "MR",
        "135 heads and necks before radiotherapy, MR T2, primary tumours",
        "https://zenodo.org/records/11199559",
        "value 2 (lymph nodes) removed, cases without tumour dropped; no components are made",
        _lesions("primary tumour"),
        "Wahid et al. HNTS-MRG 2024",
    ),
    _published(
        "rider-lung",
        "D4",
        930,
        "CT",
        "58 chests, CT, lung lesions",
        "https://www.cancerimagingarchive.net/collection/rider-lung-ct/",
        "second layer of the segmentation, resampled to the CT by nearest neighbour;"
        " 26-connected components",
        _lesions("lung lesion", 26),
        "Zhao et al. Radiology 252, 2009",
    ),
    _published(
        "lnq2023",
        "D5",
        911,
        "CT",
        "513 chests, CT, mediastinal lymph nodes",
        "https://www.cancerimagingarchive.net/collection/mediastinal-lymph-node-seg/",
        "26-connected components, resampled to the CT by nearest neighbour",
        _lesions("lymph node", 26),
        "Dorent et al. LNQ 2023 challenge. 2024",
    ),
    _published(
        "liver-metastases",
        "D6",
        912,
        "CT",
        "171 abdomens, CT, colorectal liver metastases",
        "https://www.cancerimagingarchive.net/collection/colorectal-liver-metastases/",
        "197 cases less 26 (25 with overlapping labels, 1 missing); each 'Tumor' segment is one"
        " instance, no components are made",
        _lesions("liver metastasis"),
        "Simpson et al. Scientific Data 11, 2024",
    ),
    _published(
        "adrenal-acc",
        "D7",
        913,
        "CT",
        "53 abdomens, CT, adrenal tumours",
        "https://www.cancerimagingarchive.net/collection/adrenal-acc-ki67-seg/",
        "components (26) after growing by a ball of one voxel, which is taken away again; those"
        " under 30 voxels dropped",
        _lesions("adrenal tumour", 26, 30, bridged=True),
        "Moawad et al. Adrenal-ACC-Ki67-Seg. TCIA, 2023",
    ),
    _published(
        "hcc-tace-liver",
        "D8, its organ half",
        920,
        "CT",
        "65 abdomens, CT, livers",
        "https://www.cancerimagingarchive.net/collection/hcc-tace-seg/",
        "liver, mass, necrosis and portal vein together; series 'Recon 3' only",
        Labelling(names={1: "liver"}),
        "Moawad et al. HCC-TACE-Seg. TCIA, 2021",
    ),
    _published(
        "hcc-tace-tumour",
        "D8, its lesion half",
        921,
        "CT",
        "65 abdomens, CT, liver tumours",
        "https://www.cancerimagingarchive.net/collection/hcc-tace-seg/",
        "mass and necrosis together; 18-connected components",
        _lesions("liver tumour", 18),
        "Moawad et al. HCC-TACE-Seg. TCIA, 2021",
    ),
    _published(
        "pengwin",
        "D9 (newer)",
        600,
        "CT",
        "100 pelves, CT, bone fragments",
        "https://zenodo.org/records/10927452",
        "fragments numbered 1 to k",
        _lesions("pelvic fragment"),
        "Liu et al. PENGWIN challenge. 2024",
    ),
    _published(
        "segrap2023",
        "D10 (newer)",
        651,
        "CT",
        "120 heads and necks, CT, 45 organs at risk that overlap",
        "https://segrap2023.grand-challenge.org",
        "layers of labels kept as they overlap ('.in.nrrd')",
        Labelling(),
        "Luo et al. SegRap2023. Medical Image Analysis 101, 2025",
    ),
)
"""The data sets of the paper and its successor; those of one paper number share it."""


def _open(published: _Published, data: str | Path | None, channel: int | None) -> VolumeSet:
    folder = _dataset_folder(published, data)
    layout = recognise(folder)
    rule = published.labelling
    rule = replace(rule, names=rule.names or layout.names)
    options = options_of(f"'{folder}'", rule, channel, modality=published.modality)
    return VolumeSet(published.card, layout, options)


def _dataset_folder(published: _Published, data: str | Path | None) -> Path:
    root = data if data is not None else os.environ.get("SEGMETER_DATA")
    pattern = f"Dataset{published.number:03d}_*"
    advice = f"{published.card.homepage}; prepared as 'segmeter list datasets' says"
    if root is None:
        raise NotFound(
            f"data set '{published.card.name}' needs the folder that holds '{pattern}':"
            f" give it with --data or SEGMETER_DATA ({advice})"
        )
    place = Path(root)
    own = [place] if place.match(pattern) else sorted(place.glob(pattern))
    if not own:
        raise NotFound(
            f"data set '{published.card.name}' is not in '{root}': no folder '{pattern}' ({advice})"
        )
    return own[0]


def _register(published: _Published) -> None:
    @catalogue.datasets.add(published.card.name, summary=published.card.summary)
    def make(data: str | Path | None = None, channel: int | None = None) -> VolumeSet:
        return _open(published, data, channel)


for _set in SETS:
    _register(_set)


def _missing(layout: Layout) -> str:
    """What is left out and why, for the card."""
    parts = []
    if layout.lonely:
        parts.append(
            f"{len(layout.lonely)} images have no labels and are left out, the first is"
            f" '{layout.lonely[0]}'"
        )
    if layout.stray:
        parts.append(
            f"{len(layout.stray)} label maps belong to no image, the first is '{layout.stray[0]}'"
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
