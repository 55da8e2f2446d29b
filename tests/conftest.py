"""What tests share: where the golden values, real pictures and real weights lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SEGMETER_SHARED", ROOT.parent / "shared"))


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
