"""Ratings of masks: the published statistics to the digit, and what is sounder."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.stats.agreement import krippendorff_alpha, pilot_sd
from segmeter.stats.ratings import (
    clustered_difference,
    rater_adjusted,
    rating_difference,
    rating_summary,
)

scores = st.lists(st.integers(1, 10), min_size=2, max_size=30)


@pytest.fixture(scope="module")
def ratings(golden: Path) -> list[dict[str, str]]:
    with (golden / "zeroshot" / "stats" / "ratings.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, dict[str, object]]:
    text = (golden / "zeroshot" / "stats" / "expected.json").read_text()
    return dict(json.loads(text))


def column(rows: list[dict[str, str]], dataset: str, model: str) -> list[int]:
    return [int(row[model]) for row in rows if dataset in ("all", row["dataset"])]


def test_differences_are_those_of_the_reference_to_1e_9(
    ratings: list[dict[str, str]], expected: dict[str, dict[str, object]]
) -> None:
    """1e-9 as its README asks; the bootstrap with the same generator is the same numbers."""
    compared = 0
    for key, want in expected.items():
        dataset, _, what = key.partition(":")
        one, _, other = what.partition("-")
        if not other:
            continue
        got = rating_difference(column(ratings, dataset, one), column(ratings, dataset, other))
        have = {
            "n": got.count,
            "mean_diff": got.mean,
            "sd_diff": got.sd,
            "t": got.t,
            "p_two_sided": got.p,
            "p_greater": got.p_greater,
            "bootstrap_percentile_99_seed12345": got.interval,
            "bootstrap_se": got.bootstrap_se,
            "t_interval_99": got.t_interval,
            "wilcoxon_p": got.wilcoxon_p,
            "cohen_dz": got.effect,
        }
        assert have.keys() == want.keys()
        for name, value in want.items():
            assert have[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (key, name)
            compared += 1
    assert compared == 99


def test_summaries_are_those_of_the_reference(
    ratings: list[dict[str, str]], expected: dict[str, dict[str, object]]
) -> None:
    singles = [key for key in expected if "-" not in key]
    assert len(singles) == 12
    for key in singles:
        dataset, _, model = key.partition(":")
        got, want = rating_summary(column(ratings, dataset, model)), expected[key]
        assert list(got.histogram) == want["hist_1..10"]
        halves = (got.mean, got.sd, got.t_half, got.z_half)
        assert halves == pytest.approx(
            [want[name] for name in ("mean", "sd", "ci95_half", "z95_half")], rel=1e-9
        )


@given(scores)
def test_a_model_is_not_above_itself(given_scores: list[int]) -> None:
    found = rating_difference(given_scores, given_scores)
    assert (found.p, found.wilcoxon_p, found.above, found.mean) == (1.0, 1.0, 0.5, 0.0)


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 10)), min_size=3, max_size=30))
def test_exchanging_the_models_turns_the_sign(pairs: list[tuple[int, int]]) -> None:
    one, other = zip(*pairs, strict=True)
    there, back = rating_difference(one, other), rating_difference(other, one)
    assert there.mean == pytest.approx(-back.mean)
    assert there.p == pytest.approx(back.p)
    assert there.above == pytest.approx(1 - back.above)
    low, high = there.interval
    assert low <= there.mean + 1e-9
    assert there.mean <= high + 1e-9


def test_ratings_off_the_scale_are_refused() -> None:
    for wrong in ([0, 5], [5, 11], [2.5, 3], []):
        with pytest.raises(BadInput):
            rating_summary(wrong)
    with pytest.raises(BadInput, match="paired"):
        rating_difference([1, 2, 3], [1, 2])


def test_drawing_images_anew_widens_the_interval_when_they_differ() -> None:
    rng = np.random.default_rng(3)
    images = np.repeat(np.arange(12), 10)
    gaps = rng.normal(size=12)[images] * 2
    raters = [(int(a), int(b)) for a, b in rng.integers(0, 40, (120, 2))]
    clustered = clustered_difference(gaps, images.tolist(), raters)
    alone = clustered_difference(gaps, list(range(120)), raters)
    assert clustered.value == alone.value == pytest.approx(gaps.mean())
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)


def test_a_lenient_rater_who_saw_one_model_more_often_is_allowed_for() -> None:
    rng = np.random.default_rng(0)
    lenient = {0: 2.0, 1: 0.0, 2: -2.0}
    pairs = [(0 if rng.random() < 0.7 else 2, int(rng.integers(3))) for _ in range(400)]
    gaps = [0.5 + lenient[a] - lenient[b] + rng.normal(0, 0.5) for a, b in pairs]
    assert abs(np.mean(gaps) - 0.5) > 0.4
    assert rater_adjusted(gaps, pairs) == pytest.approx(0.5, abs=0.1)


def test_alpha_is_that_of_krippendorffs_own_example() -> None:
    """Krippendorff 2011, 'Computing Krippendorff's alpha-reliability', data of section C."""
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = {
        k: [int(v) for v in unit if v is not None] for k, unit in enumerate(zip(*rows, strict=True))
    }
    assert krippendorff_alpha(units, "paper_interactions") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(units, "interval") == pytest.approx(0.849, abs=5e-4)


def test_alpha_of_ratings_by_chance_is_about_zero() -> None:
    drawn = np.random.default_rng(1).integers(1, 11, (3000, 2)).tolist()
    assert abs(krippendorff_alpha(dict(enumerate(drawn)))) < 0.05


def test_agreement_needs_things_rated_twice() -> None:
    for rule in (krippendorff_alpha, pilot_sd):
        with pytest.raises(BadInput, match="twice"):
            rule({"a": [3], "b": [4]})
