"""Storage: the files of a run on a disk or in an object store, behind one small interface.

A run is a folder on a disk, or a URL such as `memory://x` or `s3://bucket/x`. Names inside
of it are relative, with `/` between their parts; nothing is ever read or written through a link.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.runtime.redaction import redacted
from segmeter.runtime.remote_files import is_address, open_storage, version_of
from segmeter.store.local import DiskFull, LocalPlace, StoredFile
from segmeter.store.write_lock import Lease, file_lease

Address = str | os.PathLike[str]
"""A path, or an address such as `memory://x`."""

# They have no folders to make; asked to make one, some would make a bucket.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "r2"}


class RemotePlace:
    """A folder of a remote storage, whose single writes are whole or nothing.

    Its methods are those of LocalPlace.
    """

    def __init__(self, address: str) -> None:
        self._given = address.rstrip("/")
        self.address = redacted(self._given)
        self._files, self._root = open_storage(self._given)
        self.shared = "memory" not in _protocols(self._files)
        self._made: set[str] = set()  # folders that exist

    def __repr__(self) -> str:
        return f"RemotePlace({self.address!r})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return RemotePlace, (self._given,)

    def begin(self) -> None:
        self._make_folder(self._root)

    def files(self, folder: str = "") -> list[StoredFile]:
        return sorted(
            StoredFile(name, int(entry.get("size") or 0), version_of(entry))
            for name, entry in self._entries(folder)
            if entry["type"] == "file" and not name.startswith(".")
        )

    def folders(self, folder: str = "") -> list[str]:
        return sorted(name for name, e in self._entries(folder) if e["type"] == "directory")

    def others(self) -> list[str]:
        """Everything there but the lease and what is hidden."""
        names = (name for name, _ in self._entries(""))
        return sorted(n for n in names if n != "lease.json" and not n.startswith("."))

    def exists(self, name: str) -> bool:
        with self._named_errors():
            return bool(self._files.isfile(self._path(name)))

    def read(self, name: str, limit: int | None = None) -> bytes:
        path = self._path(name)
        with self._named_errors():
            if limit is not None and (self._files.size(path) or 0) > limit:
                raise BadInput(f"'{self.address}/{name}' is too large for a file of its name")
            content: bytes = self._files.cat_file(path)
        return content

    def put(self, name: str, data: bytes, *, leased: bool = True) -> None:
        # One call: object stores show the new object whole or the old one.
        with self._writing():
            self._make_folder(self._path(name).rpartition("/")[0])
            self._files.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that is not there yet, by a conditional write; else False.

        False also where the storage has no conditional writes.
        """
        try:
            with self._writing():
                self._files.pipe_file(self._path(name), data, mode="create")
        except (FileExistsError, TypeError, NotImplementedError):
            return False
        return True

    def remove(self, name: str) -> None:
        with self._named_errors(), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def lease(self) -> AbstractContextManager[Lease]:
        return file_lease(self)

    def arrow(self) -> tuple[Any, str]:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(self._files)), self._root

    def _make_folder(self, path: str) -> None:
        """Make a folder where the storage has folders, such as sftp or smb."""
        if path in self._made or not _OBJECT_STORES.isdisjoint(_protocols(self._files)):
            return
        with self._named_errors(), suppress(FileExistsError):
            self._files.makedirs(path, exist_ok=True)
        self._made.add(path)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _entries(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        with self._named_errors():
            self._files.invalidate_cache()
            try:
                entries = self._files.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return []
        named = [(str(e["name"]).rstrip("/").rpartition("/")[2], e) for e in entries]
        return [(name, entry) for name, entry in named if name]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._named_errors():
                yield
        except FileNotFoundError as error:
            raise NotFound(
                f"'{self.address}' cannot be written to: {_first_line(error)}"
            ) from error

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn errors of a storage's library into an OSError with a clear message.

        A job that fails with one is retried once, as with a disk.
        """
        try:
            yield
        except (SegmeterError, FileNotFoundError, FileExistsError, TypeError, NotImplementedError):
            raise
        except Exception as error:  # each library has exceptions of its own
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise DiskFull(f"there is no room left at {self.address}") from error
            raise ConnectionError(
                f"'{self.address}' cannot be used: {_first_line(error)}; check its address, the "
                "credentials and the network"
            ) from error


Place = LocalPlace | RemotePlace
"""A storage: list, exists, read, put atomically, remove, lease."""


def place_of(address: Address | Place) -> Place:
    """The place that an address names.

    >>> place_of("runs/mine").address
    'runs/mine'
    """
    if not isinstance(address, str | os.PathLike):
        return address
    text = os.fspath(address)
    if "\0" in text or not text:
        raise BadInput(f"{text!r} cannot be the name of a run folder")
    for protocol in ("file://", "local://"):
        text = text.removeprefix(protocol)
    if is_address(text):
        return RemotePlace(text)
    return LocalPlace(Path(text))


def _protocols(files: Any) -> tuple[str, ...]:
    named = files.protocol
    return (named,) if isinstance(named, str) else tuple(named)


def _first_line(error: Exception) -> str:
    message = str(error).strip().split("\n")[0]
    return redacted(message)[:300] or type(error).__name__
