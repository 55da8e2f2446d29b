"""A benchmark in one file: one click on the middle of every object, two statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from segmeter.benchmarks.declared import Declared
from segmeter.core.benchmarks import Group, Results, Row
from segmeter.core.models import Request, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click
from segmeter.core.rows import JOB_KEY, Column, Schema
from segmeter.core.scenes import Scene
from segmeter.core.scores_by_step import Tables
from segmeter.measures.objects import iou
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic

__all__ = ["Toy"]


@dataclass(frozen=True, slots=True)
class Pokes(Group):
    """One click on each object: overlap with it, and how much larger or smaller the mask is."""

    overlap: Floats
    ratio: Floats


@dataclass(frozen=True, slots=True)
class Toy(Declared):
    """One click on the middle of every object."""

    name: str = "toy_benchmark.py:Toy"
    headline: ClassVar[tuple[str, ...]] = ("wrong-size", "overlap")
    schema: ClassVar[Schema] = Schema(
        "pokes",
        (
            *(Column(name, "text") for name in (*JOB_KEY, "target", "protocol", "cluster")),
            Column("label", "text"),
            Column("overlap", "number"),
            Column("ratio", "number"),
        ),
        (*JOB_KEY, "target", "protocol"),
    )

    def plan(self, plan: Plan) -> Plan:
        return replace(plan, rounds=1, protocols=("corrected",))

    def work(self, segmenter: Any, scene: Scene, plan: Plan) -> list[Row]:
        encoded, rows = segmenter.encode(scene), []
        for target in scene.targets:
            places = np.argwhere(target.mask.dense())
            click = Click(tuple(map(float, places[len(places) // 2])))
            (mask,) = render(encoded, encoded.predict([Request((click,))]))
            rows.append(
                {
                    "target": target.id,
                    "protocol": "corrected",
                    "cluster": scene.id,
                    "label": target.label or f"kind {len(rows) % 2}",
                    "overlap": iou(target.mask, mask, None),
                    "ratio": (mask.area + 1) / (target.mask.area + 1),
                }
            )
        return rows

    def load(self, run: Results) -> Sequence[Group]:
        found = Tables.load(
            run,
            [],
            facts=["overlap", "ratio"],
            axis="protocol",
            by=("model", "dataset", "protocol"),
        )
        return [
            Pokes(*t.key, t.keys, t.clusters, t.numbers("overlap"), t.numbers("ratio"))
            for t in found
        ]

    def statistics(self, run: Results) -> Sequence[Statistic]:
        return [
            Statistic(
                "wrong-size", "wrong size", "octaves", 2, "lower",
                values=lambda g: np.abs(np.log2(g.ratio)), of=Pokes, tested="yes",
            ),
            Statistic(
                "overlap", "overlap", "%", 1, "higher", True,
                values=lambda g: g.overlap, of=Pokes, tested="yes",
            ),
        ]  # fmt: skip
