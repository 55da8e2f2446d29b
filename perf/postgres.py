"""A PostgreSQL for one measurement or one test, in a folder of its own, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    given = str(found[-1]) if found else shutil.which("initdb")
    return None if given is None else Path(given).parent


@contextlib.contextmanager
def temporary(programs: Path) -> Iterator[str]:
    """Begin a server that listens in its folder only; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        place = f"{folder}/data"
        # The server refuses to run as root; on such machines it has a user of its own.
        before = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        begin = [*before, str(programs / "initdb"), "-D", place, "-A", "trust", "-U", "me"]
        subprocess.run(begin, check=True, capture_output=True, cwd=folder)
        options = f"-c listen_addresses='' -k {folder}"
        control = [*before, str(programs / "pg_ctl"), "-D", place, "-w", "-o", options]
        start = [*control, "-l", f"{folder}/log", "start"]
        subprocess.run(start, check=True, capture_output=True, cwd=folder)
        try:
            yield f"postgresql://me@/postgres?host={folder}"
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, check=True, capture_output=True, cwd=folder)
