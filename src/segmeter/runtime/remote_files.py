"""Remote files: data and weights at a URL, copied to this machine once.

Readers and adapters take folders. One at an address such as `s3://bucket/images` is copied,
file by file, to a folder of this machine, and only what has changed is copied again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.received_runs import may_contact
from segmeter.core.seeds import fingerprint
from segmeter.runtime.redaction import redacted


def cache_folder(*names: str) -> Path:
    """A folder, or a file in it, in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("segmeter", appauthor=False).joinpath(*names)


_INDEX = ".index.json"
_SQUEEZED = re.compile(r"([a-z][a-z0-9+.-]+):/([^/].*)")


def is_address(text: str | os.PathLike[str]) -> bool:
    """Whether a text names a storage by its protocol.

    >>> is_address("s3://bucket/images"), is_address("my/images")
    (True, False)
    """
    return "://" in os.fspath(text)


def as_typed(path: str | Path) -> str | Path:
    """An address that was parsed as a path, as it was typed; a path as it is.

    >>> as_typed(Path("s3://bucket/weights"))
    's3://bucket/weights'
    """
    found = _SQUEEZED.fullmatch(os.fspath(path).replace("://", ":/"))
    return f"{found[1]}://{found[2]}" if found and not Path(path).exists() else path


def copy_folder(address: str) -> Path:
    """Folder of the local copy of an address."""
    return cache_folder("addresses", fingerprint(address.rstrip("/")))


def local_folder(address: str) -> Path:
    """The local copy of the folder at a URL.

    An address that only a received run names is not contacted: a copy that was made before is
    used, if there is one.

    >>> from segmeter.core.received_runs import received
    >>> with received():
    ...     local_folder("s3://bucket/somewhere")
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: 's3://bucket/somewhere' is not copied to this machine
    """
    if may_contact(address):
        return _copied(address.rstrip("/"))
    folder = copy_folder(address)
    if not (folder / _INDEX).is_file():
        raise NotFound(f"'{redacted(address)}' is not copied to this machine")
    return folder


@cache
def _copied(address: str) -> Path:
    """Copied once for a process; several processes of a machine wait for each other."""
    files, root = open_storage(address)
    folder = copy_folder(address)
    with alone(folder / ".lock"):
        there = _listed(files, root, address)
        have = _index(folder)
        for name, version in there.items():
            if have.get(name) != version or not (folder / name).is_file():
                _fetch(files, f"{root}/{name}", folder / name)
        for name in have.keys() - there.keys():
            (folder / name).unlink(missing_ok=True)
        (folder / ".open-index").write_text(json.dumps(there), "ascii")
        (folder / ".open-index").replace(folder / _INDEX)
    return folder


def open_storage(address: str) -> tuple[Any, str]:
    """The file system of an address and the path in it."""
    try:
        import fsspec

        # Another process may have put something there since: nothing listed is remembered.
        files, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except (ValueError, ImportError) as error:
        raise NotFound(
            f"'{redacted(address)}' cannot be opened: {redacted(str(error))}; install "
            "'segmeter[remote]' and the package of the storage"
        ) from error
    return files, str(root).rstrip("/")


def _listed(files: Any, root: str, address: str) -> dict[str, str]:
    """Names below the address and their versions."""
    try:
        found: Mapping[str, Mapping[str, Any]] = files.find(root, detail=True)
    except Exception as error:
        message = redacted(str(error).split("\n")[0])
        raise NotFound(f"'{redacted(address)}' cannot be read: {message}") from error
    names = {path[len(root) :].lstrip("/"): entry for path, entry in found.items()}
    names = {name: entry for name, entry in names.items() if name and not name.endswith("/")}
    for name in names:
        if any(part in ("", ".", "..") or "\0" in part for part in PurePosixPath(name).parts):
            raise BadInput(f"'{redacted(address)}' holds a file {name!r}, which leads elsewhere")
    if not names:
        raise NotFound(f"there is nothing at '{redacted(address)}'")
    return {name: version_of(entry) for name, entry in sorted(names.items())}


def version_of(entry: Mapping[str, Any]) -> str:
    """The version of a file, as far as the storage reports one.

    >>> version_of({"size": 3, "mtime": 1}) == version_of({"size": 3, "mtime": 2})
    False
    """
    known = ("size", "ETag", "etag", "LastModified", "mtime", "created")
    return fingerprint(*(entry[key] for key in known if entry.get(key) is not None), size=8)


def _fetch(files: Any, source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f".open-{secrets.token_hex(8)}"
    try:
        files.get_file(source, str(partial))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _index(folder: Path) -> dict[str, str]:
    """Entries of earlier copies; empty if the index cannot be read."""
    try:
        held = json.loads((folder / _INDEX).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in held.items()} if isinstance(held, dict) else {}


@contextmanager
def alone(file: Path) -> Iterator[IO[str]]:
    """One process at a time, where the system has locks; yields the file that is locked."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a+") as lock:
        if importlib.util.find_spec("fcntl") is not None:  # not on Windows
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


@dataclass(frozen=True, slots=True)
class Roots:
    """Folders or addresses of data and weights; they do not change what a plan is.

    `noted` marks a data folder that the run's provenance names: only data with the fingerprint
    that the plan notes is read from it.
    """

    data: Path | str | None = None
    weights: Path | str | None = None
    noted: bool = False

    def options(self) -> dict[str, Path]:
        """Arguments that the registry may pass to readers and adapters that declare them.

        Data at an address is copied to the machine that needs it.
        """
        given = {"data": self.data, "weights": self.weights}
        return {
            key: local_folder(str(path)) if is_address(path) else Path(path)
            for key, path in given.items()
            if path is not None
        }
