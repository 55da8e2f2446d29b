"""Progress of a run on stderr: jobs done, speed, time left, failures."""

from __future__ import annotations

import sys
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from segmeter.core.wording import printable, time_text

if TYPE_CHECKING:
    from segmeter.engine.jobs import Outcome

_EVERY_S = 30.0
_NAMED = 10  # failures that are named one by one; the report has them all


class Bar:
    """A progress bar on stderr; without a terminal, as in a log file, a line every half minute.

    Parameters
    ----------
    first
        Printed when the run begins, which it does only if nothing is refused.
    quiet
        Print failures only.
    every
        Without a terminal, print a line for every job.
    sparse
        Without a terminal, print nothing but the line of every half minute, and failures.
    """

    def __init__(
        self, first: str = "", *, quiet: bool = False, every: bool = False, sparse: bool = False
    ) -> None:
        self.first, self._quiet, self._every = first, quiet, every
        self._sparse = sparse and not sys.stderr.isatty()
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}"),
            console=self._console, disable=quiet or not sys.stderr.isatty(),
        )  # fmt: skip
        self.reason = ""  # why the first job failed

    def say(self, sentence: str) -> None:
        """Print a sentence that people should read, such as what was recognised in a folder."""
        if not (self._quiet or self._sparse):
            self._print(sentence)

    def begin(self, total: int, done: int) -> None:
        """Start over, for another run too."""
        if self.first:
            self.say(self.first)
        if done:
            left = f"{total - done} left" if done < total else "nothing is left to run"
            self.say(f"resuming: {done} of {total} jobs were done before, {left}")
        self._before, self._failures, self.reason = done, 0, ""
        self._ended = Event()
        self._began = self._last_line = self._stepped = monotonic()
        self._bar.start()
        self._task = self._bar.add_task("jobs", total=total, completed=done, rate="", failed="")
        if self._bar.disable and not self._quiet:
            Thread(target=self._write_lines, args=(self._ended,), daemon=True).start()

    def step(self, outcome: Outcome) -> None:
        self._stepped = monotonic()
        if outcome.error:
            self._failures += 1
            self.reason = self.reason or f"{outcome.job}: {outcome.error}"
            if self._failures <= _NAMED:
                self._print(f"failed: {outcome.job}: {outcome.error}")
            elif self._failures == _NAMED + 1:
                self._print("failed: more jobs, whose errors are saved in the run folder")
        speed = self._bar.tasks[self._task].speed
        rate = f"{speed:.2f} per second" if speed else ""
        failed = f"{self._failures} failed" if self._failures else ""
        self._bar.update(self._task, advance=1, rate=rate, failed=failed)
        late = monotonic() - self._last_line > _EVERY_S
        if self._bar.disable and not self._quiet and (late or self._every):
            self._last_line = monotonic()
            self._print(self._line(f"{outcome.job}: " if self._every else ""))

    def _write_lines(self, ended: Event) -> None:
        """Write a line to a log also while a scene takes minutes."""
        while not ended.wait(_EVERY_S):
            if monotonic() - self._last_line > _EVERY_S:
                self._last_line = monotonic()
                self._print(self._line(""))

    def _line(self, name: str) -> str:
        """A line of a log: jobs so far, failures, and the expected time that is left."""
        task = self._bar.tasks[self._task]
        total, ours = task.total or 0, task.completed - self._before
        each = (self._stepped - self._began) / max(1, ours)
        failed = f", {self._failures} failed" if self._failures else ""
        waited = monotonic() - self._stepped  # jobs that last so long may take as long again
        seconds = each * (total - task.completed) - waited
        left = f", about {time_text(max(each, seconds, waited))} left"
        if not ours:
            left = f" after {time_text(monotonic() - self._began)}"
        return f"{name}{task.completed:.0f} of {total:.0f} jobs{failed}{left}"

    def _print(self, text: str) -> None:
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        self._ended.set()
        self._bar.stop()
