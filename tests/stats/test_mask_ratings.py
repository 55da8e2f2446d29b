"""Ratings of masks: the published statistics to the digit, and the mixed-effects model."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.stats.agreement import alpha_interval, intraclass, krippendorff_alpha, pilot_sd
from segmeter.stats.mask_ratings import (
    Ratings,
    fit_ratings,
    rating_difference,
    rating_summary,
    resampled_difference,
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


def study(
    seed: int,
    *,
    effect: float = 0.8,
    raters: int = 12,
    targets: int = 20,
    each: int = 4,
    rounded: bool = True,
) -> Ratings:
    """A simulated study of two models with raters and targets that differ."""
    rng = np.random.default_rng(seed)
    rater, target = rng.normal(0, 0.7, raters), rng.normal(0, 1.0, targets)
    mask, taste = rng.normal(0, 0.6, (targets, 2)), rng.normal(0, 0.3, (raters, 2))
    rows: list[tuple[str, str, str, float]] = []
    for t in range(targets):
        for m in range(2):
            for r in rng.choice(raters, each, replace=False).tolist():
                value = 6 + effect * m + rater[r] + target[t] + mask[t, m] + taste[r, m]
                value += rng.normal(0, 0.8)
                value = float(np.clip(np.rint(value), 1, 10)) if rounded else float(value)
                rows.append((f"m{m}", f"t{t}", f"r{r}", value))
    models, names, people, scores = (list(column) for column in zip(*rows, strict=True))
    return Ratings(models, names, names, people, scores)


def test_all_ratings_are_used() -> None:
    """Dropping all but the first rating of a mask, as was done before, changes the result."""
    every = study(3)
    first: dict[tuple[str, str], int] = {}
    for k, key in enumerate(zip(every.models, every.targets, strict=True)):
        first.setdefault(key, k)
    keep = sorted(first.values())
    columns = (every.models, every.targets, every.images, every.raters, every.scores)
    once = Ratings(*([column[k] for k in keep] for column in columns))  # type: ignore[arg-type]  # same types
    assert fit_ratings(every).contrast("m1", "m0").se < fit_ratings(once).contrast("m1", "m0").se
    assert resampled_difference(every, "m1", "m0", "images").value != pytest.approx(
        resampled_difference(once, "m1", "m0", "images").value, abs=0.01
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_mixed_effects_model_is_that_of_statsmodels(seed: int) -> None:
    """Estimates, standard errors, variances and deviance; REML with four crossed factors."""
    pd, smf = pytest.importorskip("pandas"), pytest.importorskip("statsmodels.formula.api")
    given = study(seed)
    got = fit_ratings(given)
    frame = pd.DataFrame(
        {"y": given.scores, "m": given.models, "t": given.targets, "r": given.raters, "g": 1}
    )
    frame["tm"], frame["rm"] = frame.t + frame.m, frame.r + frame.m
    parts = {name: f"0 + C({name})" for name in ("tm", "rm", "t", "r")}
    model = smf.mixedlm("y ~ 0 + m", frame, groups="g", re_formula="0", vc_formula=parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = model.fit(reml=True, method=["powell", "lbfgs"])
    assert got.fitted.deviance <= -2 * want.llf + 1e-4
    assert got.fitted.deviance == pytest.approx(-2 * want.llf, abs=0.02)
    assert got.fitted.coefficients == pytest.approx(want.fe_params.to_numpy(), abs=5e-3)
    assert np.sqrt(np.diag(got.fitted.covariance)) == pytest.approx(want.bse_fe, rel=0.03)
    assert got.fitted.residual == pytest.approx(want.scale, rel=0.02)


def test_without_random_factors_it_is_the_t_test() -> None:
    from scipy import stats

    from segmeter.stats.mixed_effects import fit_mixed

    rng = np.random.default_rng(0)
    one, other = rng.normal(0, 1, 12), rng.normal(0.5, 1, 12)
    design = np.repeat(np.eye(2), 12, axis=0)
    got = fit_mixed(np.concatenate([one, other]), design, {})
    contrast = np.array([1.0, -1.0])
    t = contrast @ got.coefficients / np.sqrt(contrast @ got.covariance @ contrast)
    assert t == pytest.approx(stats.ttest_ind(one, other).statistic)


def test_in_a_balanced_design_it_is_the_paired_difference() -> None:
    given = study(1, raters=4, each=4)
    first, second = given.by_target("m1"), given.by_target("m0")
    paired = rating_difference([first[n] for n in first], [second[n] for n in first])
    assert fit_ratings(given).contrast("m1", "m0").value == pytest.approx(paired.mean, abs=1e-6)
    assert resampled_difference(given, "m1", "m0", "raters").value == pytest.approx(paired.mean)


def test_means_and_differences_agree() -> None:
    model = fit_ratings(study(2))
    gap = model.mean("m1").value - model.mean("m0").value
    assert model.contrast("m1", "m0").value == pytest.approx(gap)


def test_intervals_of_the_mixed_effects_model_cover_the_true_difference() -> None:
    """40 simulated studies; 95 % nominal (perf/study_statistics.py takes more)."""
    inside = 0
    for seed in range(40):
        found = fit_ratings(study(seed, rounded=False, targets=12, raters=10, each=3))
        contrast = found.contrast("m1", "m0")
        inside += contrast.low <= 0.8 <= contrast.high
    assert inside >= 36


def test_the_intraclass_correlation_is_that_of_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(4)
    table = rng.normal(0, 1, (15, 1)) + rng.normal(0, 0.5, (1, 6)) + rng.normal(0, 0.7, (15, 6))
    n, k = table.shape
    mean = table.mean()
    rows = k * ((table.mean(axis=1) - mean) ** 2).sum() / (n - 1)
    columns = n * ((table.mean(axis=0) - mean) ** 2).sum() / (k - 1)
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + mean
    error = (rest**2).sum() / ((n - 1) * (k - 1))
    things = [t for t in range(n) for _ in range(k)]
    got = intraclass(things, [r for _ in range(n) for r in range(k)], table.ravel())
    want = (rows - error) / (rows + (k - 1) * error + k * (columns - error) / n)
    assert got.agreement == pytest.approx(want, abs=1e-3)
    assert got.consistency == pytest.approx((rows - error) / (rows + (k - 1) * error), abs=1e-3)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_that_of_the_krippendorff_package(level: Any) -> None:
    package = pytest.importorskip("krippendorff")
    rng = np.random.default_rng(7)
    things = {
        k: [
            int(v)
            for v in np.clip(
                np.rint(rng.normal(6, 2) + rng.normal(0, 1.5, rng.integers(1, 5))), 1, 10
            )
        ]
        for k in range(40)
    }
    table = np.full((4, len(things)), np.nan)
    for k, values in things.items():
        table[: len(values), k] = values
    want = package.alpha(table, level_of_measurement=level)
    found = alpha_interval(things, level)  # type: ignore[arg-type]  # whole numbers are hashable
    assert found.value == pytest.approx(want)
    assert found.low < found.value < found.high


def test_alpha_equals_krippendorffs_example() -> None:
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
    assert krippendorff_alpha(units, "nominal") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(units, "interval") == pytest.approx(0.849, abs=5e-4)


def test_alpha_of_ratings_by_chance_is_about_zero() -> None:
    drawn = np.random.default_rng(1).integers(1, 11, (3000, 2)).tolist()
    assert abs(krippendorff_alpha(dict(enumerate(drawn)))) < 0.05


def test_agreement_needs_things_rated_twice() -> None:
    for rule in (krippendorff_alpha, pilot_sd):
        with pytest.raises(BadInput, match="twice"):
            rule({"a": [3], "b": [4]})


def test_one_image_or_rater_gives_no_limits() -> None:
    """There is nothing to resample: the interval was the value itself, or beside it."""
    alpha = alpha_interval({1: [1, 2], 2: [3, 3]}, clusters={1: "image", 2: "image"})
    assert np.isnan([alpha.low, alpha.high]).all()
    given = study(5)
    one = ["one"] * len(given.scores)
    single = Ratings(given.models, given.targets, one, one, given.scores)
    for by in ("images", "raters"):
        found = resampled_difference(single, "m1", "m0", by)
        assert np.isnan([found.low, found.high]).all()


def test_targets_that_are_rated_more_often_count_no_more_in_resamples() -> None:
    """Their interval lay beside the value: -2.0 to -0.2 about 0.7."""
    rows = [
        (model, f"t{t}", f"r{r}", 5.0 + (model == "a") * (-2 if t < 2 else 1))
        for t in range(20)
        for r in range(30 if t < 2 else 2)
        for model in "ab"
    ]
    models, targets, raters, scores = (list(column) for column in zip(*rows, strict=True))
    given = Ratings(models, targets, targets, raters, scores)
    for by in ("images", "raters"):
        found = resampled_difference(given, "a", "b", by)
        assert found.value == pytest.approx(0.7)
        assert found.low <= 0.7 <= found.high
    assert resampled_difference(given, "a", "b", "images").low > -0.5
