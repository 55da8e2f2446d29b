"""Recorded prompts of any kind: a table of clicks, boxes and strokes that people gave.

CSV or parquet with the columns `scene`, `round` (from 1) and `prompt`, the prompt as JSON:
`{"click": [y, x], "positive": true}`, `{"box": [[y, x], [y, x]]}` or
`{"scribble": [[y, x], ...], "positive": true}`, or a list of them; `dataset`, `target` and
`annotator` where there are several. Rows of a run have these columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.prompts import Prompt, round_from_json

__all__ = ["read_prompts"]

Session = tuple[str, str, str, str]
"""Data set, scene, target, annotator; empty where the table does not name one."""
RecordedPrompts = Mapping[Session, Mapping[int, tuple[Prompt, ...]]]
_KEY = ("dataset", "scene", "target", "annotator")


@lru_cache(maxsize=4)
def read_prompts(path: Path) -> RecordedPrompts:
    """The prompts of each session, by round."""
    found: dict[Session, dict[int, tuple[Prompt, ...]]] = {}
    for number, row in enumerate(_rows(path), 2):
        where = f"'{path}', line {number}"
        try:
            turn = int(row["round"])
            prompts = round_from_json(str(row["prompt"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadInput(f"{where}: needs 'scene', 'round' and 'prompt' ({error})") from error
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from error
        if turn < 1:
            raise BadInput(f"{where}: rounds count from 1, not {turn}")
        dataset, scene, target, annotator = (str(row.get(name) or "") for name in _KEY)
        rounds = found.setdefault((dataset, scene, target, annotator), {})
        rounds[turn] = (*rounds.get(turn, ()), *prompts)
    if not found:
        raise BadInput(f"'{path}' holds no prompt")
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.is_file():
        raise NotFound(f"no table of prompts '{path}'")
    try:
        if path.suffix.lower() == ".parquet":
            known = parquet.read_schema(path).names
            wanted = [name for name in (*_KEY, "round", "prompt") if name in known]
            table = parquet.read_table(path, columns=wanted)
        else:
            text = csv.ConvertOptions(column_types={n: pa.string() for n in (*_KEY, "prompt")})
            table = csv.read_csv(path, convert_options=text)
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"'{path}' cannot be read as a table: {reason}") from error
    return [row for row in rows if row.get("prompt")]
