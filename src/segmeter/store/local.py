"""Local storage: files of a run on a disk, reached from its folder and never through a link."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, RunConflict
from segmeter.store.leases import Lease, file_lease
from segmeter.store.places import DiskFull, RunGone, StoredFile

__all__ = ["LocalPlace", "write_file"]

try:
    import fcntl
except ModuleNotFoundError:  # not on this system: a lease file does it
    fcntl = None  # type: ignore[assignment]  # the module or nothing

# Where the system can open a file relative to a folder it holds open, no name is looked up twice.
_ANCHORED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_IS_LINK = {errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP)}
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}
_LEFT_OVER = ".open-"  # what a kill leaves of a write under the lease
_UNLEASED = ".page-"  # and of a write without the lease, such as a report
_OLD_S = 3600.0

_At = tuple[int | None, str]  # an open folder and what stands before names in it


class LocalPlace:
    """A folder on a disk.

    The folder itself may be a link, since the user named it; links inside are refused.
    """

    shared = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root: int | None = None

    def __repr__(self) -> str:
        return f"LocalPlace({str(self.path)!r})"

    @property
    def address(self) -> str:
        return str(self.path)

    def begin(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._forget_root()

    def files(self, folder: str = "") -> list[StoredFile]:
        seen = [e for e in self._entries(folder) if not e.name.startswith(".")]
        return sorted(_stored(entry) for entry in seen if self._plain(entry, folder))

    def folders(self, folder: str = "") -> list[str]:
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
        folder, base = _split(name)
        try:
            with self._at(folder) as (fd, before):
                kind = os.stat(before + base, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISLNK(kind):
            raise self._link(name)
        return stat.S_ISREG(kind)

    def read(self, name: str, limit: int | None = None) -> bytes:
        folder, base = _split(name)
        with self._at(folder) as (fd, before), self._refusing(name):
            # Not blocking: a pipe without a writer would block for ever.
            flags = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0)
            handle = os.open(before + base, flags, dir_fd=fd)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise BadInput(f"'{self.address}/{name}' is no plain file; remove it")
            if limit is not None and found.st_size > limit:
                raise BadInput(
                    f"'{self.address}/{name}' holds {found.st_size} bytes, which is too much"
                )
            return file.read()

    def put(self, name: str, data: bytes, *, leased: bool = True) -> None:
        folder, base = _split(name)
        temporary = f"{_LEFT_OVER if leased else _UNLEASED}{secrets.token_hex(8)}"
        try:
            with self._at(folder, make=True) as (fd, before):
                _write_then_rename(fd, before + temporary, before + base, data)
        except FileNotFoundError as error:
            raise RunGone(
                f"'{self.address}' was removed while it was being written; give the same command "
                "again to start over"
            ) from error
        except OSError as error:
            raise _named(error, f"{self.address}/{folder}".rstrip("/")) from error

    def create(self, name: str, data: bytes) -> bool:
        if self.exists(name):
            return False
        folder, base = _split(name)
        temporary = f"{_LEFT_OVER}{secrets.token_hex(8)}"
        with self._at(folder, make=True) as (fd, before):
            return _write_then_link(fd, before + temporary, before + base, data)

    def remove(self, name: str) -> None:
        folder, base = _split(name)
        with suppress(FileNotFoundError), self._at(folder) as (fd, before):
            os.unlink(before + base, dir_fd=fd)

    def lease(self) -> AbstractContextManager[Lease]:
        return self._flocked() if fcntl is not None else self._tidied(file_lease(self))

    def arrow(self) -> tuple[Any, str]:
        from pyarrow import fs

        return fs.LocalFileSystem(), str(self.path.resolve())

    @contextmanager
    def _flocked(self) -> Iterator[Lease]:
        """The system drops this lock when its holder dies."""
        with self._at("") as (fd, before), self._refusing(".lock"):
            flags = os.O_RDWR | os.O_CREAT | _NO_LINK | os.O_NONBLOCK
            handle = os.open(before + ".lock", flags, 0o666, dir_fd=fd)
        with os.fdopen(handle, "r+b", buffering=0):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunConflict(
                    f"another command is writing to '{self.address}'; wait for it or stop it"
                ) from None
            self._tidy()
            yield Lease(self.address)

    @contextmanager
    def _tidied(self, lease: AbstractContextManager[Lease]) -> Iterator[Lease]:
        with lease as held:
            self._tidy()
            yield held

    def _tidy(self) -> None:
        """Remove files that killed writers left; only the holder of the lease writes such files."""
        inner = [f"scores/{name}" for name in self.folders("scores")]
        for folder in ("", "jobs", "errors", "quarantine", "kept", "tables", *inner):
            for entry in self._entries(folder):
                if _is_left_over(entry):
                    self.remove(f"{folder}/{entry.name}".lstrip("/"))

    @contextmanager
    def _at(self, folder: str, make: bool = False) -> Iterator[_At]:
        """An open folder inside the run; refused if it, or one above it, is a link."""
        if not _ANCHORED:
            yield None, self._unanchored(folder, make)
            return
        handle = os.dup(self._root_handle())
        try:
            for part in filter(None, folder.split("/")):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                with self._refusing(folder):
                    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle, ""
        finally:
            os.close(handle)

    def _unanchored(self, folder: str, make: bool) -> str:
        """The same by paths, each part looked at before it is used."""
        place = self.path
        for part in filter(None, folder.split("/")):
            place = place / part
            if place.is_symlink():
                raise self._link(folder)
            if make:
                place.mkdir(exist_ok=True)
        if not place.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
        return f"{place}{os.sep}"

    def _root_handle(self) -> int:
        """The folder, held open: what is put later goes into this very one or nowhere."""
        if self._root is None:
            self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._root

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

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Everything in a folder; nothing if it is not there."""
        try:
            with (
                self._at(folder) as (fd, before),
                os.scandir(before if fd is None else fd) as found,
            ):
                return [entry for entry in found if _is_there(entry)]
        except FileNotFoundError:
            return []

    def _plain(self, entry: os.DirEntry[str], folder: str) -> bool:
        if entry.is_symlink():
            raise self._link(f"{folder}/{entry.name}".lstrip("/"))
        return entry.is_file(follow_symlinks=False)

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _IS_LINK:
                raise self._link(name) from error
            raise

    def _link(self, name: str) -> BadInput:
        return BadInput(
            f"'{self.address}/{name}' is a link or no folder; a run holds plain files and folders "
            "only, remove it"
        )


def write_file(path: Path, data: bytes) -> None:
    """Write a file of the user's choosing that appears complete or does not appear."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{_UNLEASED}{secrets.token_hex(8)}"
    try:
        _write_then_rename(None, str(temporary), str(path), data)
    except OSError as error:  # with the requested name, not that of the temporary file
        raise _named(OSError(error.errno, error.strerror), str(path)) from error


def _write_then_rename(fd: int | None, temporary: str, name: str, data: bytes) -> None:
    """Write a temporary file, flush it to the disk, then rename it."""
    try:
        # 0o666 less the umask: readable by all who can read the folder.
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=fd
        )
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise


def _write_then_link(fd: int | None, temporary: str, name: str, data: bytes) -> bool:
    """The same for a name that must be free; False if it is not, or links cannot be made."""
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=fd)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.link(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    except OSError:
        return False
    finally:
        os.unlink(temporary, dir_fd=fd)
    return True


def _named(error: OSError, where: str) -> Exception:
    """A full disk as a sentence; any other error with the place it happened at."""
    if error.errno in _FULL:
        return DiskFull(
            f"the disk that holds {where} is full; free some space and give the same command "
            "again, what was finished is kept"
        )
    return OSError(error.errno, error.strerror or str(error), error.filename or where)


def _is_there(entry: os.DirEntry[str]) -> bool:
    """Whether an entry still is there; it remembers its facts when the folder is closed."""
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since it was listed
        return False
    return True


def _stored(entry: os.DirEntry[str]) -> StoredFile:
    found = entry.stat(follow_symlinks=False)
    # The time of change cannot be set by who unpacks or copies files, as the other one can.
    version = f"{found.st_mtime_ns}-{found.st_ctime_ns}-{found.st_ino}"
    return StoredFile(entry.name, found.st_size, version)


def _is_left_over(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(_LEFT_OVER):
        return True
    if not entry.name.startswith(_UNLEASED):
        return False
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _OLD_S


def _split(name: str) -> tuple[str, str]:
    """Folder and last part of a name inside a run; names are ours, so this is a last guard."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part or os.sep in part for part in parts):
        raise BadInput(f"{name!r} is no name inside a run")
    return "/".join(parts[:-1]), parts[-1]
