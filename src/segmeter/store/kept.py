"""Kept summaries: computed once for a state of a run, and again when a part is added."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from segmeter import __version__
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.errors import SegmeterError
from segmeter.core.seeds import fingerprint
from segmeter.store.parts import decode, encode_table, trail_of

if TYPE_CHECKING:
    from segmeter.store.results import Run

__all__ = ["kept_differences", "kept_summary", "kept_table"]

Line = TypeVar("Line", SummaryRow, Difference)
_MOST_BYTES = 64 << 20
_MOST_TABLE = 1 << 30


def kept_summary(run: Run, compute: Callable[[], list[SummaryRow]]) -> list[SummaryRow]:
    """The summary of a run as it lies there, or as it is now computed."""
    return _kept(run, "summary", SummaryRow, compute)


def kept_differences(run: Run, compute: Callable[[], list[Difference]]) -> list[Difference]:
    """The paired comparisons of a run as they lie there, or as they are now computed."""
    return _kept(run, "differences", Difference, compute)


def kept_table(run: Run, what: str, compute: Callable[[], Any]) -> Any:
    """An Arrow table over all rows of a run as it lies there, or as it is now computed."""
    name, state = f"kept/{what}.parquet", _state(run)
    try:
        found = decode(run.folder.place.read(name, _MOST_TABLE))
        if trail_of(found.schema).get("state") == state:
            return found
    except (OSError, SegmeterError):
        pass  # not there, or not what it should be
    made = compute()
    with suppress(OSError, SegmeterError):
        run.folder.place.put(
            name, encode_table(made.replace_schema_metadata({"state": state})), leased=False
        )
    return made


def _kept(run: Run, what: str, kind: type[Line], compute: Callable[[], list[Line]]) -> list[Line]:
    name = f"kept/{what}.json"
    state = _state(run)
    found = _read(run, name, kind, state)
    if found is not None:
        return found
    lines = compute()
    kept = {"state": state, "rows": [asdict(line) for line in lines]}
    with suppress(OSError, SegmeterError):  # a run that cannot be written to is read all the same
        run.folder.place.put(name, json.dumps(kept).encode(), leased=False)
    return lines


def _state(run: Run) -> str:
    """What a summary follows from: every part and score, the plan, settings and version."""
    place = run.folder.place
    folders = ["parts", *(f"scores/{measure}" for measure in run.folder.measures())]
    files = [(folder, held) for folder in folders for held in place.files(folder)]
    return fingerprint(__version__, run.plan.to_json(), _settings(run.settings), files)


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings by their content: a cost model may have been edited."""
    return [
        (name, fingerprint(v.read_bytes()) if isinstance(v, Path) and v.is_file() else str(v))
        for name, v in sorted(settings.items())
    ]


def _read(run: Run, name: str, kind: type[Line], state: str) -> list[Line] | None:
    """What was kept for this very state; nothing if it is not there or not what it should be."""
    try:
        kept = json.loads(run.folder.place.read(name, _MOST_BYTES))
    except (OSError, ValueError, RecursionError, SegmeterError):
        return None
    if not isinstance(kept, dict) or kept.get("state") != state:
        return None
    rows = kept.get("rows")
    if not isinstance(rows, list) or not all(_is_line(row, kind) for row in rows):
        return None
    return [kind(**row) for row in rows]


_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "float": (float, int), "int": (int,)}


def _is_line(row: Any, kind: type[Line]) -> bool:
    wanted = {f.name: _TYPES[str(f.type)] for f in fields(kind)}
    return (
        isinstance(row, dict)
        and row.keys() == wanted.keys()
        and all(isinstance(row[name], types) for name, types in wanted.items())
    )
