"""`--convention monai` gives the surface measures that MONAI computes."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.measures.judging import Surfaces

torch = pytest.importorskip("torch")

SPACINGS = [(1.0, 1.0, 1.0), (5.0, 0.8, 0.8), (2.5, 1.2, 0.7)]


def ellipsoid(rng: np.random.Generator) -> Mask:
    """An ellipsoid with a rough surface; some reach the border of the volume."""
    shape = (18, 30, 26)
    centre = np.array(shape) * rng.uniform(0.3, 0.7, 3)
    radii = np.array(shape) * rng.uniform(0.15, 0.5, 3)
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)
    distances = (((grid - centre) / radii) ** 2).sum(-1)
    return Mask.of(distances + rng.normal(0, 0.15, shape) < 1)


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("seed", range(4))
def test_surface_measures_equal_those_of_monai(
    seed: int, spacing: tuple[float, float, float]
) -> None:
    metrics = pytest.importorskip("monai.metrics")
    rng = np.random.default_rng(seed)
    truth, mask = ellipsoid(rng), ellipsoid(rng)
    found = Surfaces("2", "monai").scores(truth, mask, spacing, "liver")
    ours, theirs = (torch.from_numpy(m.dense())[None, None].float() for m in (mask, truth))
    expected = {
        "hd95": metrics.compute_hausdorff_distance(ours, theirs, percentile=95, spacing=spacing),
        "mean-surface-distance": metrics.compute_average_surface_distance(
            ours, theirs, symmetric=True, spacing=spacing
        ),
        "nsd": metrics.compute_surface_dice(ours, theirs, [2.0], spacing=spacing),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), rel=1e-5), name
