"""Processes that wake prewarmed: they import and take their GPU while it is still said what to do.

On a machine with a GPU a worker takes seconds to wake, most of them torch's import. Nothing
heavy is imported here, so a command can start its workers before it imports what it needs
itself; what they are to do travels to them later, as a function and its arguments.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Concatenate, ParamSpec

from segmeter.runtime.devices import gpu_names

__all__ = ["PrewarmedWorkers", "Process", "end_all", "prewarming"]

_PATIENCE_S = 10.0  # for a process that was told to stop
Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True)
class Process:
    """A process and our end of the pipe to it."""

    process: SpawnProcess
    pipe: Connection

    @classmethod
    def start(cls, slot: int) -> Process:
        """A process that takes the GPU of its slot and waits for what to do."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_wait_for_work, args=(slot, theirs), daemon=True)
        with _interrupts_held():
            process.start()
        theirs.close()
        return cls(process, ours)

    def tell(
        self,
        work: Callable[Concatenate[Connection, Given], None],
        *args: Given.args,
        **options: Given.kwargs,
    ) -> None:
        """Send a function to call with the other end of the pipe and these arguments."""
        # A process that has died cannot receive it; reading from its pipe raises the error.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send((work, args, options))


class PrewarmedWorkers:
    """Processes that were started before anybody knew what they would do, by slot."""

    def __init__(self, count: int) -> None:
        self._waiting = {slot: Process.start(slot) for slot in range(count)}

    def taken(self, slot: int) -> Process:
        """The process of a slot; a new one if there is none or it has died."""
        found = self._waiting.pop(slot, None)
        if found is not None and found.process.is_alive():
            return found
        end_all([] if found is None else [found])
        return Process.start(slot)

    def stop(self) -> None:
        """End the processes that are still unused."""
        end_all([self._waiting.pop(slot) for slot in list(self._waiting)])


@contextmanager
def prewarming(workers: int | None) -> Iterator[PrewarmedWorkers]:
    """Prewarmed workers where there is a GPU, two each unless their number is given; else none.

    >>> with prewarming(0) as prewarmed:
    ...     prewarmed.stop()
    """
    gpus = len(gpu_names())
    prewarmed = PrewarmedWorkers(0 if not gpus else 2 * gpus if workers is None else workers)
    try:
        yield prewarmed
    finally:
        prewarmed.stop()


def end_all(processes: Sequence[Process]) -> None:
    """Stop processes, by force where they do not react.

    >>> end_all([])
    """
    for one in processes:
        one.process.terminate()
    for one in processes:
        one.process.join(_PATIENCE_S)
        if one.process.is_alive():  # inside a library call that does not react
            one.process.kill()
            one.process.join()
        one.pipe.close()


def _wait_for_work(slot: int, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _die_with_parent()
    _take_gpu(slot)
    try:
        work, args, options = pipe.recv()
    except EOFError:
        return
    work(pipe, *args, **options)


def _take_gpu(slot: int) -> None:
    """Share the GPUs out among the workers, in turn, and wake the worker's own."""
    count = len(gpu_names())
    if not count:
        return
    import torch

    torch.cuda.set_device(slot % count)
    torch.zeros(1, device="cuda")


def _die_with_parent() -> None:
    """Leave at once when the parent is killed, so that no job is done twice."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C: a process started now never receives it, even while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before: Any = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
