"""The package as it is installed: version, entry point, wheel with and without a compiler."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import segmeter

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_printed_once() -> None:
    assert PROJECT["version"] == segmeter.__version__
    assert importlib.metadata.version("segmeter") == segmeter.__version__
    assert f"version: {segmeter.__version__}" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == segmeter.__version__


def test_the_command_is_installed() -> None:
    points = importlib.metadata.entry_points(group="console_scripts", name="segmeter")
    assert [point.value for point in points] == ["segmeter.cli:main"]


def test_the_package_ships_its_types_and_licence() -> None:
    assert (Path(segmeter.__file__).parent / "py.typed").is_file()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def requirements() -> list[Requirement]:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]


def test_every_requirement_is_pinned_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and line[0] != "#")
    for wanted in requirements():
        pin = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pin), f"{wanted} against {pin}"


def test_nothing_pulls_in_the_big_vision_libraries() -> None:
    names = {canonicalize_name(wanted.name) for wanted in requirements()}
    pinned = (ROOT / "constraints.txt").read_text()
    assert not names & {"torchvision", "timm"}
    assert "torchvision" not in pinned
    assert "nvidia" not in pinned


def test_networks_are_an_extra() -> None:
    base = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert not base & {"torch", "transformers", "huggingface-hub", "nibabel", "ray"}


def test_a_model_names_the_extra_that_a_minimal_install_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "torch" else found(n))
    with pytest.raises(segmeter.SegmeterError, match=r"pip install 'segmeter\[models\]'"):
        segmeter.load_model("mobile-sam", weights=tmp_path)


def built_wheel(folder: Path, **environment: str) -> list[str]:
    """The files of a wheel built from this tree with a changed environment."""
    pytest.importorskip("scikit_build_core", reason="no compiler: builds are not set up here")
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
    settings = [f"--config-settings=build-dir={folder / 'build'}", "--wheel-dir", str(folder)]
    subprocess.run(
        [*command, *settings, str(ROOT)],
        check=True,
        capture_output=True,
        env={**os.environ, **environment},
    )
    (wheel,) = folder.glob("segmeter-*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_without_a_compiler_the_wheel_builds_and_leaves_the_kernels_out(tmp_path: Path) -> None:
    names = built_wheel(tmp_path, CXX="/nonexistent/c++", CC="/nonexistent/cc")
    assert "segmeter/kernels/__init__.py" in names
    assert "segmeter/py.typed" in names
    assert not [name for name in names if name.startswith("segmeter/kernels/_kernels")]
    assert not [name for name in names if name.endswith((".so", ".pyd", ".cpp", ".h"))]


def test_the_plain_kernels_are_used_on_request() -> None:
    code = "import segmeter.kernels as k; print(k.compiled)"
    plain = {**os.environ, "SEGMETER_PLAIN": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "None"
