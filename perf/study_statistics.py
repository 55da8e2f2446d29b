"""Coverage and error rate of the rating statistics in simulated studies with known effects.

    python perf/study_statistics.py [--studies 400] [--raters 12] [--targets 20] [--workers 1]

Scores of two models that differ by 0.8, with random raters, targets and their interactions, are
analysed by the mixed-effects model and by intervals that resample images or raters. Printed are the
shares of 95 % intervals that contain the true difference, and the share of p < 0.05 without one.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

from segmeter.stats.mask_ratings import Ratings, fit_ratings, resampled_difference

EFFECT = 0.8
FALSE = "p < 0.05 without a difference"


def study(seed: int, effect: float, raters: int, targets: int, each: int) -> Ratings:
    """One simulated study, without rounding to the scale, so that the true effect is known."""
    rng = np.random.default_rng(seed)
    rater, target = rng.normal(0, 0.7, raters), rng.normal(0, 1.0, targets)
    mask, taste = rng.normal(0, 0.6, (targets, 2)), rng.normal(0, 0.3, (raters, 2))
    rows = []
    for t in range(targets):
        for m in range(2):
            for r in rng.choice(raters, each, replace=False).tolist():
                value = 6 + effect * m + rater[r] + target[t] + mask[t, m] + taste[r, m]
                rows.append((f"m{m}", f"t{t}", f"r{r}", float(value + rng.normal(0, 0.8))))
    names = [row[1] for row in rows]
    people = [row[2] for row in rows]
    return Ratings([row[0] for row in rows], names, names, people, [row[3] for row in rows])


def judged(seed: int, raters: int, targets: int, each: int) -> dict[str, bool]:
    """Which intervals of one study contain the true difference; whether p < 0.05 without one."""
    given = study(seed, EFFECT, raters, targets, each)
    contrast = fit_ratings(given).contrast("m1", "m0")
    found = {"mixed-effects model": (contrast.low, contrast.high)}
    for by in ("images", "raters"):
        interval = resampled_difference(given, "m1", "m0", by)
        found[f"resampling {by}"] = (interval.low, interval.high)
    null = study(10**6 + seed, 0.0, raters, targets, each)
    return {
        **{name: low <= EFFECT <= high for name, (low, high) in found.items()},
        FALSE: bool(fit_ratings(null).contrast("m1", "m0").p < 0.05),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--raters", type=int, default=12)
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    one = partial(judged, raters=given.raters, targets=given.targets, each=given.each)
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        studies = list(pool.map(one, range(given.studies), chunksize=5))
    print(
        json.dumps(
            {"studies": len(studies)}
            | {
                name: round(float(np.mean([each[name] for each in studies])), 4)
                for name in studies[0]
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
