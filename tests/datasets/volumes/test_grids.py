"""Orientation: all 48 of them, oblique ones, and what the published code makes of some."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.datasets.volumes.stored import Grid

from .orientations import ORIENTATIONS, turned


@pytest.mark.parametrize(("world", "flips"), ORIENTATIONS)
def test_every_orientation_comes_back(world, flips):
    grid = turned(world, flips)
    scene = np.arange(5 * 7 * 9).reshape(grid.shape)
    stored = grid.to_file(scene)
    assert stored.shape == grid.size
    assert np.array_equal(grid.to_scene(stored), scene)
    assert grid.shape == (9, 7, 5)
    assert grid.spacing_mm == (3.0, 2.0, 1.0)
    assert np.allclose(grid.scene_affine @ (0, 0, 0, 1), (0, 0, 0, 1))
    for point in ((0, 0, 0), (8, 6, 4), (3, 2, 1)):
        index = grid.file_index(point)
        assert stored[index] == scene[point]
        z, y, x = point
        assert np.allclose(grid.affine @ (*index, 1), (x, 2 * y, 3 * z, 1))


def published_scene_index(grid, index):
    """A scene's point as IntRaBench's code has it: wrong for cyclic permutations such as PSR."""
    world, flipped = grid.axes
    upright = [n - 1 - i if f else i for n, i, f in zip(grid.size, index, flipped, strict=True)]
    return tuple(upright[world[w]] for w in (2, 1, 0))


def published_file_boxes(grid, boxes):
    """Slice boxes `{z: (x0, y0, x1, y1)}` in file coordinates, as IntRaBench's code has them.

    Both corners are mapped as points and sorted; the slice is the larger third coordinate,
    so boxes fold onto one slice wherever the superior axis is not the file's last.
    """
    return _folded(
        (grid.file_index((z, y0, x0)), grid.file_index((z, y1, x1)))
        for z, (x0, y0, x1, y1) in boxes.items()
    )


def published_scene_boxes(grid, boxes):
    """The way back of `published_file_boxes`, with the published point mapping."""
    return _folded(
        (
            published_scene_index(grid, (i0, j0, k))[::-1],
            published_scene_index(grid, (i1, j1, k))[::-1],
        )
        for k, (i0, j0, i1, j1) in boxes.items()
    )


def _folded(corners):
    found = {}
    for one, other in corners:
        (a0, a1), (b0, b1), (_, key) = (
            sorted((int(p), int(q))) for p, q in zip(one, other, strict=True)
        )
        found[key] = (a0, b0, a1, b1)
    return found


def test_the_golden_orientations(golden):
    record = json.loads((golden / "volumes" / "orientation.json").read_text())
    for code, case in record["codes"].items():
        grid = Grid(case["file_shape"], case["affine"])
        assert grid.code == code
        for point in case["points"]:
            x, y, z = point["canonical_xyz"]
            index = tuple(point["file_ijk"])
            assert grid.file_index((z, y, x)) == index
            assert (z, y, x) == tuple(point["correct_back_to_zyx"])
            assert published_scene_index(grid, index) == tuple(point["published_back_to_zyx"])
        boxes = {int(z): tuple(box) for z, box in case["box_in"].items()}
        there = published_file_boxes(grid, boxes)
        back = published_scene_boxes(grid, there)
        assert there == _boxes(case["published_box_in_file_order"])
        assert back == _boxes(case["published_box_after_round_trip"])
        sides = np.linalg.norm(grid.affine[:3, :3], axis=0)
        assert sides.tolist() == case["correct_voxel_sizes_file_axes"]


def _boxes(record):
    return {int(z): tuple(box) for z, box in record.items()}


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_oblique_axes_are_given_as_nibabel_gives_them(seed, near):
    orientations = pytest.importorskip("nibabel.orientations")
    rng = np.random.default_rng(seed)
    affine = np.eye(4)
    affine[:3, :3] = rng.normal(size=(3, 3))
    if near:  # close to one of the 48
        affine[:3, :3] = np.eye(3)[rng.permutation(3)] * rng.choice([-1, 1], 3)
        affine[:3, :3] += rng.normal(scale=0.1, size=(3, 3))
    world, flipped = Grid((1, 1, 1), affine).axes
    expected = orientations.io_orientation(affine)
    assert [*world] == expected[:, 0].astype(int).tolist()
    assert [*flipped] == (expected[:, 1] < 0).tolist()


@pytest.mark.parametrize(
    ("affine", "said"),
    [
        (np.diag([1.0, 0, 1, 1]), "cannot be inverted"),
        ([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], "cannot be inverted"),
        (np.diag([1.0, np.nan, 1, 1]), "not finite"),
    ],
)
def test_an_affine_that_maps_nowhere_is_refused(affine, said):
    with pytest.raises(BadInput, match=said):
        Grid((3, 4, 5), affine).check("'scan.nii'")


def test_two_files_of_one_grid_are_distinguished_from_two_grids():
    upright, other = turned((0, 1, 2), (False,) * 3), turned((1, 2, 0), (True, False, True))
    assert upright.same(other)
    moved = np.array(other.affine)
    moved[0, 3] += 0.5
    assert not upright.same(Grid(other.size, moved))
    assert not upright.same(turned((0, 1, 2), (False,) * 3, size=(5, 7, 8)))
