"""Which mask belongs to which picture, in a folder that a person laid out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from segmeter.core.errors import BadInput
from segmeter.datasets.places import pictures_in, printable

__all__ = ["Pairs", "pair", "picture_folder"]

_PICTURES = (
    "images image imgs img pictures picture photos photo rgb inputs input jpegimages data_gt data"
)
_MASKS = (
    "masks mask gt gts labels label annotations annotation segmentations segmentation seg segs"
    " groundtruth ground_truth boundary_gt segmentationobject segmentationclass targets objects"
)
_MASK_WORD = r"masks?|gts?|labels?|segmentations?|segs?"
_MARKED = re.compile(rf"(?P<stem>.+?)[_\-. ](?:{_MASK_WORD})(?:[_\-. ]?(?P<thing>.+))?", re.I)
_WORD = re.compile(_MASK_WORD, re.I)


@dataclass(slots=True)
class Pairs:
    """Pictures with their mask files.

    Attributes
    ----------
    where
        Words for where the two were found.
    pictures
        By scene.
    whole
        One file that holds all objects of a scene.
    single
        Files of one object each, with the object's name.
    stray
        Masks that belong to no picture.
    renamed
        How many objects go by their file's whole name, for two had the same.
    """

    where: str
    pictures: dict[str, Path]
    whole: dict[str, Path] = field(default_factory=dict)
    single: dict[str, list[tuple[str, Path]]] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)
    renamed: int = 0

    @property
    def paired(self) -> list[str]:
        return [name for name in self.pictures if name in self.whole or name in self.single]

    @property
    def lonely(self) -> list[str]:
        """Pictures without any mask."""
        return [
            name for name in self.pictures if name not in self.whole and name not in self.single
        ]

    def files(self) -> list[Path]:
        """All mask files, in the order of their scenes."""
        found = []
        for name in self.paired:
            found += [self.whole[name]] if name in self.whole else []
            found += [path for _, path in self.single.get(name, [])]
        return found


def picture_folder(folder: Path) -> Path:
    """The subfolder that is named for pictures, or the folder itself."""
    return _named(folder, _PICTURES) or folder


def pair(folder: Path) -> Pairs:
    """Find pictures and masks: two folders, or one with marked names (`x.jpg`, `x_mask.png`)."""
    masks, pictures = _named(folder, _MASKS), picture_folder(folder)
    if masks is None:
        return _in_one_folder(pictures)
    where = f"in '{pictures.name}', masks in '{masks.name}'"
    pairs = Pairs(where, _by_name(pictures_in(pictures)))
    for path in pictures_in(masks):
        _assign(pairs, path)
    for subfolder in sorted(path for path in masks.iterdir() if path.is_dir()):
        things = [(path.stem, path) for path in pictures_in(subfolder)]
        if things and subfolder.name in pairs.pictures:
            pairs.single.setdefault(subfolder.name, []).extend(things)
        elif things:
            pairs.stray.append(f"{printable(subfolder.name)}/")
    return _told_apart(pairs)


def _assign(pairs: Pairs, path: Path) -> None:
    """To the picture of the same name, else to the longest name that it begins with."""
    if path.stem in pairs.pictures:
        pairs.whole[path.stem] = path
        return
    ends = [place for place, letter in enumerate(path.stem) if letter in "_-. "]
    for end in reversed(ends):
        name = path.stem[:end]
        if name in pairs.pictures:
            thing = path.stem[end:].strip("_-. ")
            if _WORD.fullmatch(thing) and name not in pairs.whole:
                pairs.whole[name] = path
            else:
                pairs.single.setdefault(name, []).append((thing, path))
            return
    pairs.stray.append(path.name)


def _told_apart(pairs: Pairs) -> Pairs:
    """Objects of one name in a scene, as of `a_1.png` and `a-1.png`, go by their files' names."""
    for things in pairs.single.values():
        times = Counter(name for name, _ in things)
        pairs.renamed += sum(times[name] > 1 for name, _ in things)
        things[:] = [(path.stem if times[name] > 1 else name, path) for name, path in things]
    return pairs


def _in_one_folder(folder: Path) -> Pairs:
    files = pictures_in(folder)
    twins = _twins(files)
    if twins is not None:
        return twins
    marked = [(match, path) for path in files if (match := _MARKED.fullmatch(path.stem))]
    masks = {path for _, path in marked}
    pairs = Pairs("and masks side by side", _by_name(p for p in files if p not in masks))
    for match, path in marked:
        name, thing = match["stem"], match["thing"]
        if name in pairs.pictures and thing:
            pairs.single.setdefault(name, []).append((thing, path))
        elif name in pairs.pictures:
            pairs.whole[name] = path
        else:
            pairs.stray.append(path.name)
    return _told_apart(pairs)


def _twins(files: list[Path]) -> Pairs | None:
    """Photographs as JPEG, each with a PNG of the same name: that is its mask."""
    photos = {path.stem: path for path in files if path.suffix.lower() in (".jpg", ".jpeg")}
    masks = {path.stem: path for path in files if path.suffix.lower() == ".png"}
    if not photos or len(photos) + len(masks) < len(files) or not photos.keys() & masks.keys():
        return None
    if any(_MARKED.fullmatch(name) for name in masks.keys() - photos.keys()):
        return None
    pairs = Pairs("as JPEG, masks of the same names as PNG", photos)
    pairs.whole = {name: path for name, path in masks.items() if name in photos}
    pairs.stray = [path.name for name, path in masks.items() if name not in photos]
    return pairs


def _by_name(paths: Iterable[Path]) -> dict[str, Path]:
    """By whole name without suffix: people's names have dots."""
    found: dict[str, Path] = {}
    for path in paths:
        if found.setdefault(path.stem, path) is not path:
            raise BadInput(
                f"'{found[path.stem]}' and '{path.name}' differ in their suffix only;"
                " move one of them away"
            )
    return found


def _named(folder: Path, names: str) -> Path | None:
    """The subfolder with the first of these names."""
    found = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    return next((found[name] for name in names.split() if name in found), None)
