"""Capabilities are declared: a method of the same name is not enough."""

from __future__ import annotations

import pytest

from segmeter.core import catalogue
from segmeter.core.capabilities import (
    ChecksData,
    KeepsState,
    OnDevice,
    RepeatsDraws,
    Sweeps,
    WithWeights,
    capable,
)


def test_a_method_of_the_same_name_is_no_capability() -> None:
    class Drawing:
        def draw(self) -> int:
            return 1

    assert not isinstance(Drawing(), RepeatsDraws)
    assert isinstance(catalogue.users.make("clicking-group?group=1"), RepeatsDraws)
    assert not isinstance(catalogue.models, ChecksData)


def test_subclasses_inherit_what_was_declared_and_may_add() -> None:
    @capable(OnDevice)
    class First:
        device = "cpu"

    @capable(WithWeights)
    class Second(First):
        weights_path = "here"

    assert isinstance(Second(), OnDevice)
    assert isinstance(Second(), WithWeights)
    assert not isinstance(First(), WithWeights)
    assert not isinstance(Second, OnDevice)  # the class itself


@pytest.mark.parametrize("name", ["felzenszwalb", "mean-shift"])
def test_methods_that_sweep_declare_it(name: str) -> None:
    assert isinstance(catalogue.methods.make(name), Sweeps)
    assert not isinstance(catalogue.methods.make(name), KeepsState)
