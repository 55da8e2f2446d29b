"""Edges: how well automatic masks predict the boundaries that people draw."""

from __future__ import annotations

from dataclasses import replace

from segmeter.benchmarks.declared import Declared, elsewhere
from segmeter.benchmarks.seism import segmenter_spec
from segmeter.benchmarks.zeroshot.edges.methods import AUTOMATIC_EDGES, BASELINES
from segmeter.core import catalogue
from segmeter.core.benchmarks import RunOption
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_COLUMNS, JOB_KEY, Column, Schema

EDGE_ROWS = Schema(
    "edges",
    (
        *JOB_COLUMNS,
        Column("protocol", "text"),
        Column("threshold", "number"),
        Column("f", "number", "F of this image at this threshold"),
        Column(
            "matched_ground_truth", "integer", "people's pixels that have a partner, all people"
        ),
        Column("ground_truth_pixels", "integer"),
        Column("matched_prediction", "integer", "pixels of the map with a partner in any person's"),
        Column("prediction_pixels", "integer"),
        Column("cluster", "text"),
        Column("seconds_encode", "number"),
    ),
    (*JOB_KEY, "protocol", "threshold"),
)
"""One row for each threshold of an edge map."""

_SUMMARY = "edges of automatic masks against human boundaries (ODS, OIS, AP, R50)"


@catalogue.benchmarks.add("edges", summary=_SUMMARY)
class Edges(Declared):
    """Segment Anything's zero-shot edges (supplement E.2), compared with classical detectors.

    Models are turned into edge detectors by their automatic masks; methods have their own edge
    maps.
    """

    name = "edges"
    example = "--model mobile-sam --dataset bsds500 --data DATA"
    evaluates = ("model", "method")
    headline = ("ods", "ois", "ap", "r50")
    options = (RunOption("baselines", bool, True, "Also run classical edge detectors."),)
    schema = EDGE_ROWS
    work = elsewhere("methods:work")
    pages = "statistics"
    cases = "image"
    cited = "kirillov2023"

    def plan(self, plan: Plan) -> Plan:
        options = self.options_of(plan)
        segmenters = [
            segmenter_spec(s) if plan.kind == "method"
            else Spec(AUTOMATIC_EDGES, {"model": s.name, **s.options})
            for s in plan.segmenters
        ]  # fmt: skip
        if options["baselines"]:
            known = {spec.name for spec in segmenters}
            segmenters += [Spec(name) for name in BASELINES if name not in known]
        return replace(
            plan, segmenters=tuple(segmenters), kind="method", users=(), rounds=1, options=options
        )
