"""The script that measures the decoder's paths runs with tiny sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
SCRIPT = Path(__file__).resolve().parents[3] / "perf" / "decoder_paths.py"


def test_the_script_measures_every_path_there_is_here() -> None:
    tiny = ["--side", "64", "--clicks", "2", "--repeats", "1", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *tiny], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for path in ("captured graphs", "eager", "shared projections"):
        assert f"{path}  " in done.stdout
