"""Run three typical workflows and write what was typed and printed to docs/stories.

    python examples/stories.py [FOLDER]

A researcher, an annotation lead and a model author, one page each. Numbers that depend on the
machine are shown as dots.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
TO = ROOT / "docs" / "stories"


class Story:
    """A page that grows: words, files that are written, commands with what they print."""

    def __init__(self, title: str, question: str) -> None:
        self.lines = [f"# {title}", "", f"*{question}*", ""]

    def say(self, words: str) -> None:
        self.lines += [words, ""]

    def write(self, name: str, text: str) -> None:
        Path(name).write_text(text)
        self.lines += [f"`{name}`:", "", "```text", text.rstrip(), "```", ""]

    def type(self, command: str, *, show: Callable[[str], str] = str, code: int = 0) -> str:
        """Type a command of segmeter in the present folder; show what it prints."""
        found, out = typed(shlex.split(command)[1:])
        if found != code:
            raise SystemExit(f"{command}: exit code {found}\n{out}")
        self._shown(f"$ {command}", show(out))
        return out

    def python(self, name: str) -> None:
        """Run a script as a person would: no `__main__` guard, its prints on the page."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            runpy.run_path(name, run_name="__main__")
        self._shown(f"$ python {name}", out.getvalue())

    def notebook(self, *cells: str) -> None:
        """Cells typed into IPython, each with what it shows."""
        shell = _shell()
        for cell in cells:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                result = shell.run_cell(cell, store_history=True)
            result.raise_error()
            self._shown(f"In: {cell}", out.getvalue())

    def _shown(self, typed: str, out: str) -> None:
        self.lines += ["```text", typed, *steadied(out).rstrip().splitlines(), "```", ""]

    def text(self) -> str:
        return "\n".join(self.lines).rstrip() + "\n"


def typed(words: list[str]) -> tuple[int, str]:
    """A command in this very process: its exit code, and what it printed."""
    from segmeter.cli.app import run_app

    before, out = sys.argv, io.StringIO()
    sys.argv = ["segmeter", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            run_app()
    except SystemExit as stopped:
        return int(stopped.code or 0), out.getvalue()
    finally:
        sys.argv = before
    return 0, out.getvalue()


def steadied(text: str) -> str:
    """Printed text without measured seconds and trailing spaces, which depend on the machine."""
    text = re.sub(r"(?<!\.)\b\d+\.\d{3}\b", "·.···", text)  # seconds per click, in tables
    text = re.sub(r"about \d+\.\d minutes|\d+\.\d\d s (?=and \d+ rows)", "··· ", text)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def researcher() -> str:
    """From a run into a paper."""
    story = Story("A researcher", "I have a new model. What goes into the paper?")
    (Path("mine.py")).write_text((ROOT / "examples" / "own_model.py").read_text())
    story.say(
        "`mine.py` is `examples/own_model.py` of the repository. Two models, three images "
        "that ship inside, five clicks each."
    )
    story.type(
        "segmeter run noc -m mine.py:Lookalike -m disc -d mini --limit 3 --rounds 5 "
        "--workers 0 -o runs/noc-1"
    )
    story.say("The LaTeX table; with so few images nothing is bold.")
    story.type("segmeter table runs/noc-1 --format latex")
    story.say("The same numbers for a program:")
    story.type("segmeter table runs/noc-1 --format csv", show=lambda out: out.splitlines()[0])
    story.type("segmeter figure runs/noc-1 --out fig.pdf")
    story.say("What has to be cited:")
    story.type("segmeter cite runs/noc-1")
    return story.text()


def _without_waiting(table: str) -> str:
    """A Markdown table with dots for waiting on this machine and all that includes it."""
    lines = [line.split("|") for line in table.splitlines()]
    for cells in lines[4:]:
        if len(cells) > 7 and "all by hand" not in cells[1]:
            cells[3:7] = [" · "] * 4
    return "\n".join("|".join(cells) for cells in lines)


def lead() -> str:
    """A folder with mistakes in it, and what a project would cost."""
    story = Story("An annotation lead", "Is it worth it, for 20 000 objects, with my images?")
    _folder_with_mistakes(Path("own"))
    story.say("A folder with typical mistakes: a duplicate image, a tiny mask, an empty one.")
    story.type("segmeter check own", code=1)
    story.say("The duplicate, the tiny and the empty mask are removed.")
    for name in "xyz":
        (Path("own/images") / f"{name}.png").unlink()
        (Path("own/masks") / f"{name}.png").unlink()
    story.type("segmeter check own")
    Path("mine.py").write_text((ROOT / "examples" / "own_model.py").read_text())
    story.type(
        "segmeter run noc -m mine.py:Lookalike -m disc -d own --rounds 5 --workers 0 -o runs/noc-1"
    )
    story.say("Seconds per click are fitted to the log of her own annotators.")
    _log(Path("log.csv"))
    story.type("segmeter clicks costs log.csv")
    story.type(
        "segmeter report runs/noc-1 --cost costs.toml --objects 20000 --hourly-rate 15 --format md "
        "--out tables",
        show=lambda out: _without_waiting(next(Path("tables").glob("project-*.md")).read_text()),
    )
    story.say("Masks for her annotation tool:")
    story.type("segmeter export runs/noc-1 --round best --format labelstudio --out masks")
    return story.text()


def author() -> str:
    """A function is enough."""
    story = Story("A model author", "I have a function that gives a mask. How good is it?")
    story.write("wrong.py", _WRONG)
    story.type("segmeter check wrong.py:predict", code=1)
    story.say("It gives distances. A threshold is what is missing.")
    story.write("right.py", _RIGHT)
    story.type("segmeter check right.py:predict")
    story.write("script.py", _SCRIPT)
    story.python("script.py")
    story.say("And in IPython, where a run shows itself as a table:")
    story.notebook(
        "import segmeter; from right import predict",
        "run = segmeter.evaluate(predict, 'drawn', out='runs/again', limit=2, rounds=3, "
        "protocols='corrected', progress=False)",
        "run",
        "print(sorted(get_ipython().display_formatter.format(run)[0]))",
        "print(run.to_pandas('sessions')[['scene', 'target', 'rounds_to_goal', 'best_iou']]"
        ".round(2).to_string())",
    )
    return story.text()


_WRONG = '''\
def predict(image, clicks):
    """How far each pixel's brightness lies from the first click's."""
    y, x, positive = clicks[0]
    return abs(image[..., 0].astype(float) - float(image[int(y), int(x), 0]))
'''
_RIGHT = _WRONG.replace("abs(", "30 > abs(")
_SCRIPT = """\
import segmeter
from right import predict

run = segmeter.evaluate(
    predict, "drawn", out="runs/mine", limit=2, rounds=3, protocols="corrected", progress=False
)
print(run)
for session in run.sessions():
    print(session["scene"], session["target"], session["rounds_to_goal"])
"""


def _folder_with_mistakes(folder: Path) -> None:
    rng = np.random.default_rng(11)
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    yy, xx = np.mgrid[:96, :128]
    for k, name in enumerate("abcdefghxyz"):
        inside = (yy - 40 - k) ** 2 + (xx - 45 - 3 * k) ** 2 < (14 + 2 * k) ** 2
        pixels = np.where(inside[..., None], (200, 90, 60), (60, 120, 90 + 5 * k))
        pixels = np.clip(pixels + rng.normal(0, 6, pixels.shape), 0, 255).astype(np.uint8)
        if name == "x":
            pixels = np.asarray(Image.open(folder / "images" / "a.png"))
        if name == "y":
            inside = (yy == 5) & (xx < 6)
        if name == "z":
            inside = np.zeros_like(inside)
        Image.fromarray(pixels).save(folder / "images" / f"{name}.png")
        Image.fromarray(inside.astype(np.uint8) * 255).save(folder / "masks" / f"{name}.png")


def _log(path: Path) -> None:
    rng = np.random.default_rng(12)
    lines, at = ["annotator,image,object,event,time"], 0.0
    for person in ("ann", "bob", "cem", "dua"):
        for k in range(12):
            steps = [("start", 0.4), ("click", 2.9), ("click", 1.4), ("click", 1.4), ("done", 0.9)]
            steps = steps if k % 4 else [("start", 0.4), ("polygon", 46.0), ("done", 0.9)]
            for event, seconds in steps:
                at += seconds * float(rng.lognormal(0, 0.2)) + (900 if k == 7 else 0)
                lines.append(f"{person},p{k},thing,{event},{at:.2f}")
    path.write_text("\n".join(lines) + "\n")


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False  # its file would outlive the folder
    made: Any = InteractiveShell  # it has no types of its own
    return made(config=settings)


@contextlib.contextmanager
def somewhere() -> Iterator[None]:
    """A folder of its own, with nothing of this machine around it."""
    here, known = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(COLUMNS="80", XDG_CACHE_HOME=f"{folder}/cache", NO_COLOR="1")
        os.environ["IPYTHONDIR"] = f"{folder}/ipython"
        os.environ.pop("SEGMETER_WEIGHTS", None)
        os.environ.pop("SEGMETER_DATA", None)
        Path(folder, "work").mkdir()
        os.chdir(Path(folder, "work"))
        sys.path.insert(0, str(Path(folder, "work")))
        try:
            yield
        finally:
            sys.path.pop(0)
            sys.modules.pop("right", None)
            os.chdir(here)
            os.environ.clear()
            os.environ.update(known)


STORIES = {"researcher": researcher, "annotation-lead": lead, "model-author": author}


def told(name: str) -> str:
    """One story, run now."""
    with somewhere():
        return STORIES[name]()


def main() -> None:
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else TO
    to.mkdir(parents=True, exist_ok=True)
    for name in STORIES:
        (to / f"{name}.md").write_text(told(name))
        print(to / f"{name}.md")


if __name__ == "__main__":
    main()
