"""Thinning against MATLAB's results, and the kernel against its plain twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.datasets.bsds500 import Bsds500
from segmeter.kernels import compiled
from segmeter.measures.outlines import outline, plain_thin, thin

Bits = npt.NDArray[np.bool_]
maps = st.tuples(st.integers(1, 20), st.integers(1, 20)).flatmap(
    lambda shape: arrays.arrays(bool, shape)
)


def bits(rows: list[str] | list[list[int]]) -> Bits:
    return np.array([[int(value) for value in row] for row in rows], dtype=bool)


@pytest.mark.parametrize("way", [thin, plain_thin])
def test_all_reference_maps_are_thinned_equally_after_one_round_and_to_the_end(
    golden: Path, way: Callable[..., Bits]
) -> None:
    cases = json.loads((golden / "seism" / "thin.json").read_text())["cases"]
    assert len(cases) == 30
    for case in cases:
        np.testing.assert_array_equal(way(bits(case["input"])), bits(case["out"]), case["name"])
        once = way(bits(case["input"]), 1)
        np.testing.assert_array_equal(once, bits(case["out_one_iteration"]), case["name"])


def test_edge_maps_of_the_toolbox_are_thinned_equally(golden: Path) -> None:
    stored = np.load(golden / "zeroshot" / "edges" / "thin.npz")
    width = int(stored["shape"][-1])
    given_maps, thinned = (
        np.unpackbits(stored[key], axis=-1)[..., :width].astype(bool) for key in ("bins", "thin")
    )
    for before, after in zip(given_maps, thinned, strict=True):
        np.testing.assert_array_equal(thin(before), after)


def test_a_round_counts_as_changed_when_only_its_second_pass_takes_a_pixel(golden: Path) -> None:
    case = json.loads((golden / "zeroshot" / "edges" / "thin_small.json").read_text())
    np.testing.assert_array_equal(thin(bits(case["input"])), bits(case["thinned"]))


def test_outlines_of_partitions_equal_the_boundaries_that_people_stored(real_data: Path) -> None:
    data = Bsds500(real_data)
    for scene in data.scenes()[::12]:
        for labels, stored in zip(data.partitions(scene), data.boundaries(scene), strict=True):
            np.testing.assert_array_equal(outline(labels).bits(), stored)


@pytest.mark.skipif(compiled is None, reason="the kernels are not compiled here")
@settings(max_examples=200, deadline=None)
@given(maps, st.sampled_from([None, 0, 1, 2]))
def test_the_kernel_equals_its_plain_twin(given_map: Bits, rounds: int | None) -> None:
    np.testing.assert_array_equal(thin(given_map, rounds), plain_thin(given_map, rounds))


@settings(max_examples=100, deadline=None)
@given(maps)
def test_thinning_only_takes_away_and_a_second_time_changes_nothing(given_map: Bits) -> None:
    thinned = thin(given_map)
    assert not np.any(thinned & ~given_map)
    np.testing.assert_array_equal(thin(thinned), thinned)
