"""Annotation logs: events of an annotation tool with time stamps, as CSV or JSON lines.

A line has `annotator`, `image`, `object`, `event` and `time`, and may have `length_px`, contour
pixels that were drawn by hand or corrected; other columns are left alone.
Times are ISO 8601, or numbers of seconds, or of milliseconds since 1970.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from segmeter.core.annotation_events import EVENTS, AnnotationEvent
from segmeter.core.errors import BadInput
from segmeter.datasets.image_files import named_errors

COLUMNS = ("annotator", "image", "object", "event", "time")
_MILLISECONDS = 1e11  # no clock counts so many seconds; since 1970 they are milliseconds


@dataclass(frozen=True, slots=True)
class AnnotationLog:
    """The events of a log, and the number of events of kinds without a price."""

    events: tuple[AnnotationEvent, ...]
    unknown: Mapping[str, int]


def read_log(path: Path) -> AnnotationLog:
    """Read a log whole or not at all; the first line that cannot be right is named."""
    events, unknown = [], Counter[str]()
    for number, row in _lines(path):
        where = f"'{path}', line {number}"
        lost = [name for name in COLUMNS if row.get(name) in (None, "")]
        if lost:
            raise BadInput(f"{where} has no '{lost[0]}'; a line has {', '.join(COLUMNS)}")
        word = str(row["event"]).strip().lower()
        if word not in EVENTS:
            unknown[word[:40]] += 1
            continue
        who, image, thing = (str(row[name])[:300] for name in COLUMNS[:3])
        at = _seconds(row["time"], where)
        length = _length(row.get("length_px"), where)
        events.append(AnnotationEvent(who, image, thing, EVENTS[word], at, length))
    if not events:
        raise BadInput(f"'{path}' has no known event; known are {', '.join(EVENTS)}")
    return AnnotationLog(tuple(events), dict(unknown))


def _length(value: Any, where: str) -> float:
    """Pixels of outline; NaN where the line has none."""
    if value in (None, ""):
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < math.inf:
        raise BadInput(f"{where} has the length {str(value)[:40]!a}; it must be a number of pixels")
    return number


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with (
        named_errors(path, "cannot be read as CSV or JSON lines"),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        opening = file.read(1)
        file.seek(0)
        if opening == "{":
            for number, line in enumerate(file, start=1):
                if line.strip():
                    with named_errors(path, f"line {number} is not JSON"):
                        row = json.loads(line)
                    if not isinstance(row, dict):
                        raise BadInput(f"'{path}', line {number} is not a JSON object")
                    yield number, row
            return
        reader = csv.DictReader(file)
        lost = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if lost:
            raise BadInput(f"'{path}' has no column '{lost[0]}'; it needs {', '.join(COLUMNS)}")
        for row in reader:
            yield reader.line_num, row


def _seconds(value: Any, where: str) -> float:
    """A time in seconds.

    >>> _seconds("1970-01-01T00:01:00Z", ""), _seconds(1.5, ""), _seconds("1700000000000", "")
    (60.0, 1.5, 1700000000.0)
    """
    shown = ascii(str(value)[:40])  # on one line, whatever the cell contains
    refused = BadInput(f"{where} has the time {shown}; times are ISO 8601 or seconds")
    try:
        number = float(value)
    except (TypeError, ValueError):
        try:
            stamp = datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise refused from None
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not math.isfinite(number):
        raise refused
    return number / 1000 if abs(number) > _MILLISECONDS else number
