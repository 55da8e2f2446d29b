"""cgF1 against SAM 3's public evaluator, and the corrected protocol where it differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.measures.concepts import Truths, best_annotator, evaluate_coco, score_pair


@pytest.fixture(scope="module")
def cases(golden: Path) -> dict[str, Any]:
    listed = json.loads((golden / "words" / "cgf1_cases.json").read_text())
    return {case["name"]: case for case in listed}


def test_all_cases_give_the_numbers_of_the_public_evaluator(cases: dict[str, Any]) -> None:
    checked = 0
    for case in cases.values():
        for kind, expected in case["expected"].items():
            numbers, pairs = evaluate_coco(case["ground_truths"], case["predictions"], kind)
            for name, value in expected["metrics"].items():
                own = numbers[name.replace("_", "-").lower()]
                assert np.nan_to_num(own, nan=-1.0) == pytest.approx(value, abs=1e-12), case["name"]
                checked += 1
            for pair in expected["pairs"]:
                made = pairs[pair["image_id"]]
                assert (made.outcome, made.annotator) == (pair["outcome"], pair["annotator"])
            for name, own in (("tp", "tp"), ("fp", "fp"), ("fn", "fn")):
                total = sum(getattr(p, own) for p in pairs.values() if p.outcome != "TN")
                assert np.broadcast_to(total, 10).tolist() == expected["totals"][name]
            assert len(pairs) == len(expected["pairs"])
    assert checked > 1000


def corrected(case: Any) -> dict[str, float]:
    return evaluate_coco(case["ground_truths"], case["predictions"], protocol="corrected")[0]


def test_without_negatives_cgf1_is_undefined_and_not_zero(cases: dict[str, Any]) -> None:
    case = cases["only_positives_perfect"]
    assert evaluate_coco(case["ground_truths"], case["predictions"])[0]["cgf1"] == 0
    numbers = corrected(case)
    assert np.isnan(numbers["cgf1"])
    assert numbers["positive-micro-f1"] == 1
    assert corrected(cases["perfect_with_negatives"])["cgf1"] == 1


def test_matching_per_threshold_never_finds_fewer(cases: dict[str, Any]) -> None:
    for case in cases.values():
        arguments = case["ground_truths"][:1], case["predictions"]
        published, own = (
            evaluate_coco(*arguments, protocol=p)[1] for p in ("published", "corrected")
        )
        for pair in published.keys() & own.keys():
            if published[pair].outcome == own[pair].outcome == "TP":
                assert (own[pair].tp >= published[pair].tp).all()
    case = cases["largest_sum_not_most_matches"]
    assert (
        corrected(case)["recall@0.75"]
        > evaluate_coco(case["ground_truths"], case["predictions"])[0]["recall@0.75"]
    )


def test_masks_on_crowd_regions_count_neither_way() -> None:
    crowd, thing = Mask.box((9, 9), (0, 0), (4, 9)), Mask.box((9, 9), (6, 6), (9, 9))
    on_crowd = Mask.box((9, 9), (1, 1), (3, 3))
    truths = Truths([thing], [crowd])
    assert score_pair([on_crowd, thing], truths, "corrected").fp.tolist() == [0] * 10
    assert score_pair([on_crowd, thing], truths, "published").fp.tolist() == [1] * 10


def test_a_tie_goes_to_the_annotator_for_whom_the_answer_was_right() -> None:
    far = Mask.box((9, 9), (0, 0), (1, 1)), Mask.box((9, 9), (8, 8), (9, 9))
    nothing = score_pair([far[0]], Truths([]), "corrected", 0)
    something = score_pair([far[0]], Truths([far[1]]), "corrected", 1)
    assert best_annotator([nothing, something], "corrected").annotator == 1
    assert best_annotator([nothing, something], "published").annotator == 0
