"""A run at an address that fsspec knows: `memory://x`, `s3://bucket/x` and many more."""

from __future__ import annotations

import errno
from contextlib import AbstractContextManager, suppress
from typing import Any

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.seeds import fingerprint
from segmeter.store.leases import file_lease
from segmeter.store.places import DiskFull, Held

__all__ = ["RemotePlace"]


class RemotePlace:
    """A folder of a remote storage, whose single writes are whole or nothing."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._files, self._root = _opened(self.address)
        self.shared = "memory" not in _protocols(self._files)

    def __repr__(self) -> str:
        return f"RemotePlace({self.address!r})"

    def __reduce__(self) -> tuple[type[RemotePlace], tuple[str]]:
        return RemotePlace, (self.address,)

    def begin(self) -> None:
        with suppress(FileExistsError):
            self._files.makedirs(self._root, exist_ok=True)

    def files(self, folder: str = "") -> list[Held]:
        return sorted(
            Held(name, int(entry.get("size") or 0), _version(entry))
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
        return bool(self._files.isfile(self._path(name)))

    def read(self, name: str, limit: int | None = None) -> bytes:
        path = self._path(name)
        if limit is not None and self._files.size(path) > limit:
            raise BadInput(f"'{self.address}/{name}' is too large to be what it is called")
        content: bytes = self._files.cat_file(path)
        return content

    def put(self, name: str, data: bytes, *, leased: bool = True) -> None:
        # One call: object stores show the new object whole or the old one.
        try:
            self._files.pipe_file(self._path(name), data)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise DiskFull(f"there is no room left at {self.address}") from error
            raise

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def lease(self) -> AbstractContextManager[None]:
        return file_lease(self)

    def arrow(self) -> tuple[Any, str]:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(self._files)), self._root

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _entries(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        named = [(str(e["name"]).rstrip("/").rpartition("/")[2], e) for e in entries]
        return [(name, entry) for name, entry in named if name]


def _opened(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise NotFound(
            f"'{address}' needs fsspec, which is not installed; pip install 'segmeter[remote]'"
        ) from error
    try:
        files, root = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise NotFound(f"'{address}' cannot be opened: {error}") from error
    return files, str(root).rstrip("/")


def _protocols(files: Any) -> tuple[str, ...]:
    named = files.protocol
    return (named,) if isinstance(named, str) else tuple(named)


def _version(entry: dict[str, Any]) -> str:
    """What tells one content from another, as far as the storage says."""
    said = [entry.get(key) for key in ("ETag", "etag", "LastModified", "mtime", "created")]
    return fingerprint(*(part for part in said if part is not None), size=8)
