"""Fetching: try the sources in turn, check what came, and let it appear whole."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from segmeter.core.errors import BadInput, BadWeights, NotFound, SegmeterError
from segmeter.models import weights
from segmeter.models.fetching.offers import Offer
from segmeter.models.fetching.sources import Archive, ByHand, OwnFiles, Source, source_of
from segmeter.models.fetching.transfer import Progress, check_digest, digest

__all__ = ["Arrival", "fetch", "ignore"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Weights that lie ready.

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
    """Progress that nobody watches."""


def fetch(
    offer: Offer, to: Path | None = None, source: str | None = None, progress: Progress = ignore
) -> Arrival:
    """Bring a model's weights to a folder of its name under `to` (`weights.home()` by default).

    Files gather in a hidden folder beside it, which is renamed when all of them are there
    and checked; after a failure the same call goes on.
    """
    root = to if to is not None else weights.home()
    folder = root / offer.name
    if weights.files(folder):
        return _arrival(offer, folder, "")
    chosen = (source_of(source, offer.sources),) if source else offer.sources
    try:
        came_from = _gather(offer, chosen, folder, progress)
    except OSError as error:
        raise BadInput(f"'{root}' cannot hold the weights ({error.strerror})") from error
    return _arrival(offer, folder, str(came_from))


def _gather(offer: Offer, sources: tuple[Source, ...], folder: Path, progress: Progress) -> Source:
    gathering = folder.with_name(f".{folder.name}.part")
    gathering.mkdir(parents=True, exist_ok=True)
    try:
        came_from = _try(offer, sources, gathering, progress)
    finally:
        if not any(gathering.iterdir()):
            gathering.rmdir()
    for left_over in gathering.glob("*.part"):
        left_over.unlink()  # of a source that failed before another served
    if folder.exists():
        shutil.rmtree(folder)  # the caller saw that it holds no weights
    gathering.rename(folder)
    return came_from


def _try(offer: Offer, sources: tuple[Source, ...], gathering: Path, progress: Progress) -> Source:
    """The first source that brings good files; otherwise a sentence about each."""
    failures = []
    for source in sources:
        try:
            source.bring(gathering, progress)
            _check(offer, gathering, source)
        except SegmeterError as error:
            failures.append(error)
            if isinstance(source, OwnFiles | Archive):
                _clear(gathering)
        else:
            return source
    if len(failures) == 1:
        raise failures[0]
    raise NotFound(
        f"no source of '{offer.name}' could be used: {'; '.join(map(str, failures))}; "
        "or get the file yourself and say --from FILE"
    )


def _clear(folder: Path) -> None:
    """What came from a file of the user's own is not gone on with."""
    for file in folder.iterdir():
        file.unlink()


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
