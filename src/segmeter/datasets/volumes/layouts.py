"""Layouts: the cases of a folder, recognised from names (and headers of DICOM files)."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.wording import counted
from segmeter.datasets.data_roots import folders_in, named_folder
from segmeter.datasets.groups import read_table
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.volumes.cases import Case, Naming
from segmeter.datasets.volumes.dicom import DicomSeries, is_dicom, walk_dicom
from segmeter.datasets.volumes.stored import case_name, is_volume

_CHANNEL = re.compile(r"(.+)_(\d{4})$")
_LABEL_WORDS = re.compile(
    r"(?:^|[-_. ])(?:seg|segs|segmentation|segmentations|label|labels|labelmap|mask|masks|gt|"
    r"ground[-_ ]?truth|manual|lesion[-_]seg|dseg|network|annotation)(?=$|[-_. \d])",
    re.IGNORECASE,
)
_IMAGE_WORDS = re.compile(
    r"(?:^|[-_. ])(?:image|imaging|img|volume|vol|scan)(?=$|[-_. \d])", re.IGNORECASE
)
_LABEL_FILES = (".seg.nrrd", ".in.nrrd")
_IMAGE_FOLDERS = ("images", "image", "imgs", "img", "volumes", "scans")
_LABEL_FOLDERS = ("labels", "label", "masks", "mask", "segmentations", "seg", "gt", "annotations")
_SCANS = ("ct", "mri", "mr", "pet", "image")
_DEEPEST = 8

ADVICE = (
    "lay volumes out as imagesTr and labelsTr (nnU-Net), as CASE/ct.nii.gz with"
    " CASE/segmentations, as NAME.nii.gz with NAME_seg.nii.gz, as DICOM series with DICOM-SEG,"
    " RTSTRUCT or a label map, or list them in a .csv with columns image and label"
)

Cases = dict[str, Case]
Part = tuple[str, Sequence[Path]]
"""Name and files of something in a folder."""


@dataclass(slots=True)
class Layout:
    """The recognised layout of a folder; `unused` are names and files left out, by reason."""

    what: str
    cases: Cases = field(default_factory=dict)
    unused: dict[str, list[Part]] = field(default_factory=dict)

    def leave(self, reason: str, parts: Sequence[Part]) -> None:
        if parts:
            self.unused.setdefault(reason, []).extend(parts)

    def missing(self) -> str:
        """A sentence on what is left out and why; empty when everything is used."""
        held = [(*reason.partition(": "), parts) for reason, parts in self.unused.items()]
        return "; ".join(
            f"{counted(len(parts), what)} left out ({why}), the first is '{parts[0][0]}'"
            for what, _, why, parts in held
        )


def holds_volumes(folder: Path) -> bool:
    """Whether a folder holds volumes, at any depth up to eight."""
    return any(is_volume(path) or _maybe_dicom(path) for path in _files(folder))


def _maybe_dicom(path: Path) -> bool:
    return path.suffix.lower() in ("", ".dcm", ".ima") and is_dicom(path)


def recognise(place: Path) -> Layout:
    """The cases of a folder, or of a table of pairs (`.csv` with columns image and label)."""
    if place.is_file():
        return _table(place)
    found = _collected(place)
    if not found.cases:
        left = f" ({found.missing()})" if found.unused else ""
        raise BadInput(f"no volumes with labels recognised in '{place}'{left}: {ADVICE}")
    used = {file for case in found.cases.values() for file in case.files()}
    noted, found.unused = found.unused, {}
    for reason, parts in noted.items():  # a label map may be that of a DICOM series
        found.leave(reason, [part for part in parts if used.isdisjoint(part[1])])
        used.update(file for _, files in parts for file in files)
    rest = [p for p in _files(place) if is_volume(p) and p not in used]
    found.leave("volume: not paired", [(str(p.relative_to(place)), (p,)) for p in rest])
    return found


def _collected(folder: Path, depth: int = 0) -> Layout:
    """The layout of a folder; of its folders where it has none of its own."""
    for reader in (_decathlon, _totalsegmentator, _two_folders):
        found = reader(folder)
        if found is not None and found.cases:
            return found
    own = _same_folder(folder)
    below = folders_in(folder) if depth < _DEEPEST else []
    inner = {p.name: _collected(p, depth + 1) for p in below if not _is_series(p)}
    own = _merged(own, {name: one for name, one in inner.items() if one.cases or one.unused})
    dicom = _dicom(folder) if depth == 0 else None
    if dicom is not None:
        own.what = dicom.what if not own.cases else f"{own.what} and {dicom.what}"
        own.cases |= {n: c for n, c in dicom.cases.items() if n not in own.cases}
        for reason, parts in dicom.unused.items():
            own.leave(reason, parts)
    return own


def _is_series(folder: Path) -> bool:
    """Whether a folder holds DICOM files; those are found in one pass over all files."""
    files = [p for p in folder.iterdir() if p.is_file() and p.name[0] != "."]
    return any(map(_maybe_dicom, files)) and not any(map(is_volume, files))


def _merged(own: Layout, inner: Mapping[str, Layout]) -> Layout:
    """Cases of the folders below by the folder's name; classes of different sets stay apart."""
    single = all(len(one.cases) <= 1 and one.what == own.what for one in inner.values())
    for folder, one in inner.items():
        for name, case in one.cases.items():
            id = folder if single or len(one.cases) == 1 else f"{folder}/{name}"
            prefix = case.naming.prefix if single else case.naming.prefix or folder
            own.cases[id] = replace(case, id=id, naming=replace(case.naming, prefix=prefix))
        for reason, parts in one.unused.items():
            own.leave(reason, [(f"{folder}/{name}", files) for name, files in parts])
    kinds = dict.fromkeys(one.what for one in inner.values() if one.cases)
    if inner and (len(kinds) > 1 or not single):
        own.what = f"{counted(len(inner), 'folder')} ({', '.join(kinds)})"
    return own


def _decathlon(folder: Path) -> Layout | None:
    """`imagesTr`, `labelsTr` and `dataset.json`, with nnU-Net's or the decathlon's names."""
    if not (folder / "imagesTr").is_dir() or not (folder / "labelsTr").is_dir():
        return None
    labels = {case_name(p): p for p in _volumes(folder / "labelsTr")}
    images: dict[str, tuple[Path, ...]] = {}
    for path in _volumes(folder / "imagesTr"):
        name = case_name(path)
        channel = _CHANNEL.match(name)
        own = channel[1] if channel and name not in labels and channel[1] in labels else name
        images[own] = (*images.get(own, ()), path)
    numbered = any(name != case_name(paths[0]) for name, paths in images.items())
    what = "nnU-Net folder" if numbered else "decathlon folder"
    return _paired(what, folder, images, {name: {"": path} for name, path in labels.items()})


def _totalsegmentator(folder: Path) -> Layout | None:
    """Folders of one case: the scan, and `segmentations` with a file per structure."""
    inside = [folder] if (folder / "segmentations").is_dir() else folders_in(folder)
    found = Layout("TotalSegmentator folder")
    for case in inside:
        named = {case_name(p).lower(): p for p in _volumes(case)}
        scan = next((named[n] for n in _SCANS if n in named), None)
        if scan is None or not (case / "segmentations").is_dir():
            continue
        parts = {case_name(p): p for p in _volumes(case / "segmentations")}
        if parts:
            found.cases[case.name] = Case(case.name, (scan,), parts=parts)
        else:
            found.leave("image: without labels", [(case.name, _volumes(case))])
    return found


def _two_folders(folder: Path) -> Layout | None:
    """`images` and `labels`, paired by name."""
    left, right = (named_folder(folder, names) for names in (_IMAGE_FOLDERS, _LABEL_FOLDERS))
    if left is None or right is None:
        return None
    labels = _volumes(right)
    images = _images(_volumes(left), labels)
    return _paired("images and labels in two folders", folder, images, _by_image(images, labels))


def _same_folder(folder: Path) -> Layout:
    files, what = _volumes(folder), "labels next to their images"
    words = {p: _LABEL_WORDS.search(case_name(p)) for p in files}
    labels = [p for p in files if words[p] or p.name.lower().endswith(_LABEL_FILES)]
    images = _images([p for p in files if p not in labels], labels)
    if len(labels) == len(images) == 1:
        return _paired(what, folder, images, {next(iter(images)): {"": labels[0]}})
    label = case_name(labels[0]) if len(labels) == 1 else ""
    core = "" if _LABEL_WORDS.fullmatch(label) else _core(label)
    if not label or not images or core in images or any(not n.startswith(core) for n in images):
        return _paired(what, folder, images, _by_image(images, labels))
    # Several images and one label map, as in BraTS and autoPET: channels named after their files.
    channels = tuple(name.removeprefix(core).strip("-_. ") for name in images)
    naming, scans = replace(_naming(folder), channels=channels), sum(images.values(), ())
    return Layout(what, {folder.name: Case(folder.name, scans, {"": labels[0]}, naming=naming)})


def _images(paths: Sequence[Path], labels: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """Images by name.

    Numbers of four digits at the end are nnU-Net's channels, unless label maps have them too.
    """
    cores = [parts for path in labels for parts in _beginnings(_core(case_name(path)))]
    labelled = {name for name, rest in cores if not re.fullmatch(r"\d{4}", rest)}
    found: dict[str, tuple[Path, ...]] = {}
    for path in paths:
        name, channel = _core(case_name(path)), _CHANNEL.match(case_name(path))
        if channel and name not in labelled and _core(channel[1]) in labelled:
            name = _core(channel[1])
        earlier = found.get(name, ())
        if earlier and any(_core(case_name(p)) == name for p in (*earlier, path)):
            raise BadInput(
                f"'{earlier[0]}' and '{path.name}' are both '{name}'; rename one, as"
                f" '{name}_seg' if it is the label map"
            )
        found[name] = (*earlier, path)
    return found


def _by_image(images: Iterable[str], labels: Sequence[Path]) -> dict[str, dict[str, Path]]:
    """Label maps by image and reader: `p1_seg` is that of `p1`, `p1_seg_anna` is Anna's.

    `segmentation-1` is that of `volume-1`.
    """
    known = set(images)
    bare = grouped(known, lambda name: _IMAGE_WORDS.sub("", name).strip("-_. "))
    found: dict[str, dict[str, Path]] = {}
    for path in labels:
        core = _core(case_name(path))
        alike = bare.get(core, [])
        other = (alike[0] if len(alike) == 1 else core, "")
        owner, reader = next((parts for parts in _beginnings(core) if parts[0] in known), other)
        readers = found.setdefault(owner, {})
        if reader in readers:
            raise BadInput(
                f"'{readers[reader]}' and '{path.name}' label the same image; rename one"
            )
        readers[reader] = path
    return found


def _beginnings(core: str) -> Iterator[tuple[str, str]]:
    """A name cut at each separator, the longest beginning first, and what follows.

    >>> list(_beginnings("p1_anna"))
    [('p1_anna', ''), ('p1', 'anna')]
    """
    yield core, ""
    for cut in reversed(list(re.finditer(r"[-_. ]", core))):
        yield core[: cut.start()], core[cut.end() :].strip("-_. ")


def _paired(
    what: str,
    folder: Path,
    images: Mapping[str, tuple[Path, ...]],
    labels: Mapping[str, Mapping[str, Path]],
) -> Layout:
    naming = _naming(folder)
    both = sorted(images.keys() & labels.keys())
    found = Layout(what, {n: Case(n, images[n], _readers(labels[n]), naming=naming) for n in both})
    bare, stray = sorted(images.keys() - labels.keys()), sorted(labels.keys() - images.keys())
    found.leave("image: without labels", [(name, images[name]) for name in bare])
    found.leave("label map: without an image", [(n, tuple(labels[n].values())) for n in stray])
    return found


def _readers(labels: Mapping[str, Path]) -> Mapping[str, Path]:
    """A single label map needs no reader's name."""
    return {"": next(iter(labels.values()))} if len(labels) == 1 else dict(labels)


def _dicom(folder: Path) -> Layout | None:
    """Every series below a folder with a segmentation or a label map."""
    files = [p for p in _files(folder) if not is_volume(p) and is_dicom(p)]
    if not files:
        return None
    series, left = walk_dicom(files)
    found, naming = Layout("DICOM series"), _naming(folder)
    labels = [{} if s.structures else _labels_of(folder, s, series) for s in series]
    used = [i for i, one in enumerate(series) if one.structures or labels[i]]
    names = _series_names(folder, [series[i] for i in used])
    for i, name in zip(used, names, strict=True):
        held, patient = series[i], series[i].patient
        found.cases[name] = Case(name, (), labels[i], {}, held, naming, patient)
    rest = [str(s.folder.relative_to(folder)) for i, s in enumerate(series) if i not in used]
    found.leave("DICOM series: without a segmentation", [(name, ()) for name in rest])
    for file in left:
        why = "belongs to no series here" if file.kind == "structures" else file.kind
        found.leave(f"DICOM file: {why}", [(str(file.path.relative_to(folder)), ())])
    return found


def _series_names(root: Path, series: Sequence[DicomSeries]) -> list[str]:
    """Folders at which the paths of series part, or the rest of the paths; numbered if equal."""
    places = [one.folder.relative_to(root).parts or (root.name,) for one in series]
    while len(series) > 1 and len({p[0] for p in places}) == 1 and min(map(len, places)) > 1:
        places = [place[1:] for place in places]
    names = [place[0] for place in places]
    if len(set(names)) < len(names):
        names = ["/".join(place) for place in places]
    several = {name for name in names if names.count(name) > 1}
    count: dict[str, int] = defaultdict(int)
    for i, name in enumerate(names):
        if name in several:
            count[name] += 1
            names[i] = f"{name}/series-{count[name]}"
    return names


def _labels_of(root: Path, one: DicomSeries, series: Sequence[DicomSeries]) -> Mapping[str, Path]:
    """Label maps for a series: in its folder or one above that holds no other, or of its name."""
    place = one.folder
    while True:
        shared = [other for other in series if place in (other.folder, *other.folder.parents)]
        if len(shared) > 1:
            break
        volumes = _volumes(place)
        if volumes:
            return _readers({case_name(p) if len(volumes) > 1 else "": p for p in volumes})
        if place == root:
            return {}
        place = place.parent
    names = {one.folder.name, *one.folder.relative_to(place).parts}
    for up in (place, *place.parents):
        folders = [up, *(p for p in folders_in(up) if p.name.lower() in _LABEL_FOLDERS)]
        files = [p for folder in folders for p in _volumes(folder) if _core(case_name(p)) in names]
        if files:
            return _readers({case_name(p): p for p in files})
        if up == root:
            break
    return {}


def _table(file: Path) -> Layout:
    """Pairs in a table; paths are relative to the table's folder.

    Columns are `image` (a file, or a DICOM folder) and `label`, and where wanted `case`,
    `patient` and `reader`; a `dataset.json` in the table's folder names the values.
    """
    rows = read_table(file, "table of pairs", "image", "label")
    if not rows:
        raise BadInput(f"'{file}' has no pair; give each image and its label map a line")
    cases: Cases = {}
    naming = _naming(file.parent)
    for number, row in enumerate(rows, start=2):
        if not row["image"] or not row["label"]:
            raise BadInput(f"'{file}', line {number}: image or label is empty")
        image, label = file.parent / row["image"], file.parent / row["label"]
        name, reader = row.get("case") or case_name(image), row.get("reader", "")
        if name not in cases:
            cases[name] = _listed_case(name, image, row.get("patient", ""))
        known = cases[name].labels
        if reader in known or (known and not reader):
            raise BadInput(f"'{file}': two rows are for '{name}'; add a column 'case' or 'reader'")
        cases[name] = replace(cases[name], labels={**known, reader: label}, naming=naming)
    return Layout("a table of pairs", cases)


def _listed_case(name: str, image: Path, patient: str) -> Case:
    if not image.is_dir():
        return Case(name, (image,), patient=patient)
    series, _ = walk_dicom(p for p in _files(image) if not is_volume(p) and is_dicom(p))
    if len(series) != 1:
        raise BadInput(f"'{image}' holds {len(series)} DICOM series; name a folder with one")
    return Case(name, dicom=series[0], patient=patient or series[0].patient)


def _files(folder: Path) -> Iterator[Path]:
    """Regular files at most eight folders down, hidden ones left out, in order."""
    for root, folders, files in os.walk(folder):
        deep = len(Path(root).relative_to(folder).parts) >= _DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if name[0] != ".")
        yield from (Path(root, name) for name in sorted(files) if name[0] != ".")


def _volumes(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if is_volume(p)) if folder.is_dir() else []


def _core(name: str) -> str:
    """A name without the words for "label map".

    >>> _core("t2_seg-manual"), _core("t2"), _core("p1_seg2")
    ('t2', 't2', 'p1_2')
    """
    bare = re.sub(rf"{_LABEL_WORDS.pattern}(?=\d)", "_", name, flags=re.I)
    return _LABEL_WORDS.sub("", bare).strip("-_. ") or name


def _naming(folder: Path) -> Naming:
    """Labels and channels of `dataset.json`, where a folder has one.

    nnU-Net writes name to value, with lists of values for regions and `ignore` for voxels that
    are not scored; the decathlon writes value to name.
    """
    file = folder / "dataset.json"
    with named_errors(file, "is not JSON"):
        content = json.loads(file.read_text(encoding="utf-8-sig")) if file.is_file() else None
    if not isinstance(content, dict):
        return Naming()
    labels = content.get("labels")
    channels = content.get("channel_names") or content.get("modality")
    names: dict[int, str] = {}
    regions: dict[str, tuple[int, ...]] = {}
    for one, other in labels.items() if isinstance(labels, dict) else ():
        value, name = (one, other) if str(one).lstrip("-").isdigit() else (other, one)
        if isinstance(value, list) and all(isinstance(v, int) for v in value):
            regions[str(name)] = tuple(value)
        elif isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            names[int(value)] = str(name)
    ignore = frozenset(v for v, name in names.items() if name.casefold() == "ignore")
    if regions:  # a single value among them is a region of one
        regions |= {n: (v,) for v, n in names.items() if v and v not in ignore}
    held = channels if isinstance(channels, dict) else {}
    ordered = sorted(held, key=lambda number: (len(number), number))  # "10" comes after "9"
    return Naming(names, regions, ignore, tuple(str(held[number]) for number in ordered))
