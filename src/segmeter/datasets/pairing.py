"""Pairing: which mask belongs to which image, in a folder that a person laid out."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from segmeter.core.grouping import grouped
from segmeter.datasets import data_roots
from segmeter.datasets.data_roots import by_name, images_in, printable

_IMAGES = (
    "images image imgs img im photos photo rgb inputs input jpegimages data_gt data original"
    " imagestr"
)
_MASKS = (
    "masks mask gt gts labels label annotations annotation segmentations segmentation seg segs"
    " groundtruth ground_truth boundary_gt segmentationobject segmentationclass targets objects"
    " labelstr"
)
_MASK_WORD = r"masks?|gts?|labels?|segmentations?|segs?"
_MARKED = re.compile(rf"(?P<stem>.+?)[_\-. ](?:{_MASK_WORD})(?:[_\-. ]?(?P<thing>.+))?", re.I)
_WORD = re.compile(_MASK_WORD, re.I)
_IMAGE_MARK = re.compile(r"[_\-. ](?:im|img|image)$")


@dataclass(slots=True)
class Pairs:
    """Images with their mask files, by scene."""

    where: str  # words for where the two were found
    images: dict[str, Path]
    whole: dict[str, Path] = field(default_factory=dict)  # a file of all objects of a scene
    single: dict[str, list[tuple[str, Path]]] = field(default_factory=dict)  # objects with files
    stray: list[str] = field(default_factory=list)  # masks that belong to no image
    renamed: int = 0  # objects that go by their file's whole name, for two had the same
    _alike: dict[str, list[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._alike = grouped(self.images, _bare)

    def image_of(self, name: str) -> str | None:
        """The scene whose image has this name, also where systems spell it differently.

        Macs write an umlaut as two letters, Windows does not care about capitals. An image may be
        marked as one: `x_img` is the image of `x_masks`.
        """
        if name in self.images:
            return name
        alike = self._alike.get(_bare(name), [])
        return alike[0] if len(alike) == 1 else None

    @property
    def paired(self) -> list[str]:
        return [name for name in self.images if self.files_of(name)]

    @property
    def unpaired(self) -> list[str]:
        return [name for name in self.images if not self.files_of(name)]

    def files_of(self, scene: str) -> list[Path]:
        whole = [self.whole[scene]] if scene in self.whole else []
        return whole + [path for _, path in self.single.get(scene, [])]

    def files(self) -> list[Path]:
        """All mask files, in the order of their scenes."""
        return [file for name in self.paired for file in self.files_of(name)]


def deeper(folder: Path) -> str:
    """A hint if images and masks are one folder deeper than expected; otherwise empty."""
    inside = [
        path
        for path in data_roots.folders_in(folder)
        if data_roots.named_folder(path, _MASKS.split()) and pair(path).paired
    ]
    if not inside:
        return ""
    names = " and ".join(f"'{printable(path.name)}'" for path in inside[:3])
    return f"{names} in it can be read: give one of them, such as '{printable(str(inside[0]))}'"


def image_folder(folder: Path) -> Path:
    """The subfolder that is named for images, or the folder itself."""
    return data_roots.named_folder(folder, _IMAGES.split()) or folder


def pair(folder: Path) -> Pairs:
    """Find images and masks: two folders, or one with marked names (`x.jpg`, `x_mask.png`).

    Where neither finds a pair, folders may have a longer name that ends so: `DUTS-TE-Mask`.
    """
    images, masks = image_folder(folder), data_roots.named_folder(folder, _MASKS.split())
    found = _in_one_folder(images) if masks is None else _in_two_folders(folder, images, masks)
    if not found.paired:
        ends = [data_roots.named_folder(folder, n.split(), ends=True) for n in (_IMAGES, _MASKS)]
        if ends[0] is not None and ends[1] is not None:
            return _in_two_folders(folder, ends[0], ends[1])
    return found


def _in_two_folders(folder: Path, images: Path, masks: Path) -> Pairs:
    """Masks of the same names, and in folders of the same names: `train/dog`."""
    pairs = Pairs(f"in '{images.name}', masks in '{masks.name}'", by_name(images_in(images)))
    for path in images_in(masks):
        _assign(pairs, path)
    inside = data_roots.folders_in(images) if images != folder else []
    folders = [path for path in inside if _below(path, images)]
    masks_of = {_normalised(path.name): masks / path.name for path in folders}
    for subfolder in data_roots.folders_in(masks):
        things = [(path.stem, path) for path in images_in(subfolder)]
        name = pairs.image_of(subfolder.name)
        if things and name is not None:
            pairs.single.setdefault(name, []).extend(things)
        elif _normalised(subfolder.name) in masks_of:
            masks_of[_normalised(subfolder.name)] = subfolder
        elif things:
            pairs.stray.append(f"{printable(subfolder.name)}/")
    _with_unique_names(pairs)
    for path in folders:
        inner = _in_two_folders(images, path, masks_of[_normalised(path.name)])
        for into, part in ((pairs.images, inner.images), (pairs.whole, inner.whole)):
            into |= {f"{path.name}/{name}": file for name, file in part.items()}
        pairs.single |= {f"{path.name}/{name}": each for name, each in inner.single.items()}
        pairs.stray += [f"{path.name}/{name}" for name in inner.stray]
        pairs.renamed += inner.renamed
    return pairs


def _below(folder: Path, images: Path) -> bool:
    """Whether a folder's name is text and it is no link to a folder that it is in."""
    return data_roots.writable(folder.name) and not images.resolve().is_relative_to(
        folder.resolve()
    )


def _assign(pairs: Pairs, path: Path) -> None:
    """To the image of the same name, else to the longest name that it begins with."""
    same = pairs.image_of(path.stem) or pairs.image_of(f"{path.stem}_0000")  # nnU-Net's channel 0
    if same is not None:
        earlier = pairs.whole.get(same)
        exact = path.stem == same or earlier is None
        if earlier is not None:  # of two files the one that is spelt alike counts
            pairs.stray.append(earlier.name if exact else path.name)
        if exact:
            pairs.whole[same] = path
        return
    ends = [place for place, letter in enumerate(path.stem) if letter in "_-. "]
    for end in reversed(ends):
        name = pairs.image_of(path.stem[:end])
        if name is not None:
            thing = path.stem[end:].strip("_-. ")
            if _WORD.fullmatch(thing) and name not in pairs.whole:
                pairs.whole[name] = path
            else:
                pairs.single.setdefault(name, []).append((thing, path))
            return
    pairs.stray.append(path.name)


def _with_unique_names(pairs: Pairs) -> Pairs:
    """Objects with one name in a scene (`a_1.png` and `a-1.png`) are named after their files."""
    for things in pairs.single.values():
        times = Counter(name for name, _ in things)
        pairs.renamed += sum(times[name] > 1 for name, _ in things)
        things[:] = [(path.stem if times[name] > 1 else name, path) for name, path in things]
    return pairs


def _in_one_folder(folder: Path) -> Pairs:
    files = images_in(folder)
    twins = _twins(files)
    if twins is not None:
        return twins
    marked = [(match, path) for path in files if (match := _MARKED.fullmatch(path.stem))]
    masks = {path for _, path in marked}
    pairs = Pairs("and masks side by side", by_name(p for p in files if p not in masks))
    for match, path in marked:
        name, thing = pairs.image_of(match["stem"]), match["thing"]
        if name is None:
            pairs.stray.append(path.name)
        elif thing:
            pairs.single.setdefault(name, []).append((thing, path))
        else:
            pairs.whole[name] = path
    return _with_unique_names(pairs)


def _twins(files: list[Path]) -> Pairs | None:
    """Images as JPEG, each with a PNG of the same name: that is its mask."""
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


def _normalised(name: str) -> str:
    """A name as it looks, however it is encoded and capitalised."""
    return unicodedata.normalize("NFC", name).casefold()


def _bare(name: str) -> str:
    return _IMAGE_MARK.sub("", _normalised(name))
