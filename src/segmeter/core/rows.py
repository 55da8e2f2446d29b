"""Rows: the columns that a run stores for every session or detection.

A benchmark declares the schema of its rows: names, types and key. Job files have the declared
types, so that a column keeps its type in a job without values for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from segmeter.core.errors import BadInput

Kind = Literal["text", "integer", "number", "flag", "integers", "map", "bytes"]
"""Text, whole number, number, true or false, list of whole numbers, map from text to text,
bytes."""

JOB_KEY = ("model", "dataset", "scene")
"""Columns that identify a job."""

SESSION_KEY = (*JOB_KEY, "target", "user", "protocol", "round")
"""Columns that identify a row of a session."""

SHARES = ("iou", "boundary_iou")
"""Columns of numbers from 0 to 1 in every benchmark; a row with another number is invalid."""

RESPONSES = (
    *("prompts_given", "prompts_obeyed", "earlier_clicks", "earlier_kept", "earlier_undone"),
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
    """Name, type and meaning of a column; docs/runs.md lists them.

    A `fact` is the same in all rounds of a session, which holds it once.
    """

    name: str
    kind: Kind
    meaning: str = ""
    fact: bool = False


@dataclass(frozen=True)
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

    @cached_property
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
        unknown = [name for name in row if name not in self.names]
        if unknown:
            raise BadInput(f"rows of '{self.name}' have no column '{unknown[0]}'; declare it")


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


JOB_COLUMNS = (
    Column("model", "text", "the model or method under test"),
    Column("dataset", "text", "the dataset's name or folder"),
    Column("scene", "text", "the image, volume or video"),
)
"""Columns of every row: its job."""

_SCENE = (
    Column("cluster", "text", "the image or patient that intervals resample", fact=True),
    Column("shape", "integers", "height and width, or depth, height and width", fact=True),
)

SESSION_ROWS = Schema(
    "sessions",
    (
        *JOB_COLUMNS,
        Column("target", "text", "the object to segment"),
        Column("user", "text", "the simulated or real annotator"),
        Column("protocol", "text", "published or corrected"),
        Column("round", "integer", "number of the click or other prompt, from 1"),
        *_SCENE,
        Column("label", "text", "class name", fact=True),
        Column("groups", "map", "attributes that `--by` can split results by, such as size"),
        Column("area", "integer", "pixels or voxels of the target", fact=True),
        Column("outline_px", "integer", "length of the object's outline in pixel edges (images)"),
        Column("contour_px", "integer", "contour as `redrawn-path` counts it (images)", fact=True),
        Column("kinds", "text", "kinds of the round's prompts, such as box+click; may be empty"),
        Column("prompt", "text", "the round's prompts as JSON; null when the mask was accepted"),
        Column("z", "number", "slice or frame of the click, if the round has exactly one"),
        Column("y", "number", "row of the click"),
        Column("x", "number", "column of the click"),
        Column("positive", "flag", "whether the click is on foreground"),
        Column("score", "number", "the model's own score of the mask, such as its predicted IoU"),
        Column("prompts_given", "integer", "clicks, strokes and boxes outside the ignore region"),
        Column("prompts_obeyed", "number", "how many the mask follows; strokes count in part"),
        Column("earlier_clicks", "integer", "clicks of earlier rounds"),
        Column("earlier_kept", "integer", "how many of them the mask still follows"),
        Column("earlier_undone", "integer", "how many only the previous mask followed"),
        Column("mask_changed", "flag", "whether the mask differs from the previous round's"),
        Column("start_from", "text", "source of the mask given with `--start`, if any", fact=True),
        Column("start_mask_iou", "number", "IoU of the mask given with `--start`, if any"),
        Column("order_iou", "number", "IoU between masks for the same clicks in other orders"),
        Column("jitter_iou", "number", "IoU with the masks for a last click moved by 2 pixels"),
        Column("jitter_spread", "number", "range of the IoU of those masks with the ground truth"),
        Column("mask_index", "integer", "which of the model's candidate masks is shown"),
        Column("mask_fed_back", "flag", "whether the previous mask was given to the model"),
        Column("stopped", "flag", "whether the user accepted the mask"),
        Column("batch_size", "integer", "requests in the same call of the model"),
        Column("seconds_encode", "number", "time to encode the scene"),
        Column("seconds_predict", "number", "time of the prediction"),
        Column("seconds_user", "number", "time to compute the simulated prompts"),
        Column("mask", "text", "the mask as COCO run lengths"),
    ),
    SESSION_KEY,
)
"""One row for each round of a session."""

DETECTION_ROWS = Schema(
    "detections",
    (
        *JOB_COLUMNS,
        Column("rank", "integer", "position in the scene's list, best first"),
        Column("protocol", "text", "published or corrected"),
        *_SCENE,
        Column("label", "text", "class name; empty where classes do not matter"),
        Column("score", "number", "confidence"),
        Column("groups", "map", "attributes that `--by` can split results by"),
        Column("mask", "text", "the mask as COCO run lengths"),
        Column("seconds", "number", "time for the scene"),
    ),
    (*JOB_KEY, "protocol", "rank"),
)
"""One row for each mask that is detected or proposed without a target."""

_ERROR = (Column("error", "text", "the message"), Column("detail", "text", "the traceback"))
ERROR_ROWS = Schema("errors", (*JOB_COLUMNS, *_ERROR), JOB_KEY)
"""One row for each job that failed."""
