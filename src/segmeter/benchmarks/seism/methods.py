"""Two methods that read instead of segmenting: a folder of results, and people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from segmeter.core import catalogue
from segmeter.core.capabilities import Sweeps, capable
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import ModelCard, Segmentation
from segmeter.core.scenes import Scene

PEOPLE = "people"
Kind = Literal["regions", "edges"]


@catalogue.methods.add(PEOPLE, summary="each annotator against the others: human performance")
@capable(Sweeps)
class People:
    """People's own partitions; the benchmark compares each with the others'."""

    card = ModelCard(
        name=PEOPLE,
        summary="each annotator against the others: human performance",
        abilities=frozenset({"automatic"}),
    )

    def segment(self, scene: Scene) -> Segmentation:
        return next(iter(self.sweep(scene).values()))

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]:
        return {
            f"annotator {place}": Segmentation(labels=labels)
            for place, labels in enumerate(scene.partitions, start=1)
        }


@catalogue.methods.add("results", summary="a folder of your own results, one file per image")
@capable(Sweeps)
class ResultsFolder:
    """Results in a folder: `PATH/SCENE.ext`, or `PATH/SETTING/SCENE.ext`.

    A file is a label map, a list of them (`segs`) or a contour map (`ucm2`); see
    `segmeter.datasets.label_files`. Settings are taken in the order of their names, numbers
    by value.

    Parameters
    ----------
    kind
        `regions`, or `edges` where files are edge maps: grey images, or tables of numbers.
    suppressed
        Edge maps are thin already; otherwise only the crests of broad edges are kept.
    """

    def __init__(self, path: str | Path, kind: Kind = "regions", suppressed: bool = False) -> None:
        self.path, self.kind, self.suppressed = Path(path), kind, suppressed
        if kind not in get_args(Kind):
            raise BadInput(f"results are of kind {' or '.join(get_args(Kind))}, not '{kind}'")
        if not self.path.is_dir():
            raise NotFound(f"no folder '{self.path}' to take results from")
        if not self._files:
            raise BadInput(f"folder '{self.path}' holds no results: no label map, no .mat file")

    @cached_property
    def card(self) -> ModelCard:
        from segmeter.datasets.data_roots import digest

        files = [file for settings in self._files.values() for file in settings.values()]
        return ModelCard(
            name=self.path.name,
            summary=f"results in '{self.path}'",
            abilities=frozenset({"automatic"}),
            fingerprint=digest(files),
        )

    def segment(self, scene: Scene) -> Segmentation:
        return next(iter(self.sweep(scene).values()))

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]:
        settings = self._files.get(scene.id)
        if settings is None:
            raise NotFound(f"'{self.path}' holds no result for {scene.name}")
        found: dict[str, Segmentation] = {}
        for setting, file in settings.items():
            for part, result in self._read(file).items():
                found[" ".join(filter(None, (setting, part)))] = result
        return found

    def _read(self, file: Path) -> Mapping[str, Segmentation]:
        from segmeter.datasets.label_files import read_edge_map, read_results
        from segmeter.measures.suppression import suppress

        if self.kind == "regions":
            return read_results(file)
        edges = read_edge_map(file)
        return {"": Segmentation(edges=edges if self.suppressed else suppress(edges))}

    @cached_property
    def _files(self) -> dict[str, dict[str, Path]]:
        """By scene, then by setting in order."""
        from segmeter.datasets.label_files import RESULT_SUFFIXES

        found: dict[str, dict[str, Path]] = {}
        inside = [folder for folder in self.path.iterdir() if folder.is_dir()]
        inside.sort(key=lambda folder: (number_in(folder.name, math.inf), folder.name))
        for folder in (self.path, *inside):
            setting = "" if folder == self.path else folder.name
            for file in sorted(folder.iterdir()):
                if file.suffix.lower() in RESULT_SUFFIXES and file.is_file():
                    found.setdefault(file.stem, {}).setdefault(setting, file)
        return found


def number_in(setting: str, otherwise: float) -> float:
    """A setting's name as a number where it is one."""
    try:
        return float(setting)
    except ValueError:
        return otherwise
