"""The first sentence of a page can be trusted by somebody who reads nothing else."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from segmeter.benchmarks.noc import Noc
from segmeter.benchmarks.noc.comparison import answer, comparisons
from segmeter.core.sections import Answer, Quantity, Table
from segmeter.report.page import Page, render

from .random_rows import Qualities, RandomRun

# A page takes half a second, so a failing example is shown as it was found.
few = settings(
    max_examples=10,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def qualities(draw: Any, models: int = 3) -> Qualities:
    """IoU of two or three models on up to ten targets; often failing, often alike."""
    many = draw(st.integers(2, models))
    shape = (draw(st.integers(1, 10)), draw(st.integers(1, 5)))
    steps = st.sampled_from([0.0, 0.3, 0.5, 0.89, 0.9, 0.95, 1.0])
    return {name: draw(arrays(float, shape, elements=steps)) for name in "abc"[:many]}


def headline(run: RandomRun) -> Answer:
    (comparison,) = comparisons(run)
    return answer(comparison, many=False)


def winner(said: Answer) -> str | None:
    named = re.search(r"\*\*(\w)\*\* needs the least annotation time:", said.text)
    return named[1] if named else None


@given(qualities(), st.floats(0, 100), st.floats(0, 100))
@settings(few, max_examples=5)
def test_machine_time_never_changes_a_conclusion(made: Qualities, one: float, two: float) -> None:
    """It only adds who is ahead with waiting, after what holds without."""
    quick = RandomRun(made)
    slow = RandomRun(made, seconds={"a": one, "b": two})
    for told in (
        lambda a: re.sub(r"\. Including measured waiting.*? per object", "", a.text),
        lambda a: a.detail,
    ):
        assert told(headline(quick)) == told(headline(slow))
    assert repr(Noc().differences(quick)) == repr(Noc().differences(slow))  # as nan is not nan


@given(qualities())
@few
def test_no_page_prints_nan_or_an_interval_without_width(made: Qualities) -> None:
    page = render(Page("t", "s", [], Noc().sections(RandomRun(made))))
    shown = html.unescape(re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.S))
    text = re.sub(r"<[^>]*>", " ", shown)
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert "0.00–0.00" not in text
    assert "+0.0 to +0.0" not in text
    assert not re.search(r"takes 0\.0", text)


@given(qualities())
@few
def test_a_winner_is_never_worse_and_models_that_mostly_fail_are_named(made: Qualities) -> None:
    said = headline(RandomRun(made))
    best, sentence = winner(said), said.text
    for other, quality in made.items():
        if best not in (None, other):
            assert not (quality >= made[best]).all() or (quality == made[best]).all()
    short = [m for m, q in made.items() if 2 * (q.max(axis=1) < 0.9).sum() > len(q)]
    if len(short) == len(made):
        assert sentence.startswith("No model")
        assert "annotation time" not in sentence
    elif short:
        place = sentence.find("annotation time")
        if place >= 0:
            assert place < sentence.index("more than half")
        assert all(model in sentence for model in short)


def test_failures_are_not_cheap() -> None:
    """Six objects: one model brings all there in two clicks, the other only half, in one."""
    good = np.array([[0.5, 0.95, 0.95]] * 16)
    bad = np.array([[0.95] * 3, [0.4] * 3] * 8)
    said = headline(RandomRun({"bad": bad, "good": good}))
    assert "**good**" in said.text
    assert "**bad**" not in said.text
    assert "79" in said.detail


def test_only_what_is_significant_is_set_strong() -> None:
    alike = {"a": np.full((4, 3), 0.91), "b": np.full((4, 3), 0.92)}
    (table,) = (b for b in Noc().sections(RandomRun(alike))[0].blocks if isinstance(b, Table))
    assert not any(getattr(cell, "best", None) for row in table.rows for cell in row)


def test_the_conclusion_states_the_amount_of_data() -> None:
    said = headline(RandomRun({"a": np.full((4, 3), 0.91), "b": np.full((4, 3), 0.5)}))
    assert "4 objects in 2 images, up to 3 rounds" in said.detail


@pytest.mark.parametrize("goal", ["dice>=0.9", "hd95<=2"])
def test_any_measure_may_be_the_goal(goal: str) -> None:
    made = {"a": np.full((6, 3), 0.5)}
    extra = {"dice": np.full((6, 3), 0.95), "hd95": np.full((6, 3), 1.5)}
    said = headline(RandomRun(made, settings={"goal": goal}, extra=extra))
    assert "all 6 objects reach it" in said.text


def test_an_interval_that_contradicts_the_test_is_explained_in_place() -> None:
    """Six images, one of them the same for both models: the test can reach 1/16."""
    good = np.full((12, 3), 1.0)
    bad = np.where(np.arange(12)[:, None] < 10, 0.3, 1.0) * np.ones((12, 3))
    said = headline(RandomRun({"a": good, "b": bad}))
    told = f"{said.text} {said.detail}"
    assert re.search(r"interval \+[1-9]", told)
    assert "not significant" in told
    assert "permutation test over 6 images" in told
    assert "could turn" not in told


def test_an_order_that_changes_with_waiting_is_in_the_same_answer() -> None:
    """EISeg took fewer clicks than MobileSAM and answered five times as slowly."""
    made = {"few": np.full((8, 3), 0.95), "quick": np.tile([0.5, 0.95, 0.95], (8, 1))}
    alike = headline(RandomRun(made)).text
    assert "few" in alike.split(":")[0]
    assert "waiting" not in alike
    turned = headline(RandomRun(made, seconds={"few": 30.0, "quick": 0.1})).text
    # 2.5 s and 30 s + half of 30 s for encoding against 4 s and 0.25 s
    assert "Including measured waiting for the model, **quick** is faster" in turned
    assert "4.2\xa0s instead of 47.5\xa0s per object" in turned
    loaded = RandomRun(made, seconds={"few": 30.0, "quick": 0.1})
    loaded.provenance = {"commands": [{"machine": {"cores": 2, "load": 9.0}}], "segmenters": {}}
    assert "; waiting was measured on a busy machine (load 9 on 2 cores" in headline(loaded).text


def test_objects_that_never_reach_the_goal_are_reported_as_finished_by_hand() -> None:
    made = {"a": np.vstack([np.full((7, 3), 0.95), np.full((1, 3), 0.2)])}
    said = headline(RandomRun(made)).text
    assert "1 of 8 objects never reaches it by clicks and is finished by hand" in said


def test_the_clicks_in_the_sentence_are_those_that_its_seconds_are_made_of() -> None:
    """Short errors are corrected after one click; by clicks alone three are needed, or all fail."""
    slow = np.tile([0.5, 0.8, 0.95], (8, 1))
    made = {"a": np.vstack([slow, np.full((1, 3), 0.8)])}
    alone = headline(RandomRun(made))
    before, noc = (part for part in alone.parts if isinstance(part, Quantity))
    assert (before.statistic, noc.statistic) == ("seconds-to-90", "noc@90")
    by_hand = headline(RandomRun(made, extra={"redrawn_path": np.full((9, 3), 1.0)}))
    seconds, clicks = (part for part in by_hand.parts if isinstance(part, Quantity))
    assert clicks.statistic == "clicks-before-touch-up-to-90"
    assert (clicks.value.value, noc.value.value) == (1.0, 3.0)
    assert float(seconds.value.value or 0) < float(before.value.value or 0)
    assert "1.00\xa0clicks and corrections by hand where they are faster" in by_hand.text
    assert "1 of 9 objects never reaches it by clicks alone" in by_hand.text
