"""Storage: the same interface on a disk, in memory and on S3; whole files, one writer at a time."""

from __future__ import annotations

import errno
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.store import write_lock
from segmeter.store.local import DiskFull, LocalPlace, write_file
from segmeter.store.storage import Place, RemotePlace, place_of
from segmeter.store.write_lock import LEASE, file_lease

fsspec = pytest.importorskip("fsspec", reason="needs the extra 'remote'")
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(any_storage: str) -> Place:
    return place_of(any_storage)


@pytest.fixture
def remote(address: str) -> RemotePlace:
    return RemotePlace(address)


def test_stored_files_are_listed_and_read(place: Place) -> None:
    place.begin()
    assert place.files("jobs") == []
    place.put("jobs/b", b"two")
    place.put("jobs/a", b"one")
    place.put("scores/dice/a", b"half")
    assert [(h.name, h.bytes) for h in place.files("jobs")] == [("a", 3), ("b", 3)]
    assert place.folders("scores") == ["dice"]
    assert place.read("jobs/a") == b"one"
    assert place.exists("jobs/a")
    assert not place.exists("jobs/c")
    with pytest.raises(FileNotFoundError):
        place.read("jobs/c")


def test_a_local_address_is_a_folder(tmp_path: Path, typed: Typed) -> None:
    for protocol in ("file", "local"):
        assert place_of(f"{protocol}://{tmp_path}/x").address == f"{tmp_path}/x"
    out = f"local://{tmp_path}/run"
    words = ("-m", "synthetic-oracle", "-d", "drawn", "--limit", 1, "--workers", 0)
    assert typed("run", "noc", *words, "--out", out)[0] == 0
    assert len(list((tmp_path / "run" / "jobs").iterdir())) == 1


def test_folders_are_made_on_a_remote_storage_that_has_them(tmp_path: Path) -> None:
    place = RemotePlace(f"local://{tmp_path}/run")
    place.begin()
    place.put("scores/dice/a", b"half")
    assert place.read("scores/dice/a") == b"half"


def test_a_new_content_is_a_new_version(place: Place) -> None:
    place.begin()
    place.put("jobs/a", b"one")
    (first,) = place.files("jobs")
    time.sleep(0.01)  # the clock of a file system may be coarse
    place.put("jobs/a", b"two")
    assert place.files("jobs") != [first]


def test_removing_twice_is_removing_once(place: Place) -> None:
    place.begin()
    place.put("a", b"x")
    place.remove("a")
    place.remove("a")
    assert place.others() == []


def test_only_one_holds_the_lease(place: Place) -> None:
    place.begin()
    other: Place = pickle.loads(pickle.dumps(place))
    with place.lease(), pytest.raises(RunConflict, match="another command"), other.lease():
        pass
    with other.lease():
        pass


def test_a_file_is_created_once(remote: RemotePlace) -> None:
    remote.begin()
    assert remote.create("lease.json", b"mine")
    assert not remote.create("lease.json", b"yours")
    assert remote.read("lease.json") == b"mine"
    assert remote.others() in ([], ["lease.json"])  # nothing beside it


def test_a_file_above_its_limit_is_not_read(place: Place) -> None:
    place.begin()
    place.put("plan.json", b"x" * 100)
    with pytest.raises(BadInput):
        place.read("plan.json", limit=99)


@pytest.mark.parametrize(
    "lease",
    [
        {"holder": "x", "until": time.time() - 1},  # its time is over
        {"holder": "x", "until": time.time() + 1e9},  # a forgery, or a clock gone wrong
        [1],
        {"until": "never"},
    ],
)
def test_an_expired_or_damaged_lease_blocks_no_one(lease: Any, remote: RemotePlace) -> None:
    remote.begin()
    remote.put(LEASE, json.dumps(lease).encode())
    with file_lease(remote):
        assert remote.exists(LEASE)
    assert not remote.exists(LEASE)


def test_a_lease_that_runs_is_respected(remote: RemotePlace) -> None:
    remote.begin()
    held = {"holder": "x", "until": time.time() + 100, "machine": "elsewhere", "process": 1}
    remote.put(LEASE, json.dumps(held).encode())
    with pytest.raises(RunConflict, match="its lease runs to"), file_lease(remote):
        pass


def test_the_lease_of_a_dead_process_of_this_machine_is_over(remote: RemotePlace) -> None:
    remote.begin()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    held = {"holder": "x", "until": time.time() + 100, "machine": socket.gethostname()}
    remote.put(LEASE, json.dumps(held | {"process": dead.pid}).encode())
    with file_lease(remote):
        assert json.loads(remote.read(LEASE))["process"] == os.getpid()


def test_a_lease_taken_by_another_process_is_lost(
    remote: RemotePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "_SECONDS", 0.02)
    remote.begin()
    with file_lease(remote) as lease:
        lease.check()
        (renewing,) = (t for t in threading.enumerate() if t.name == f"lease of {lease.holder}")
        while renewing.is_alive():  # it may be writing its own just now
            remote.put(LEASE, json.dumps({"holder": "x", "until": time.time() + 100}).encode())
            renewing.join(0.05)
        with pytest.raises(RunConflict, match="another command has taken over"):
            lease.check()
    assert json.loads(remote.read(LEASE))["holder"] == "x"  # not ours to give back


def test_a_storage_that_fails_for_a_while_costs_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock, "_SECONDS", 0.02)
    place, tried, again = (
        RemotePlace(f"memory://{uuid.uuid4().hex}"),
        iter(range(3)),
        threading.Event(),
    )
    put = place.put

    def failing(name: str, data: bytes) -> None:
        if next(tried, None) is not None:
            raise ConnectionError("the network is down")
        put(name, data)
        again.set()

    with file_lease(place) as lease:
        monkeypatch.setattr(place, "put", failing)
        assert again.wait(60)
        lease.check()


def test_only_one_of_many_requests_gets_a_lease(address: str) -> None:
    """Each opens the address anew, as processes on several machines do."""
    gate, got = threading.Barrier(8), []

    def take() -> None:
        mine = place_of(address)
        mine.begin()
        gate.wait()
        got.append(mine.create("lease.json", b"x"))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]


def test_a_storage_that_cannot_be_reached_is_a_sentence(
    s3: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", "1", "--workers", "0")
    code, _, err = typed(*words, "--out", "s3://no-such-bucket/run")
    assert code == 2
    assert "'s3://no-such-bucket/run' cannot be written to" in err
    assert len(err.splitlines()) == 1
    monkeypatch.setattr("s3fs.S3FileSystem.cachable", False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ConnectionError, match=r"cannot be used: .*; check its address"):
        RemotePlace(f"{s3}/x").files()


def test_links_to_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    place = LocalPlace(tmp_path / "run")
    place.begin()
    place.put("jobs/a", b"one")
    assert place.read("jobs/a") == b"one"
    assert [h.name for h in place.files("jobs")] == ["a"]
    (tmp_path / "run" / "scores").symlink_to(tmp_path / "away")
    with pytest.raises(BadInput, match="is a link"):
        place.put("scores/x", b"x")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a//b", "", "a/../b", "a\0"])
def test_a_name_cannot_leave_the_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        LocalPlace(tmp_path).put(name, b"x")


def test_an_unknown_protocol_is_a_sentence() -> None:
    with pytest.raises(NotFound, match="cannot be opened"):
        place_of("nowhere://x")


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LocalPlace(tmp_path / "run")
    place.begin()
    (tmp_path / "run" / "a").write_bytes(b"before")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "mkdir", lambda *_: full(0))
    with pytest.raises(DiskFull, match="is full"):
        place.put("jobs/a", b"in a folder that cannot be made")
    with pytest.raises(DiskFull, match="is full"):
        place.put("a", b"after")
    with pytest.raises(DiskFull, match="is full"):
        write_file(tmp_path / "b", b"x")
    assert (tmp_path / "run" / "a").read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "run"]


def test_a_full_disk_while_exporting_is_reported(
    run: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = typed("report", run, "--format", "csv")
    assert code == 2
    assert "is full" in err
    assert not list((run / "tables").iterdir())


def test_a_lease_that_another_command_has_just_created_is_respected(
    remote: RemotePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.begin()
    faster = {"holder": "x", "until": time.time() + 100, "machine": "elsewhere", "process": 1}

    def create(place: RemotePlace, name: str, data: bytes) -> bool:
        place.put(name, json.dumps(faster).encode())
        return False

    monkeypatch.setattr(RemotePlace, "create", create)
    with pytest.raises(RunConflict, match="its lease runs to"), file_lease(remote):
        pass
    assert json.loads(remote.read(LEASE)) == faster


def test_a_run_on_windows_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BadInput, match="on Windows, use the Windows Subsystem for Linux"):
        LocalPlace(tmp_path)
