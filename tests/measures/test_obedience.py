"""Obedience of models: golden sessions, RICE's edge cases, and models with known behaviour."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, Scribble
from segmeter.measures.obedience import observe, responses, rice, setbacks

COUNTS = {
    "obeyed": "obeyed",
    "clicked_pixel_right": "right",
    "earlier_clicks": "earlier",
    "earlier_kept": "kept",
    "undone": "undone",
    "hurt": "hurt",
    "became_right": "became_right",
    "became_wrong": "became_wrong",
    "remote_change": "remote",
    "repeated_click": "repeated",
}


def decoded(counts: str | None, shape: list[int]) -> Mask | None:
    return None if counts is None else Mask.from_coco({"size": shape, "counts": counts})


def test_golden_sessions_agree_round_by_round(golden: Path) -> None:
    sessions = json.loads((golden / "interaction" / "sessions.json").read_text())
    assert len(sessions) >= 20
    for session in sessions:
        shape = session["shape"]
        rounds = [
            ([Click(tuple(r["click"]), r["positive"])], decoded(r["mask"], shape))
            for r in session["rounds"]
        ]
        ground_truth = decoded(session["ground_truth"], shape)
        found = observe(ground_truth, rounds, decoded(session["ignore"], shape))  # type: ignore[arg-type]
        for number, (one, wanted) in enumerate(zip(found, session["expected"], strict=True), 1):
            where = f"{session['name']}, round {number}"
            assert one.iou == pytest.approx(wanted["iou"], abs=1e-12), where
            # The published function works in single precision.
            assert one.rice == pytest.approx(wanted["rice"], abs=2e-6), where
            for name, ours in COUNTS.items():
                value = wanted[name]
                if value is not None:
                    assert getattr(one, ours) == value, f"{where}: {name}"
            assert one.became_right + one.became_wrong == wanted["changed"], where
        drops = [(s.round, s.drop, s.rounds_to_recover) for s in setbacks([o.iou for o in found])]
        listed = [(s["round"], s["drop"], s["rounds_to_recover"]) for s in session["setbacks"]]
        assert [d[::2] for d in drops] == [d[::2] for d in listed], session["name"]
        assert [d[1] for d in drops] == pytest.approx([d[1] for d in listed], abs=1e-12)


def test_golden_steps_of_rice_agree_and_its_mistakes_are_fixed(golden: Path) -> None:
    for case in json.loads((golden / "interaction" / "rice.json").read_text()):
        names = ("ground_truth", "initial", "prediction", "ignore")
        masks = [decoded(case[k], [8, 8]) for k in names]
        wanted = float("nan") if case["rice"] is None else case["rice"]
        mended = {"perfect_stays": 0.0, "truth_empty_false_positive": -1.0}.get(case["name"])
        ground_truth, before, after, ignore = masks
        _, found = observe(ground_truth, [([], before), ([], after)], ignore)  # type: ignore[arg-type,list-item]
        assert found.rice == pytest.approx(wanted if mended is None else mended, abs=1e-6)


def test_an_oracle_obeys_every_click_and_hurts_never() -> None:
    target = Mask.box((20, 20), (5, 5), (15, 15))
    clicks = [Click((9, 9)), Click((1, 1), False), Click((14, 14))]
    found = observe(target, [([click], target) for click in clicks])
    assert [one.obeyed for one in found] == [one.given for one in found] == [1, 1, 1]
    assert not any(one.hurt or one.undone for one in found)
    assert [one.kept for one in found] == [0, 1, 2]


def test_a_model_that_never_changes_is_stuck_and_undoes_nothing() -> None:
    target, shown = Mask.box((20, 20), (5, 5), (15, 15)), Mask.box((20, 20), (0, 0), (3, 3))
    found = observe(target, [([Click((9, 9))], shown), ([Click((10, 10))], shown)])
    assert [one.stuck for one in found] == [False, True]
    assert [one.obeyed for one in found] == [0, 0]
    assert sum(one.undone for one in found) == 0


def test_ignored_pixels_count_nowhere() -> None:
    shape, ignore = (8, 8), Mask.box((8, 8), (0, 4), (8, 8))
    stroke = Scribble(((1, 1), (1, 2), (1, 5), (1, 6)))
    half = Mask.box(shape, (0, 0), (3, 4))
    first, second = responses(
        [([stroke], half), ([Click((1, 5))], Mask.box(shape, (0, 0), (3, 8)))], ignore
    )
    assert (first.given, first.obeyed) == (1, 1.0)  # pixels beyond column 4 are not judged
    assert (second.given, second.changed) == (0, False)


def test_progress_and_setbacks_add_up_to_the_final_iou() -> None:
    draws = np.random.default_rng(3)
    target = Mask.of(draws.random((30, 30)) < 0.3)
    masks = [Mask.of(draws.random((30, 30)) < p) for p in (0.1, 0.4, 0.2)]
    found = observe(target, [([], mask) for mask in masks])
    for one, last in zip(found, [None, *found], strict=False):
        assert one.remote <= one.became_right + one.became_wrong
        assert -1 <= rice(last.iou if last else 0.0, one.iou) <= 1
