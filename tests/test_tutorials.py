"""Every tutorial is a notebook whose cells run, with stored outputs."""

from __future__ import annotations

import importlib.util
import json
import re
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from segmeter.models.classical import GrabCut, RandomWalker

from .forking import Interpreter

DOCS = Path(__file__).resolve().parents[1] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.ipynb"))


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_five_tutorials() -> None:
    names = {path.stem for path in TUTORIALS}
    assert names == {"first-run", "your-data", "your-model", "volumes", "study"}


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_cells_of_a_tutorial_run(
    path: Path, notebooks: ModuleType, python: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    # On smaller copies of images than usual: what cells show is of the same kinds.
    monkeypatch.setattr(GrabCut.__init__, "__defaults__", (64, 1))
    monkeypatch.setattr(RandomWalker.__init__, "__defaults__", (64, 130))
    monkeypatch.setattr(notebooks, "command", partial(python.run, "-m", "segmeter"))
    stored = json.loads(path.read_text())
    rerun = json.loads(path.read_text())
    with notebooks.empty_folder():
        notebooks.run(rerun)
    assert kinds(rerun) == kinds(stored), "store its outputs again: python docs/notebooks.py"
    assert kinds(rerun)


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    """What each cell shows: printed text, a value, figures."""
    return [
        [output["output_type"] for output in cell["outputs"]]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_begins_with_a_command_and_links_to_pages_that_exist(path: Path) -> None:
    notebook = json.loads(path.read_text())
    texts = [
        "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
    ]
    assert "```sh\n" in texts[0]
    for target in re.findall(r"\]\(([^)#]+)", "\n".join(texts)):
        assert (path.parent / target).exists(), target
