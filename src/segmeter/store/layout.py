"""Layout: which files of a folder hold rows, and which jobs they hold, by one listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from segmeter.core.errors import BadInput
from segmeter.store.packs import PACK_NAME, Pack, file_of, jobs_in
from segmeter.store.parts import PART_NAME
from segmeter.store.places import Place

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a folder holds.

    Attributes
    ----------
    loose
        Ids of the jobs that have a file of their own.
    packs
        Files with the rows of many jobs.
    superseded
        Files that a kill has left: a pack holds what they hold.
    damaged
        Packs whose footer cannot be read, and why.
    """

    loose: tuple[str, ...]
    packs: tuple[Pack, ...]
    superseded: tuple[str, ...]
    damaged: Mapping[str, str]

    @property
    def jobs(self) -> set[str]:
        """Ids of all jobs that have rows here."""
        return set(self.loose).union(job for pack in self.packs for job, _ in pack.jobs)

    def trails(self) -> dict[str, Mapping[str, str]]:
        """Of every packed job, where its numbers come from."""
        return {job: trail for pack in self.packs for job, trail in pack.trails.items()}


def layout_of(place: Place, where: str, known: dict[str, Pack]) -> Layout:
    """List a folder and read the footers of its packs, but for those `known` from before.

    Whatever else lies there is no part of the run.
    """
    names = [held.name for held in place.files(where)]
    there, damaged = [], {}
    for name in filter(PACK_NAME.fullmatch, names):
        try:
            there.append(known.get(name) or _footer(place, where, name))
        except BadInput as error:
            damaged[name] = str(error)
    known.update((pack.name, pack) for pack in there)
    gone = {name for pack in there for name in pack.replaces}
    packs = tuple(pack for pack in there if pack.name not in gone)
    inside = {job for pack in packs for job, _ in pack.jobs}
    files = [name for name in names if PART_NAME.fullmatch(name)]
    loose = [name.removesuffix(".parquet") for name in files]
    left = [pack.name for pack in there if pack.name in gone]
    left += [f"{job}.parquet" for job in loose if job in inside]
    return Layout(tuple(j for j in loose if j not in inside), packs, tuple(left), damaged)


def _footer(place: Place, where: str, name: str) -> Pack:
    files, root = place.arrow()
    with file_of(f"{root}/{where}/{name}", files) as file:
        return jobs_in(name, file)
