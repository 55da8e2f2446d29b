"""Partitions and boundaries: how well a method cuts images the way people do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.seism.methods import PEOPLE
from segmeter.core import catalogue
from segmeter.core.benchmarks import PaperLayout
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_COLUMNS, JOB_KEY, Column, Kind, Schema


def _columns(kind: Kind, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name in names)


SEISM_ROWS = Schema(
    "settings",
    (
        *JOB_COLUMNS,
        Column("place", "integer", "of the setting in the sweep, from 1"),
        Column("setting", "text", "of the method, or the threshold of its hierarchy"),
        Column("threshold", "number"),
        *_columns("number", "fb", "pb", "rb"),
        *_columns(
            "integer",
            "matched_ground_truth",
            "ground_truth_pixels",
            "matched_prediction",
            "prediction_pixels",
        ),
        *_columns("integer", "regions"),
        *_columns("number", "dhd", "sdhd", "vd", "sc", "ssc", "bgm", "bce", "gce", "lce", "voi"),
        *_columns("number", "nvoi", "pri", "fr", "pr", "rr", "fop", "pop", "rop", "fop_paper"),
        *_columns("number", "pop_paper", "rop_paper"),
        Column("covered", "number", "pixels of ground-truth regions that are covered"),
        Column("coverable", "integer"),
        Column("best_covered", "number", "covered when every region chooses its setting"),
        Column("cluster", "text", "what intervals resample: the image"),
        Column("shape", "integers", "height and width"),
        *_columns("number", "seconds_encode", "seconds_measure"),
    ),
    (*JOB_KEY, "place"),
)
"""One row for each setting of a method on an image."""

_SUMMARY = "partitions and boundaries against human ones (F_b, F_op, covering, PRI, VoI)"


@catalogue.benchmarks.add("seism", summary=_SUMMARY)
class Seism(Declared):
    """Methods swept over their settings against all annotators of each image.

    People are judged too, each one against the others: the point that methods aim at.
    """

    name = "seism"
    example = "--method quadtree --dataset bsds500 --data DATA"
    evaluates = ("method",)
    schema = SEISM_ROWS
    pages = "statistics"
    cases = "image"
    headline = ("fb-ods", "fop-ods", "covering-ods", "pri-ods", "voi-ods")
    cited = "ponttuset2016"
    layout = PaperLayout(
        {"fb-ods": "Fb", "fop-ods": "Fop"},
        "Boundaries (Fb) and objects and parts (Fop), best setting for the whole dataset (ODS)",
    )

    def plan(self, plan: Plan) -> Plan:
        if plan.kind != "method" and plan.segmenters:
            raise BadInput(
                "seism evaluates methods, not models; give --method NAME, or a folder of results"
            )
        segmenters = [segmenter_spec(spec) for spec in plan.segmenters]
        if segmenters and not any(spec.name == PEOPLE for spec in segmenters):
            segmenters.append(Spec(PEOPLE))
        return replace(
            plan,
            segmenters=tuple(segmenters),
            kind="method",
            users=(),
            rounds=1,
            options=self.options_of(plan),
        )


def segmenter_spec(spec: Spec) -> Spec:
    """A method of the catalogue, or the folder that holds a method's results.

    A folder without results is refused here, before anything is written.
    """
    if not Path(spec.name).is_dir():
        return spec
    folder = Spec("results", {"path": spec.name, **spec.options})
    catalogue.methods.make(folder)
    return folder
