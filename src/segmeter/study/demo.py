"""The demonstration: whole studies on built-in images with simulated people."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from segmeter.core.errors import BadInput
from segmeter.study.people import fill_with_people
from segmeter.study.plan import read_plan
from segmeter.study.running import RunningStudy
from segmeter.study.server import default_url, open_study

__all__ = ["CLICKS", "INTERACT", "run_demo"]

_RULES = """\
[validity]  # simulated people do not wait for screens to pass
exclude = ["late", "left_page", "unseen", "wrong_device", "shown_again", "no_click"]
"""
CLICKS = f"""\
kind = "clicks"
title = "Where do you click? (simulated people)"
seed = 1
{_RULES}
[data]
dataset = "mini"
[design]
modes = ["Text_Description", "Object_CutOut"]
per_cell = {{per_cell}}
open_to_all = true
"""
INTERACT = f"""\
kind = "interact"
title = "Segmenting with a model (simulated people)"
seed = 1
{_RULES}
[data]
dataset = "mini"
[design]
models = ["{{model}}"]
devices = ["pc"]
people = "within"
per_cell = {{per_cell}}
batch = 6
rounds = 10
open_to_all = true
"""


def run_demo(
    folder: Path,
    name: str,
    text: str,
    say: Callable[[str], None],
    weights: Path | None = None,
) -> RunningStudy:
    """Begin a study in a folder and fill it with simulated people through a real server."""
    path = folder / f"{name}.toml"
    if path.exists():
        raise BadInput(f"'{path}' exists already; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    study = open_study(read_plan(path), default_url(path))
    start = time.perf_counter()
    people, answers = fill_with_people(study, weights=weights)
    seconds = time.perf_counter() - start
    say(f"{name}: {people} simulated people gave {answers} answers in {seconds:.0f} s")
    return study
