"""Listing: the runs under a folder or an address, and what is known of each without its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from segmeter.core.errors import NotFound, SegmeterError
from segmeter.store.folder import RunFolder
from segmeter.store.places import Address, Place, place_of

__all__ = ["RunFacts", "list_runs"]

_DEEP = 3  # folders below the one that is named
_INSIDE = ("jobs", "errors", "quarantine", "kept", "tables")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run.

    Attributes
    ----------
    run
        Its folder or address.
    jobs
        How many jobs its plan has; None where no command has noted it.
    last
        When the last command worked on it, in UTC; empty if that is not known.
    problem
        Why it cannot be read; empty if it can.
    """

    run: str
    benchmark: str = ""
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    plan: str = ""
    done: int = 0
    jobs: int | None = None
    errors: int = 0
    last: str = ""
    bytes: int = 0
    files: int = 0
    problem: str = ""


def list_runs(address: Address) -> list[RunFacts]:
    """All runs under a folder or an address, itself included, in the order of their names.

    Links are not followed, and nothing that a run names is run.
    """
    top = place_of(address)
    names = sorted(_found(top, "", _DEEP)) if top.others() or top.folders() else []
    if not names:
        raise NotFound(f"there is no run under '{top.address}'; 'segmeter run' makes one")
    return [_facts(f"{address}/{name}".rstrip("/")) for name in names]


def _found(top: Place, folder: str, deep: int) -> Iterator[str]:
    if top.exists(f"{folder}/plan.json".lstrip("/")):
        yield folder
        return
    for name in top.folders(folder) if deep else ():
        if not name.startswith("."):
            yield from _found(top, f"{folder}/{name}".lstrip("/"), deep - 1)


def _facts(address: str) -> RunFacts:
    try:
        return _read(RunFolder.existing(address))
    except (SegmeterError, OSError) as error:
        return RunFacts(place_of(address).address, problem=str(error))


def _read(folder: RunFolder) -> RunFacts:
    plan, commands = folder.plan, folder.provenance
    inside = ("", *_INSIDE, *(f"scores/{m}" for m in folder.measures()))
    files = [held for where in inside for held in folder.place.files(where)]
    noted = [entry["jobs"] for entry in commands if "jobs" in entry]
    return RunFacts(
        folder.address,
        plan.benchmark,
        tuple(map(str, plan.segmenters)),
        tuple(map(str, plan.datasets)),
        plan.id,
        len(folder.finished()),
        noted[-1] if noted else None,
        len(folder.layout("errors").jobs),
        commands[-1]["at"] if commands else "",
        sum(held.bytes for held in files),
        len(files),
    )
