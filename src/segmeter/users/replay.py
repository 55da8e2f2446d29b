"""The replay users: repeat clicks, or prompts of any kind, that real people gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesLater, GivesPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.prompts import Click, Prompt, Prompts, kind_of
from segmeter.core.scenes import Dataset
from segmeter.core.users import Observation
from segmeter.datasets.recorded_clicks import Clicks, UnknownImage, read_clicks, read_prompts

Ints = npt.NDArray[np.int64]

# The file's own names of datasets.
NAMES = {
    "grabcut": "GrabCut",
    "berkeley": "Berkeley",
    "davis": "DAVIS",
    "coco-mval": "COCO",
    "tetris": "TETRIS",
}


@catalogue.users.add("replay", "replays a recorded first click (clicks=FILE)")
@dataclass(frozen=True, slots=True)
class ReplayUser:
    """Makes one recorded first-round click on the target, then accepts the mask.

    `person` counts the recorded clicks of a target from 1; without such a click the user accepts
    the mask from the start. `published` takes coordinates as they are, `corrected` scales them
    from the size of the image that people saw.
    """

    clicks: str
    person: int = 1

    @property
    def name(self) -> str:
        return f"replay-{self.person}"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        if observation.prompts:
            return None
        file, first_rounds = open_clicks(Path(self.clicks))
        scene = observation.scene
        places = recorded(first_rounds, scene.dataset, scene.id, observation.target.id)
        if self.person > len(places):
            return None
        place = places[self.person - 1 : self.person]
        shape = (scene.shape[0], scene.shape[1])
        if observation.protocol == "corrected":
            point = file.scaled(place, shape)[0]
        else:
            point = file.points[place][0].astype(np.float64)
        y, x = np.clip(point, 0, np.array(shape) - 1)
        return Click((float(y), float(x)), True)


@catalogue.users.add(
    "recorded-prompts", "replays recorded clicks, boxes and scribbles (file=TABLE)"
)
@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class RecordedUser:
    """Gives the prompts of a table, round by round, then accepts the mask.

    `file` is a table as `datasets.recorded_clicks` documents; `annotator` chooses one of several
    people. A line without a dataset, target or annotator is for all.
    """

    file: str
    annotator: str = ""

    @property
    def name(self) -> str:
        return f"recorded-prompts-{self.annotator}" if self.annotator else "recorded-prompts"

    @property
    def gives(self) -> frozenset[str]:
        return self._kinds(first=True)

    @property
    def gives_later(self) -> frozenset[str]:
        return self._kinds(first=False)

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        sessions = read_prompts(Path(self.file))
        scene, target = observation.scene, observation.target.id
        named = product((scene.dataset, ""), (target, ""), (self.annotator, ""))
        for dataset, name, annotator in named:
            if (key := (dataset, scene.id, name, annotator)) in sessions:
                return sessions[key].get(observation.round)
        return None

    def _kinds(self, *, first: bool) -> frozenset[str]:
        return frozenset(
            kind_of(prompt)
            for (*_, annotator), rounds in read_prompts(Path(self.file)).items()
            for turn, prompts in rounds.items()
            if (turn == 1) is first and annotator in (self.annotator, "")
            for prompt in prompts
        )


def check_clicks(path: Path, datasets: Iterable[Dataset], absent: str) -> None:
    """Refuse a clicks file with a wrong row, or with no click on a dataset of the run.

    Rows of datasets outside the run are checked too, but for their images.
    """
    names = {dataset.card.name: dataset.scenes() for dataset in datasets}
    known = {NAMES.get(name, name): frozenset(ids) for name, ids in names.items()}
    try:
        clicks = read_clicks(path, known if absent == "refuse" else None)
    except UnknownImage as error:
        raise BadInput(f"{error}; '--absent skip' leaves such clicks out") from None
    covered = {key.dataset for key in clicks.keys if key.kind == "first"}
    for name in known:
        if name not in covered:
            raise BadInput(f"{path.name} holds no first click on the dataset '{name}'")


def open_clicks(path: Path) -> tuple[Clicks, dict[tuple[str, str, str], Ints]]:
    """The clicks file and where each target's first-round clicks lie in it."""
    return _opened(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int) -> tuple[Clicks, dict[tuple[str, str, str], Ints]]:
    clicks = read_clicks(path)
    return clicks, clicks.first_rounds()


def recorded(
    first_rounds: dict[tuple[str, str, str], Ints], dataset: str, scene: str, target: str
) -> Ints:
    """Positions of a target's clicks; the file leaves out the object where there is but one."""
    name = NAMES.get(dataset, dataset)
    found = first_rounds.get((name, scene, target), first_rounds.get((name, scene, "")))
    return np.zeros(0, dtype=np.int64) if found is None else found
