"""Beside the reference folder no test is skipped without an excuse: `.ci/run` relies on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .forking import Interpreter

HERE = Path(__file__).parent


EXCUSED = [
    "needs a Chromium browser (Debian: apt install chromium)",
    "edgetam needs timm, which is not installed",
    "no weights for 'sam-vit-h' in '../shared/weights'; 'segmeter fetch sam-vit-h' gets them",
    "no small disk: a file system cannot be mounted here",
]
WITHOUT_EXCUSE = [
    "needs the reference folder at ../shared (set SEGMETER_SHARED)",
    "could not import 'torch'",
    "no weights for 'sam2-hiera-tiny' in '../shared/weights'",
    "some reason of its own",
]


def run_skipped_tests(
    python: Interpreter, folder: Path, reasons: list[str], *words: str, required: str = "1"
) -> tuple[int, str]:
    """Exit code and last words of a session with a test that passes and some that skip."""
    shutil.copy(HERE / "conftest.py", folder)
    (folder / "shared" / "golden").mkdir(parents=True)
    (folder / "shared" / "weights" / "sam2-hiera-tiny").mkdir(parents=True)
    (folder / "test_some.py").write_text(
        "import pytest\n\n"
        "def test_that_passes(shared):\n    pass\n\n"
        f"@pytest.mark.parametrize('reason', {reasons!r})\n"
        "def test_that_is_skipped(reason):\n    pytest.skip(reason)\n"
    )
    told = {"SEGMETER_SHARED": str(folder / "shared"), "SEGMETER_REQUIRE_SHARED": required}
    done = python.run("-m", "pytest", "-q", *words, folder, folder=folder, **told)
    assert f"1 passed, {len(reasons)} skipped" in done.stdout, done.stdout + done.stderr
    return done.returncode, done.stdout


def test_tests_without_their_requirements_are_skipped(python: Interpreter, tmp_path: Path) -> None:
    assert run_skipped_tests(python, tmp_path, EXCUSED)[0] == 0


@pytest.mark.parametrize("words", [(), ("-n", "1")])
def test_a_real_data_test_that_is_skipped_is_a_failure(
    words: tuple[str, ...], python: Interpreter, tmp_path: Path
) -> None:
    code, said = run_skipped_tests(python, tmp_path, WITHOUT_EXCUSE + EXCUSED, *words)
    assert code == 1
    assert said.count("skipped though the reference folder is there") == len(WITHOUT_EXCUSE)
    assert all(reason in said for reason in WITHOUT_EXCUSE)


def test_elsewhere_any_reason_will_do(python: Interpreter, tmp_path: Path) -> None:
    assert run_skipped_tests(python, tmp_path, WITHOUT_EXCUSE, required="")[0] == 0
