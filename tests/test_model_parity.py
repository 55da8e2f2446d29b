"""Parity: the same model is the same, another is not, and the page shows where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import segmeter
from segmeter.core.errors import BadInput
from segmeter.core.prompts import round_from_json
from segmeter.model_parity import _recorded, first_clicks, parity


def test_a_model_agrees_with_itself() -> None:
    found = parity("disc?radius=6", "disc?radius=6", "drawn", limit=2, rounds=3)
    assert found.mean_iou == 1.0
    assert found.first_difference == {}
    facts = found.facts()
    assert facts["identical_masks"] == 1.0
    assert facts["noc90_difference"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert facts["largest_score_difference"] == 0.0


def test_another_model_differs_from_the_first_round_on(tmp_path: Path) -> None:
    found = parity("disc?radius=6", "disc?radius=12", "drawn", limit=2, rounds=3)
    assert 0 < found.mean_iou < 0.5
    assert set(found.first_difference.values()) == {1}
    assert found.lowest[0].iou == min(r.iou for r in found.rounds)
    page = found.report(tmp_path / "pages" / "parity.html").read_text()
    assert "Parity of disc?radius=6 and disc?radius=12" in page
    assert "round 1: IoU" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_prompts_of_a_run_are_given_to_both(tmp_path: Path) -> None:
    run = segmeter.evaluate("synthetic-oracle", "drawn", out=tmp_path / "run", limit=2, rounds=2)
    recorded = run.sql("select count(*) as n from rows where prompt is not null "
                       "and protocol = 'corrected'").to_pylist()[0]["n"]  # fmt: skip
    found = parity("disc?radius=6", "disc?radius=7", run=tmp_path / "run", limit=2)
    assert len(found.rounds) == recorded
    assert found.noc_difference is None
    assert found.prompts_from.startswith("those recorded in")


def test_prompts_of_a_run_come_from_one_session_per_object(tmp_path: Path) -> None:
    """Sessions of other users or protocols end in other rounds; theirs are not appended."""
    users = ["centre-click", "clicking-group?group=3"]
    run = segmeter.evaluate(
        ["synthetic-oracle", "disc?radius=4"],
        "drawn",
        out=tmp_path / "run",
        limit=1,
        rounds=3,
        users=users,
    )
    sessions: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for row in run.sql("select * from rows where prompt is not null order by round").to_pylist():
        session = sessions.setdefault((row["model"], row["user"], row["protocol"]), {})
        session.setdefault(row["target"], []).append(round_from_json(row["prompt"]))
    assert len({len(held) for session in sessions.values() for held in session.values()}) > 1
    for (_, _, target), prompts in _recorded(run).items():
        assert prompts in [session.get(target) for session in sessions.values()]


def test_runs_on_folders_are_compared(tmp_path: Path) -> None:
    mask = np.zeros((24, 32), np.uint8)
    mask[6:18, 8:24] = 255
    for part in ("images", "masks"):
        (tmp_path / "data" / part).mkdir(parents=True)
        Image.fromarray(mask).save(tmp_path / "data" / part / "one.png")
    segmeter.evaluate("synthetic-oracle", tmp_path / "data", out=tmp_path / "run", rounds=1)
    assert parity("disc", "disc", run=tmp_path / "run").mean_iou == 1


def test_a_run_without_prompts_is_refused(tmp_path: Path) -> None:
    segmeter.evaluate("disc", "drawn", out=tmp_path / "run", limit=1, rounds=1)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    (tmp_path / "run" / "plan.json").write_text(json.dumps(plan | {"benchmark": "seism"}))
    with pytest.raises(BadInput, match="records no prompts by round"):
        parity("disc", "disc", run=tmp_path / "run")


def test_objects_of_your_own_are_compared(tmp_path: Path) -> None:
    def bright(image, clicks):  # type: ignore[no-untyped-def]
        return image[..., 0] > 128

    found = parity(bright, lambda image, clicks: image[..., 0] > 128, "drawn", limit=1, rounds=1)
    assert found.mean_iou == 1.0
    assert found.a == "bright"


def test_volumes_are_refused() -> None:
    with pytest.raises(BadInput, match="parity compares images"):
        parity("disc", "disc", "mini-volumes", limit=1)


def test_first_clicks_separate_a_model_that_uses_the_image_from_one_that_does_not() -> None:
    from segmeter.core import catalogue

    good = list(first_clicks(catalogue.models.make("synthetic-oracle"), "drawn"))
    assert min(tried.iou for tried in good) > 0.9
    assert all(tried.followed for tried in good)
    small = first_clicks(catalogue.models.make("disc?radius=1"), "drawn", clicks=1)
    assert max(tried.iou for tried in small) < 0.5


def test_one_image_has_differences_without_limits() -> None:
    found = parity("disc?radius=6", "disc?radius=12", "drawn", limit=1, rounds=2)
    assert not [line for line in found.lines() if "nan" in line]
    two = parity("disc?radius=6", "disc?radius=12", "drawn", limit=2, rounds=2)
    assert any(line.startswith("seconds per click, B minus A: ") for line in two.lines())
