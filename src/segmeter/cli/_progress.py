"""Progress on a terminal: how many scenes, how fast, how long still, what failed."""

from __future__ import annotations

import sys
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from segmeter.cli._words import printable
from segmeter.engine.jobs import Outcome

__all__ = ["Bar"]


_EVERY_S = 30.0
_NAMED = 10  # failures that are said one by one; the report has them all


class Bar:
    """A bar on stderr; without a terminal, as in a log file, a line every half minute.

    `first` is said when the run begins, which it does only where nothing is refused.
    """

    def __init__(self, first: str = "") -> None:
        self._first = first
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}"),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        self._failures = 0
        self._last_line = monotonic()
        self.reason = ""

    def say_reason(self) -> None:
        """Why the first job failed, as the last line of a command; nothing if none did."""
        if self.reason:
            self._console.print(
                printable(f"segmeter: failed: {self.reason}"),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    def begin(self, total: int, done: int) -> None:
        if self._first:
            self._console.print(printable(self._first), markup=False, highlight=False)
        self._bar.start()
        self._task = self._bar.add_task("scenes", total=total, completed=done, rate="", failed="")

    def step(self, outcome: Outcome) -> None:
        if outcome.error:
            self._failures += 1
            self.reason = self.reason or f"{outcome.job}: {outcome.error}"
            self._name(outcome)
        speed = self._bar.tasks[self._task].speed
        self._bar.update(
            self._task,
            advance=1,
            rate=f"{speed:.2f} per second" if speed else "",
            failed=f"{self._failures} failed" if self._failures else "",
        )
        if self._bar.disable and monotonic() - self._last_line > _EVERY_S:
            self._last_line = monotonic()
            task = self._bar.tasks[self._task]
            failed = f", {self._failures} failed" if self._failures else ""
            self._console.print(f"{task.completed:.0f} of {task.total:.0f} scenes{failed}")

    def _name(self, outcome: Outcome) -> None:
        if self._failures <= _NAMED:
            said = printable(f"failed: {outcome.job}: {outcome.error}")
        elif self._failures == _NAMED + 1:
            said = "failed: more scenes, which the report will name"
        else:
            return
        self._console.print(said, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        self._bar.stop()
