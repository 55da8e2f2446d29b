"""Screening of careless raters in simulated studies with known effects.

    python perf/study_screening.py [--studies 200] [--raters 40] [--careless 0.1]

Careful raters follow the quality of a mask with their own strictness and noise. Careless ones are
one of three sorts: random scores at normal speed, random scores in a hurry, nearly always the same
score. Printed are the shares of both that the rules of `segmeter.study.validity` exclude, and the
mean estimate of a difference between two models with and without exclusions.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.study.plan import Plan, parse_plan
from segmeter.study.validity import excluded_people

PLAN = """
kind = "rate"
[design]
batch = 10
batches_per_person = 3
[[masks]]
name = "a"
[[masks]]
name = "b"
[[masks]]
name = "known"
rated = false
[[rating.gold]]
scene = "s0"
masks = "known"
low = 7
[[rating.gold]]
scene = "s1"
masks = "known"
high = 4
[[rating.gold]]
scene = "s2"
masks = "known"
low = 7
"""
EFFECT = 0.8
SORTS = ("random", "hurried", "straight")


class Rater:
    """A simulated rater; `sort` is None for careful ones."""

    def __init__(self, name: str, sort: str | None, rng: np.random.Generator) -> None:
        self.name, self.sort, self.rng = name, sort, rng
        self.strict, self.noise = rng.normal(0, 0.7), rng.uniform(0.6, 1.2)
        self.usual = int(rng.integers(5, 9))
        self.pace = float(rng.lognormal(2.8, 0.35)) * (0.12 if sort == "hurried" else 1.0)

    def score(self, value: float) -> int:
        if self.sort == "straight":
            return self.usual if self.rng.random() < 0.97 else self.usual + 1
        if self.sort is not None:
            return int(self.rng.integers(1, 11))
        felt = value + self.strict + self.rng.normal(0, self.noise)
        return int(np.clip(np.rint(felt), 1, 10))

    def row(self, scene: int, source: str, value: int, right: bool | None) -> dict[str, Any]:
        ms = 1000 * self.pace * float(self.rng.lognormal(0, 0.4))
        return {
            "person": self.name,
            "scene": f"s{scene}",
            "target": "t",
            "source": source,
            "condition": source,
            "training": False,
            "check": right is not None,
            "answered": 1.0,
            "score": value,
            "flag_bad": ["too_fast"] if ms < 2000 else [],
            "flag_right": right,
            "server_total_ms": ms,
            "latency_ms": None,
        }


def simulated(seed: int, raters: int, careless: float) -> tuple[list[dict[str, Any]], set[str]]:
    """All trials of a study, and who is careless."""
    rng = np.random.default_rng(seed)
    targets = 60
    quality = {m: rng.normal(6 + EFFECT * k, 1.6, targets) for k, m in enumerate("ab")}
    shared = rng.normal(0, 1.0, targets)
    bad = {f"r{k}": SORTS[k % 3] for k in range(round(careless * raters))}
    rows: list[dict[str, Any]] = []
    for name in (f"r{k}" for k in range(raters)):
        rater = Rater(name, bad.get(name), rng)
        for k, target in enumerate(rng.permutation(targets)[:30].tolist()):
            source = "ab"[k % 2]
            given = rater.score(float(quality[source][target] + shared[target]))
            rows.append(rater.row(target, source, given, None))
        for place, value in ((0, 9.0), (1, 2.0), (2, 9.0)):
            given = rater.score(value)
            right = given <= 4 if place == 1 else given >= 7
            rows.append(rater.row(place, "known", given, right))
    return rows, set(bad)


def difference(rows: list[dict[str, Any]], without: set[str]) -> float:
    """Mean of b minus a over targets that both have."""
    scores: dict[str, dict[str, list[int]]] = {"a": {}, "b": {}}
    for row in rows:
        if row["source"] in scores and row["person"] not in without:
            scores[row["source"]].setdefault(row["scene"], []).append(row["score"])
    common = scores["a"].keys() & scores["b"].keys()
    return float(np.mean([np.mean(scores["b"][s]) - np.mean(scores["a"][s]) for s in common]))


def screen(studies: int, raters: int, careless: float) -> dict[str, Any]:
    """Shares over many studies, and how far exclusions move the estimate."""
    plan: Plan = parse_plan(PLAN, Path())
    found, wrong, shifts, raw = [], [], [], []
    for seed in range(studies):
        rows, bad = simulated(seed, raters, careless)
        excluded = excluded_people(plan, rows)
        found.append(len(excluded & bad) / max(1, len(bad)))
        wrong.append(len(excluded - bad) / (raters - len(bad)))
        careful = difference(rows, bad)
        shifts.append(difference(rows, excluded) - careful)
        raw.append(difference(rows, set()) - careful)
    return {
        "studies": studies,
        "careless found": round(float(np.mean(found)), 4),
        "others excluded": round(float(np.mean(wrong)), 4),
        "bias with exclusions": round(float(np.mean(shifts)), 4),
        "its standard error": round(float(np.std(shifts) / np.sqrt(studies)), 4),
        "bias without exclusions": round(float(np.mean(raw)), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--raters", type=int, default=40)
    parser.add_argument("--careless", type=float, default=0.1)
    given = parser.parse_args()
    print(json.dumps(screen(given.studies, given.raters, given.careless), indent=1))


if __name__ == "__main__":
    main()
