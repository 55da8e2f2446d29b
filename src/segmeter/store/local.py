"""Local storage: files of a run on a disk, reached from its folder and never through a link."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, RunConflict, SegmeterError
from segmeter.store.write_lock import Lease

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}
_LEFT_OVER = ".open-"  # what a kill leaves of a write under the lease
_UNLEASED = ".page-"  # and of a write without the lease, such as a report
_OLD_S = 3600.0


class DiskFull(SegmeterError):
    """The disk is full; finished jobs are safe."""


class RunRemoved(SegmeterError):
    """The run was removed while it was being written."""


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file of a run: its name in its folder, its size, and a text that differs by version."""

    name: str
    bytes: int
    version: str


class LocalPlace:
    """A folder on a disk.

    The folder itself may be a link, since the user named it; links inside are refused.
    """

    shared = True

    def __init__(self, path: Path) -> None:
        if sys.platform == "win32":
            raise BadInput(
                f"'{path}': runs need Linux or macOS; "
                "on Windows, use the Windows Subsystem for Linux"
            )
        self.path = path
        self._root: int | None = None

    def __repr__(self) -> str:
        return f"LocalPlace({str(self.path)!r})"

    @property
    def address(self) -> str:
        return str(self.path)

    def begin(self) -> None:
        """Make the folder that everything else is put into."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._forget_root()

    def files(self, folder: str = "") -> list[StoredFile]:
        """The plain files of a folder that are not hidden, in order."""
        seen = [e for e in self._entries(folder) if not e.name.startswith(".")]
        for entry in seen:
            if entry.is_symlink():
                raise self._link(f"{folder}/{entry.name}".lstrip("/"))
        plain = [e for e in seen if e.is_file(follow_symlinks=False)]
        facts = [(e.name, e.stat(follow_symlinks=False)) for e in plain]
        # The time of change cannot be set by who unpacks or copies files, as the other one can.
        return sorted(
            StoredFile(name, held.st_size, f"{held.st_mtime_ns}-{held.st_ctime_ns}-{held.st_ino}")
            for name, held in facts
        )

    def folders(self, folder: str = "") -> list[str]:
        """The folders in a folder, in order."""
        return sorted(e.name for e in self._entries(folder) if e.is_dir(follow_symlinks=False))

    def others(self) -> list[str]:
        """Everything in the folder but what systems and killed writers leave there."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        ours = (_LEFT_OVER, _UNLEASED, ".lock", ".DS_Store", "._")
        return sorted(name for name in names if not name.startswith(ours))

    def exists(self, name: str) -> bool:
        try:
            kind = self._path(name).lstat().st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISLNK(kind):
            raise self._link(name)
        return stat.S_ISREG(kind)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """A file's content; FileNotFoundError if it is not there, refused if above `limit`."""
        with os.fdopen(self._open(name, os.O_RDONLY), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadInput(f"'{self.address}/{name}' is not a plain file; remove it")
            if limit is not None and found.st_size > limit:
                raise BadInput(
                    f"'{self.address}/{name}' holds {found.st_size} bytes, which is too much"
                )
            return file.read()

    def put(self, name: str, data: bytes, *, leased: bool = True) -> None:
        """Write a file that appears complete or does not appear.

        `leased` means that the caller holds the lease, so that files that a kill leaves behind are
        removed by the next holder.
        """
        try:
            prefix = _LEFT_OVER if leased else _UNLEASED
            _write_then_rename(self._path(name, make=True), data, prefix)
        except FileNotFoundError as error:
            raise RunRemoved(
                f"'{self.address}' was removed while it was being written; give the same command "
                "again to start over"
            ) from error
        except OSError as error:
            raise _named(error, self.address) from error

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it is not there."""
        with suppress(FileNotFoundError):
            self._path(name).unlink()

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Become the only writer; RunConflict if there is another.

        The system drops this lock when its holder dies. Files that killed writers left are removed
        first.
        """
        import fcntl  # not on every system

        handle = self._open(".lock", os.O_RDWR | os.O_CREAT)
        with os.fdopen(handle, "r+b", buffering=0):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunConflict(
                    f"another command is writing to '{self.address}'; wait for it or stop it"
                ) from None
            for folder in ("", "jobs", "errors", "quarantine", "tables"):
                for entry in self._entries(folder):
                    if _is_left_over(entry):
                        self.remove(f"{folder}/{entry.name}".lstrip("/"))
            yield Lease(self.address)

    def arrow(self) -> tuple[Any, str]:
        """The file system and the folder in it, as Arrow's readers want them."""
        from pyarrow import fs

        return fs.LocalFileSystem(), str(self.path.resolve())

    def _path(self, name: str, *, make: bool = False) -> Path:
        """The path of a file in the run; refused if a folder above it is a link."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part or os.sep in part for part in parts):
            raise BadInput(f"{name!r} is not a name inside a run")
        return self._folder("/".join(parts[:-1]), make=make) / parts[-1]

    def _folder(self, folder: str, *, make: bool = False) -> Path:
        """A folder in the run; FileNotFoundError if it, or the run that was opened, is gone."""
        place = self.path
        if self._root is None:  # held open, to notice another folder in its place
            self._root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not os.path.samestat(os.fstat(self._root), place.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
        for part in filter(None, folder.split("/")):
            if not place.is_dir():
                break
            place = place / part
            if place.is_symlink():
                raise self._link(folder)
            if make:
                with suppress(FileExistsError):
                    place.mkdir()
        if not place.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
        if not place.is_dir():
            raise self._link(folder)
        return place

    def _forget_root(self) -> None:
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def __del__(self) -> None:
        with suppress(OSError, TypeError, AttributeError):  # at exit the module may be gone
            self._forget_root()

    def __getstate__(self) -> Path:
        return self.path

    def __setstate__(self, path: Path) -> None:
        self.path, self._root = path, None

    def _open(self, name: str, flags: int) -> int:
        path = self._path(name)
        if path.is_symlink():
            raise self._link(name)
        # Not blocking: a pipe without a writer would block for ever.
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Everything in a folder; nothing if it is not there."""
        try:
            with os.scandir(self._folder(folder)) as found:
                return [entry for entry in found if _is_there(entry)]
        except FileNotFoundError:
            return []

    def _link(self, name: str) -> BadInput:
        return BadInput(
            f"'{self.address}/{name}' is a link or no folder; a run holds plain files and folders "
            "only, remove it"
        )


def write_file(path: Path, data: bytes) -> None:
    """Write a file of the user's choosing that appears complete or does not appear."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_then_rename(path, data, _UNLEASED)
    except OSError as error:  # with the requested name, not that of the temporary file
        raise _named(OSError(error.errno, error.strerror), str(path)) from error


def _write_then_rename(path: Path, data: bytes, prefix: str) -> None:
    """Write a temporary file, flush it to the disk, then rename it."""
    temporary = path.parent / f"{prefix}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _named(error: OSError, where: str) -> Exception:
    """A full disk as a sentence; any other error with the place it happened at."""
    if error.errno in _FULL:
        return DiskFull(
            f"the disk that holds {where} is full; free some space and give the same command "
            "again, finished work is kept"
        )
    return OSError(error.errno, error.strerror or str(error), error.filename or where)


def _is_there(entry: os.DirEntry[str]) -> bool:
    """Whether an entry still exists; it keeps its facts when the folder is closed."""
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since it was listed
        return False
    return True


def _is_left_over(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(_LEFT_OVER):
        return True
    if not entry.name.startswith(_UNLEASED):
        return False
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _OLD_S
