"""Scores by step: the rows of a run, group by group, as arrays of objects x steps.

Statistics are functions of these arrays. A step is what the rows of one object differ in: the
round of a session, the threshold of an edge map, the number of proposals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Group, Results
from segmeter.core.models import ProtocolName

GROUP = ("model", "dataset", "user", "protocol")
"""Columns that sessions are grouped by."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tables(Group):
    """The rows of one group: a line per object, in the order of their names.

    `lines` is an Arrow table with a list over the steps in every requested column, and one value in
    every fact; `by` are the values that identify the group.
    """

    lines: Any
    by: Mapping[str, Any]

    @classmethod
    def load(
        cls,
        run: Results,
        columns: Sequence[str],
        *,
        facts: Sequence[str] = (),
        axis: str = "round",
        by: Sequence[str] = GROUP,
        unit: Sequence[str] = ("scene", "target"),
        where: str = "",
        user: str = "user",
    ) -> list[Self]:
        """The tables of every group of a run, groups and objects in the order of their names.

        `columns` of numbers or words differ from step to step, which the column `axis` counts;
        `facts` are the same in all rows of an object. `by` identifies groups, `unit` objects within
        a group; user and protocol are empty for rows that do not have them, the target where whole
        images are judged. `user` names the column of a group's user, `where` is a condition on rows
        in SQL. A column that the run does not have is null.

        >>> from types import SimpleNamespace
        >>> import pyarrow as pa
        >>> row = dict(model="m", dataset="d", user="u", protocol="corrected", cluster=None)
        >>> row |= dict(scene="s", target="t", iou=[0.5, 0.9])
        >>> lines = pa.Table.from_pylist([row])
        >>> run = SimpleNamespace(
        ...     objects="sessions", columns=lambda: lines.column_names, sql=lambda query: lines
        ... )
        >>> Tables.load(run, ["iou"])[0].table("iou").tolist()
        [[0.5, 0.9]]
        """
        table = run.sql(_query(run, columns, facts, axis, by, unit, where))
        made = []
        for key, lines in _groups(table, by):
            known = dict(zip(by, key, strict=True))
            protocol = cast(ProtocolName, known.get("protocol", ""))
            who = known["model"], known["dataset"], known.get(user, ""), protocol
            scenes = lines["scene"].to_pylist()
            targets = lines[unit[1]].to_pylist() if len(unit) > 1 else [""] * len(scenes)
            # A line without an image or patient is a cluster by its scene.
            clusters = zip(lines["cluster"].to_pylist(), scenes, strict=True)
            places = tuple(cluster or scene for cluster, scene in clusters)
            keys = tuple(zip(lines[unit[0]].to_pylist(), targets, strict=True))
            made.append(cls(*who, keys, places, lines, known))
        return made

    def table(self, column: str, fill: float = np.nan, width: int = 0) -> Floats:
        """A column of numbers, `(objects, steps)`; `fill` where an object has no number."""
        return matrix(self.lines[column], fill, width)

    def lists(self, column: str) -> Any:
        """A column as an Arrow array of lists, for words."""
        return self.lines[column].combine_chunks()

    def fact(self, column: str) -> list[Any]:
        """A column whose value is the same in all rows of an object."""
        found: list[Any] = self.lines[column].to_pylist()
        return found

    def numbers(self, column: str) -> Floats:
        """A fact that is a number; NaN where it is not known."""
        return numbers_of(self.lines[column].combine_chunks())


def numbers_of(array: Any, fill: float = np.nan) -> Floats:
    """Numbers of an Arrow array; `fill` where there is none.

    From its buffers: Arrow's own conversions import pandas where it is installed, 0.2 s.

    >>> import pyarrow as pa
    >>> numbers_of(pa.array([1, None, 3]).slice(1)).tolist()
    [nan, 3.0]
    """
    floats = array.cast("float64")
    valid, data = floats.buffers()
    inside = slice(floats.offset, floats.offset + len(floats))
    numbers = np.frombuffer(data or b"", np.float64)[inside]
    if floats.null_count == 0:
        return numbers
    known = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[inside]
    return np.where(known, numbers, fill)


def words_of(array: Any) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The different words of an Arrow array, and for each element which it is; "" for none.

    >>> import pyarrow as pa
    >>> words, which = words_of(pa.array(["box", None, "box"]))
    >>> words, which.tolist()
    (['box', ''], [0, 1, 0])
    """
    coded = array.dictionary_encode(null_encoding="encode")
    words = [word or "" for word in coded.dictionary.to_pylist()]
    return words, numbers_of(coded.indices).astype(np.int64)


def matrix(lists: Any, fill: float, width: int = 0) -> Floats:
    """Lists of numbers as a table, `(lists, longest)`; `fill` where there is no number.

    >>> import pyarrow as pa
    >>> matrix(pa.chunked_array([pa.array([[1.0, None], [3.0]])]), 0.0, 3).tolist()
    [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]
    """
    whole = lists.combine_chunks()
    return spread(whole, numbers_of(whole.flatten(), fill), fill, width)


def spread(lists: Any, values: Any, fill: Any, width: int = 0) -> npt.NDArray[Any]:
    """One value for each element of an array of lists as a table, `(lists, longest)`.

    >>> import numpy as np, pyarrow as pa
    >>> spread(pa.array([['x', 'y'], ['z']]), np.array([1, 2, 3]), 0).tolist()
    [[1, 2], [3, 0]]
    """
    lengths = numbers_of(lists.value_lengths(), 0).astype(int)
    longest = max(width, int(lengths.max(initial=0)))
    if (lengths == longest).all():
        return np.asarray(values).reshape(len(lengths), longest)
    table = np.full((len(lengths), longest), fill, dtype=np.asarray(values).dtype)
    table[np.arange(longest) < lengths[:, None]] = values
    return table


def to_the_end(table: Floats) -> Floats:
    """A table in which a line that ends early keeps its last number.

    >>> to_the_end(np.array([[0.5, np.nan, 0.9, np.nan]])).tolist()
    [[0.5, nan, 0.9, 0.9]]
    """
    steps = np.arange(table.shape[1])
    last = np.where(np.isnan(table), 0, steps).max(axis=1, keepdims=True, initial=0)
    return np.take_along_axis(table, np.minimum(steps, last), axis=1)


def quoted(name: str) -> str:
    """A column's name in SQL.

    >>> quoted("iou")
    '"iou"'
    """
    return '"' + name.replace('"', '""') + '"'


def _query(
    run: Results,
    columns: Sequence[str],
    facts: Sequence[str],
    axis: str,
    by: Sequence[str],
    unit: Sequence[str],
    where: str,
) -> str:
    """From sessions, which already hold lists, as far as they have the requested columns."""
    place = [quoted(name) for name in (*by, *unit)]
    # `published` before `corrected`, as pages show them.
    order = ", ".join(f"{name} desc" if name == '"protocol"' else name for name in place)
    key = ", ".join(place)
    there = set(run.columns())
    of_sessions = run.objects == "sessions" and axis == "round" and not where
    if of_sessions and {*columns, *facts} <= there:
        asked = [quoted(name) for name in (*columns, *facts)]
        chosen = ", ".join(dict.fromkeys((*place, "cluster", *asked)))
        return f"select {chosen} from sessions order by {order}"
    known = set(run.columns("rows"))
    # The value of the first row, whatever the order in which files are read.
    single = [f"arg_min({quoted(n)}, {quoted(axis)}) as {quoted(n)}" for n in facts if n in known]
    single += [f"null::varchar as {quoted(n)}" for n in facts if n not in known]
    lists = [
        f"list({quoted(n) if n in known else 'null::double'} order by {quoted(axis)}) "
        f"as {quoted(n)}"
        for n in columns
    ]
    return f"""
        select {", ".join([*place, "min(cluster) as cluster", *lists, *single])}
        from rows {f"where {where}" if where else ""}
        group by {key} order by {order}
    """


def _groups(table: Any, by: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Slices of an Arrow table whose rows are ordered by group."""
    if len(table) == 0:
        return
    codes = [words_of(table[name].combine_chunks())[1] for name in by]
    new = np.any([np.diff(code) != 0 for code in codes], axis=0)
    starts = [0, *(np.flatnonzero(new) + 1).tolist(), len(table)]
    for start, end in pairwise(starts):
        yield tuple(table[name][start].as_py() for name in by), table.slice(start, end - start)
