"""Background compaction: rows and errors of finished jobs go to few files while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from segmeter.core.errors import SegmeterError
from segmeter.store.compaction import LOOSE, compact, drop, drop_copies, extract
from segmeter.store.folder import RunFolder, measure_folder

__all__ = ["BackgroundCompaction", "make_ready"]

_COMPACTED = ("jobs", "errors")


def make_ready(folder: RunFolder, jobs: Iterable[str]) -> None:
    """Let workers replace jobs: move their rows and errors to job files, drop their scores."""
    wanted = frozenset(jobs)
    drop_copies(folder)
    for where in _COMPACTED:
        extract(folder, wanted, where)
    for measure in folder.measures():
        drop(folder, wanted, measure_folder(measure))


class BackgroundCompaction:
    """A thread that compacts finished jobs; the process holds the lock of the run."""

    def __init__(
        self, folder: RunFolder, open_jobs: Iterable[str], tell: Callable[[str], None]
    ) -> None:
        self._folder, self._tell = folder, tell
        self._open = set(open_jobs)
        self._loose = 0
        self._due, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._work, name="compaction", daemon=True)
        self._thread.start()

    def settled(self, job: str) -> None:
        """Note that a job is done or has failed twice, so that its files can be compacted."""
        self._open.discard(job)
        self._loose += 1
        if self._loose >= LOOSE:
            self._due.set()

    def finish(self) -> None:
        """Compact the rest, if it is much, after the last job."""
        self.stop()
        self._guarded(closing=True)

    def stop(self) -> None:
        """End after the current compaction."""
        self._over = True
        self._due.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over and self._guarded(closing=False):
            self._due.wait()

    def _guarded(self, closing: bool) -> bool:
        """Compact; if that fails, report it and let the run continue."""
        self._due.clear()
        self._loose = 0
        try:
            self._folder.check_lease()
            for where in _COMPACTED:
                compact(self._folder, where, set(self._open), closing=closing)
        except (SegmeterError, OSError) as error:
            self._tell(f"jobs could not be compacted and stay in files of their own: {error}")
            return False
        return True
