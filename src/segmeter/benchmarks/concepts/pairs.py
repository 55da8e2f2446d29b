"""Pairs of an image and a phrase: the data's own, class names with absent ones, or a CSV."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from segmeter.benchmarks.declared import digest_of
from segmeter.core.capabilities import HasPhrases, HasVocabulary
from segmeter.core.detection_ground_truth import WithDetectionGroundTruth
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator
from segmeter.datasets.groups import read_table
from segmeter.measures.concepts import Truths

Kind = Literal["positive", "negative", "hard negative"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A phrase on an image and the objects that it names, for each annotator."""

    phrase: str
    kind: Kind
    annotators: Sequence[Truths] = field(default_factory=lambda: [Truths([])])
    exhaustive: bool = True

    @property
    def example(self) -> Box | None:
        """The box of the largest object, which represents all; None for a negative pair."""
        drawn = [mask for one in self.annotators for mask in one.masks if mask]
        if not drawn:
            return None
        largest = max(drawn, key=lambda mask: mask.area)
        return Box.around(largest)

    def to_json(self) -> str:
        """One line that `from_json` reads back."""
        listed = [
            {
                "masks": [m.to_coco()["counts"] for m in one.masks],
                "crowds": [m.to_coco()["counts"] for m in one.crowds],
            }
            for one in self.annotators
        ]
        return json.dumps({"kind": self.kind, "exhaustive": self.exhaustive, "annotators": listed})

    @classmethod
    def from_json(cls, phrase: str, text: str, shape: Sequence[int]) -> Pair:
        try:
            data = json.loads(text)
            if data["kind"] not in get_args(Kind):
                raise ValueError(f"no kind {data['kind']!r}")
            annotators = [
                Truths(_masks(one["masks"], shape), _masks(one["crowds"], shape))
                for one in data["annotators"]
            ]
            return cls(phrase, data["kind"], annotators, bool(data["exhaustive"]))
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise BadInput(f"ground truth of '{phrase}' cannot be read: {error}") from error


def pairs_of(scene: Scene, phrases: str, negatives: float, seed: int) -> list[Pair]:
    """The pairs of a scene: by the CSV `phrases`, the data's own phrases, or class names.

    Of class names there is one positive pair per class in the image; `negatives` times as many
    absent classes, half of them at random, half those that occur most often together with the
    classes present, counted on the other images. LVIS names the absent classes itself.
    """
    if phrases:
        listed = read_phrases(phrases, digest_of(phrases)).get(scene.id, [])
        return [_listed_pair(scene, phrase, objects) for phrase, objects in listed]
    if isinstance(scene, HasPhrases):
        return [
            _pair(phrase, [Truths(*one) for one in annotators], exhaustive)
            for phrase, exhaustive, annotators in scene.phrases
        ]
    present = _present(scene)
    if not present:
        return []
    count = round(negatives * len(present))
    return [*present.values(), *_negatives(scene, present, count, seed)]


@lru_cache(maxsize=4)
def read_phrases(path: str, digest: str) -> Mapping[str, list[tuple[str, str | None]]]:
    """Phrases by image: a CSV with columns `image,phrase` and optionally `objects`.

    `objects` are ids of the objects that the phrase names, separated by spaces, and empty for a
    negative pair. Without that column a phrase names the objects of the class of that name.
    `digest` is the file's: it is read once for each.
    """
    rows = read_table(Path(path), "table of phrases", "image", "phrase")
    for number, row in enumerate(rows, start=2):
        if not row["image"] or not row["phrase"]:
            raise BadInput(f"'{path}', line {number}: a line needs at least an image and a phrase")
    found = grouped_pairs((row["image"], (row["phrase"], row.get("objects"))) for row in rows)
    for image, listed in found.items():
        if len({phrase for phrase, _ in listed}) != len(listed):
            raise BadInput(f"'{path}': image '{image}' has a phrase twice; give it once")
    return found


def _listed_pair(scene: Scene, phrase: str, objects: str | None) -> Pair:
    known = {target.id: target for target in scene.targets}
    if objects is None:
        chosen = [target for target in scene.targets if target.label == phrase]
    else:
        lost = [name for name in objects.split() if name not in known]
        if lost:
            raise NotFound(f"{scene.name} has no object '{lost[0]}', named for '{phrase}'")
        chosen = [known[name] for name in objects.split()]
    return _pair(phrase, [Truths([target.mask for target in chosen])])


def _pair(phrase: str, truths: Sequence[Truths], exhaustive: bool = True) -> Pair:
    kind: Kind = "positive" if any(one.masks for one in truths) else "negative"
    return Pair(phrase, kind, truths, exhaustive)


def _present(scene: Scene) -> dict[str, Pair]:
    """One pair per class of the image; a class with crowd regions is not exhaustive."""
    found: dict[str, tuple[list[Mask], list[Mask]]] = {}
    vague: set[str] = set()
    if isinstance(scene, WithDetectionGroundTruth):
        ground_truth = scene.detection_ground_truth
        names = {c.id: c.name for c in ground_truth.categories}
        vague = {names[i] for i in ground_truth.not_exhaustive if i in names}
        for thing in ground_truth.objects:
            if thing.category in names:
                found.setdefault(names[thing.category], ([], []))[thing.crowd].append(thing.mask)
    else:
        for target in scene.targets:
            if target.label:
                found.setdefault(target.label, ([], []))[0].append(target.mask)
    return {
        name: Pair(name, "positive", [Truths(*masks)], not masks[1] and name not in vague)
        for name, masks in sorted(found.items())
    }


def _negatives(scene: Scene, present: Mapping[str, Any], count: int, seed: int) -> list[Pair]:
    if not count:
        return []
    if not isinstance(scene, HasVocabulary):
        raise BadInput(
            f"{scene.name}: its dataset does not list its classes, so none is known to be absent; "
            "give --phrases FILE.csv, or --negatives 0"
        )
    known = {name: names for name, names in scene.classes_by_scene.items() if name != scene.id}
    absent = [name for name in scene.absent_classes if name not in present]
    together = Counter(name for names in known.values() if names & present.keys() for name in names)
    often = sorted(absent, key=lambda name: (-together[name], name))
    hard = [name for name in often if together[name]][: count // 2]
    rest = [name for name in absent if name not in hard]
    drawn = generator(seed, "negatives", scene.name).permutation(len(rest))[: count - len(hard)]
    return [
        *(Pair(name, "hard negative") for name in hard),
        *(Pair(rest[i], "negative") for i in sorted(drawn)),
    ]


def _masks(counts: Sequence[str], shape: Sequence[int]) -> list[Mask]:
    return [Mask.from_coco({"size": list(shape), "counts": text}) for text in counts]
