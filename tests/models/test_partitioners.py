"""Classical segmenters: what every one gives, and what each is known for."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.models import Method
from segmeter.core.scenes import Image, Scene
from segmeter.measures import ssc
from segmeter.measures.hierarchies import Hierarchy
from segmeter.models.partitioners import BoundaryStrength, ColourSpread, Quadtree, joined_at

METHODS = (
    "felzenszwalb",
    "mean-shift",
    "quadtree",
    "random-hierarchy",
    "slic-hierarchy",
    "watershed",
)
LOOKING = ("felzenszwalb", "mean-shift", "slic-hierarchy", "watershed")
QUARTERS = np.kron(np.array([[0, 1], [2, 3]]), np.ones((40, 60), int))


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Four plain quarters with a little noise."""
    colours = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200], [220, 220, 90]])
    noise = np.random.default_rng(1).integers(-6, 7, (*QUARTERS.shape, 3))
    pixels = (colours[QUARTERS] + noise).clip(0, 255).astype(np.uint8)
    return Image("drawn", "quarters", pixels, ())


def finest(method: Method, scene: Scene) -> np.ndarray:
    found = method.segment(scene)
    return found.labels if found.labels is not None else Hierarchy.of(found.levels).labels(0)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_covers_the_image_and_repeats_itself(name: str, scene: Scene) -> None:
    first, second = (finest(catalogue.methods.make(name), scene) for _ in range(2))
    assert first.shape == scene.shape
    assert first.min() >= 0
    assert np.array_equal(first, second)
    assert catalogue.methods.make(name).card.name == name


@pytest.mark.parametrize("name", LOOKING)
def test_a_method_that_reads_the_image_finds_four_quarters(name: str, scene: Scene) -> None:
    method = catalogue.methods.make(name)
    found = method.segment(scene)
    if found.levels is not None:
        hierarchy = Hierarchy.of(found.levels)
        labels = hierarchy.labels(hierarchy.threshold_for(4))
    else:
        labels = found.labels
    assert ssc(QUARTERS, labels) > 0.9


@pytest.mark.parametrize("name", ["felzenszwalb", "mean-shift"])
def test_a_flat_method_sweeps_from_fine_to_coarse(name: str, scene: Scene) -> None:
    sweep = catalogue.methods.make(name).sweep(scene)
    assert len(sweep) >= 9
    assert all(part.labels is not None for part in sweep.values())


def test_hierarchies_are_ultrametric(scene: Scene) -> None:
    """Regions that meet at a height stay together above it: levels only join."""
    for name in ("slic-hierarchy", "watershed", "random-hierarchy"):
        hierarchy = Hierarchy.of(catalogue.methods.make(name).segment(scene).levels)
        counts = [hierarchy.groups(t).max() + 1 for t in np.linspace(0, 1, 21)]
        assert counts == sorted(counts, reverse=True), name
        assert counts[-1] == 1, name
        assert counts[0] > 20, name


def test_random_joins_depend_on_seed_and_image_alone(scene: Scene) -> None:
    make = catalogue.methods.make
    same = [make("random-hierarchy").segment(scene).levels for _ in range(2)]
    other = make("random-hierarchy?seed=1").segment(scene).levels
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], other)


def test_the_published_quadtree_of_a_landscape_is_a_turned_portrait() -> None:
    landscape = Image("drawn", "wide", np.zeros((48, 64, 3), np.uint8), ())
    portrait = Image("drawn", "tall", np.zeros((64, 48, 3), np.uint8), ())
    turned = Quadtree(turned=True).segment(landscape).levels
    assert np.array_equal(turned, np.rot90(Quadtree().segment(portrait).levels))
    assert turned.shape == (97, 129)
    assert not np.array_equal(turned, Quadtree().segment(landscape).levels)


def test_joining_by_colour_takes_the_nearest_first() -> None:
    labels = np.array([[0, 1, 2]] * 2)
    colours = np.array([0.0, 1.0, 10.0])[labels][..., None] * np.ones(3)
    apart = joined_at(labels, ColourSpread(labels, colours))
    assert apart[0, 1] < apart[0, 2]
    assert apart[1, 2] == apart[0, 2]
    assert np.array_equal(apart, apart.T)


def test_joining_by_boundary_averages_shared_lengths() -> None:
    """0 and 1 part over a weak line; what is left meets at the mean over both lines."""
    labels = np.array([[0, 0, 1, 1], [2, 2, 2, 2]])
    strength = np.array([[0.2, 0.1, 0.1, 0.4], [0.2, 0.2, 0.4, 0.4]])
    apart = joined_at(labels, BoundaryStrength(labels, strength))
    assert apart[0, 1] == pytest.approx(0.1)
    assert apart[0, 2] == pytest.approx((0.2 + 0.2 + 0.4 + 0.4) / 4)
