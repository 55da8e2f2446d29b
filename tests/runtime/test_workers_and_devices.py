"""Processes that are started prewarmed: they run the work sent later, and none is left behind."""

from __future__ import annotations

import platform
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from segmeter.runtime.workers_and_devices import PrewarmedWorkers, end_all

from ..forking import Interpreter


def test_a_prewarmed_process_runs_its_work() -> None:
    prewarmed = PrewarmedWorkers(1)
    waiting = prewarmed._waiting[0].process
    taken = prewarmed.taken(0)
    assert taken.process is waiting
    taken.assign(Connection.send, "abab")
    assert taken.pipe.recv() == "abab"
    taken.process.join()
    taken.pipe.close()


def test_unused_and_dead_workers_are_ended() -> None:
    prewarmed = PrewarmedWorkers(2)
    dead, spare = prewarmed._waiting[0].process, prewarmed._waiting[1].process
    dead.kill()
    dead.join()
    taken = prewarmed.taken(0)
    assert taken.process.pid != dead.pid
    taken.assign(Connection.send, "a")
    assert taken.pipe.recv() == "a"
    prewarmed.stop()
    assert not spare.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no /proc")
def test_even_the_first_process_never_receives_an_interrupt() -> None:
    """Its parent blocks it before the process exists: one that still starts up would die of it."""
    lines = [
        "import signal",
        "from pathlib import Path",
        "from segmeter.runtime.workers_and_devices import Process, end_all",
        "first = Process.start(0)",
        "status = Path(f'/proc/{first.process.pid}/status').read_text()",
        "blocked = int(status.partition('SigBlk:')[2].split()[0], 16)",
        "end_all([first])",
        "assert blocked & 1 << signal.SIGINT - 1, hex(blocked)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_torch_is_steadied_when_it_is_imported_and_not_before(
    python: Interpreter, tmp_path: Path
) -> None:
    """Asking for GPUs and fixing the arithmetic imports no torch; a later import is caught."""
    lines = [
        "import importlib.util, sys",
        "from segmeter.runtime.workers_and_devices import gpu_names",
        "from segmeter.engine.arithmetic import fix_arithmetic",
        "gpu_names(); fix_arithmetic(3); fix_arithmetic(1)",
        "assert 'torch' not in sys.modules",
        "if importlib.util.find_spec('torch'):",
        "    import torch",
        "    assert torch.get_num_threads() == 1",
        "    assert not torch.backends.cudnn.allow_tf32",
    ]
    (tmp_path / "script.py").write_text("\n".join(lines))
    done = python.run(tmp_path / "script.py")
    assert done.returncode == 0, done.stderr


def count_pages_fetched_again(pipe: Connection) -> None:
    """Pages that arrays of 32 MB in all fetch from the system after others like them are freed."""
    import resource

    fetched = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        parts = [bytearray(b"x") * (8 << 20) for _ in range(4)]
        del parts
        fetched.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    pipe.send(fetched)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_freed_memory_of_a_worker_serves_the_next_arrays() -> None:
    taken = PrewarmedWorkers(0).taken(0)
    taken.assign(count_pages_fetched_again)
    first, *later = taken.pipe.recv()
    end_all([taken])
    assert max(later) < first / 10
