"""Provenance: who made a number, with what, on what."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from segmeter import __version__
from segmeter.runtime.redaction import redacted

__all__ = ["command_entry", "library_versions"]

_LIBRARIES = ("numpy", "opencv-python-headless", "scipy", "torch", "transformers", "pyarrow")


@cache
def library_versions() -> dict[str, str]:
    """Versions of the libraries that numbers can depend on."""
    found = {"segmeter": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def command_entry(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """One command: when, what was typed but for credentials, on what machine."""
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": redacted(" ".join(arguments if arguments is not None else sys.argv)),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "libraries": library_versions(),
    }


def _processor() -> str:
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux; the portable name must do
    return platform.processor() or platform.machine()
