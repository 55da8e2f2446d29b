"""Cases to show in a report: targets of a run with their images, and what was played on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from segmeter.benchmarks.sessions import mask_of
from segmeter.core.benchmarks import Group, Results, Row
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import Scene, Target
from segmeter.core.sections import Frame, Note

__all__ = [
    "NO_MASKS",
    "Case",
    "Key",
    "case_at_hand",
    "cases_at_hand",
    "frame_of",
    "rows_played",
    "title",
]

Key = tuple[str, str]
"""Scene and target."""

NO_MASKS = Note("Masks were not kept in this run, so objects cannot be shown.", "warning")


@dataclass(frozen=True, slots=True)
class Case:
    """One target with its scene, whose image is at hand; `dataset` as the run names it."""

    dataset: str
    key: Key
    scene: Scene
    target: Target

    @property
    def title(self) -> str:
        return title(*self.key, self.target.label)


def title(scene: str, target: str, label: str = "") -> str:
    """An object by name; its class says more than a number, and some names say nothing.

    >>> title("beach", "1"), title("beach", "dog"), title("beach", "7", "kite")
    ('beach', 'beach, dog', 'beach, kite (7)')
    """
    if label and target.isdecimal():
        return f"{scene}, {label} ({target})"
    return scene if target in ("", scene, "0", "1", "object") else f"{scene}, {target}"


def case_at_hand(run: Results, dataset: str, key: Key) -> Case:
    """The case, its image read; NotFound or BadInput where it cannot be shown."""
    scene = run.scene(dataset, key[0])
    if scene.header.kind != "image":
        raise BadInput("they are volumes; 'segmeter run volumes' has a page to scroll through")
    target = next((t for t in scene.targets if t.id == key[1]), None)
    if target is None:
        raise NotFound("the data set no longer holds the targets that were scored")
    scene.pixels  # noqa: B018  # read now: a missing image raises here
    return Case(dataset, key, scene, target)


def cases_at_hand(run: Results, places: Iterable[tuple[str, Key]]) -> tuple[list[Case], str]:
    """Cases by data set and key, or the reason why they cannot be shown."""
    try:
        return [case_at_hand(run, dataset, key) for dataset, key in places], ""
    except SegmeterError as error:
        return [], str(error)


def rows_played(run: Results, group: Group, key: Key, users: Collection[str]) -> list[Row]:
    """The rows of some users on one target in the group's reading, round by round."""
    scene, target = key
    return [
        row
        for row in run.job_rows(group.model, group.dataset, scene)
        if (row["protocol"], row["target"]) == (group.protocol, target) and row["user"] in users
    ]


def frame_of(row: Row, shape: tuple[int, ...], note: str = "") -> Frame:
    """One round of a replay; BadInput where the mask is damaged."""
    named = {"IoU": row["iou"], "boundary": row.get("boundary_iou")}
    scores = {name: value for name, value in named.items() if value is not None}
    prompts = round_from_json(row["prompt"])
    seconds = row["seconds_predict"] if prompts else None
    return Frame(mask_of(row, shape), prompts, scores, seconds, note)
