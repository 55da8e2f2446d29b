"""Runs that lack scenes say so first, wherever their numbers are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import segmeter
from segmeter.core.scenes import Scene
from segmeter.models.synthetic import Oracle

Typed = Callable[..., tuple[int, str, str]]
MISSING = "Unfinished: stops has no result for 2 of 4 scenes of drawn: 002, 003 (not run yet; the"


class Stops(Oracle):
    """An oracle whose run is interrupted at the third scene."""

    card = replace(Oracle.card, name="stops")

    def encode(self, scene: Scene) -> Any:
        if scene.id == "002":
            raise KeyboardInterrupt
        return super().encode(scene)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model has four scenes, the other two."""
    out = tmp_path_factory.mktemp("half") / "run"
    how: Any = {"out": out, "rounds": 4, "limit": 4, "protocols": "corrected"}
    segmeter.evaluate("synthetic-noisy", "drawn", **how)
    with pytest.raises(KeyboardInterrupt):
        segmeter.evaluate(Stops(), "drawn", add=True, **how)
    return out


def flat(text: str) -> str:
    return " ".join(text.split())


def test_every_command_names_the_missing_scenes_first(
    half: Path, typed: Typed, tmp_path: Path
) -> None:
    for words in (
        ("report", half, "--out", tmp_path / "page.html"),
        ("report", half, "--objects", 100, "--sheet", "--out", tmp_path / "sheet.html"),
        ("compare", half),
        ("leaderboard", half, "--out", tmp_path / "board.html"),
    ):
        code, out, err = typed(*words)
        assert code == 0, err
        assert flat(out).startswith(MISSING), words
    for page in ("page.html", "sheet.html", "board.html"):
        assert MISSING in flat((tmp_path / page).read_text())
    code, out, _ = typed("table", half, "--format", "markdown")
    assert MISSING in flat(out)
    assert json.loads(typed("compare", half, "--json")[1])["unfinished"]
    assert json.loads(typed("report", half, "--json")[1])["unfinished"]


def test_answer_and_costs_are_of_the_objects_that_all_models_have(half: Path) -> None:
    run = segmeter.open_run(half)
    mine = {(r["scene"], r["target"]) for r in run.rows() if r["model"] == "stops"}
    common = run.only([("drawn", *key) for key in mine])
    wanted = {r.model: r.value for r in common.summary() if r.statistic == "seconds-to-90"}
    costs = {row["way"]: row for row in run.cost(3600)}
    for model, seconds in wanted.items():
        assert costs[model]["hours"]["value"] == pytest.approx(seconds)
    whole = {r.model: r.value for r in run.summary() if r.statistic == "seconds-to-90"}
    assert whole["synthetic-noisy"] != pytest.approx(wanted["synthetic-noisy"])
    assert f"{len(mine)} measured in 2 images" in next(iter(costs.values()))["table"]
    page = run.report(half.parent / "page.html").read_text()
    assert f"costs use the {len(mine)} that all have" in flat(page)


def test_a_model_without_results_is_not_called_the_only_model(
    half: Path, typed: Typed, tmp_path: Path
) -> None:
    """It said: the run has only one model ('a', 'b')."""
    plan = json.loads((half / "plan.json").read_text())
    alone = tmp_path / "alone"
    segmeter.evaluate("synthetic-noisy", "drawn", out=alone, rounds=4, limit=4,
                      protocols="corrected")  # fmt: skip
    (alone / "plan.json").write_text(json.dumps(plan))
    code, _, err = typed("compare", alone)
    assert code == 2
    assert "only 'synthetic-noisy' has results" in err
    assert "stops has no result for 4 of 4 scenes of drawn" in flat(err)


def test_a_complete_run_has_no_such_sentence(typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "run"
    segmeter.evaluate(["disc", "synthetic-oracle"], "drawn", out=out, rounds=1, limit=2)
    assert segmeter.open_run(out).unfinished() == []
    assert "nfinished" not in typed("compare", out)[1]


def test_shards_that_are_complete_together_lack_nothing(tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        segmeter.evaluate("disc", "drawn", out=tmp_path / shard[0], rounds=1, limit=4, shard=shard)
    assert segmeter.open_run(tmp_path / "1").unfinished()
    assert segmeter.open_run([tmp_path / "1", tmp_path / "2"]).unfinished() == []


def test_score_names_what_lacks_a_prediction_once_for_all_folders(
    typed: Typed, tmp_path: Path
) -> None:
    """It named none, printed a Python warning, and with --json the exit code was 0."""
    for name, files in (("truth", "ab"), ("net", "a"), ("old", "a")):
        (tmp_path / name).mkdir()
        for file in files:
            cv2.imwrite(str(tmp_path / name / f"{file}.png"), np.eye(9, dtype=np.uint8))
    words = [*(tmp_path / name for name in ("net", "old", "truth")), "--out", tmp_path / "run"]
    code, out, err = typed("score", *words)
    lacking = "Unfinished: net and old have no result for 1 of 2 scenes of truth: b (failed;"
    assert (code, flat(out).startswith(lacking)) == (1, True), out
    assert "Warning" not in err
    code, out, _ = typed("score", *words, "--json")
    (sentence,) = json.loads(out)["unfinished"]
    assert (code, sentence.startswith(lacking)) == (1, True)
