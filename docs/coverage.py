"""How often 95 % intervals hold the true mean: of clicks, seven ways, and of Dice of few patients.

    python docs/coverage.py [clicks | volumes]

Click counts are drawn as click benchmarks have them: skewed, cut at 20, one to three targets a
image, alike within it. The true mean is that of 400 000 such images. Dice is drawn per patient:
normal, skewed (beta 8, 2), the difference of two models on the same patients, and with one to
three scans per patient, alike within the patient.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
from scipy import stats

from segmeter.benchmarks.volumes.statistics import limits_of
from segmeter.core.benchmarks import FEWEST_PATIENTS
from segmeter.stats.intervals import Resampling, percentiles

Floats = npt.NDArray[np.float64]
TRIALS, RESAMPLES = 2000, 1000
WAYS = (
    "targets resampled, percentile",
    "images resampled, percentile",
    "images resampled, percentile with Student's tails",
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
    means = drawn.means(values)[:, 0]
    low, high = np.quantile(means, (0.025, 0.975))
    wide = percentiles(mean, means, images)
    sums = drawn.sums(values - mean)[:, 0]
    error = np.sqrt((sums**2).sum() * images / (images - 1)) / values.size
    t = stats.t.ppf(0.975, images - 1)
    ours = drawn.interval(values)
    return [
        tuple(np.quantile(naive.means(values)[:, 0], (0.025, 0.975))),
        (low, high),
        (wide.low, wide.high),
        (2 * mean - high, 2 * mean - low),
        (mean - 1.96 * error, mean + 1.96 * error),
        (mean - t * error, mean + t * error),
        (ours.low, ours.high),
    ]


def cases(rng: np.random.Generator, kind: str, patients: int) -> tuple[Floats, list[str], float]:
    """Dice of each case, its patient, and the true mean."""
    names = [str(k) for k in range(patients)]
    if kind == "normal":
        return rng.normal(0.8, 0.05, patients), names, 0.8
    if kind == "skewed":
        return rng.beta(8, 2, patients), names, 0.8
    hard = rng.beta(8, 2, patients)  # what both models share
    if kind == "difference":
        noise = rng.beta(2, 6, (2, patients))
        return hard * (1 - noise[0] / 4) - hard * (1 - noise[1] / 2), names, 0.8 * 0.25 / 4
    scans = rng.integers(1, 4, patients)
    values = np.repeat(hard, scans) + rng.normal(0, 0.05, scans.sum())
    return values, np.repeat(names, scans).tolist(), 0.8


KINDS = ("normal", "skewed", "difference", "1 to 3 scans per patient, skewed")


def held(kind: str, patients: int, trials: int = TRIALS) -> float:
    """Share of the intervals of volumes that hold the true mean."""
    rng = np.random.default_rng([patients, KINDS.index(kind)])
    inside = 0
    for _ in range(trials):
        values, names, truth = cases(rng, kind, patients)
        found = limits_of(values, names)
        inside += found.low <= truth <= found.high
    return inside / trials


def volumes() -> None:
    sizes = (5, 6, 7, 8, 9, 10, 15, 20, 50)
    print(
        f"| Dice of {FEWEST_PATIENTS} to {sizes[-1]} patients |", " | ".join(map(str, sizes)), "|"
    )
    print("|---|" + "---:|" * len(sizes))
    for kind in KINDS:
        print(f"| {kind} |", " | ".join(f"{100 * held(kind, n):.1f}" for n in sizes), "|")


def clicks_of_images() -> None:
    rng = np.random.default_rng(1)
    ground_truth = float(clicks(rng, 400_000)[0].mean())
    print(f"true mean {ground_truth:.3f}; {TRIALS} trials; coverage, mean width")
    for images in (10, 20, 50):
        given = [limits(*clicks(rng, images), seed=k) for k in range(TRIALS)]
        table = np.array(given)
        inside = ((table[..., 0] <= ground_truth) & (ground_truth <= table[..., 1])).mean(axis=0)
        width = (table[..., 1] - table[..., 0]).mean(axis=0)
        for way, share, wide in zip(WAYS, inside, width, strict=True):
            print(f"{images:3d} images  {way:<40} {100 * share:5.1f} %  {wide:5.2f}")


if __name__ == "__main__":
    for part in sys.argv[1:] or ("clicks", "volumes"):
        {"clicks": clicks_of_images, "volumes": volumes}[part]()
