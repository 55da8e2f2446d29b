"""Summary cache: results computed from runs, in the user's cache folder, keyed by their contents.

A run folder cannot supply results, since a run may come from others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from segmeter import __version__
from segmeter.core.errors import SegmeterError
from segmeter.core.seeds import fingerprint
from segmeter.runtime.remote_files import cache_folder
from segmeter.store.folder import RunFolder
from segmeter.store.local import write_file
from segmeter.store.validated_rows import Contents

Line = TypeVar("Line")
_CONTENT = 12  # raise it when sessions or statistics of one version change
_MOST_BYTES = 2 << 30  # of all that is cached; the oldest is removed


def state_of(
    folders: Sequence[RunFolder], settings: Mapping[str, Any], more: Sequence[Any] = ()
) -> str:
    """A digest of all that results follow from: files and plans of runs, settings, version.

    Settings that are files count by their content: a cost model may have been edited.
    """
    facts = []
    for folder in folders:
        files = [(where, f) for where in ("jobs", "errors") for f in folder.place.files(where)]
        facts.append((folder.address, folder.plan.to_json(), files))
    given = [
        (name, fingerprint(v.read_bytes()) if isinstance(v, Path) and v.is_file() else str(v))
        for name, v in sorted(settings.items())
    ]
    return fingerprint(__version__, _CONTENT, facts, given, list(more))


def cached_lines(
    state: str, what: str, kind: type[Line], compute: Callable[[], list[Line]]
) -> list[Line]:
    """Rows of a summary as they were computed for this state, or as they are computed now."""
    held = _read(state, f"{what}.json")
    if held is not None:
        with suppress(ValueError, TypeError, RecursionError):  # damaged
            return [kind(**row) for row in json.loads(held)]
    lines = compute()
    _write(state, f"{what}.json", json.dumps([asdict(line) for line in lines]).encode())  # type: ignore[call-overload]  # they are dataclasses
    return lines


def cached_table(state: str, what: str, compute: Callable[[], pa.Table]) -> pa.Table:
    """An Arrow table as it was computed for this state, or as it is computed now."""
    held = _read(state, f"{what}.arrow")
    if held is not None:
        with suppress(pa.ArrowException, ValueError), pa.ipc.open_stream(held) as reader:
            return reader.read_all()
    table = compute()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")  # faster than zstd, hardly larger
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    _write(state, f"{what}.arrow", sink.getvalue())
    return table


def cached_contents(state: str, compute: Callable[[], Contents]) -> Contents:
    """The contents of a run folder as they were read for this state, or as they are read now."""

    def table() -> pa.Table:
        found = compute()
        facts = [found.models, found.damaged, found.left_out, found.sessions is not None]
        sessions = pa.table({}) if found.sessions is None else found.sessions
        return sessions.replace_schema_metadata({"contents": json.dumps(facts)})

    held = cached_table(state, "contents", table)
    models, damaged, left_out, some = json.loads(held.schema.metadata[b"contents"])
    sessions = held.replace_schema_metadata(None) if some else None
    return Contents(sessions, models, damaged, left_out)


def _read(state: str, name: str) -> bytes | None:
    with suppress(OSError):
        return cache_folder("results", f"{state}-{name}").read_bytes()
    return None


def _write(state: str, name: str, content: bytes | pa.Buffer) -> None:
    """Cache something; where nothing can be written it is computed again next time."""
    with suppress(OSError, SegmeterError):
        write_file(cache_folder("results", f"{state}-{name}"), content)
        _remove_oldest(cache_folder("results"), _MOST_BYTES)


@cache  # once per process: listing thousands of files takes a tenth of a second
def _remove_oldest(folder: Path, most: int) -> None:
    files = [(file.stat(), file) for file in folder.iterdir()]
    left = sum(facts.st_size for facts, _ in files)
    for facts, file in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
        if left <= most:
            break
        file.unlink(missing_ok=True)
        left -= facts.st_size
