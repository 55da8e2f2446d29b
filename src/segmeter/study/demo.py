"""The demonstration: a whole study on built-in images, with simulated people."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.study import tables as t
from segmeter.study.people import crowd
from segmeter.study.plan import read_plan
from segmeter.study.running import RunningStudy
from segmeter.study.serving import Place, listening, open_study, study_app

__all__ = ["DEMO", "fill_with_people", "run_demo"]

_AT_ONCE = 4
_MOST_PEOPLE = 2000
DEMO = """\
kind = "clicks"
title = "Where do you click? (simulated people)"
seed = 1
[data]
dataset = "mini"
[design]
modes = ["Text_Description", "Object_CutOut"]
per_cell = {per_cell}
open_to_all = true
"""


def run_demo(folder: Path, per_cell: int, say: Callable[[str], None]) -> RunningStudy:
    """Begin a study in a folder and let simulated people fill it through a real server."""
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"'{folder}' is not empty; take another --out")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.toml"
    path.write_text(DEMO.format(per_cell=per_cell), encoding="utf-8")
    study = open_study(read_plan(path), Place.beside(path))
    start = time.perf_counter()
    people, answers = fill_with_people(study)
    seconds = time.perf_counter() - start
    say(f"{people} simulated people gave {answers} answers in {seconds:.0f} s")
    return study


def fill_with_people(study: RunningStudy, seed: int = 0, batches: int = 3) -> tuple[int, int]:
    """Send people until every cell is full; returns people and answers."""
    people = answers = 0
    with listening(study_app(study, limited=False)) as address:
        coming = crowd(address, study, seed)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while not _full(study):
                if people >= _MOST_PEOPLE:
                    raise BadInput("2000 people did not fill the study; its rules drop too much")
                some = list(islice(coming, 2 * _AT_ONCE))
                answers += sum(pool.map(lambda person: person.work(batches), some))
                people += len(some)
    return people, answers


def _full(study: RunningStudy) -> bool:
    lacking = sa.select(sa.func.count()).where(
        t.cells.c.valid < t.cells.c.wanted, t.cells.c.device != "tester"
    )
    with study.ledger.protocol() as connection:
        return not connection.execute(lacking).scalar_one()
