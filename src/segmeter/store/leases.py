"""Leases: only one command writes to a run, where the system has no lock for it.

The lease is a small file that says who holds it and until when. Its holder renews it; one whose
time is over belongs to whoever comes next, and so does that of a dead process on this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from segmeter.core.errors import RunConflict

if TYPE_CHECKING:
    from segmeter.store.places import Place

__all__ = ["LEASE", "file_lease"]

LEASE = "lease.json"
_SECONDS = 120.0
_SHORT = 4096  # bytes; nobody's lease is longer
_here = threading.Lock()  # two threads of one process take turns


@contextmanager
def file_lease(place: Place) -> Iterator[None]:
    """Hold the lease of a place; renewed in the background, given back at the end."""
    holder = secrets.token_hex(8)
    with _here:
        _take(place, holder)
    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(place, holder, stop), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        stop.set()
        renewing.join()
        if _held(place).get("holder") == holder:
            place.remove(LEASE)


def _take(place: Place, holder: str) -> None:
    held = _held(place)
    if held and not _over(held):
        until = time.strftime("%H:%M:%S UTC", time.gmtime(held["until"]))
        raise RunConflict(
            f"another command is writing to '{place.address}' (its lease runs to {until}, and is "
            "renewed while it lives); wait for it or stop it"
        )
    if not held and place.create(LEASE, _entry(holder)):
        return  # the storage itself says that nobody was quicker
    place.put(LEASE, _entry(holder))
    if _held(place).get("holder") != holder:  # somebody was quicker
        raise RunConflict(f"another command has begun to write to '{place.address}'; wait for it")


def _renew(place: Place, holder: str, stop: threading.Event) -> None:
    while not stop.wait(_SECONDS / 4):
        if _held(place).get("holder") != holder:
            return
        place.put(LEASE, _entry(holder))


def _entry(holder: str) -> bytes:
    entry = {
        "holder": holder,
        "machine": socket.gethostname(),
        "process": os.getpid(),
        "until": time.time() + _SECONDS,
    }
    return json.dumps(entry).encode()


def _held(place: Place) -> dict[str, Any]:
    """The lease that lies there; one that cannot be read is none."""
    try:
        entry = json.loads(place.read(LEASE, _SHORT))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    known = isinstance(entry, dict) and isinstance(entry.get("until"), int | float)
    return entry if known else {}


def _over(entry: dict[str, Any]) -> bool:
    # A time far ahead is a clock gone wrong or a forgery, and would bar the run for ever.
    if not time.time() < entry["until"] < time.time() + 10 * _SECONDS:
        return True
    return entry.get("machine") == socket.gethostname() and not _alive(entry.get("process"))


def _alive(process: object) -> bool:
    if not isinstance(process, int) or process <= 0 or os.name != "posix":
        return True  # nothing is known: its time must run out
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
