"""What tests share: where the golden values, real images and real weights lie."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from .forking import Interpreter

ROOT = Path(__file__).resolve().parents[1]
os.environ["SEGMETER_OFFLINE"] = "1"  # no test asks for anything outside this machine
# Bytecode is kept whatever the shell says: new processes need not compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # until all tests are collected: hardly anything is let go of before
SHARED = Path(os.environ.get("SEGMETER_SHARED", ROOT.parent / "shared"))

# What a machine may lack even where the reference folder is there.
EXCUSES = (
    "needs a Chromium browser",
    "no GPU",
    "no compiler",
    "kernels are not compiled",
    "no small disk",
    "no PostgreSQL here",
    "no caddy here",
    "no nginx here",
    "needs a TeX",
    "timm",
    "missing is the package nnInteractive",  # pulls torchvision and gigabytes of CUDA
    "needs the package 'nnInteractive'",
    "this version of transformers has no",
)

# No time limits: machines differ, and are shared.
# The same examples every time; SEGMETER_EXAMPLES=1000 draws more of them.
EXAMPLES = int(os.environ.get("SEGMETER_EXAMPLES", "30"))
settings.register_profile("house", deadline=None, derandomize=True, max_examples=EXAMPLES)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def _one_process() -> Iterator[None]:
    """Runs that do not say how many workers they want use this process: each new one takes seconds.

    Rows do not depend on it, which the tests of the engine show; commands typed in a new process
    have their own default.
    """
    from segmeter.engine import runner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "default_workers", lambda plan: 0)
        yield


@pytest.fixture(scope="session")
def python() -> Iterator[Interpreter]:
    """Runs scripts in processes of their own, without the seconds that imports take."""
    from .forking import interpreter

    with interpreter() as running:
        yield running


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with `golden`, `data` and `weights`; tests that need it skip elsewhere."""
    if not (SHARED / "golden").is_dir():
        pytest.skip(f"needs the reference folder at {SHARED} (set SEGMETER_SHARED)")
    return SHARED


@pytest.fixture(scope="session")
def golden(shared: Path) -> Path:
    return shared / "golden"


@pytest.fixture(scope="session")
def real_data(shared: Path) -> Path:
    return shared / "data"


@pytest.fixture(scope="session")
def real_weights(shared: Path) -> Path:
    return shared / "weights"


@pytest.fixture(scope="session")
def encodings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where encodings of images are kept during one session, for all of its workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "encodings"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def encoded_once(encodings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder of a SAM sees an image once in all tests that ask for this: seconds each."""
    pytest.importorskip("torch")
    from segmeter.models.sam._loading import SamNetwork

    from .encodings import remembering

    monkeypatch.setattr(SamNetwork, "encode", remembering(encodings))


def pytest_configure(config: pytest.Config) -> None:
    """Every other worker begins with the last folder.

    In a fresh clone each then finds that the other has compiled half of the tests.
    """
    keep_freed_memory()
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
        config.args.reverse()


def keep_freed_memory() -> None:
    """Let malloc serve large tensors from freed memory, up to a gigabyte.

    By default glibc maps each anew: a quarter of what MobileSAM's encoder takes is spent on pages.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_max = -1, -4  # malloc.h
        libc.mallopt(trim_threshold, 1 << 30)
        libc.mallopt(mmap_max, 0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first: at the end both workers have something left to do."""
    items.sort(key=lambda item: ("long" not in item.keywords, str(item.path)))


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: no garbage collection need visit them again.

    Others come rarely: what tests make is small, or let go of by counting references.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With SEGMETER_REQUIRE_SHARED a skipped test needs an excuse, or it is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("SEGMETER_REQUIRE_SHARED") or reporter is None:
        return
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not excused(reason):
            reporter.write_line(f"\nskipped though the reference folder is there: {report.nodeid}")
            reporter.write_line(f"  {reason}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def excused(reason: str) -> bool:
    """Whether a test may be skipped for this reason beside the reference folder."""
    lacking = re.search(r"no weights for '([^']+)'", reason)
    if lacking:
        return not (SHARED / "weights" / lacking[1]).exists()
    return any(excuse in reason for excuse in EXCUSES)
