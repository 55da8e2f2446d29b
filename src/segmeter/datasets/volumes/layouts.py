"""Layouts: which cases a folder holds, told from the names in it alone."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput
from segmeter.datasets.groups import read_table
from segmeter.datasets.volumes.cases import Case
from segmeter.datasets.volumes.stored import case_name, is_volume

__all__ = ["Layout", "holds_volumes", "recognise"]

_CHANNEL = re.compile(r"(.+)_(\d{4})$")
_LABEL_WORDS = re.compile(
    r"(?:^|[-_. ])(?:seg|segs|segmentation|segmentations|label|labels|labelmap|mask|masks|gt|"
    r"ground[-_]?truth|manual|lesion[-_]seg|dseg|network|annotation)(?=$|[-_. \d])",
    re.IGNORECASE,
)
_IMAGE_FOLDERS = ("images", "image", "imgs", "volumes", "scans")
_LABEL_FOLDERS = ("labels", "label", "masks", "segmentations", "seg", "gt", "annotations")
_SCANS = ("ct", "mri", "mr", "pet", "image")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a folder was recognised as.

    `lonely` are images without labels, `stray` labels without images; both are left out.
    """

    what: str
    cases: Mapping[str, Case]
    names: Mapping[int, str] = field(default_factory=dict)
    modality: str = ""
    lonely: Sequence[str] = ()
    stray: Sequence[str] = ()


def holds_volumes(folder: Path) -> bool:
    """Whether a folder is one of volumes; looks at names, at most two levels down."""
    for level in ("*", "*/*", "*/*/*"):
        for path in folder.glob(level):
            if is_volume(path) or path.name.lower().endswith(".dcm"):
                return True
    return False


def recognise(place: Path) -> Layout:
    """The layout of a folder, or of a table of pairs (`.csv` with columns image, label)."""
    if place.is_file():
        return _table(place)
    readers: tuple[Callable[[Path], Layout | None], ...] = (
        _decathlon,
        _totalsegmentator,
        _two_folders,
        _beside,
        _dicom,
    )
    for reader in readers:
        found = reader(place)
        if found is not None and found.cases:
            return found
    raise BadInput(
        f"no volumes with labels recognised in '{place}': lay them out as imagesTr and labelsTr,"
        " as CASE/ct.nii.gz with CASE/segmentations, as NAME.nii.gz beside NAME_seg.nii.gz, or as"
        " a DICOM series with its segmentation"
    )


def _decathlon(folder: Path) -> Layout | None:
    """`imagesTr`, `labelsTr` and `dataset.json`, with nnU-Net's or the decathlon's names."""
    if not (folder / "imagesTr").is_dir() or not (folder / "labelsTr").is_dir():
        return None
    labels = {case_name(p): p for p in _volumes(folder / "labelsTr")}
    images: dict[str, list[Path]] = defaultdict(list)
    for path in _volumes(folder / "imagesTr"):
        name = case_name(path)
        channel = _CHANNEL.match(name)
        own = channel[1] if channel and name not in labels else name
        images[own].append(path)
    content = _dataset_json(folder)
    names, modality = _label_names(content), _modality(content)
    what = "nnU-Net folder" if any(_CHANNEL.match(case_name(p[0])) for p in images.values()) else ""
    cases = {n: Case(n, tuple(images[n]), labels[n]) for n in sorted(images) if n in labels}
    return Layout(
        what or "decathlon folder",
        cases,
        names,
        modality,
        sorted(set(images) - set(labels)),
        sorted(set(labels) - set(images)),
    )


def _totalsegmentator(folder: Path) -> Layout | None:
    """Folders of one case: the scan, and `segmentations` with a file per structure."""
    inside = [folder] if (folder / "segmentations").is_dir() else sorted(folder.iterdir())
    cases: dict[str, Case] = {}
    lonely: list[str] = []
    for case in (p for p in inside if p.is_dir()):
        scan = _scan(case)
        if scan is None:
            continue
        parts = {case_name(p): p for p in _volumes(case / "segmentations")}
        if parts:
            cases[case.name] = Case(case.name, (scan,), parts=parts)
        else:
            lonely.append(case.name)
    modality = {"ct": "CT", "mri": "MR", "mr": "MR"}
    kinds = {modality.get(case_name(c.images[0]).lower(), "") for c in cases.values()}
    only = kinds.pop() if len(kinds) == 1 else ""
    return Layout("TotalSegmentator folder", cases, {}, only, lonely) if cases else None


def _scan(case: Path) -> Path | None:
    if not (case / "segmentations").is_dir():
        return None
    named = {case_name(p).lower(): p for p in _volumes(case)}
    return next((named[n] for n in _SCANS if n in named), None)


def _two_folders(folder: Path) -> Layout | None:
    """`images` and `labels`, paired by name."""
    below = {p.name.lower(): p for p in folder.iterdir() if p.is_dir()}
    left = next((below[n] for n in _IMAGE_FOLDERS if n in below), None)
    right = next((below[n] for n in _LABEL_FOLDERS if n in below), None)
    if left is None or right is None:
        return None
    labels = {_core(case_name(p)): p for p in _volumes(right)}
    return _paired("images and labels in two folders", folder, _images(_volumes(left)), labels)


def _beside(folder: Path) -> Layout | None:
    """Labels beside their images, in the folder itself or in a folder for each case."""
    cases: dict[str, Case] = {}
    lonely: list[str] = []
    stray: list[str] = []
    for place in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        prefix = "" if place == folder else f"{place.name}/"
        found = _beside_in(place)
        single = prefix and len(found.cases) == 1
        for name, case in found.cases.items():
            own = place.name if single else prefix + name
            cases[own] = Case(own, case.images, case.labels)
        lonely += [prefix + name for name in found.lonely]
        stray += [prefix + name for name in found.stray]
    what = "labels beside their images"
    return Layout(what, cases, _label_names(_dataset_json(folder)), "", lonely, stray)


def _beside_in(folder: Path) -> Layout:
    files = _volumes(folder)
    labels = [p for p in files if _LABEL_WORDS.search(case_name(p))]
    images = _images([p for p in files if p not in labels])
    if len(images) == 1 and len(labels) == 1:
        ((name, channels),) = images.items()
        return Layout("", {name: Case(name, channels, labels[0])})
    return _paired("", folder, images, {_core(case_name(p)): p for p in labels})


def _images(paths: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """Images by name; files that differ in nnU-Net's number at the end are its channels."""
    found: dict[str, tuple[Path, ...]] = {}
    for path in paths:
        name, channel = _core(case_name(path)), _CHANNEL.match(case_name(path))
        earlier = found.get(name, ())
        if earlier and not (channel and _CHANNEL.match(case_name(earlier[0]))):
            raise BadInput(f"'{earlier[0]}' and '{path.name}' are both '{name}'; rename one")
        found[name] = (*earlier, path)
    return found


def _paired(
    what: str, folder: Path, images: Mapping[str, tuple[Path, ...]], labels: Mapping[str, Path]
) -> Layout:
    both = sorted(images.keys() & labels.keys())
    cases = {name: Case(name, images[name], labels[name]) for name in both}
    names = _label_names(_dataset_json(folder))
    lonely, stray = sorted(images.keys() - labels.keys()), sorted(labels.keys() - images.keys())
    return Layout(what, cases, names, "", lonely, stray)


def _dicom(folder: Path) -> Layout | None:
    """A series in the folder, or one in each folder below it."""
    places = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]
    cases = {
        (p.name or "series"): Case(p.name or "series", (p,), structures=p)
        for p in places
        if any(f.name.lower().endswith(".dcm") for f in p.iterdir() if f.is_file())
    }
    return Layout("DICOM series", cases) if cases else None


def _table(file: Path) -> Layout:
    """Pairs in a table; paths are taken from the table's own folder."""
    rows = read_table(file, "table of pairs", "image")
    if not rows or "label" not in rows[0]:
        raise BadInput(f"'{file}' is no table of pairs; its first line names image and label")
    cases: dict[str, Case] = {}
    for number, row in enumerate(rows, start=2):
        if not row["image"] or not row["label"]:
            raise BadInput(f"'{file}', line {number}: image or label is empty")
        image, label = file.parent / row["image"], file.parent / row["label"]
        name = row.get("case") or case_name(image)
        if name in cases:
            raise BadInput(f"'{file}': two rows are for '{name}'; add a column 'case'")
        cases[name] = Case(name, (image,), label)
    return Layout("a table of pairs", cases)


def _volumes(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if is_volume(p)) if folder.is_dir() else []


def _core(name: str) -> str:
    """A name without the words that only say that it is an image or a label map.

    >>> _core("t2_seg-manual"), _core("t2"), _core("case_3_0000")
    ('t2', 't2', 'case_3')
    """
    channel = _CHANNEL.match(name)
    bare = _LABEL_WORDS.sub("", channel[1] if channel else name)
    return bare.strip("-_. ") or name


def _dataset_json(folder: Path) -> Mapping[str, Any]:
    file = folder / "dataset.json"
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise BadInput(f"'{file}' is not JSON ({error})") from error
    return content if isinstance(content, dict) else {}


def _label_names(content: Mapping[str, Any]) -> dict[int, str]:
    """Names by value: nnU-Net writes name to value, the decathlon value to name."""
    labels = content.get("labels")
    return dict(_named(labels.items())) if isinstance(labels, dict) else {}


def _named(labels: Any) -> Iterator[tuple[int, str]]:
    for one, other in labels:
        value, name = (one, other) if str(one).lstrip("-").isdigit() else (other, one)
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            yield int(value), str(name)


def _modality(content: Mapping[str, Any]) -> str:
    channels = content.get("channel_names") or content.get("modality")
    if not isinstance(channels, dict) or not channels:
        return ""
    first = str(next(iter(channels.values()))).upper()
    return "CT" if first.startswith("CT") else "MR" if "MR" in first or "FLAIR" in first else first
