"""Scoring: a measure is added to a run from its stored masks, without the model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.received_runs import received
from segmeter.core.rows import measure_column
from segmeter.core.scenes import Target
from segmeter.core.sessions import Judge
from segmeter.engine.jobs import Built, jobs_of
from segmeter.engine.validation import complete, defined
from segmeter.runtime.fingerprints import installed
from segmeter.runtime.remote_files import Roots
from segmeter.store.compaction import LOOSE, compact, drop_copies
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import with_column
from segmeter.store.job_index import made_by
from segmeter.store.storage import Address


def score_run(address: Address, measure: str, roots: Roots, *, trust: bool = False) -> int:
    """Add a column with a measure to the rows of every finished job of a run.

    Jobs that have it are left alone, unless the measure is the user's own. Measures in millimetres
    take the spacing from each scene's header. Returns how many jobs were scored. Only with `trust`
    may the run name a benchmark or a dataset in a Python file, which is then run.
    """
    folder = RunFolder.existing(address)
    plan = folder.plan
    if measure in plan.measures:
        raise BadInput(f"'{address}' was run with the measure '{measure}'; nothing to add")
    card = mask_measure(measure)
    name, column = card.id, measure_column(card.id)
    with received(not trust):
        judged = replace(plan, users=(), measures=())  # neither is used again
        fresh, datasets = complete(judged, Built(roots), to_run=False)
        benchmark = catalogue.benchmarks.make(plan.benchmark)
    if any(plan.fingerprints.get(name) != fresh.fingerprints[name] for name in datasets):
        raise BadInput(
            f"the data has changed since '{address}' was run; its masks cannot be judged"
        )
    steady = installed(catalogue.measures.make(measure).function)  # else it may have changed since
    if not steady and column in benchmark.schema.names:
        raise BadInput(f"rows have a column '{column}' with another meaning; rename the measure")
    with folder.locked():
        drop_copies(folder)
        ready = folder.finished() - (_scored(folder, column) if steady else set())
        left = [job for job in jobs_of(plan, datasets) if job.id in ready]
        for count, job in enumerate(left, 1):
            scene = datasets[str(job.dataset)].load(job.scene)
            if not defined(card, scene):
                raise BadInput(f"'{name}' is not defined for {scene.header.kind}s, as {scene.name}")
            targets = {target.id: target for target in scene.targets}
            try:
                judge = benchmark.judge(plan, scene, [measure])
                table = folder.rows(job.id)
                values = _values(table, targets, judge)
            except BadInput as error:
                raise BadInput(f"'{address}', {job}: {error}") from error
            folder.check_lease()
            folder.put_rows(job.id, with_column(table, column, values))
            if count % LOOSE == 0 or count == len(left):
                compact(folder, closing=count == len(left))
    return len(left)


def _scored(folder: RunFolder, column: str) -> set[str]:
    jobs = set()
    for file in folder.layout().files:
        with suppress(BadInput):  # its job is named when its turn comes
            jobs |= {job for job, _, columns in made_by(folder.place, file) if column in columns}
    return jobs


def _values(table: Any, targets: dict[str, Target], judge: Judge) -> list[float]:
    """A value for each row; a mask that many rows share is measured once."""
    if "mask" not in table.column_names or table["mask"].null_count:
        raise BadInput("this run kept no masks, so nothing can be measured later")
    if "target" not in table.column_names:
        raise BadInput("its rows have no 'target'")
    known: dict[tuple[str, str], float] = {}
    pairs = list(zip(table["target"].to_pylist(), table["mask"].to_pylist(), strict=True))
    for key in dict.fromkeys(pairs):
        name, text = key
        if name not in targets:
            raise BadInput(f"its row names a target '{name}' that the scene lacks")
        target = targets[name]
        (known[key],) = judge(target, Mask.decoded(text, target.mask.shape)).values()
    return [known[pair] for pair in pairs]
