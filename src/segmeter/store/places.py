"""Places: where the files of a run lie, behind a few verbs that any storage can offer.

A run is a folder on a disk, or an address such as `memory://x` or `s3://bucket/x`. Names inside
of it are relative, with `/` between their parts; nothing is ever read or written through a link.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from segmeter.core.errors import BadInput, SegmeterError
from segmeter.runtime.remote_files import is_address
from segmeter.store.leases import Lease

__all__ = ["Address", "DiskFull", "Place", "RunGone"]

Address = str | os.PathLike[str]
"""A path, or an address such as `memory://x`."""


class DiskFull(SegmeterError):
    """The disk is full; finished jobs are safe."""


class RunGone(SegmeterError):
    """The run was removed while it was being written."""


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file that lies somewhere: its name in its folder, its size, and what tells versions."""

    name: str
    bytes: int
    version: str


class Place(Protocol):
    """The interface of a storage: list, exists, read, put atomically, remove, lease."""

    @property
    def address(self) -> str:
        """The path or address, without credentials, since it is shown and stored."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes see what is put here."""
        ...

    def begin(self) -> None:
        """Make the folder that everything else is put into."""
        ...

    def files(self, folder: str = "") -> list[StoredFile]:
        """The plain files of a folder, in order; hidden ones and those that are not there aside."""
        ...

    def folders(self, folder: str = "") -> list[str]:
        """The folders in a folder, in order."""
        ...

    def others(self) -> list[str]:
        """Everything in the topmost folder but what systems and killed writers leave there."""
        ...

    def exists(self, name: str) -> bool: ...

    def read(self, name: str, limit: int | None = None) -> bytes:
        """A file's content; FileNotFoundError if it is not there, refused if above `limit`."""
        ...

    def put(self, name: str, data: bytes, *, leased: bool = True) -> None:
        """Write a file that appears complete or does not appear.

        `leased` means that the caller holds the lease, so that files that a kill leaves behind are
        removed by the next holder.
        """
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that is not there yet; False, and nothing written, if it may be."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it is not there."""
        ...

    def lease(self) -> AbstractContextManager[Lease]:
        """Become the only writer; RunConflict if there is another."""
        ...

    def arrow(self) -> tuple[Any, str]:
        """The file system and the folder in it, as Arrow's readers want them."""
        ...


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
        from segmeter.store.remote import RemotePlace

        return RemotePlace(text)
    from segmeter.store.local import LocalPlace

    return LocalPlace(Path(text))
