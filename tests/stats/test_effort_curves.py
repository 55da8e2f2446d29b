"""Quality against effort: staircases with known areas, and what always holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.action_counts import Effort
from segmeter.stats.annotation_time import (
    CostModel,
    area_to,
    effort_to,
    quality_at,
)
from segmeter.stats.goals import reached

curves = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20)), min_size=1, max_size=6).map(
    lambda rounds: ([[q for q, _ in rounds]], [np.cumsum([e for _, e in rounds]).tolist()])
)


@given(curves)
def test_the_area_is_the_mean_quality_of_every_unit_of_effort(
    curve: tuple[list[list[float]], list[list[int]]],
) -> None:
    quality, effort = curve
    budget = 40
    # Half units lie inside steps, so each unit's quality is that of its middle.
    units = [float(quality_at(quality, effort, b + 0.5)[0]) for b in range(budget)]
    assert area_to(quality, effort, budget)[0] == pytest.approx(np.mean(units))


@given(curves, st.floats(0, 1))
def test_effort_to_a_goal_buys_the_goal_unless_it_never_comes(
    curve: tuple[list[list[float]], list[list[int]]], goal: float
) -> None:
    quality, effort = curve
    spent = effort_to(quality, effort, goal)[0]
    if not reached(quality, goal)[0]:
        assert spent == effort[0][-1]
    else:
        assert quality_at(np.maximum.accumulate(quality, axis=1), effort, spent)[0] >= goal


def test_a_budget_below_the_first_round_buys_nothing() -> None:
    assert quality_at([[0.9]], [[4]], 3.9).tolist() == [0.0]
    assert quality_at([[0.9]], [[4]], 4).tolist() == [0.9]


def test_seconds_follow_the_work() -> None:
    cost = CostModel(click=2, box=5, scribble=3, stroke=0.1, scroll=0.5)
    work = Effort(points=3, boxes=1, boxes_3d=1, slices=2, scribbles=1, stroke_px=10, scrolled=4)
    assert cost.of_effort(work) == 3 * 2 + 5 + 10 + 2 * 2 + 3 + 1 + 2
    assert work.interactions == 3 + 2 + 3 + 2 + 3
    assert work.degrees_of_freedom == 9 + 5 + 6 + 2 + 12
