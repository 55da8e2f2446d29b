"""Effort: seconds add up as the cost model says, and bad models are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from segmeter.core.errors import BadInput, NotFound
from segmeter.stats.effort import CostModel, seconds_after, seconds_to


def test_seconds_of_a_session_worked_by_hand() -> None:
    kinds = [["box", "click", ""]]
    spent = seconds_after(CostModel(), kinds, [[0.5, 0.25, 0.0]], [2.0])
    # 1 to locate + 2 to look; 7 for the box and 0.5; 1.5 for the click and 0.25; nothing.
    assert spent.tolist() == [[10.5, 12.25, 12.25]]


def test_waiting_can_be_left_out() -> None:
    spent = seconds_after(CostModel(wait=False), [["click", "click"]], [[9.0, 9.0]], [9.0])
    assert spent.tolist() == [[2.5, 4.0]]


def test_a_failure_costs_all_rounds_and_the_rest_by_hand() -> None:
    curves = [[0.2, 0.95, 0.5], [0.1, 0.1, 0.1]]
    spent = np.array([[3.0, 5.0, 7.0], [3.0, 5.0, 7.0]])
    assert seconds_to(CostModel(), curves, spent, 0.9).tolist() == [5.0, 7.0]
    assert seconds_to(CostModel(by_hand=60), curves, spent, 0.9).tolist() == [5.0, 67.0]


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("click = 2.25\nwait = false\n")
    assert CostModel.read(file) == CostModel(click=2.25, wait=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clik = 2", "did you mean 'click'"),
        ("click = -1", "'click' is seconds, not -1"),
        ('click = "two"', "'click' is seconds, not 'two'"),
        ("click = true", "'click' cannot be True"),
        ("wait = 3", "'wait' cannot be 3"),
        ("click = inf", "'click' is seconds"),
        ("click = ", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "cost.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        CostModel.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no cost model at"):
        CostModel.read(tmp_path / "none.toml")
