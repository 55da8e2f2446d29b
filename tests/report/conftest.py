"""What tests of the report share: a page with everything on it, and a browser."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _beside(name: str) -> ModuleType:
    """A module that lies in this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def specimen() -> ModuleType:
    return _beside("specimen")


@pytest.fixture(scope="session")
def running() -> Iterator[Any]:
    """A tab of a running browser."""
    chromium = _beside("browser")
    path = chromium.find()
    if path is None:
        pytest.skip("needs a Chromium browser (Debian: apt install chromium)")
    with chromium.browser(path) as tab:
        yield tab
