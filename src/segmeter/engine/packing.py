"""Packing: rows and errors of jobs are put into few files in the background, as others play."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from segmeter.core.errors import SegmeterError
from segmeter.store.compaction import LOOSE, compact, drop, drop_copies, unpack
from segmeter.store.folder import RunFolder, measure_folder

__all__ = ["Packing", "make_ready"]

_PACKED = ("parts", "errors")


def make_ready(folder: RunFolder, jobs: Iterable[str]) -> None:
    """Let workers replace what is kept of jobs: rows and errors leave packs, scores are dropped."""
    wanted = frozenset(jobs)
    drop_copies(folder)
    for where in _PACKED:
        unpack(folder, wanted, where)
    for measure in folder.measures():
        drop(folder, wanted, measure_folder(measure))


class Packing:
    """Packs whatever has been settled; whoever makes one holds the lease of the run."""

    def __init__(
        self, folder: RunFolder, open_jobs: Iterable[str], tell: Callable[[str], None]
    ) -> None:
        self._folder, self._tell = folder, tell
        self._open = set(open_jobs)
        self._loose = 0
        self._due, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._work, name="packing", daemon=True)
        self._thread.start()

    def settled(self, job: str) -> None:
        """Nobody will write this job's rows or its error from now on."""
        self._open.discard(job)
        self._loose += 1
        if self._loose >= LOOSE:
            self._due.set()

    def finish(self) -> None:
        """Pack what is left, if it is much, when all jobs have been played."""
        self.stop()
        self._guarded(closing=True)

    def stop(self) -> None:
        """End after what is being packed now."""
        self._over = True
        self._due.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over and self._guarded(closing=False):
            self._due.wait()

    def _guarded(self, closing: bool) -> bool:
        """Pack; where that cannot be done the run goes on all the same, and somebody is told."""
        self._due.clear()
        self._loose = 0
        try:
            self._folder.check_lease()
            for where in _PACKED:
                compact(self._folder, where, set(self._open), closing=closing)
        except (SegmeterError, OSError) as error:
            self._tell(f"jobs could not be packed and keep files of their own: {error}")
            return False
        return True
