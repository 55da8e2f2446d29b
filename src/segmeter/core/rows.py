"""Rows: what a run keeps of every session or detection, declared before it runs.

A benchmark declares the schema of its rows: names, types and key. Parts are written with the
declared types, so that a column keeps its type where a job has nothing to say in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from segmeter.core.errors import BadInput

__all__ = [
    "CONSISTENCY",
    "DETECTION_ROWS",
    "ERROR_ROWS",
    "JOB_KEY",
    "RESPONSES",
    "SESSION_FACTS",
    "SESSION_KEY",
    "SESSION_LISTS",
    "SESSION_ROWS",
    "SHARES",
    "Column",
    "Kind",
    "Schema",
    "columns_of_measures",
    "measure_column",
]

Kind = Literal["text", "integer", "number", "flag", "integers", "map", "bytes"]
"""Text, whole number, number, true or false, list of whole numbers, map from text to text,
bytes."""

JOB_KEY = ("model", "dataset", "scene")
"""Columns that identify a job."""

SESSION_KEY = (*JOB_KEY, "target", "user", "protocol", "round")
"""Columns that identify a row of a session."""

SHARES = ("iou", "boundary_iou")
"""Columns that hold shares of one wherever they stand; a row with another number is made up."""

RESPONSES = (
    "prompts_given",
    "prompts_obeyed",
    "earlier_clicks",
    "earlier_kept",
    "earlier_undone",
    "mask_changed",
)
"""Columns that compare a round's mask with the prompts so far."""

CONSISTENCY = ("order_iou", "jitter_iou", "jitter_spread")
"""Columns of a session's last click: agreement of masks for other orders and places."""

SESSION_LISTS = ("score", "positive", *RESPONSES, "start_mask_iou", *CONSISTENCY)
"""Columns of rounds that sessions list, next to measured seconds and measures."""

SESSION_FACTS = ("kinds_",)
"""Columns of sessions that rows do not have: kinds of prompts."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type, and its meaning."""

    name: str
    kind: Kind
    says: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a kind of rows, and the key that no two rows share."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            raise BadInput(f"schema '{self.name}' names a column twice")
        lost = [name for name in self.key if name not in names]
        if lost:
            raise BadInput(f"schema '{self.name}' has no column '{lost[0]}' for its key")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def plus(self, columns: Iterable[Column]) -> Schema:
        """The same rows with further columns; one that is there already keeps its place.

        >>> SESSION_ROWS.plus([Column("iou", "number")]).names[-1]
        'iou'
        """
        known = set(self.names)
        fresh = tuple(column for column in columns if column.name not in known)
        return replace(self, columns=(*self.columns, *fresh))

    def check(self, row: Mapping[str, Any]) -> None:
        """Refuse a row with an undeclared column, whose values would be lost."""
        strange = [name for name in row if name not in self.names]
        if strange:
            raise BadInput(f"rows of '{self.name}' have no column '{strange[0]}'; declare it")


def measure_column(measure: str) -> str:
    """The column that holds a measure.

    >>> measure_column("boundary-iou")
    'boundary_iou'
    """
    return measure.replace("-", "_")


def columns_of_measures(measures: Sequence[str]) -> list[Column]:
    """One column of numbers for each measure.

    >>> [column.name for column in columns_of_measures(['iou', 'boundary-iou'])]
    ['iou', 'boundary_iou']
    """
    return [Column(measure_column(name), "number", f"the measure {name}") for name in measures]


_JOB = (
    Column("model", "text", "the model or method under test"),
    Column("dataset", "text"),
    Column("scene", "text"),
)
_SCENE = (
    Column("cluster", "text", "what intervals resample: the image or the patient"),
    Column("shape", "integers", "height and width, or depth, height and width"),
)

SESSION_ROWS = Schema(
    "sessions",
    (
        *_JOB,
        Column("target", "text"),
        Column("user", "text"),
        Column("protocol", "text"),
        Column("round", "integer", "counts from 1"),
        *_SCENE,
        Column("label", "text", "class name"),
        Column("groups", "map", "what a breakdown may split by"),
        Column("area", "integer", "pixels or voxels of the target"),
        Column("outline_px", "integer", "pixel edges around a target of an image"),
        Column("kinds", "text", "kinds of the round's prompts, as box+click; empty without any"),
        Column("prompt", "text", "the round's prompts as JSON; null when the mask was accepted"),
        Column("z", "number", "the click, where the round had exactly one"),
        Column("y", "number"),
        Column("x", "number"),
        Column("positive", "flag"),
        Column("score", "number", "the model's own score of what it shows"),
        Column("prompts_given", "integer", "clicks, strokes and boxes outside the ignore region"),
        Column("prompts_obeyed", "number", "those that the mask obeys; of a stroke its share"),
        Column("earlier_clicks", "integer", "clicks of earlier rounds"),
        Column("earlier_kept", "integer", "those that the mask satisfies"),
        Column("earlier_undone", "integer", "those that the last mask satisfied, this one not"),
        Column("mask_changed", "flag", "whether the mask differs from that of the last round"),
        Column("start_mask_iou", "number", "IoU of the mask that was corrected; null without one"),
        Column("order_iou", "number", "IoU between masks for the session's clicks in other orders"),
        Column("jitter_iou", "number", "IoU with the masks for a last click 2 pixels away"),
        Column("jitter_spread", "number", "largest less smallest IoU of those with the target"),
        Column("mask_index", "integer", "which candidate is shown"),
        Column("mask_fed_back", "flag", "whether the last state went back to the model"),
        Column("stopped", "flag", "whether the user gave nothing more"),
        Column("batch_size", "integer", "requests served by the same call"),
        Column("seconds_encode", "number"),
        Column("seconds_predict", "number"),
        Column("seconds_user", "number"),
        Column("mask", "text", "run lengths of the shown mask"),
    ),
    SESSION_KEY,
)
"""One row for each round of a session."""

DETECTION_ROWS = Schema(
    "detections",
    (
        *_JOB,
        Column("rank", "integer", "place in the scene's list, best first"),
        Column("protocol", "text"),
        *_SCENE,
        Column("label", "text", "class name; empty where classes do not matter"),
        Column("score", "number"),
        Column("groups", "map"),
        Column("mask", "text", "run lengths"),
        Column("seconds", "number"),
    ),
    (*JOB_KEY, "protocol", "rank"),
)
"""One row for each mask that is detected or proposed without a target."""

ERROR_ROWS = Schema(
    "errors",
    (*_JOB, Column("error", "text"), Column("detail", "text")),
    JOB_KEY,
)
"""One row for each job that failed."""
