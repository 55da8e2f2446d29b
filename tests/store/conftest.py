"""A small run to attack, and the commands to do it with."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from segmeter.cli.app import run_app
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan

sys.path.insert(0, str(Path(__file__).parent))

PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=2, limit=2)
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of two models on two scenes."""
    out = tmp_path_factory.mktemp("store") / "played"
    run_plan(PLAN, out, workers=0)
    return out


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A copy of the run to do harm to."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a bucket that a server on this machine holds."""
    pytest.importorskip("s3fs", reason="needs the extra 's3'")
    pytest.importorskip("moto", reason="needs the extra 'dev'")
    from s3_server import s3_server

    with s3_server() as address:
        yield address


@pytest.fixture(params=["disk", "memory", "s3"])
def any_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a run may lie: a folder, or an address of each kind."""
    yield from [str(tmp_path / "run")] if request.param == "disk" else _address(request)


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder, or an address: where its kind makes no difference."""
    yield from [str(tmp_path / "run")] if request.param == "disk" else _address(request)


@pytest.fixture(params=["memory", "s3"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a run may lie that is not a folder."""
    yield from _address(request)


def _address(request: pytest.FixtureRequest) -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec", reason="needs the extra 'remote'")
    base = request.getfixturevalue("s3") if request.param == "s3" else "memory:/"
    top = f"{base}/{uuid.uuid4().hex}"
    yield f"{top}/run"
    files, root = fsspec.core.url_to_fs(top)
    if files.exists(root):
        files.rm(root, recursive=True)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command; its exit code, stdout and stderr."""

    def type_it(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["segmeter", *map(os.fspath, map(str, words))])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run_app()
        said = capsys.readouterr()
        return int(str(stop.value.code)), said.out, said.err

    return type_it
