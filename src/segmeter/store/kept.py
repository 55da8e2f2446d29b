"""Kept results of a run: computed once for a state of its parts, and again when one changes.

It lies in the run, and a run may come from a stranger. So it is sealed with a key that never
leaves this person's machine: what somebody else has put there is not looked at, only replaced.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from segmeter import __version__
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.errors import SegmeterError
from segmeter.core.seeds import fingerprint
from segmeter.runtime.cache_folders import cache_folder
from segmeter.store.sessions import Gathered

if TYPE_CHECKING:
    from segmeter.store.results import Run

__all__ = ["kept_differences", "kept_sessions", "kept_summary", "kept_table", "state_of"]

Line = TypeVar("Line", SummaryRow, Difference)
_MOST_BYTES = 256 << 20
_SEAL = 64  # hexadecimal digits before what is kept


def kept_summary(run: Run, compute: Callable[[], list[SummaryRow]]) -> list[SummaryRow]:
    """The summary of a run as it lies there, or as it is now computed."""
    return _kept(run, "summary", SummaryRow, compute)


def kept_differences(run: Run, compute: Callable[[], list[Difference]]) -> list[Difference]:
    """The paired comparisons of a run as they lie there, or as they are now computed."""
    return _kept(run, "differences", Difference, compute)


def kept_sessions(run: Run, compute: Callable[[], Gathered]) -> Gathered:
    """The sessions of a run as they lie there, or as they are now gathered from its parts."""
    name, state = "kept/sessions.arrow", state_of(run, of_settings=False)
    found = _unsealed(run, name, state)
    if found is not None:
        with suppress(pa.ArrowException, ValueError, KeyError):  # of another version of Arrow
            return _gathered(_unpacked(found))
    gathered = compute()
    _seal(run, name, state, _packed(_labelled(gathered)))
    return gathered


def kept_table(run: Run, what: str, compute: Callable[[], Any]) -> Any:
    """An Arrow table over all rows of a run as it lies there, or as it is now computed."""
    name, state = f"kept/{what}.arrow", state_of(run)
    found = _unsealed(run, name, state)
    if found is not None:
        with suppress(pa.ArrowException, ValueError):  # of another version of Arrow
            return _unpacked(found)
    made = compute()
    _seal(run, name, state, _packed(made))
    return made


def state_of(run: Run, *, of_settings: bool = True) -> str:
    """What a summary follows from: every part and score, the plan, settings and version."""
    place = run.folder.place
    folders = ["parts", *(f"scores/{measure}" for measure in run.folder.measures())]
    files = [(folder, held) for folder in folders for held in place.files(folder)]
    settings = _settings(run.settings) if of_settings else []
    return fingerprint(__version__, run.plan.to_json(), settings, files)


def _kept(run: Run, what: str, kind: type[Line], compute: Callable[[], list[Line]]) -> list[Line]:
    name, state = f"kept/{what}.json", state_of(run)
    lines = _lines(_unsealed(run, name, state), kind)
    if lines is not None:
        return lines
    lines = compute()
    _seal(run, name, state, json.dumps([asdict(line) for line in lines]).encode())
    return lines


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings by their content: a cost model may have been edited."""
    return [
        (name, fingerprint(v.read_bytes()) if isinstance(v, Path) and v.is_file() else str(v))
        for name, v in sorted(settings.items())
    ]


def _unsealed(run: Run, name: str, state: str) -> bytes | None:
    """What was kept for this very state under this person's seal; nothing if there is none."""
    key = _key()
    try:
        kept = run.folder.place.read(name, _MOST_BYTES)
    except (OSError, SegmeterError):
        return None
    seal, content = kept[:_SEAL], kept[_SEAL:]
    if key is None or not hmac.compare_digest(seal, _sealed(key, name, state, content)):
        return None
    return content


def _seal(run: Run, name: str, state: str, content: bytes) -> None:
    """Keep something for a state; a run that cannot be written to is read all the same."""
    key = _key()
    if key is None or len(content) + _SEAL > _MOST_BYTES:
        return
    with suppress(OSError, SegmeterError):
        run.folder.place.put(name, _sealed(key, name, state, content) + content, leased=False)


def _sealed(key: bytes, name: str, state: str, content: bytes) -> bytes:
    head = f"{name}\n{state}\n".encode()
    mac = hmac.new(key, head, "blake2s")
    mac.update(content)
    return mac.hexdigest().encode()


def _key() -> bytes | None:
    """This person's key, made when it is first wanted; none where nothing can be written."""
    return _key_in(cache_folder("kept.key"))


@cache
def _key_in(path: Path) -> bytes | None:
    try:
        if not path.exists():
            _make_key(path)
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == 32 else None


def _make_key(path: Path) -> None:
    """Write it beside and link it, so that of several processes one wins and none reads half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        os.unlink(beside)


def _labelled(gathered: Gathered) -> pa.Table:
    said = {"segmenters": gathered.segmenters, "damaged": gathered.damaged}
    return gathered.sessions.replace_schema_metadata({"gathered": json.dumps(said)})


def _gathered(table: pa.Table) -> Gathered:
    said = json.loads(table.schema.metadata[b"gathered"])
    return Gathered(table.replace_schema_metadata(None), said["segmenters"], said["damaged"])


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # bytes, says Arrow


def _unpacked(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def _lines(content: bytes | None, kind: type[Line]) -> list[Line] | None:
    """Lines of a kind; nothing if they are not what they should be."""
    if content is None:
        return None
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        return None
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
