"""Run folders: one number of all runs under a folder; merge shards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.api.loading import Tell, silent
from segmeter.core.errors import BadInput, NotFound, SegmeterError

if TYPE_CHECKING:
    from segmeter.store.merging import Merged


def run_numbers(folder: str | Path, statistic: str, tell: Tell = silent) -> list[dict[str, Any]]:
    """One statistic of every model in every run under a folder, such as `noc@90`.

    Runs without rows are left out; `tell` receives the errors of runs that cannot be read. A limit
    that is not known, as those of one image, is None.
    """
    from segmeter.store import Run
    from segmeter.store.folder import list_runs

    numbers = []
    for facts in list_runs(folder):
        if facts.problem or not facts.done:
            continue
        try:
            rows = Run.open(facts.run).summary()
        except SegmeterError as error:
            tell(f"{facts.run}: {error}")
            continue
        for row in (asdict(r) for r in rows if r.statistic == statistic):
            unknown = {k for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)}
            numbers.append({"run": facts.run, **row, **dict.fromkeys(unknown)})
    if not numbers:
        raise NotFound(
            f"no run under '{folder}' has the statistic '{statistic}'; 'segmeter report RUN "
            "--json' lists those of a run"
        )
    return numbers


def merge(out: str | Path, runs: Sequence[str | Path], tell: Tell = silent) -> Merged:
    """Join runs of one plan, such as shards of several machines, into one.

    Jobs that several runs have are taken once; if their rows differ, the merge is refused.
    Nothing that a run names is executed.

    Returns
    -------
    Merged
        `taken` (jobs by run), `twice` (jobs that several runs had) and `left_out` (damaged files).

    Examples
    --------
    >>> import segmeter
    >>> folder = getfixture("tmp_path")
    >>> for shard in ("1/2", "2/2"):
    ...     _ = segmeter.evaluate(
    ...         "synthetic-oracle", "mini", out=folder / shard[0], limit=2, rounds=1, shard=shard
    ...     )
    >>> segmeter.merge(folder / "all", [folder / "1", folder / "2"]).jobs
    2
    """
    from segmeter.engine.provenance import command_entry
    from segmeter.store.merging import merge_runs

    if len(runs) < 2:
        raise BadInput(f"merging into '{out}' needs two or more runs, and one was given")
    return merge_runs(str(out), [str(run) for run in runs], command_entry(), tell)
