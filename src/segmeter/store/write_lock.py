"""Write lock: only one command writes to a run at a time.

On a disk it is a lock of the operating system. Elsewhere it is a lease: a small file with its
holder and the time it expires. The holder renews it; any command may take an expired lease, or
that of a dead process on this machine. A holder that could not renew its lease in time, such as a
laptop that slept, stops if another command has taken it.
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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segmeter.core.errors import RunConflict, SegmeterError

if TYPE_CHECKING:
    from segmeter.store.storage import RemotePlace

LEASE = "lease.json"
_SECONDS = 120.0
_SHORT = 4096  # bytes; a lease is never longer
_here = threading.Lock()  # two threads of one process take turns


@dataclass(slots=True)
class Lease:
    """The right to be the only one who writes to a place, until it is lost."""

    address: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    lost: bool = False

    def check(self) -> None:
        """Raise RunConflict if another command may be writing by now."""
        if self.lost:
            raise RunConflict(
                f"another command has taken over '{self.address}': this one could not renew its "
                f"lease for {_SECONDS:.0f} s, as when a machine sleeps or a network is down; "
                "finished work is kept, wait for the other or give the same command again"
            )


@contextmanager
def file_lease(place: RemotePlace) -> Iterator[Lease]:
    """Hold the lease of a place; renewed in the background, given back at the end."""
    lease = Lease(place.address)
    with _here:
        _take(place, lease.holder)
    stop = threading.Event()
    name = f"lease of {lease.holder}"
    renewing = threading.Thread(target=_renew, args=(place, lease, stop), name=name, daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        stop.set()
        renewing.join()
        if _held(place).get("holder") == lease.holder:
            place.remove(LEASE)


def _take(place: RemotePlace, holder: str) -> None:
    if not _refuse_living(place) and place.create(LEASE, _entry(holder)):
        return  # by a conditional write: no other command was faster
    _refuse_living(place)
    place.put(LEASE, _entry(holder))
    if _held(place).get("holder") != holder:  # another command was faster
        raise RunConflict(f"another command has begun to write to '{place.address}'; wait for it")


def _refuse_living(place: RemotePlace) -> dict[str, Any]:
    """The expired lease, or empty; RunConflict if another command holds it."""
    held = _held(place)
    if held and not _over(held):
        until = time.strftime("%H:%M:%S UTC", time.gmtime(held["until"]))
        raise RunConflict(
            f"another command is writing to '{place.address}' (its lease runs to {until}, and is "
            "renewed while it lives); wait for it or stop it"
        )
    return held


def _renew(place: RemotePlace, lease: Lease, stop: threading.Event) -> None:
    while not lease.lost and not stop.wait(_SECONDS / 4):
        try:
            lease.lost = _held(place).get("holder") != lease.holder
            if not lease.lost:
                place.put(LEASE, _entry(lease.holder))
        except (OSError, SegmeterError):
            continue  # the storage may respond again before another command takes the lease


def _entry(holder: str) -> bytes:
    entry = {
        "holder": holder,
        "machine": socket.gethostname(),
        "process": os.getpid(),
        "until": time.time() + _SECONDS,
    }
    return json.dumps(entry).encode()


def _held(place: RemotePlace) -> dict[str, Any]:
    """The existing lease; empty if there is none or it cannot be read."""
    try:
        entry = json.loads(place.read(LEASE, _SHORT))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    known = isinstance(entry, dict) and isinstance(entry.get("until"), int | float)
    return entry if known else {}


def _over(entry: dict[str, Any]) -> bool:
    # A time far ahead comes from a wrong clock or a forged file; it would lock the run for ever.
    if not time.time() < entry["until"] < time.time() + 10 * _SECONDS:
        return True
    return entry.get("machine") == socket.gethostname() and not _alive(entry.get("process"))


def _alive(process: object) -> bool:
    if not isinstance(process, int) or process <= 0:
        return True  # nothing is known: its time must run out
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is another user's
    return True
