"""How often 95 % intervals of a mean number of clicks hold the true mean: six ways compared.

    python docs/coverage.py

Click counts are drawn as click benchmarks have them: skewed, cut at 20, one to three targets a
image, alike within it. The true mean is that of 400 000 such images.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from segmeter.stats.intervals import Resampling

Floats = npt.NDArray[np.float64]
TRIALS, RESAMPLES = 2000, 1000
WAYS = (
    "targets resampled, percentile",
    "images resampled, percentile",
    "images resampled, basic",
    "normal, clustered standard error",
    "Student's t, clustered standard error",
    "BCa with Student's tails (ours)",
)


def clicks(rng: np.random.Generator, images: int) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Clicks of each target, and its image."""
    place = np.repeat(np.arange(images), rng.integers(1, 4, images))
    depth = 0.7 * rng.normal(size=images)[place] + 0.7 * rng.normal(size=place.size)
    share = np.clip(stats.norm.cdf(depth), 0, 0.999999)
    return np.clip(np.floor(-4 * np.log1p(-share)) + 1, 1, 20), place


def limits(values: Floats, place: npt.NDArray[np.intp], seed: int) -> list[tuple[float, float]]:
    """The interval that each way gives."""
    mean, images = values.mean(), place.max() + 1
    drawn = Resampling(place.tolist(), resamples=RESAMPLES, seed=seed)
    naive = Resampling(range(values.size), resamples=RESAMPLES, seed=seed)
    low, high = np.quantile(drawn.means(values)[:, 0], (0.025, 0.975))
    sums = drawn.sums(values - mean)[:, 0]
    error = np.sqrt((sums**2).sum() * images / (images - 1)) / values.size
    t = stats.t.ppf(0.975, images - 1)
    ours = drawn.interval(values)
    return [
        tuple(np.quantile(naive.means(values)[:, 0], (0.025, 0.975))),
        (low, high),
        (2 * mean - high, 2 * mean - low),
        (mean - 1.96 * error, mean + 1.96 * error),
        (mean - t * error, mean + t * error),
        (ours.low, ours.high),
    ]


def main() -> None:
    rng = np.random.default_rng(1)
    ground_truth = float(clicks(rng, 400_000)[0].mean())
    print(f"true mean {ground_truth:.3f}; {TRIALS} trials; coverage, mean width")
    for images in (10, 20, 50):
        given = [limits(*clicks(rng, images), seed=k) for k in range(TRIALS)]
        table = np.array(given)
        held = ((table[..., 0] <= ground_truth) & (ground_truth <= table[..., 1])).mean(axis=0)
        width = (table[..., 1] - table[..., 0]).mean(axis=0)
        for way, share, wide in zip(WAYS, held, width, strict=True):
            print(f"{images:3d} images  {way:<40} {100 * share:5.1f} %  {wide:5.2f}")


if __name__ == "__main__":
    main()
