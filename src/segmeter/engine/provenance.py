"""Provenance: packages, weights, commands and machines of a run."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from segmeter import __version__
from segmeter.runtime.redaction import redacted

_LIBRARIES = ("numpy", "opencv-python-headless", "scipy", "torch", "transformers", "pyarrow")


@cache
def library_versions() -> dict[str, str]:
    """Versions of the libraries that numbers can depend on."""
    found = {"segmeter": __version__, "python": platform.python_version()}
    return found | {name: version for name in _LIBRARIES if (version := version_of(name))}


def version_of(library: str) -> str | None:
    """The version of a library; None if it is not installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def command_entry() -> dict[str, Any]:
    """One command: time, arguments without credentials, and machine.

    Its load is of processes that ran or waited in the last minute; None where it is not counted.
    """
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": redacted(" ".join(sys.argv)),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load": load,
        },
        "libraries": library_versions(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux; the portable name must do
    return platform.processor() or platform.machine()


_DEPTH = 4  # attributes of attributes that are looked into
_MOST_ITEMS = 1000


def parameter_count(segmenter: Any) -> int:
    """Parameters of every network that a model holds; 0 for those without, or not yet loaded.

    >>> parameter_count(object())
    0
    """
    torch = sys.modules.get("torch")  # a model that has networks has imported it
    if torch is None:
        return 0
    found = {id(p): p.numel() for m in _modules(segmenter, torch.nn.Module) for p in m.parameters()}
    return int(sum(found.values()))


def _modules(root: Any, kind: type) -> Iterator[Any]:
    """The outermost networks that are reached through attributes, lists and mappings."""
    waiting, seen = [(root, 0)], set()
    while waiting:
        thing, depth = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, kind):
            yield thing
        elif depth < _DEPTH:
            waiting += [(inner, depth + 1) for inner in _inside(thing)]


def _inside(thing: Any) -> list[Any]:
    """The items of a list or mapping, or the attributes of any other object."""
    if isinstance(thing, type):
        return []
    if isinstance(thing, list | tuple):
        return list(thing)[:_MOST_ITEMS]
    if isinstance(thing, Mapping):
        return list(thing.values())[:_MOST_ITEMS]
    attributes = list(getattr(thing, "__dict__", {}).values())
    if callable(thing):
        return attributes
    slots = [n for c in type(thing).__mro__ for n in getattr(c, "__slots__", ())]
    return [getattr(thing, n, None) for n in slots if isinstance(n, str)] + attributes
