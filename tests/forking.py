"""Python scripts in processes of their own, forked from one that has imported what most need.

Each begins as a new interpreter would, in its own folder and environment, a second or two sooner.
Tests of what is imported, of signals and of pipes start an interpreter themselves.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMPORTED = (
    "cv2", "duckdb", "numpy", "pandas", "pyarrow.parquet", "scipy.ndimage", "scipy.stats",
    "skimage.measure", "segmeter.cli.app", "segmeter.evaluation", "segmeter.engine",
    "segmeter.report", "segmeter.store", "segmeter.users.error_prompts",
)  # fmt: skip


class Interpreter:
    """Runs scripts, one at a time."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(
        self, *words: object, folder: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """What `python WORDS` does in a folder; `environment` is added to this process's."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        argv = [*map(str, words)]
        with tempfile.TemporaryDirectory() as place:
            printed = [Path(place, "out"), Path(place, "err")]
            request = {"argv": argv, "folder": str(folder), "printed": [*map(str, printed)],
                       "environment": {**os.environ, **environment}}  # fmt: skip
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            return subprocess.CompletedProcess(argv, code, *(p.read_text() for p in printed))


@contextmanager
def interpreter() -> Iterator[Interpreter]:
    """An interpreter that waits for scripts."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, __file__], **pipes) as server:
        yield Interpreter(server)
        assert server.stdin is not None
        server.stdin.close()


def serve() -> None:
    """Fork for every line of stdin, and answer with the exit code."""
    sys.path.pop(0)  # this folder
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # nothing of it is collected, and so copied, in a child
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(request: Mapping[str, Any]) -> None:
    """Be the script that was asked for, and end."""
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
