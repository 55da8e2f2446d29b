"""Parity: the same model is the same, another is not, and the page shows where."""

from __future__ import annotations

from pathlib import Path

import pytest

import segmeter
from segmeter.core.errors import BadInput
from segmeter.model_parity import first_clicks, parity


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
    run = segmeter.evaluate("oracle", "drawn", out=tmp_path / "run", limit=2, rounds=2)
    recorded = run.sql("select count(distinct (scene, target, round)) as n from rows "
                       "where prompt is not null").to_pylist()[0]["n"]  # fmt: skip
    found = parity("disc?radius=6", "disc?radius=7", run=tmp_path / "run", limit=2)
    assert len(found.rounds) == recorded
    assert found.noc_difference is None
    assert found.prompts_from.startswith("those recorded in")


def test_objects_of_your_own_are_compared(tmp_path: Path) -> None:
    def bright(image, clicks):  # type: ignore[no-untyped-def]
        return image[..., 0] > 128

    found = parity(bright, lambda image, clicks: image[..., 0] > 128, "drawn", limit=1, rounds=1)
    assert found.mean_iou == 1.0
    assert found.a == "bright"


def test_volumes_are_refused() -> None:
    with pytest.raises(BadInput, match="parity compares images"):
        parity("disc", "disc", "mini-volumes", limit=1)


def test_first_clicks_tell_a_model_that_sees_from_one_that_does_not() -> None:
    from segmeter.core import catalogue

    assert min(first_clicks(catalogue.models.make("oracle"), "drawn")) > 0.9
    assert max(first_clicks(catalogue.models.make("disc?radius=1"), "drawn", clicks=1)) < 0.5
