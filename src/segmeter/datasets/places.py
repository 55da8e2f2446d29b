"""Where data lies: the root folder, a set's own folder in it, and the files in that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.scenes import DatasetCard
from segmeter.core.seeds import fingerprint
from segmeter.datasets.pictures import SUFFIXES

__all__ = ["by_stem", "digest", "known", "pictures_in", "set_folder", "stem"]

_WHOLE = 1 << 20
_PIECE = 1 << 16
_PIECES = 16


def set_folder(
    card: DatasetCard, data: str | Path | None, names: Sequence[str], parts: Sequence[str]
) -> Path:
    """The folder of a set: one of `names` under the root, or the root itself.

    It is the first that holds all `parts` (folders or files). Names are compared without
    regard to case, since archives differ in it.
    """
    root = data if data is not None else os.environ.get("SEGMETER_DATA")
    advice = f"{card.notes.split('. ')[0].rstrip('.')}; {card.homepage}".rstrip("; ")
    if root is None:
        raise NotFound(
            f"data set '{card.name}' needs the folder that holds '{names[0]}':"
            f" give it with --data or SEGMETER_DATA ({advice})"
        )
    for folder in _candidates(Path(root), names):
        if all((folder / part).exists() for part in parts):
            return folder
    raise NotFound(
        f"data set '{card.name}' is not in '{root}': no folder '{names[0]}' there holds"
        f" {_list(parts)} ({advice})"
    )


def pictures_in(folder: Path) -> list[Path]:
    """The pictures in a folder, by code points of their names; hidden files are passed over."""
    found = (p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.name[0] != ".")
    return sorted(found, key=lambda p: p.name)


def stem(path: Path) -> str:
    """A name up to its first dot, as the click benchmarks pair pictures and masks.

    >>> stem(Path("images/21077.a.jpg"))
    '21077'
    """
    return path.name.partition(".")[0]


def by_stem(paths: Iterable[Path]) -> dict[str, Path]:
    """Files by their stems; two files of one stem are refused, for either may be meant."""
    found: dict[str, Path] = {}
    for path in paths:
        other = found.setdefault(stem(path), path)
        if other is not path:
            raise BadInput(
                f"'{other}' and '{path.name}' have the same name up to the dot;"
                " move one of them away"
            )
    return found


def known(dataset: str, scene: str, scenes: Mapping[str, object]) -> None:
    """Refuse a scene that the data set does not have."""
    if scene not in scenes:
        raise NotFound(f"{dataset}: no scene '{scene}';{suggestion(scene, scenes)}".rstrip(";"))


def digest(files: Iterable[Path]) -> str:
    """A digest of names, sizes and content.

    Files up to 1 MiB are read whole; of larger ones 16 pieces of 64 KiB, so that a set of
    many gigabytes is checked in seconds.
    """
    parts: list[object] = []
    for path in files:
        size = path.stat().st_size
        parts += [f"{path.parent.name}/{path.name}", size, _sample(path, size)]
    return fingerprint(*parts)


def _sample(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        if size <= _WHOLE:
            return file.read()
        pieces = []
        for k in range(_PIECES):
            file.seek((size - _PIECE) * k // (_PIECES - 1))
            pieces.append(file.read(_PIECE))
        return b"".join(pieces)


def _candidates(root: Path, names: Sequence[str]) -> Iterable[Path]:
    for name in names:
        folder: Path | None = root
        for part in name.split("/"):
            folder = _child(folder, part) if folder is not None else None
        if folder is not None:
            yield folder
    yield root


def _child(folder: Path, name: str) -> Path | None:
    exact = folder / name
    if exact.is_dir():
        return exact
    if not folder.is_dir():
        return None
    alike = (p for p in sorted(folder.iterdir()) if p.name.lower() == name.lower() and p.is_dir())
    return next(alike, None)


def _list(parts: Sequence[str]) -> str:
    return " and ".join(f"'{part}'" for part in parts)
