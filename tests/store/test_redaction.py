"""Credentials open a storage and are written nowhere: no plan, part, error, provenance or page."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.engine import run_plan
from segmeter.models.synthetic import Disc
from segmeter.report.writing import sections_of, write_sections
from segmeter.runtime.redaction import redacted
from segmeter.store import Run, RunFolder
from segmeter.store.storage import Place, RemotePlace

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("mine"),), (Spec("drawn"),), rounds=1, limit=2)


class Telling(Disc):
    """A model whose error gives away everything it was told."""

    said = ""

    def encode(self, scene: Scene) -> Any:
        if scene.id.endswith("1"):
            raise ValueError(self.said)
        return super().encode(scene)


def contents(place: Place, folder: str = "") -> dict[str, bytes]:
    """Every file of a run."""
    inner = f"{folder}/" if folder else ""
    found = {f"{inner}{h.name}": place.read(f"{inner}{h.name}") for h in place.files(folder)}
    for name in place.folders(folder):
        found |= contents(place, f"{inner}{name}")
    return found


def test_keys_are_in_no_file_of_a_run(
    s3: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment, and in an address that was typed."""
    from s3_server import KEY, SECRET

    place = RemotePlace(f"{s3}/{uuid.uuid4().hex}")
    address = f"ftp://someone:{SECRET[:9]}@host/x?token=tell-nobody"
    monkeypatch.setattr(Telling, "said", f"{KEY}, {SECRET}, {address}")
    monkeypatch.setattr("sys.argv", ["segmeter", "run", "--out", address, KEY, SECRET])
    assert run_plan(PLAN, place, objects={"mine": Telling()}).failed == 1
    write_sections(opened := Run.open(place), sections_of(opened))
    found = contents(place)
    assert {"plan.json", "provenance.json", "report.html"} <= found.keys()
    assert any(name.startswith("errors/") for name in found)
    errors = Run.open(place).sql("select error, detail from errors").to_pylist()
    shown = [repr(errors).encode(), place.address.encode(), repr(place).encode()]
    for secret in (KEY, SECRET, SECRET[:9], "tell-nobody"):
        assert not [name for name, data in found.items() if secret.encode() in data]
        assert not [text for text in shown if secret.encode() in text]
    assert b"ftp://***@host/x?token=***" in found["provenance.json"]


def test_an_address_with_keys_opens_and_is_shown_without() -> None:
    place = RemotePlace("memory://user:hidden@place/run")
    assert place.address == "memory://***@place/run"
    place.put("a", b"x")
    assert RunFolder(place).address == place.address
    assert "hidden" not in repr(place)


def test_a_plan_with_keys_is_refused(tmp_path: Path) -> None:
    address = "s3://me:hidden@bucket/images"
    plan = replace(PLAN, segmenters=(Spec("disc"),), datasets=(Spec("folder", {"path": address}),))
    with pytest.raises(BadInput, match=r"'s3://\*\*\*@bucket/images' holds credentials"):
        run_plan(plan, tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("s3://key:sec/ret@bucket/x", "s3://***@bucket/x"),
        ("a@b.org wrote to s3://bucket", "a@b.org wrote to s3://bucket"),
        ("key=abc123 secret='x y'", "key=*** secret='*** y'"),
        ('{"aws_secret_access_key": "abc"}', '{"aws_secret_access_key": "***"}'),
        ("https://h/x?sig=ab%2B&n=1", "https://h/x?sig=***&n=1"),
        ("3 tokens: 5, monkey=7", "3 tokens: 5, monkey=7"),
        ("-d 'folder?path=x&key=ab'", "-d 'folder?path=x&key=***'"),
    ],
)
def test_redacted_texts(text: str, shown: str) -> None:
    assert redacted(text) == shown
