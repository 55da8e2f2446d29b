"""Archives: single files taken out by name, never to a path that the archive chooses."""

from __future__ import annotations

import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models.fetching.transfer import write_whole

__all__ = ["is_archive", "unpack", "unpack_one"]

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".whl")
_BLOCK = 1 << 20
_MOST_RATIO, _LEAST_LIMIT = 16, 1 << 26
# What the libraries raise for damaged, encrypted or made-up archives.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
            ValueError, TypeError, RuntimeError, NotImplementedError, struct.error, IndexError,
            OverflowError)  # fmt: skip

Member = tuple[str, int, IO[bytes]]
"""Path inside the archive, size in bytes, content."""


def is_archive(path: Path) -> bool:
    """Whether a path names an archive that is there (by its name: a `.pt` is a zip, too)."""
    return path.is_file() and path.name.lower().endswith(_SUFFIXES)


def unpack_one(archive: Path, member: str, target: Path) -> None:
    """Take one file out; its path is told as inside the archive's top folder."""
    with _members(archive) as members:
        for path, size, content in members:
            inside = PurePosixPath(path).parts[1:]
            if "/".join(inside) == member or path == member:
                _copy(content, size, target)
                return
    raise NotFound(f"'{archive.name}' holds no '{member}'")


def unpack(archive: Path, folder: Path, suffixes: tuple[str, ...]) -> None:
    """Take every file with one of these suffixes out, side by side into one folder."""
    taken: set[str] = set()
    with _members(archive) as members:
        for path, size, content in members:
            name = PurePosixPath(path.replace("\\", "/")).name
            if not name.endswith(suffixes) or name.startswith("."):
                continue
            if name in taken:
                raise BadInput(
                    f"'{archive.name}' holds '{name}' twice; unpack it yourself and give the "
                    "folder of this model"
                )
            taken.add(name)
            _copy(content, size, folder / name)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    """The plain files of an archive; links, devices and folders are passed over."""
    try:
        if archive.name.lower().endswith((".zip", ".whl")):
            with zipfile.ZipFile(archive) as packed:
                yield _limited(_zipped(packed), archive)
        else:
            with tarfile.open(archive, "r|*") as stream:
                yield _limited(_tarred(stream), archive)
    except _DAMAGED as error:
        raise BadWeights(f"'{archive}' is damaged or cut short ({error})") from error


def _limited(members: Iterator[Member], archive: Path) -> Iterator[Member]:
    """Members, until they announce more than an honest archive of this size can hold."""
    left = _MOST_RATIO * archive.stat().st_size + _LEAST_LIMIT
    for path, size, content in members:
        left -= size
        if size < 0 or left < 0:
            raise BadWeights(
                f"'{archive}' unpacks to more than {_MOST_RATIO} times its size; it is a bomb, "
                "or not what it should be"
            )
        yield path, size, content


def _tarred(stream: tarfile.TarFile) -> Iterator[Member]:
    for info in stream:
        content = stream.extractfile(info) if info.isfile() else None
        if content is not None:
            yield info.name, info.size, content


def _zipped(packed: zipfile.ZipFile) -> Iterator[Member]:
    for info in packed.infolist():
        if not info.is_dir():
            with packed.open(info) as content:
                yield info.filename, info.file_size, content


def _copy(content: IO[bytes], size: int, target: Path) -> None:
    """Write a member, no more than it announced, and only where there is room for it."""
    if size > shutil.disk_usage(target.parent).free:
        raise BadInput(f"'{target.name}' needs {size >> 20} MiB, more than '{target.parent}' has")
    part = target.with_name(f"{target.name}.part")
    left = size
    with part.open("wb", buffering=0) as out:
        while left and (block := content.read(min(left, _BLOCK))):
            write_whole(out, block, part)
            left -= len(block)
    if left:
        part.unlink()
        raise BadWeights(f"'{target.name}' is cut short in its archive")
    os.replace(part, target)
