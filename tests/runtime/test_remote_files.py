"""Addresses: data and weights on a storage are copied to this machine once, and no more."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import fsspec
import numpy as np
import pytest

from segmeter.api.loading import dataset_spec, roots_of
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.plans import Plan
from segmeter.core.received_runs import received
from segmeter.engine import run_plan
from segmeter.runtime import remote_files
from segmeter.runtime.remote_files import Roots, copy_folder, local_folder
from segmeter.store import Run


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address, and a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remote_files._copied.cache_clear()
    name = uuid.uuid4().hex
    yield f"memory://{name}"
    remote_files._copied.cache_clear()
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True)


def put(address: str, name: str, data: bytes) -> None:
    with fsspec.open(f"{address}/{name}", "wb") as file:
        file.write(data)


def put_images(address: str) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        image = rng.integers(0, 255, (40, 50, 3), np.uint8)
        mask = np.zeros((40, 50), np.uint8)
        mask[10:25, 12:30] = 255
        put(address, f"images/{name}.png", cv2.imencode(".png", image)[1].tobytes())
        put(address, f"masks/{name}.png", cv2.imencode(".png", mask)[1].tobytes())


def test_only_what_has_changed_is_copied_again(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(storage, "x/one", b"1")
    put(storage, "two", b"2")
    folder = local_folder(storage)
    assert (folder / "x" / "one").read_bytes() == b"1"
    fetched: list[str] = []
    fetch = remote_files._fetch

    def watched(files: Any, source: str, target: Path) -> None:
        fetched.append(target.name)
        fetch(files, source, target)

    monkeypatch.setattr(remote_files, "_fetch", watched)
    put(storage, "two", b"two")
    put(storage, "three", b"3")
    fsspec.filesystem("memory").rm(f"{storage}/x/one")
    remote_files._copied.cache_clear()  # as in another process
    assert local_folder(storage) == folder
    assert sorted(fetched) == ["three", "two"]
    assert (folder / "two").read_bytes() == b"two"
    assert not (folder / "x" / "one").exists()


def test_a_remote_folder_of_images_is_run(storage: str, tmp_path: Path) -> None:
    put_images(f"{storage}/mine")
    spec = dataset_spec(f"{storage}/mine")
    assert spec == Spec("folder", {"path": f"{storage}/mine"})
    plan = Plan("noc", (Spec("disc"),), (spec,), rounds=2)
    assert run_plan(plan, tmp_path / "there", workers=0).done == 2
    here = Spec("folder", {"path": str(copy_folder(f"{storage}/mine"))})
    assert run_plan(Plan("noc", (Spec("disc"),), (here,), rounds=2), tmp_path / "here", workers=0)
    query = "select scene, protocol, round, iou, mask from rows order by all"
    assert Run.open(tmp_path / "there").sql(query).equals(Run.open(tmp_path / "here").sql(query))
    assert catalogue.datasets.make(spec).card.name == "mine"


def test_a_run_with_protocol_a_needs_no_storage(storage: str) -> None:
    """Somebody else's run could name any address: only a copy made before is looked at."""
    put(storage, "one", b"1")
    with received(), pytest.raises(NotFound, match="is not copied"):
        local_folder(storage)
    folder = local_folder(storage)
    put(storage, "one", b"other")
    remote_files._copied.cache_clear()
    with received():
        assert (local_folder(storage) / "one").read_bytes() == b"1"
    assert folder == copy_folder(storage)


def test_data_and_weights_may_be_addresses(storage: str, tmp_path: Path) -> None:
    put(storage, "net/weights.bin", b"w")
    found = roots_of(Path(storage), Path(f"{storage}/net"))  # as typer hands them on
    assert found == Roots(storage, f"{storage}/net")
    assert (found.options()["weights"] / "weights.bin").read_bytes() == b"w"
    with pytest.raises(BadInput, match="there is no folder"):
        roots_of(tmp_path / "none", None)


def test_an_address_that_leads_nowhere_is_a_sentence(storage: str) -> None:
    put(storage, "one", b"1")
    with pytest.raises(NotFound, match="there is nothing at"):
        local_folder(f"{storage}-none")
    with pytest.raises(NotFound, match="cannot be opened"):
        local_folder("nowhere://x")


def test_names_that_lead_out_of_the_copy_are_refused(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hostile:
        def find(self, root: str, detail: bool) -> dict[str, dict[str, int]]:
            return {f"{root}/../../evil": {"size": 1}}

    put(storage, "one", b"1")
    monkeypatch.setattr(remote_files, "open_storage", lambda address: (Hostile(), "bucket"))
    with pytest.raises(BadInput, match="leads elsewhere"):
        local_folder(storage)
