"""Worker processes, started before a run is planned, and the devices of this machine.

On a machine with a GPU a worker takes seconds to wake, most of them torch's import. Nothing
heavy is imported here, so a command can start its workers before it imports what it needs
itself; their work is sent to them later, as a function and its arguments.

Devices: which GPUs are there, and whether what a model is to run on is among them.

Torch takes seconds to import, so the driver is queried where possible: commands that plan, list
or run a classical segmenter need no torch.
"""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.core.catalogue import Spec


def usable_cores() -> int:
    """Cores this process may run on, fewer than there are where a queue hands them out."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_devices(specs: Iterable[Spec]) -> None:
    """Refuse a GPU that does not exist once, not once per image."""
    for spec in specs:
        device = str(spec.options.get("device", ""))
        if device.partition(":")[0] == "cuda" and not gpu_names():
            raise BadInput(f"'{spec}' wants a CUDA device and there is none here; use device=cpu")


@cache
def gpu_names() -> tuple[str, ...]:
    """The GPUs that torch would use, by name; none without a torch that can."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ()
    file = Path(spec.origin).with_name("version.py")  # states what it was built for
    built = runpy.run_path(str(file)) if file.is_file() else {"cuda": "unknown"}
    if built.get("hip") or "torch" in sys.modules:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return tuple(torch.cuda.get_device_name(i) for i in range(count))
    return _names_by_driver() if built.get("cuda") else ()


def _names_by_driver() -> tuple[str, ...]:
    """By the driver's own library, which hides what CUDA_VISIBLE_DEVICES hides."""
    driver, count = None, ctypes.c_int()
    for name in ("libcuda.so.1", "nvcuda.dll"):
        with suppress(OSError):
            driver = ctypes.CDLL(name)
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    names = []
    for place in range(count.value):
        device, text = ctypes.c_int(), ctypes.create_string_buffer(128)
        if not driver.cuDeviceGet(ctypes.byref(device), place):
            driver.cuDeviceGetName(text, len(text), device)
        names.append(text.value.decode(errors="replace"))
    return tuple(names)


_PATIENCE_S = 10.0  # for a process that was told to stop
Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True)
class Process:
    """A process and our end of the pipe to it."""

    process: SpawnProcess
    pipe: Connection

    @classmethod
    def start(cls, slot: int) -> Process:
        """A process that claims the GPU of its slot and waits for work."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_wait_for_work, args=(slot, theirs), daemon=True)
        with _interrupts_held():
            process.start()
        theirs.close()
        return cls(process, ours)

    def assign(
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
    """Processes that were started before the run was planned, by slot."""

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
    """Prewarmed workers where there is a GPU, two each unless their number is given; else none."""
    gpus = len(gpu_names())
    prewarmed = PrewarmedWorkers(0 if not gpus else 2 * gpus if workers is None else workers)
    try:
        yield prewarmed
    finally:
        prewarmed.stop()


def end_all(processes: Sequence[Process]) -> None:
    """Stop processes, by force where they do not react."""
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
    _keep_freed_memory()
    if count := len(gpu_names()):  # shared out among the workers, in turn; its own is woken
        import torch

        torch.cuda.set_device(slot % count)
        torch.zeros(1, device="cuda")
    try:
        work, args, options = pipe.recv()
    except EOFError:
        return
    work(pipe, *args, **options)


def _die_with_parent() -> None:
    """Leave at once when the parent is killed, so that no job is done twice."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _keep_freed_memory() -> None:
    """Let malloc keep 256 MB of freed memory for the next arrays, and blocks up to 32 MB in them.

    By default glibc returns them to the system, and a click of SAM on a CPU fetches some 5500
    pages again: 64 ms instead of 54 ms of CPU.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_threshold = -1, -3  # malloc.h
        libc.mallopt(trim_threshold, 256 << 20)
        libc.mallopt(mmap_threshold, 32 << 20)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C: a process started now never receives it, even while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # or the first process starts it, which unblocks Ctrl-C
    before: Any = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
