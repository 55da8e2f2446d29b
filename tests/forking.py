"""Python scripts in processes of their own, forked from one that has imported what most need.

Each begins as a new interpreter would, in its own folder and environment, a second or two sooner,
but without workers unless it asks for them. Tests of what is imported, of encodings and of pipes
start an interpreter themselves.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMPORTED = (
    "cv2", "duckdb", "numpy", "pandas", "pyarrow.parquet", "scipy.ndimage", "scipy.stats",
    "skimage.measure", "segmeter.cli.app", "segmeter.evaluation", "segmeter.engine",
    "segmeter.report", "segmeter.store", "segmeter.users.error_prompts",
)  # fmt: skip
STUDIES = ("segmeter.study.server",)  # where the extra 'study' is installed


class Interpreter:
    """Runs scripts and commands in forked processes."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(
        self, *words: object, folder: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What `python WORDS` does in a folder; `environment` is added to this process's."""
        return self.start(*words, folder=folder, **environment).wait()

    def start(self, *words: object, folder: Path | None = None, **environment: str) -> Forked:
        """The same, without waiting for its end; it leads a process group of its own."""
        argv, place = [*map(str, words)], tempfile.TemporaryDirectory()
        printed = [f"{place.name}/out", f"{place.name}/err"]
        for file in printed:  # also for a process that is killed before it opens them
            Path(file).touch()
        request = {"argv": argv, "folder": str(folder or Path.cwd()), "printed": printed,
                   "environment": {**os.environ, **environment}}  # fmt: skip
        return Forked(self, argv, place, int(self.asked(request)))

    def asked(self, request: Mapping[str, Any]) -> str:
        """What the process that forks answers."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline()


@dataclass
class Forked:
    """A process that was started; what it prints lies in files until it has ended."""

    interpreter: Interpreter
    argv: list[str]
    place: tempfile.TemporaryDirectory[str]
    pid: int
    code: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._ended(os.WNOHANG)

    def wait(self) -> subprocess.CompletedProcess[str]:
        code = self._ended(0)
        assert code is not None
        with self.place:
            printed = [Path(self.place.name, name).read_text() for name in ("out", "err")]
        return subprocess.CompletedProcess(self.argv, code, *printed)

    def kill(self) -> None:
        """End it as a crash does, unless it has ended, and wait until then."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def _ended(self, options: int) -> int | None:
        if self.code is None:
            asked = {"pid": self.pid, "options": options}
            self.code = json.loads(self.interpreter.asked(asked))
        return self.code


@contextmanager
def interpreter() -> Iterator[Interpreter]:
    """An interpreter that waits for scripts."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, __file__], **pipes) as server:
        yield Interpreter(server)
        assert server.stdin is not None
        server.stdin.close()


def serve() -> None:
    """Fork for lines of stdin, and answer with numbers of processes and exit codes."""
    sys.path.pop(0)  # this folder
    for name in IMPORTED + (STUDIES if importlib.util.find_spec("fastapi") else ()):
        importlib.import_module(name)
    runner = importlib.import_module("segmeter.engine.runner")
    vars(runner)["default_workers"] = lambda plan: 0  # as in the process of the tests
    gc.freeze()  # nothing of it is collected, and so copied, in a child
    while line := sys.stdin.readline():
        print(answered(json.loads(line)), flush=True)


def answered(request: Mapping[str, Any]) -> str:
    """The number of a new process, or the exit code of an earlier one; null while it runs."""
    if "pid" in request:
        ended, status = os.waitpid(request["pid"], request["options"])
        return json.dumps(os.waitstatus_to_exitcode(status) if ended else None)
    child = os.fork()
    if child == 0:
        become(request)
    return str(child)


def become(request: Mapping[str, Any]) -> None:
    """Be the script that was asked for, and end."""
    os.setsid()
    for number, file in enumerate(request["printed"], 1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv, code = request["argv"], 0
    try:
        if sys.argv[0] == "-m":
            sys.argv.pop(0)
            sys.path.insert(0, "")
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as an interpreter that ends with it
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking all modules down again would take longer than most scripts


if __name__ == "__main__":
    serve()
