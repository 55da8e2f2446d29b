"""Concept segmentation: a phrase in, masks of all objects that it names out, negatives included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

from segmeter.benchmarks.concepts.pairs import Pair, pairs_of, read_phrases
from segmeter.benchmarks.declared import Declared
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row, RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import Model, Request
from segmeter.core.plans import Plan
from segmeter.core.prompts import Prompt, Text
from segmeter.core.rows import DETECTION_ROWS, JOB_KEY, Column
from segmeter.core.scenes import Dataset, Scene
from segmeter.users.simulation import timed_encode

CONCEPT_ROWS = replace(
    DETECTION_ROWS.plus(
        [
            Column("target", "text", "the phrase"),
            Column("ground_truth", "text", "the objects that it names as JSON, in rank 0"),
            Column("seconds_encode", "number"),
        ]
    ),
    key=(*JOB_KEY, "target", "protocol", "rank"),
)


@catalogue.benchmarks.add("concepts", summary="all objects that a text prompt names, by cgF1")
@capable(ChecksData)
class Concepts(Declared):
    """All objects of a phrase: cgF1, its parts, and recall of the named objects."""

    name = "concepts"
    example = "--model text-detect --dataset coco --data DATA"
    headline = ("cgf1", "pmf1", "il-mcc", "recall@0.5", "top-1")
    options = (
        RunOption(
            "phrases", str, "", "CSV of image, phrase and optionally objects; by default the class "
            "names of the data are the phrases.",
        ),
        RunOption("negatives", float, 1.0, "Absent classes per class that is present.", 0, 100),
        RunOption(
            "prompt", str, "text", "The phrase, the box of its largest object as an example "
            "(positive pairs only), or both.", choices=("text", "box", "both"),
        ),
    )  # fmt: skip
    file_option = "phrases"
    schema = CONCEPT_ROWS
    pages = "statistics"
    cases = "pair"
    cited = "carion2025"

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        file = plan.options["phrases"]
        known = {scene for dataset in datasets.values() for scene in dataset.scenes()}
        if file and not read_phrases(file, plan.options["digest"]).keys() & known:
            raise BadInput(f"'{file}' lists no image of the datasets")

    def needs(self, plan: Plan) -> frozenset[str]:
        kinds = {"text": ("text",), "box": ("example",), "both": ("text", "example")}
        return frozenset(kinds[plan.options["prompt"]])

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        prompt = plan.options["prompt"]
        pairs = pairs_of(scene, plan.options["phrases"], plan.options["negatives"], plan.seed)
        asked = [(pair, given) for pair in pairs if (given := _prompts(pair, prompt))]
        encoded, seconds_encode = timed_encode(segmenter, scene)
        start = perf_counter()
        predictions = encoded.predict([Request(given) for _, given in asked])
        rows: list[Row] = []
        for (pair, _), prediction in zip(asked, predictions, strict=True):
            found = [(float(s), prediction.mask(k)) for k, s in enumerate(prediction.scores)]
            found.sort(key=lambda one: -one[0])
            head: Row = {
                "target": pair.phrase,
                "protocol": "both",
                "cluster": scene.id,
                "shape": list(scene.shape),
                "label": pair.kind,
            }
            truth = {"ground_truth": pair.to_json(), "seconds_encode": seconds_encode}
            rows.append(head | {"rank": 0} | truth)
            rows += [
                head | {"rank": rank, "score": score, "mask": mask.to_coco()["counts"]}
                for rank, (score, mask) in enumerate(found, start=1)
            ]
        seconds = (perf_counter() - start) / max(1, len(asked))
        return [row | {"seconds": seconds} for row in rows]


def _prompts(pair: Pair, prompt: str) -> tuple[Prompt, ...]:
    """The phrase, an example box or both; nothing for a pair without an object to show."""
    words = () if prompt == "box" else (Text(pair.phrase),)
    shown = () if prompt == "text" or pair.example is None else (pair.example,)
    return (*words, *shown)
