"""What measures refuse, and the corners where a formula has nothing to divide by."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.benchmarks import Group
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures.boundaries import boundary_f
from segmeter.measures.clickability_maps import compare, compare_samples, nss, pde
from segmeter.measures.curves import sweep_edge_map
from segmeter.measures.meta import Sweep, against_baselines, against_swapped
from segmeter.measures.objects import boundary_iou
from segmeter.measures.outlines import Outline, plain_thin, thin
from segmeter.measures.partitions import objects_and_parts, scores
from segmeter.measures.suppression import suppress
from segmeter.stats.comparisons import (
    difference,
    paired_permutation_tests,
    pairwise_tables,
)
from segmeter.stats.goals import failed

EMPTY = Mask.empty((6, 6))
SOME = Mask.box((6, 6), (1, 1), (3, 3))
HALVES = np.array([[1, 1, 2, 2]] * 4)
ANY: Any = "sonud"  # a protocol that somebody misspelt


@pytest.mark.parametrize("side", [3, 7, 10, 33, 57, 100, 321])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1.0, 7.3])
def test_a_map_without_variation_scores_0_for_any_size(side: int, value: float) -> None:
    flat = np.full((side, side + 1), value)
    assert nss([(1, 1), (2, 0)], flat) == 0.0
    assert nss([(1, 1)], flat.astype(np.float32)) == 0.0


@pytest.mark.parametrize("name", ["iou", "dice", "precision", "recall"])
def test_masks_may_be_given_by_name(name: str) -> None:
    measure = catalogue.measures.make(name)
    assert measure(ground_truth=EMPTY, prediction=EMPTY) == measure.both_empty
    assert (
        measure(SOME, prediction=EMPTY)
        == measure(prediction=EMPTY, ground_truth=SOME)
        == measure.one_empty
    )
    assert measure(ground_truth=SOME, prediction=SOME, ignore=SOME) == measure.both_empty
    assert measure(SOME, SOME, ignore=SOME) == measure(SOME, SOME, SOME) == measure.both_empty
    assert measure(prediction=SOME, ground_truth=SOME) == 1.0


def test_a_difference_that_is_no_number_is_refused_not_called_certain() -> None:
    with pytest.raises(BadInput, match="1 of 2 differences"):
        paired_permutation_tests([[math.nan], [1.0]])
    with pytest.raises(BadInput, match="not finite"):
        paired_permutation_tests([[math.inf], [1.0]])
    many = np.arange(40.0)
    with pytest.raises(BadInput, match="1 of 40"):
        difference(np.where(many == 3, np.nan, many), many * 0, list(range(40)))


def test_models_are_compared_where_both_have_a_value() -> None:
    clusters = tuple("abcde")
    keys = tuple((scene, "") for scene in clusters)
    groups = [Group(model, "d", "u", "corrected", keys, clusters) for model in ("one", "two")]
    values = ([1.0, np.nan, 3.0, 4.0, np.inf], [0.0, 0.0, np.nan, 2.0, 0.0])
    (found,) = pairwise_tables(["x"], groups, [np.array(column)[:, None] for column in values])
    # Differences 1 and 2; the infinite one counts as the largest of these.
    assert (found.targets, found.value) == (3, pytest.approx(5 / 3))
    assert found.p == 0.25


def test_boundary_iou_is_for_images() -> None:
    cube = Mask.box((9, 9, 9), (2, 2, 2), (6, 6, 6))
    with pytest.raises(BadInput, match="nsd and hd95"):
        boundary_iou(cube, cube)


def test_boundary_iou_of_a_volume_is_refused_without_the_kernels_too() -> None:
    script = (
        "from segmeter.measures.objects import boundary_iou\n"
        "from segmeter.core.errors import BadInput\n"
        "from segmeter.core.masks import Mask\n"
        "cube = Mask.box((9, 9, 9), (2, 2, 2), (6, 6, 6))\n"
        "try: print(boundary_iou(cube, cube))\n"
        "except BadInput: print('refused')\n"
    )
    plain = {**os.environ, "SEGMETER_PLAIN": "1"}
    told = subprocess.run(
        [sys.executable, "-c", script], env=plain, capture_output=True, text=True, check=True
    )
    assert told.stdout == "refused\n"


def test_if_both_bands_are_ignored_the_judged_parts_are_compared() -> None:
    ground_truth = Mask.box((60, 60), (2, 2), (20, 20))
    elsewhere = Mask.box((60, 60), (40, 40), (58, 58))
    ignore = (ground_truth | elsewhere) - (
        Mask.box((60, 60), (6, 6), (16, 16)) | Mask.box((60, 60), (44, 44), (54, 54))
    )
    assert boundary_iou(ground_truth, ground_truth, ignore) == 1.0
    assert boundary_iou(ground_truth, elsewhere, ignore) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: objects_and_parts(HALVES, HALVES, ANY),
        lambda: sweep_edge_map([Outline.of(HALVES > 1)], HALVES / 2, rule=ANY),
        lambda: nss([(1, 1)], HALVES / 2, ANY),
        lambda: pde([(1, 1)], HALVES / 2, ANY),
        lambda: compare([(1, 1)], HALVES / 2, (4, 4), 0, ANY),
        lambda: compare_samples([(1, 1)], [(1, 1)], (4, 4), ANY),
        lambda: against_baselines([_sweep(3)], [_sweep(3)], ANY),
        lambda: against_swapped([_sweep(3)], [_sweep(3)], ANY),
        lambda: failed([[0.5, 0.9]], 0.8, ANY),
    ],
)
def test_a_misspelt_protocol_or_rule_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BadInput, match="sonud"):
        call()


def _sweep(images: int) -> Sweep:
    return Sweep(np.linspace(0.1, 0.9, 2 * images).reshape(images, 2))


def test_methods_are_judged_on_the_same_images() -> None:
    for test in (against_baselines, against_swapped):
        with pytest.raises(BadInput, match=r"over 2 images .* over 1"):
            test([_sweep(2)], [_sweep(1)])
        assert 0 <= test([_sweep(2)], [_sweep(2)]).mean() <= 1


def test_edge_maps_are_suppressed_however_wide_they_are() -> None:
    ridge = np.zeros((3, 40_000), dtype=np.float32)
    ridge[1] = 1.0
    kept = suppress(ridge, margin=0)
    assert kept.shape == ridge.shape
    assert kept[1, 20_000] == 1.0
    assert suppress(ridge.T, margin=0).shape == (40_000, 3)


def test_negative_labels_are_refused_by_every_measure_of_partitions() -> None:
    wrong = HALVES - 5
    for measure in (boundary_f, scores):
        with pytest.raises(BadInput, match="labels start at 0"):
            measure(HALVES, wrong)
        with pytest.raises(BadInput, match="labels start at 0"):
            measure(wrong, HALVES)


def test_thinning_and_its_twin_refuse_negative_rounds() -> None:
    bits = np.ones((5, 9), dtype=bool)
    for way in (thin, plain_thin):
        with pytest.raises(BadInput, match="not -2"):
            way(bits, -2)
    assert np.array_equal(thin(bits, 0), bits)
