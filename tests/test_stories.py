"""Three people's days: what `examples/stories.py` plays is what the documentation shows."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def stories() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stories", ROOT / "examples" / "stories.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["researcher", "annotation-lead", "model-author"])
def test_a_story_gives_the_documented_output(stories: ModuleType, name: str) -> None:
    if name == "model-author":
        pytest.importorskip("IPython", reason="IPython is no dependency")
        pytest.importorskip("pandas", reason="pandas is no dependency")
    kept = (ROOT / "docs" / "stories" / f"{name}.md").read_text()
    assert stories.told(name) == kept, "play it again: python examples/stories.py"


def test_the_researchers_table_compiles(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("needs a TeX (Debian: apt install texlive-latex-recommended)")
    page = (ROOT / "docs" / "stories" / "researcher.md").read_text()
    table = re.search(r"\\begin\{table\}.*?\\end\{table\}", page, re.DOTALL)
    assert table is not None
    plain = table[0].replace("·", "0")
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "t.tex").write_text(head + plain + r"\end{document}")
    subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, check=True)
