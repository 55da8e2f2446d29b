"""Data roots: the folder of all datasets, a dataset's own folder in it, and its files."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.scenes import DatasetCard, Image, Pixels, Scene, Target
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted
from segmeter.datasets.image_files import SUFFIXES, named_errors, read_rgb

Source = TypeVar("Source")
_PIECE = 1 << 16
_MOST_PIECES = 16
_MOST_READ = 1 << 28


_CARDS = tomllib.loads(Path(__file__).with_name("cards.toml").read_text("utf-8"))


def card_of(name: str) -> DatasetCard:
    """The card of a dataset of this name.

    >>> card_of("sbd").citation
    'hariharan2011'
    """
    return DatasetCard(name, **_CARDS[name])


def own_card(name: str, notes: str = "", summary: str = "a folder of your own") -> DatasetCard:
    return DatasetCard(name, summary, "your own", "nothing to cite", notes=notes)


class SceneSet(Generic[Source]):
    """A dataset whose scenes are each read from a source of their own, such as some files.

    `read` makes a scene of its name and source, `files` lists the files that it is read from;
    `absent` are scenes that are known but cannot be loaded, and why.
    """

    recognised = ""  # what was found in a user's own folder

    def __init__(
        self,
        card: DatasetCard,
        sources: Mapping[str, Source],
        read: Callable[[str, Source], Scene],
        files: Callable[[str, Source], Iterable[Path]],
        absent: Mapping[str, str] | None = None,
    ) -> None:
        self.card, self._sources, self._read, self._files = card, sources, read, files
        self._absent = absent or {}
        self.unused: dict[str, str] = {}  # files that no scene uses, and what is wrong with each

    def scenes(self) -> Sequence[str]:
        return list(self._sources)

    def load(self, scene: str) -> Scene:
        if scene in self._absent:
            raise NotFound(f"{self.card.name}/{scene}: {self._absent[scene]}")
        known(self.card.name, scene, self._sources)
        return self._read(scene, self._sources[scene])

    def fingerprint(self) -> str:
        own = (file for item in self._sources.items() for file in self._files(*item))
        return digest(dict.fromkeys(own))


class ImageSet(SceneSet[Path]):
    """A dataset of image files; `targets` reads the objects of a scene."""

    def __init__(
        self,
        card: DatasetCard,
        images: Mapping[str, Path],
        targets: Callable[[str], Iterable[Target]],
        files: Callable[[str, Path], Iterable[Path]],
        pixels: Callable[[Path], Pixels] = read_rgb,
    ) -> None:
        def read(scene: str, image: Path) -> Image:
            lazily = partial(pixels, image), lambda: tuple(targets(scene))
            file = f"{scene.rpartition('/')[0]}/{image.name}".lstrip("/")  # below its folder
            return Image(card.name, scene, *lazily, file_name=file)

        super().__init__(card, images, read, files)


def masked_images(
    card: DatasetCard,
    images: Mapping[str, Path],
    masks: Mapping[str, Path],
    targets: Callable[[str, Path], Iterable[Target]],
    files: Sequence[Path] = (),
    pixels: Callable[[Path], Pixels] = read_rgb,
) -> ImageSet:
    """Images with a mask file each: `targets` reads the objects of a scene from its file."""

    def read(scene: str) -> Iterable[Target]:
        if not masks[scene].exists():
            raise NotFound(f"{card.name}/{scene}: no mask '{masks[scene]}'")
        return targets(scene, masks[scene])

    return ImageSet(card, images, read, lambda scene, image: (*files, image, masks[scene]), pixels)


def set_folder(
    card: DatasetCard, data: str | Path | None, names: Sequence[str], parts: Sequence[str]
) -> Path:
    """The folder of a set: one of `names` under the root, or the root itself.

    It is the first that holds all `parts` (folders or files). Names, which may be patterns, are
    compared without regard to case, since archives differ in it.
    """
    root = data if data is not None else os.environ.get("SEGMETER_DATA")
    advice = f"{card.notes.split('. ')[0].rstrip('.')}; {card.homepage}".rstrip("; ")
    if root is None:
        raise NotFound(
            f"dataset '{card.name}' needs the folder that holds '{names[0]}':"
            f" give it with --data or SEGMETER_DATA ({advice})"
        )
    for folder in _candidates(Path(root), names):
        if all((folder / part).exists() for part in parts):
            return folder
    held = f" there holds {' and '.join(map(repr, parts))}" if parts else ""
    raise NotFound(
        f"dataset '{card.name}' is not in '{root}': no folder '{names[0]}'{held} ({advice})"
    )


def images_in(folder: Path) -> list[Path]:
    """The images in a folder, by code points of their names.

    Hidden files, anything but regular files (pipes, devices, dead links) and names that are not
    UTF-8 are skipped: no table or report could hold them.
    """
    names = (name for name in names_in(folder) if name[0] != ".")
    return [folder / name for name in sorted(names) if Path(name).suffix.lower() in SUFFIXES]


def images_below(folder: Path) -> list[Path]:
    """The images anywhere under a folder, in the order of their paths."""
    files = sorted(folder.rglob("*"))
    return [path for path in files if path.suffix.lower() in SUFFIXES and path.name[0] != "."]


def passed_over(folder: Path) -> str:
    """A sentence on what looks like an image in a folder and is not read; often empty."""
    files, read = sorted(folder.glob("[!.]*")), names_in(folder)
    gifs = [p.name for p in files if p.suffix.lower() == ".gif"]
    odd = [p.name for p in files if p.suffix.lower() in SUFFIXES and p.name not in read]
    parts = [
        f"{counted(len(gifs), 'GIF')} not read, the first is '{gifs[0]}': save as PNG"
        if gifs else "",
        f"{counted(len(odd), 'file')} left out, the first is '{printable(odd[0])}': it is no"
        " regular file, or its name is not UTF-8" if odd else "",
    ]  # fmt: skip
    return "; ".join(filter(None, parts))


def names_in(folder: Path) -> frozenset[str]:
    """The names of the regular files in a folder, listed once; none without a folder."""
    if not folder.is_dir():
        return frozenset()
    with named_errors(folder, "cannot be listed"):
        return frozenset(p.name for p in folder.iterdir() if writable(p.name) and p.is_file())


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder by name, without hidden ones; none without a folder."""
    return sorted(p for p in folder.glob("[!.]*") if p.is_dir())


def named_folder(folder: Path, names: Sequence[str], *, ends: bool = False) -> Path | None:
    """The folder in a folder that has the first of these names, in whatever case.

    With `ends` the only folder whose name ends with one of them counts, too.
    """
    found = {path.name.lower().replace(" ", "_"): path for path in folders_in(folder)}
    exact = next((found[name] for name in names if name in found), None)
    alike = [path for name, path in found.items() if ends and re.split("[-_]", name)[-1] in names]
    return alike[0] if exact is None and len(alike) == 1 else exact


def writable(name: str) -> bool:
    """Whether a name can be written as UTF-8, as every table and report must.

    >>> writable("café"), writable(os.fsdecode(b"caf\\xe9"))
    (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def printable(name: str) -> str:
    """A name as text that UTF-8 can hold: bytes of another encoding are shown as such."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def read_list(path: Path) -> list[str]:
    with named_errors(path, "is not text in UTF-8 with a name on each line"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    return list(dict.fromkeys(filter(None, map(str.strip, lines))))


def lacking(what: str, absent: Sequence[str] | int, whole: int, where: Path) -> str:
    """Text for the card on missing parts, by name or only counted; empty if nothing is missing.

    >>> lacking("images", ["007", "011"], 50, Path("DAVIS/img"))
    "2 of 50 images are not in 'DAVIS/img', the first is '007'"
    """
    count, named = (absent, "") if isinstance(absent, int) else (len(absent), "".join(absent[:1]))
    first = f", the first is '{named}'" if named else ""
    verb = "is" if count == 1 else "are"
    return f"{count} of {whole} {what} {verb} not in '{where}'{first}" if count > 0 else ""


def require_some(
    dataset: str, listed: Sequence[str], available: Sequence[str], where: Path
) -> None:
    """Refuse a set of which no image at all is there: the folder must be a wrong one."""
    if listed and not available:
        raise NotFound(
            f"dataset '{dataset}': none of its {counted(len(listed), 'image')} is in '{where}', the"
            f" first is '{listed[0]}'; put the images there (next to a COCO file of your own, or in"
            " a folder 'images' next to it, which may be a link)"
        )


def by_name(
    paths: Iterable[Path],
    key: Callable[[Path], str] = lambda path: path.stem,
    alike: str = "differ in their suffix only",
) -> dict[str, Path]:
    """Files by name. Two files of one name are refused, for either may be meant."""
    found: dict[str, Path] = {}
    for path in paths:
        other = found.setdefault(key(path), path)
        if other is not path:
            raise BadInput(f"'{other}' and '{path.name}' {alike}; move one of them away")
    return found


def by_stem(paths: Iterable[Path]) -> dict[str, Path]:
    """Files by their names up to the first dot, as the click benchmarks pair images and masks."""
    alike = "have the same name up to the dot"
    return by_name(paths, lambda path: path.name.partition(".")[0], alike)


def known(dataset: str, scene: str, scenes: Mapping[str, object]) -> None:
    if scene not in scenes:
        raise NotFound(f"{dataset}: no scene '{scene}';{suggestion(scene, scenes)}".rstrip(";"))


def digest(files: Iterable[Path]) -> str:
    """A digest of names, sizes and content.

    Up to 16 pieces of 64 KiB are read of each file, so small files whole; of large sets
    fewer, down to one, so that about 256 MiB are read at most before a run begins.
    """
    paths = list(files)
    pieces = min(_MOST_PIECES, max(1, _MOST_READ // (_PIECE * max(len(paths), 1))))
    parts: list[object] = []
    for path in paths:
        name = f"{path.parent.name}/{path.name}"
        if not path.is_file():  # named, but not opened: a pipe would wait for ever
            parts += [name, "no regular file"]
            continue
        size = path.stat().st_size
        parts += [name, size, _sample(path, size, pieces)]
    return fingerprint(*parts)


def _sample(path: Path, size: int, pieces: int) -> bytes:
    """A whole file where the pieces cover it, else pieces from its start to its end."""
    with path.open("rb") as file:
        if size <= _PIECE * pieces:
            return file.read()
        found = []
        for k in range(pieces):
            file.seek((size - _PIECE) * k // max(pieces - 1, 1))
            found.append(file.read(_PIECE))
        return b"".join(found)


def _candidates(root: Path, names: Sequence[str]) -> Iterable[Path]:
    for name in names:
        folder: Path | None = root
        for part in name.split("/"):
            folder = _child(folder, part) if folder is not None else None
        if folder is not None:
            yield folder
    if "*" not in names[0] or root.match(names[0]):
        yield root


def _child(folder: Path, name: str) -> Path | None:
    if (folder / name).is_dir():
        return folder / name
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    alike = (p for p in inside if fnmatch(p.name.lower(), name.lower()) and p.is_dir())
    return next(alike, None)
