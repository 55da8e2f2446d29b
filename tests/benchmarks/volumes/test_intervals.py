"""What is said about a set of masks: intervals, goals that are never reached, empty masks."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segmeter.analysis.breakdown import splits
from segmeter.analysis.report_parts import difference_table
from segmeter.benchmarks.volumes import Volumes
from segmeter.benchmarks.volumes.sections import _effort_chart, against_best, recommendation
from segmeter.benchmarks.volumes.statistics import (
    VolumeSessions,
    effort_until,
    never,
    rounds_that_pay,
    seconds_until,
    statistics,
    unit_of,
)
from segmeter.benchmarks.volumes.tables import by_organ, few
from segmeter.core.benchmarks import Difference
from segmeter.core.errors import BadInput
from segmeter.core.sections import Line, Points, Section, Value
from segmeter.report.writing import answer_of
from segmeter.stats.statistics import cards_by_name, differences_of, summary_of

from ..kept_results import KeptRun

SCRIPT = Path(__file__).parents[3] / "docs" / "coverage.py"


def sessions(dice, *, spent=None, clusters=None, user="box-per-slice", model="m", **more):
    """Sessions of one object per case; `dice` is `(objects, rounds)`."""
    dice = np.asarray(dice, dtype=float)
    count, rounds = dice.shape
    spent = np.tile(np.arange(1.0, rounds + 1), (count, 1)) if spent is None else np.array(spent)
    keys = tuple((f"case{i}", "liver") for i in range(count))
    ones = np.ones_like(dice)
    made = VolumeSessions(
        model, "d", user, "corrected", keys,
        tuple(clusters or (scene for scene, _ in keys)),
        dice, ("liver",) * count, user, user, 0, "1", spent, ones, 10 * spent, dice,
        {}, 100 * ones, 100 * dice, np.full(count, 790.0), ones,
    )  # fmt: skip
    return replace(made, unit=unit_of(made), **more)


def cards(others=()):
    run = KeptRun("volumes")
    return cards_by_name(statistics(run))


@pytest.fixture(scope="module")
def coverage():
    """The script that prints the table of docs/statistics.md."""
    found = importlib.util.spec_from_file_location("coverage_of_intervals", SCRIPT)
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    return script


@pytest.mark.parametrize("kind", ["normal", "skewed", "difference", "1 to 3 scans per patient"])
@pytest.mark.parametrize("patients", [5, 9, 10])  # at both ends of Student's t, and beyond it
def test_intervals_have_their_nominal_coverage(coverage, kind, patients):
    (name,) = (known for known in coverage.KINDS if known.startswith(kind))
    assert 0.93 <= coverage.held(name, patients) <= 0.98


def test_a_difference_of_nine_patients_has_student_s_limits_and_an_exact_p():
    rng = np.random.default_rng(3)
    base = rng.normal(0.8, 0.05, (9, 1))
    gaps = rng.normal(0.02, 0.01, (9, 1))
    pair = [sessions(base + gaps, model="a"), sessions(base, model="b")]
    (found,) = differences_of(pair, [cards()["dice"]])
    error = 100 * gaps.std(ddof=1) / 3
    assert found.high - found.low == pytest.approx(2 * 2.3646 * error, rel=1e-4)
    assert found.value == pytest.approx(100 * gaps.mean())
    assert found.p == 2 / 2**9


def test_a_difference_counts_classes_as_the_mean_does():
    """Three instances of one class weigh as much as one of another."""
    keys = tuple((f"case{i}", f"{k}") for i in range(6) for k in range(4))
    labels = ("lesion", "lesion", "lesion", "liver") * 6
    clusters = tuple(scene for scene, _ in keys)
    dice = np.tile([[0.5], [0.5], [0.5], [0.9]], (6, 1))
    both = [
        replace(sessions(values, model=name), keys=keys, labels=labels, clusters=clusters)
        for name, values in (("a", dice), ("b", np.full((24, 1), 0.5)))
    ]
    (found,) = differences_of(both, [cards()["dice"]])
    assert found.value == pytest.approx(20)


def test_an_interval_and_a_p_value_that_disagree_are_explained():
    unsure = Difference("a", "b", "d", "u", "corrected", "dice", 2.0, 0.1, 3.9, 0.03, 0.09, 9)
    table = difference_table([unsure] * 3, cards())
    why = "interval excludes 0, but only for this pair; p is corrected for all pairs"
    assert why in table.rows[0][-1]


def test_no_test_is_reported_that_was_not_made():
    untested = Difference("a", "b", "d", "u", "corrected", "dice", 2.0, 0.1, 3.9, 0.5, 1, 9, 3)
    table = difference_table([untested], cards())
    assert table.rows[0][-1] == "not tested: 3 images, 6 needed"


@pytest.mark.parametrize("cases", [1, 2, 3, 4])
def test_few_cases_have_no_interval_and_the_page_explains_why(cases):
    group = sessions(np.linspace(0.8, 0.9, cases)[:, None])
    row, _ = cards()["dice"].estimate(group)
    assert np.isnan([row.low, row.high]).all()
    assert few(group).startswith(f"no intervals with {cases} scan")
    row, _ = never(90).estimate(group)
    assert np.isnan([row.low, row.high]).all(), "as the page says of the whole table"


def test_no_statistic_of_few_scans_has_limits_not_even_clicks_followed():
    run = KeptRun("volumes")
    rows = run.summary()
    assert {"dice", "never@90", "rice", "hurt"} <= {row.statistic for row in rows}
    assert all(np.isnan([row.low, row.high]).all() for row in rows)
    for d in Volumes().differences(run, ["rice", "hurt"]):
        assert np.isnan([d.low, d.high]).all()
        assert d.too_few == "not tested: 3 scans, 6 needed"
    for split in splits(Volumes(), run, "class"):
        for found in (*split.means, *split.differences):
            assert np.isnan([found.interval.low, found.interval.high]).all()


def test_differences_of_few_cases_have_neither_limits_nor_p_values():
    run = KeptRun("volumes")
    found = Volumes().differences(run)
    assert found
    assert all(np.isnan(d.low) and not d.significant for d in found)
    assert {d.too_few for d in found} == {"not tested: 3 scans, 6 needed"}
    table = difference_table(found, cards_by_name(Volumes().statistics(run)))
    heads = [column.title for column in table.columns]
    shown = [dict(zip(heads, row, strict=True)) for row in table.rows]
    assert {(row["p"], row["conclusion"]) for row in shown} == {
        (None, "not tested: 3 scans, 6 needed")
    }


def test_a_prompter_that_prompts_once_has_one_round_before_correction_by_hand():
    """Rows repeat its mask in later rounds, which nobody works in."""
    spent = np.full((3, 6), 6.0)
    once = sessions(np.tile([[0.95], [0.95], [0.2]], (1, 6)), spent=spent)
    assert rounds_that_pay(90).estimate(once)[0].value == 1


def test_two_visits_of_a_patient_are_one_cluster():
    clusters = ("p1", "p1", "p2", "p2", "p3", "p3")
    group = sessions(np.linspace(0.7, 0.9, 6)[:, None], clusters=clusters)
    row, _ = cards()["dice"].estimate(group)
    assert np.isnan(row.low), "six scans of three patients"
    assert unit_of(group) == "patient"
    assert unit_of(sessions(np.ones((6, 1)))) == "scan"


def test_a_goal_that_is_never_reached_is_never_the_cheapest():
    good = sessions([[0.95]] * 6, spent=[[36.0]] * 6)
    bad = sessions([[0.12]] * 6, spent=[[6.0]] * 6)
    for card in (effort_until(90), seconds_until(90)):
        (cheap, _), (dear, _) = card.estimate(good), card.estimate(bad)
        assert cheap.value < dear.value
    assert effort_until(90).estimate(bad)[0].value == np.inf
    assert seconds_until(90).estimate(bad)[0].value == 60 + 790
    assert never(90).estimate(bad)[0].value == 100


def test_half_of_the_objects_decide_the_interactions_to_a_goal():
    group = sessions([[0.95]] * 4 + [[0.1]] * 3, spent=[[2.0], [4.0], [4.0], [8.0]] + [[1.0]] * 3)
    assert effort_until(90).estimate(group)[0].value == 8


def test_one_empty_mask_is_counted_and_does_not_make_a_row_infinite():
    hd95 = np.array([[3.0], [4.0], [np.inf], [5.0], [2.0]])
    predicted = np.array([[90.0], [90.0], [0.0], [90.0], [90.0]])
    group = sessions([[0.9]] * 5, others={"hd95": hd95}, predicted_ml=predicted)
    run = KeptRun("volumes")
    object.__setattr__(run.plan, "measures", ("dice", "hd95"))
    found = cards_by_name(statistics(run))
    assert found["hd95"].estimate(group)[0].value == 4
    assert found["empty"].estimate(group)[0].value == 1
    assert found["volume-error"].estimate(group)[0].value == pytest.approx(-28)
    table = by_organ([group])
    (row,) = table.rows
    assert row[0] == "liver"
    assert row[-1] == 1
    assert Value(4.0, best=False) in row
    worse = replace(group, model="worse", dice=group.dice / 2)
    shown = [row[4] for row in by_organ([group, worse]).rows]
    assert [cell.best for cell in shown] == [True, False]


def test_draws_of_a_random_user_are_averaged_for_each_object():
    one, two = (sessions([[v]] * 6) for v in (0.2, 0.8))
    both = replace(one, dice=(one.dice + two.dice) / 2, repeats=(one, two))
    assert cards()["dice"].estimate(both)[0].value == pytest.approx(50)
    assert never(90).estimate(replace(both, repeats=(one, sessions([[0.95]] * 6))))[0].value == 50


def test_the_recommendation_is_the_fewest_interactions_that_are_good_enough():
    cheap = sessions([[0.5]] * 10, spent=[[1.0]] * 10, user="box-3d")
    right = sessions([[0.95]] * 9 + [[0.2]], spent=[[6.0]] * 10, user="box-interpolation?n=3")
    dear = sessions([[0.97]] * 10, spent=[[40.0]] * 10, user="box-per-slice")
    said = str(recommendation([cheap, right, dear], 90).text)
    best = "m with --user 'box-interpolation?n=3', 90 % of 10 objects, 6.0 interactions per object"
    assert f"fewest interactions that reach Dice 90 % in 90 % of objects: {best}" in said
    nobody = str(recommendation([cheap], 90).text)
    assert "no prompter reaches Dice 90 % in any object" in nobody


def test_nothing_is_recommended_while_a_model_lacks_objects():
    first, second = (sessions([[0.95]] * n, model=name) for name, n in (("a", 3), ("b", 2)))
    for groups, count in (([first], 0), ([first, second], 2)):
        text = str(recommendation(groups, 90, ["a", "b"]).text)
        assert f"no recommendation yet; objects with results: a on 3, b on {count}" in text


def test_among_prompters_with_equal_success_the_one_with_the_highest_dice_is_named():
    worst = sessions([[0.95], [0.95], [0.4]], spent=[[3.0]] * 3, user="boxes-from-3d-box")
    best = sessions([[0.95], [0.95], [0.86]], spent=[[6.0]] * 3, user="box-interpolation?n=3")
    text = str(recommendation([worst, best], 90).text)
    assert "closest is m with --user 'box-interpolation?n=3', 67 % of 3 objects, 6.0" in text
    ties = "1 other way reaches the goal in as many objects, with a lower mean Dice"
    assert f"mean Dice 92.0 % ({ties})" in text


def test_every_organ_has_a_recommendation():
    dice = [[0.95], [0.95], [0.2], [0.91]]
    organs = ("liver", "liver", "spleen", "spleen")
    one = replace(sessions(dice, spent=[[6.0]] * 4, user="box-3d"), labels=organs)
    said = recommendation([one], 90)
    assert said.lines == (
        "liver, fewest interactions: m with --user 'box-3d', 100 % of 2 objects, 6.0 interactions "
        "per object, mean Dice 95.0 %.",
        "spleen, closest: m with --user 'box-3d', 50 % of 2 objects, 6.0 interactions per object, "
        "mean Dice 55.5 %.",
    )
    closing = answer_of([Section("Results", blocks=[said])]).splitlines()
    assert closing[1:] == list(said.lines), "a terminal shows them too"


def test_each_model_has_one_line_that_never_falls_and_dots_named_as_typed():
    cheap = sessions([[0.5]] * 6, spent=[[1.0]] * 6, user="box-3d")
    worse = sessions([[0.3]] * 6, spent=[[5.0]] * 6, user="point-propagation")
    refined = sessions([[0.4, 0.8]] * 6, spent=[[3.0, 20.0]] * 6, user="r?earlier=keep&n=3")
    other = sessions([[0.6]] * 6, spent=[[2.0]] * 6, model="b")
    groups = [cheap, worse, refined, other]
    numbers = {(row.key, row.statistic): row for row in summary_of(groups, [cards()["dice"]])}
    chart = _effort_chart(groups, numbers)
    lines = [mark for mark in chart.marks if isinstance(mark, Line)]
    assert [line.name for line in lines] == ["m", "b"]
    assert list(lines[0].x) == [1, 20, 20]
    assert list(lines[0].y) == pytest.approx([50, 80, 80])
    dots = next(mark for mark in chart.marks if isinstance(mark, Points))
    assert dots.labels == ["box-3d", "point-propagation", "r?n=3"]
    assert list(dots.y) == pytest.approx([50, 30, 80])


def test_prompters_of_a_model_are_compared_with_its_best():
    rng = np.random.default_rng(0)
    base = rng.normal(0.8, 0.03, (12, 1))
    worse = sessions(base - 0.1, user="point-propagation")
    best = sessions(base, user="box-per-slice")
    (difference,) = against_best([worse, best], [cards()["dice"]])
    assert (difference.first, difference.second) == ("box-per-slice", "point-propagation")
    assert difference.value == pytest.approx(10)
    assert difference.significant


def test_one_model_alone_is_compared_by_its_prompters():
    run = KeptRun("volumes")
    (model, *_) = run.plan.segmenters
    alone = KeptRun("volumes", where=f"model = '{model}'")
    object.__setattr__(alone.plan, "segmenters", (model,))
    found = Volumes().differences(alone)
    assert {d.user for d in found} == {str(model)}
    assert {d.statistic for d in found} >= {"dice", "area"}
    assert all(d.first != d.second for d in found)


def test_a_goal_of_dice_is_honoured_and_another_is_refused():
    names = [s.name for s in statistics(KeptRun("volumes", {"goal": "dice>=0.85"}))]
    assert "effort-to-85" in names
    assert "effort-to-80" not in names
    assert "never@90" in [s.name for s in statistics(KeptRun("volumes", {"goal": "90"}))]
    with pytest.raises(BadInput, match="goals of volumes are Dice"):
        statistics(KeptRun("volumes", {"goal": "hd95<=3"}))


def test_cost_alone_is_never_set_in_bold():
    found = cards()
    assert all(found[name].better == "" for name in ("interactions", "seconds", "dof"))
