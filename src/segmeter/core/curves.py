"""Curves: a measure of every session over its rounds, as arrays made of a query's answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Curves
from segmeter.core.models import ProtocolName

__all__ = [
    "CURVES",
    "GROUP",
    "clusters_of",
    "curves_of",
    "groups_in",
    "keys_of",
    "matrix",
    "spread",
]

GROUP = ("model", "dataset", "user", "protocol")
"""Columns that sessions are grouped by."""

CURVES = """
    select model, dataset, "user", protocol, scene, target, cluster, {} as curve
    from sessions order by model, dataset, "user", protocol desc, scene, target
"""
"""The query behind curves: one column, quoted, of every session."""


def curves_of(table: Any) -> list[Curves]:
    """Curves of each group from an Arrow table in the order of `CURVES`.

    >>> import pyarrow as pa
    >>> row = dict(model='m', dataset='d', user='u', protocol='corrected', scene='s', target='t')
    >>> curves_of(pa.Table.from_pylist([{**row, 'cluster': None, 'curve': [0.5, 0.9]}]))[0].clusters
    ('s',)
    """
    return [
        Curves(
            *key[:3],
            cast(ProtocolName, key[3]),
            keys_of(rows),
            clusters_of(rows),
            matrix(rows["curve"], np.nan),
        )
        for key, rows in groups_in(table)
    ]


def groups_in(table: Any) -> Iterator[tuple[tuple[str, str, str, str], Any]]:
    """Slices of an Arrow table whose rows stand in the order of their groups.

    >>> import pyarrow as pa
    >>> rows = [dict(model=m, dataset='d', user='u', protocol='corrected') for m in 'aab']
    >>> [(key[0], len(part)) for key, part in groups_in(pa.Table.from_pylist(rows))]
    [('a', 2), ('b', 1)]
    """
    codes = [_codes(table[name]) for name in GROUP]
    if len(table) == 0:
        return
    new = np.any([np.diff(code) != 0 for code in codes], axis=0)
    starts = [0, *(np.flatnonzero(new) + 1).tolist(), len(table)]
    for start, end in pairwise(starts):
        key = tuple(table[name][start].as_py() for name in GROUP)
        yield cast(tuple[str, str, str, str], key), table.slice(start, end - start)


def keys_of(rows: Any) -> tuple[tuple[str, str], ...]:
    """Scene and target of each row.

    >>> import pyarrow as pa
    >>> keys_of(pa.table({'scene': ['s'], 'target': ['t']}))
    (('s', 't'),)
    """
    return tuple(zip(rows["scene"].to_pylist(), rows["target"].to_pylist(), strict=True))


def clusters_of(rows: Any) -> tuple[str, ...]:
    """The image of each row; its scene where none is said.

    >>> import pyarrow as pa
    >>> clusters_of(pa.table({'scene': ['s1', 's2'], 'cluster': ['photo', None]}))
    ('photo', 's2')
    """
    pairs = zip(rows["cluster"].to_pylist(), rows["scene"].to_pylist(), strict=True)
    return tuple(cluster or scene for cluster, scene in pairs)


def matrix(lists: Any, fill: float, width: int = 0) -> npt.NDArray[np.float64]:
    """Lists of numbers as a table, `(lists, longest)`; `fill` where there is no number.

    >>> import pyarrow as pa
    >>> matrix(pa.chunked_array([pa.array([[1.0, None], [3.0]])]), 0.0, 3).tolist()
    [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]
    """
    whole = lists.combine_chunks()
    numbers = whole.flatten().cast("float64").fill_null(fill)
    return spread(whole, numbers.to_numpy(zero_copy_only=False), fill, width)


def spread(lists: Any, values: Any, fill: Any, width: int = 0) -> npt.NDArray[Any]:
    """One value for each element of an array of lists as a table, `(lists, longest)`.

    >>> import numpy as np, pyarrow as pa
    >>> spread(pa.array([['x', 'y'], ['z']]), np.array([1, 2, 3]), 0).tolist()
    [[1, 2], [3, 0]]
    """
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    longest = max(width, int(lengths.max(initial=0)))
    made = np.full((len(lengths), longest), fill, dtype=np.asarray(values).dtype)
    made[np.arange(longest) < lengths[:, None]] = values
    return made


def _codes(column: Any) -> npt.NDArray[np.int64]:
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64)
