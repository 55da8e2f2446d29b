"""`--json` of every command that has it is what the public API returns for the same request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from PIL import Image

import segmeter
from segmeter.api import click_files, click_fitting, suites
from segmeter.api.fairness import place_shares
from segmeter.cli.app import commands

from .conftest import Typed

MEASURED = {"seconds", "bytes"}  # differ from call to call


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, masks, a log, clicks and tables for all commands to read."""
    folder = tmp_path_factory.mktemp("json")
    models = ["synthetic-oracle", "disc?radius=30"]
    segmeter.evaluate(models, "mini", out=folder / "run", rounds=2, limit=2, protocols="corrected")
    for shard in ("1/2", "2/2"):
        out = folder / "shards" / shard[0]
        segmeter.evaluate("disc", "mini", out=out, rounds=1, limit=2, shard=shard)
    for name in ("found", "truth"):
        (folder / name).mkdir()
        Image.fromarray(np.eye(16, dtype=np.uint8)).save(folder / name / "mask.png")
    Image.fromarray(np.full((40, 50, 3), 90, np.uint8)).save(folder / "photo.png")
    log = [("start", 0), ("click", 2.5), ("click", 4.0), ("done", 5.0)]
    lines = [f"{who},i,o,{event},{time}" for who in "abc" for event, time in log]
    (folder / "log.csv").write_text("annotator,image,object,event,time\n" + "\n".join(lines))
    segmeter.make_click_file(["mini"], folder / "clicks.csv", people=8, first_only=True, limit=2)
    names = segmeter.load_dataset("mini").names
    places = [f"{name},{'Chad' if k % 2 else 'Peru'}" for k, name in enumerate(names)]
    (folder / "where.csv").write_text("image,country\n" + "\n".join(places))
    (folder / "table.csv").write_text("country,group\nChad,Africa\nPeru,America\n")
    return folder


def rows(run: Any) -> dict[str, Any]:
    return {"rows": [asdict(row) for row in run.summary()]}


def checked(found: Any) -> dict[str, Any]:
    return {"model": found.name, "faults": found.faults, "about": found.about}


def exported(found: Any) -> dict[str, Any]:
    return {"masks": [{"file": m.path, "scene": m.scene, "target": m.target, "image": m.image,
                       "voxels": m.voxels} for m in found]}  # fmt: skip


def compared(run: segmeter.Run) -> dict[str, Any]:
    return {"rows": [asdict(d) | {"significant": d.significant} for d in run.compare()]}


def run_again(here: Path) -> tuple[list[object], Any]:
    """A finished run: the same command resumes it and has nothing to do."""
    words = ["run", "noc", "-m", "synthetic-oracle", "-m", "disc?radius=30", "-d", "mini",
             "--rounds", 2, "--limit", 2, "--protocol", "corrected"]  # fmt: skip
    return [*words, "-o", here / "run"], rows(segmeter.open_run(here / "run"))


def zero_shot(here: Path) -> tuple[list[object], Any]:
    made = suites.zero_shot(["disc"], here / "suite", limit=1, workers=0)
    words = ["run", "zero-shot", "-m", "disc", "-o", here / "suite", "--limit", 1, "--workers", 0]
    return words, {name: rows(run) for name, run in made.items()}


def merged(here: Path) -> tuple[list[object], Any]:
    parts = [here / "shards" / "1", here / "shards" / "2"]
    done = segmeter.merge(here / "one", parts)
    facts = {name: getattr(done, name) for name in ("jobs", "taken", "twice", "left_out")}
    return ["merge", here / "two", *parts], facts


def scored(here: Path) -> tuple[list[object], Any]:
    run = segmeter.score([here / "found"], here / "truth", out=here / "scored")
    words = ["score", here / "found", here / "truth", "-o", here / "scored"]
    return words, {"run": run.address, "report": run.report(), **rows(run)}


def weights() -> Any:
    from segmeter.api.fetching import weight_sources

    sources = weight_sources()
    found = segmeter.list_weights()
    return [{"name": n, "here": found[n], "sources": list(sources[n].values())} for n in found]


Case = Callable[[Path], tuple[list[object], Any]]
CASES: dict[str, Case] = {
    "check": lambda here: (["check", "disc"], checked(segmeter.check("disc"))),
    "clicks compare": lambda here: (
        ["clicks", "compare", "--clicks", here / "clicks.csv", "-d", "mini", "--compare", "halves"],
        [{"protocol": protocol, **asdict(row)} for protocol, row in
         click_files.compare_clicks(here / "clicks.csv", ["mini"], "halves")],
    ),
    "clicks costs": lambda here: (
        ["clicks", "costs", here / "log.csv", "-o", here / "costs.toml"],
        click_fitting.cost_facts(
            click_fitting.fit_costs(here / "log.csv", here / "costs.toml", print)),
    ),
    "clicks response": lambda here: (
        ["clicks", "response", "-m", "disc", "-d", "mini", "--stride", 64, "--no-boundary",
         "-o", here / "map"],
        segmeter.click_response_map("disc", "mini", here / "map", stride=64, boundary=False),
    ),
    "compare": lambda here: (["compare", here / "run"], compared(segmeter.open_run(here / "run"))),
    "doctor": lambda here: (["doctor"], segmeter.doctor()),
    "export": lambda here: (
        ["export", here / "run", "-o", here / "masks"],
        exported(segmeter.open_run(here / "run").export(here / "masks")),
    ),
    "fairness places": lambda here: (
        ["fairness", "places", "-d", "mini", "--countries", here / "where.csv",
         "--country-groups", here / "table.csv"],
        place_shares("mini", here / "where.csv", here / "table.csv", None),
    ),
    "fetch": lambda here: (["fetch", "--list"], weights()),
    "list": lambda here: (["list", "measures", "iou"], segmeter.describe("measures", "iou")),
    "measures compute": lambda here: (
        ["measures", "compute", "--as", "object", here / "found/mask.png", here / "truth/mask.png"],
        segmeter.measure_files(here / "found/mask.png", [here / "truth/mask.png"],
                               "object").facts(),
    ),
    "merge": merged,
    "models masks": lambda here: (
        ["models", "masks", here / "photo.png", "-m", "disc", "--points", 2, "-o", here / "all"],
        segmeter.auto_masks([here / "photo.png"], "disc", here / "all", points=2),
    ),
    "models parity": lambda here: (
        ["models", "parity", "disc", "disc?radius=9", "--limit", 1, "--rounds", 1],
        segmeter.parity("disc", "disc?radius=9", limit=1, rounds=1).facts(),
    ),
    "report": lambda here: (["report", here / "run"], rows(segmeter.open_run(here / "run"))),
    "run noc": run_again,
    "run zero-shot": zero_shot,
    "runs": lambda here: (
        ["runs", here / "shards"], {"runs": list(segmeter.list_runs(here / "shards"))}
    ),
    "score": scored,
}  # fmt: skip
# `measures meta` needs a dataset that people cut into regions: test_measures.py compares it.
ELSEWHERE = {"measures meta"}


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in command.commands.items():
        full = f"{path} {name}".strip()
        yield from leaves(inner, full) if hasattr(inner, "commands") else [(full, inner)]


def test_every_command_with_json_is_compared() -> None:
    found = dict(leaves(typer.main.get_command(commands())))
    having = {name for name, c in found.items() if any("--json" in p.opts for p in c.params)}
    benchmarks = {f"run {name}" for name in segmeter.list_benchmarks()} - {"run noc"}
    assert having - benchmarks == set(CASES) | ELSEWHERE


@pytest.mark.parametrize("command", CASES)
def test_json_is_what_the_api_returns(
    command: str, here: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "ZERO_SHOT", {"points": ("mini",)})
    words, returned = CASES[command](here)
    code, out, err = typed(*words, "--json")
    assert code == 0, err
    assert without(json.loads(out)) == without(plain(returned))


def plain(value: Any) -> Any:
    """A value as JSON holds it; null for what is not a number."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


def without(value: Any) -> Any:
    """The same facts without what is measured by each call."""
    if isinstance(value, dict):
        return {k: without(v) for k, v in value.items() if not MEASURED & set(k.split("_"))}
    return [without(one) for one in value] if isinstance(value, list) else value
