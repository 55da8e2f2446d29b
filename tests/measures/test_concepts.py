"""cgF1 against SAM 3's public evaluator, and the corrected protocol where it differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.measures.concepts import (
    LEAST_SCORE,
    PairScore,
    Truths,
    best_annotator,
    concept_scores,
    score_pair,
    sums_of,
)


def evaluate_coco(
    ground_truths: Sequence[Mapping[str, Any]],
    predictions: Sequence[Mapping[str, Any]],
    kind: str = "segm",
    protocol: ProtocolName = "published",
) -> tuple[dict[str, float], dict[Any, PairScore]]:
    """Score COCO dictionaries, one per annotator; the numbers, and each pair's score by its id.

    Pairs count that every annotator annotated exhaustively. Predictions of other pairs, below a
    score of 0.5 or of unknown categories are ignored.
    """
    first, *others = ground_truths
    unsure = {i["id"] for g in others for i in g["images"] if not i["is_instance_exhaustive"]}
    pairs = [i["id"] for i in first["images"] if i["is_instance_exhaustive"]]
    found: dict[Any, PairScore] = {}
    for pair in (p for p in pairs if p not in unsure):
        own = [p for p in predictions if p["image_id"] == pair and p["score"] >= LEAST_SCORE]
        scores = []
        for annotator, ground_truth in enumerate(ground_truths):
            things = [a for a in ground_truth["annotations"] if a["image_id"] == pair]
            there, answered = (shapes(x, ground_truth, kind) for x in (things, own))
            crowds = shapes(things, ground_truth, kind, crowd=True)
            if protocol == "corrected" and crowds and not there:
                continue  # only crowd regions: nothing to score
            scores.append(score_pair(answered, Truths(there, crowds), protocol, annotator))
        if scores:
            found[pair] = best_annotator(scores, protocol)
    total = sums_of(list(found.values())).sum(axis=0)
    return {k: float(v) for k, v in concept_scores(total, protocol).items()}, found


def shapes(
    entries: Sequence[Mapping[str, Any]],
    ground_truth: Mapping[str, Any],
    kind: str,
    crowd: bool = False,
) -> list[Any]:
    """Masks or boxes of the known categories, by category and then in file order."""
    known = {c["id"] for c in ground_truth["categories"]}
    chosen = [
        e for e in entries if e["category_id"] in known and bool(e.get("iscrowd", 0)) == crowd
    ]
    chosen.sort(key=lambda entry: entry["category_id"])
    if kind == "bbox":
        return [tuple(entry["bbox"]) for entry in chosen]
    return [Mask.from_coco(entry["segmentation"]) for entry in chosen]


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


def test_a_tie_prefers_the_annotator_for_whom_the_answer_is_right() -> None:
    far = Mask.box((9, 9), (0, 0), (1, 1)), Mask.box((9, 9), (8, 8), (9, 9))
    nothing = score_pair([far[0]], Truths([]), "corrected", 0)
    something = score_pair([far[0]], Truths([far[1]]), "corrected", 1)
    assert best_annotator([nothing, something], "corrected").annotator == 1
    assert best_annotator([nothing, something], "published").annotator == 0


def test_no_prediction_for_a_positive_pair_has_an_f1_of_zero() -> None:
    mask = Mask.box((9, 9), (0, 0), (4, 4))
    pairs = [
        score_pair([], Truths([mask]), "corrected"),
        score_pair([mask], Truths([]), "corrected"),
    ]
    found = concept_scores(sums_of(pairs).sum(axis=0), "corrected")
    assert [float(found[name]) for name in ("positive-micro-f1", "il-f1", "cgf1")] == [0, 0, 0]
