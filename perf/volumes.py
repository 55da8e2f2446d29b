"""Volumes: distances, components and surfaces inside their box against SciPy on the whole.

    python perf/volumes.py

A target like a liver in a CT of 512 x 512 x 300 voxels of 1.5 x 0.8 x 0.8 mm, one thread. SciPy
and scikit-image get what people hand them, the whole volume; "SciPy in the box" shows how much
of the ratio is the box and how much the kernel. Prompters are timed on the same target. Ten
prompters with a real network, and memory: perf/volume_networks.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from skimage import measure

from segmeter.core.masks import Mask
from segmeter.core.morphology import components, squared_depths
from segmeter.measures.surfaces import surface_distances, voxel_surface_distances
from segmeter.users.volumes.initial_prompts import (
    PublishedDraws,
    alternating_points_per_slice,
    centre_point_per_slice,
    interpolated_boxes,
    interpolated_points,
    points_per_slice,
)
from segmeter.users.volumes.refinement_prompts import scribble_correction
from stopwatch import milliseconds, row

SHAPE = CT = (300, 512, 512)
SPACING_MM = (1.5, 0.8, 0.8)
Bits = npt.NDArray[np.bool_]


def ellipsoid(centre: tuple[int, ...], radii: tuple[int, ...]) -> Bits:
    """An ellipsoid in voxels of the whole CT, on a grid of SHAPE."""
    grid = np.ogrid[tuple(slice(0, whole, whole / n) for whole, n in zip(CT, SHAPE, strict=True))]
    away: Any = sum(((g - c) / r) ** 2 for g, c, r in zip(grid, centre, radii, strict=True))
    return np.asarray(away <= 1)


def target_and_prediction() -> tuple[Bits, Bits]:
    """Two bodies that nearly agree, in a box of 8 million voxels."""
    ground_truth = ellipsoid((140, 250, 230), (60, 90, 110)) | ellipsoid(
        (120, 330, 300), (40, 40, 40)
    )
    prediction = ellipsoid((143, 252, 226), (58, 92, 108)) | ellipsoid(
        (122, 330, 304), (41, 39, 38)
    )
    return ground_truth, prediction


def whole_surfaces(ground_truth: Bits, prediction: Bits) -> None:
    """The usual way: borders by erosion, two distance transforms, distances at borders."""
    outer = [mask & ~ndimage.binary_erosion(mask) for mask in (ground_truth, prediction)]
    for one, other in (outer, outer[::-1]):
        ndimage.distance_transform_edt(~other, sampling=SPACING_MM)[one]


def kernels(ground_truth: Bits, prediction: Bits) -> None:
    masks = Mask.of(ground_truth), Mask.of(prediction)
    box = masks[0].bits
    print(f"{'':<44} {'SciPy, whole':>13} {'ours':>13} {'ratio':>10}   (CPU, one thread)")
    depth = milliseconds(lambda: squared_depths(box, SPACING_MM), 3)
    row(
        "depth in mm (EDT)",
        milliseconds(lambda: ndimage.distance_transform_edt(ground_truth, sampling=SPACING_MM), 1),
        depth,
    )
    parts = milliseconds(lambda: components(box), 3)
    full = np.ones((3, 3, 3))
    label: Any = measure.label  # it has no types of its own
    row("26-components", milliseconds(lambda: ndimage.label(ground_truth, full), 1), parts)
    row(
        "  the same by scikit-image",
        milliseconds(lambda: label(ground_truth, connectivity=3), 1),
        parts,
    )
    row(
        "surface distances, outermost voxels",
        milliseconds(lambda: whole_surfaces(ground_truth, prediction), 1),
        milliseconds(lambda: voxel_surface_distances(*masks, SPACING_MM), 3),
    )
    corners = milliseconds(lambda: surface_distances(*masks, SPACING_MM), 3)
    print(f"{'surface distances, corners with areas':<44} {'':>13} {corners:10.3f} ms")
    print("\nSciPy in the box, for the kernels alone:")
    row(
        "depth in mm (EDT)",
        milliseconds(
            lambda: ndimage.distance_transform_edt(np.pad(box, 1), sampling=SPACING_MM), 1
        ),
        depth,
    )
    row("26-components", milliseconds(lambda: ndimage.label(box, full), 1), parts)


def prompters(ground_truth: Bits, prediction: Bits) -> None:
    target, mask = Mask.of(ground_truth), Mask.of(prediction)
    slices = target.bits.shape[0]
    print(f"\nPrompters of that target, {slices} slices, milliseconds:")
    for name, prompt in {
        "1 point per slice": lambda: points_per_slice(target, 1, PublishedDraws()),
        "10 points per slice": lambda: points_per_slice(target, 10, PublishedDraws()),
        "10 alternating points per slice": lambda: alternating_points_per_slice(
            target, 10, PublishedDraws()
        ),
        "centre per slice": lambda: centre_point_per_slice(target),
        "10-point interpolation": lambda: interpolated_points(target, 10, "published"),
        "10-box interpolation": lambda: interpolated_boxes(target, 10, "published"),
        "scribble": lambda: scribble_correction(target, mask, PublishedDraws(), "published"),
    }.items():
        print(f"    {name:<40} {milliseconds(prompt, 3):10.1f}")


def main() -> None:
    ground_truth, prediction = target_and_prediction()
    kernels(ground_truth, prediction)
    prompters(ground_truth, prediction)


if __name__ == "__main__":
    main()
