"""The log of events as a file, one JSON object a line: appended to, read, exchanged whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound

__all__ = ["append_lines", "event_line", "numbers_in", "read_events", "replace_lines"]

_FIELDS = frozenset({"number", "at", "kind", "person", "body"})


def event_line(event: Mapping[str, Any]) -> str:
    """An event as it stands in the log."""
    return json.dumps(dict(event), separators=(",", ":"))


def append_lines(log: Path, lines: Iterable[str]) -> None:
    """Write lines behind those that are there."""
    with log.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def replace_lines(log: Path, lines: Iterable[str]) -> None:
    """Exchange the whole log in one step; what was erased is in neither."""
    part = log.with_name(f"{log.name}.part")
    with part.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(log)


def numbers_in(log: Path) -> set[int]:
    """Numbers of the events in a log; a last line without its end is cut off first."""
    if not log.is_file():
        return set()
    raw = log.read_bytes()
    end = raw.rfind(b"\n") + 1
    if end < len(raw):
        os.truncate(log, end)
    try:
        return {int(json.loads(line)["number"]) for line in raw[:end].splitlines()}
    except (ValueError, KeyError, TypeError):
        raise BadInput(
            f"the log '{log}' is damaged; move it away, and it is written again from the database"
        ) from None


def read_events(log: Path) -> list[dict[str, Any]]:
    """All events of a log by their numbers; a torn last line was never acknowledged."""
    return sorted(_events(log), key=lambda event: int(event["number"]))


def _events(log: Path) -> Iterator[dict[str, Any]]:
    try:
        with log.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                yield _event(line, f"{log.name}, line {number}")
    except OSError as error:
        raise NotFound(f"no log '{log}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"'{log}' is not text in UTF-8, as the log of a study is") from None


def _event(line: str, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    whole = isinstance(event, dict) and set(event) >= _FIELDS
    if not whole or not isinstance(event["number"], int) or not isinstance(event["body"], dict):
        raise BadInput(f"{where}: not an event of a study")
    return dict(event)
