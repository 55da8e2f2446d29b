"""Flags of participants: careless ones are found, careful ones are not, estimates stay unbiased."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from segmeter.study.plan import parse_plan
from segmeter.study.validity import screen_people


@pytest.fixture(scope="module")
def simulation(loaded_script: Any) -> ModuleType:
    return loaded_script("study_screening")


def test_careless_raters_are_found_and_estimates_without_them_are_unbiased(
    simulation: ModuleType,
) -> None:
    """40 raters, 10 % careless: at least 90 % of them and under 2 % of the others are excluded."""
    found = simulation.screen(30, 40, 0.1)
    assert found["careless found"] >= 0.9
    assert found["others excluded"] < 0.02
    assert abs(found["bias with exclusions"]) < 0.02
    assert abs(found["bias with exclusions"]) < abs(found["bias without exclusions"]) / 2


def test_rules_never_use_the_condition(simulation: ModuleType) -> None:
    plan = parse_plan(simulation.PLAN, Path())
    rows, _ = simulation.simulated(1, 20, 0.2)
    hidden = [{**row, "condition": "hidden"} for row in rows]
    assert screen_people(plan, rows) == screen_people(plan, hidden)


def test_a_flag_excludes_only_if_the_plan_lists_it(simulation: ModuleType) -> None:
    rows, careless = simulation.simulated(2, 20, 0.2)
    rules = "[validity]\nexclude_people = []\n"
    plan = parse_plan(f"{simulation.PLAN}\n{rules}", Path())
    found = screen_people(plan, rows)
    assert any(found[person].flags for person in careless)
    assert not any(each.excluded for each in found.values())
