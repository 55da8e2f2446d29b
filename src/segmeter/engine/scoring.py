"""Scoring: a measure is added to a run from its stored masks, without the model."""

from __future__ import annotations

from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.received_runs import received
from segmeter.core.rows import SESSION_KEY
from segmeter.core.scenes import Target
from segmeter.core.sessions import Judge
from segmeter.engine.jobs import Built, jobs_of
from segmeter.engine.validation import complete, defined
from segmeter.runtime.fingerprints import installed
from segmeter.runtime.remote_files import Roots
from segmeter.store.compaction import LOOSE, compact, drop, drop_copies
from segmeter.store.folder import RunFolder, measure_folder
from segmeter.store.storage import Address


def score_run(address: Address, measure: str, roots: Roots, *, trust: bool = False) -> int:
    """Add a measure to every finished job of a run; jobs scored before are left alone, unless the
    measure is the user's own.

    Measures in millimetres take the spacing from each scene's header. Returns how many jobs
    were scored. Only with `trust` may the run name a benchmark or a dataset in a Python file,
    which is then run.
    """
    folder = RunFolder.existing(address)
    plan = folder.plan
    if measure in plan.measures:
        raise BadInput(f"'{address}' was run with the measure '{measure}'; nothing to add")
    card = mask_measure(measure)
    name = card.id
    place = measure_folder(name)  # refused now if nothing can be kept under this name
    with received(not trust):
        fresh, datasets = complete(plan, Built(roots), to_run=False)
        benchmark = catalogue.benchmarks.make(plan.benchmark)
    if any(plan.fingerprints.get(name) != fresh.fingerprints[name] for name in datasets):
        raise BadInput(
            f"the data has changed since '{address}' was run; its masks cannot be judged"
        )
    with folder.locked():
        drop_copies(folder)
        scored = folder.layout(place).jobs
        if not installed(catalogue.measures.make(measure).function):  # it may have changed since
            drop(folder, scored, place)
            for job_id in scored:
                folder.place.remove(f"{place}/{job_id}.parquet")
            scored = set()
        ready = folder.finished() - scored
        left = [job for job in jobs_of(plan, datasets) if job.id in ready]
        for count, job in enumerate(left, 1):
            scene = datasets[str(job.dataset)].load(job.scene)
            if not defined(card, scene):
                raise BadInput(f"'{name}' is not defined for {scene.header.kind}s, as {scene.name}")
            targets = {target.id: target for target in scene.targets}
            try:
                judge = benchmark.judge(plan, scene, [measure])
                rows = _scored_rows(folder.rows(job.id), targets, judge)
            except BadInput as error:
                raise BadInput(f"'{address}', {job}: {error}") from error
            folder.check_lease()
            folder.score(name, job, rows)
            if count % LOOSE == 0 or count == len(left):
                compact(folder, place, closing=count == len(left))
    return len(left)


def _scored_rows(table: Any, targets: dict[str, Target], judge: Judge) -> list[dict[str, Any]]:
    """A value for each row; a mask that many rows share is measured once."""
    if "mask" not in table.column_names or table["mask"].null_count:
        raise BadInput("this run kept no masks, so nothing can be measured later")
    lost = [name for name in SESSION_KEY if name not in table.column_names]
    if lost:
        raise BadInput(f"its rows have no '{lost[0]}'")
    known: dict[tuple[str, str], float] = {}
    rows = []
    for row in table.select([*SESSION_KEY, "mask"]).to_pylist():
        key = (row["target"], row["mask"])
        if key not in known:
            if row["target"] not in targets:
                raise BadInput(f"its row names a target '{row['target']}' that the scene lacks")
            target = targets[row["target"]]
            mask = Mask.decoded(row["mask"], target.mask.shape)
            (known[key],) = judge(target, mask).values()
        rows.append({name: row[name] for name in SESSION_KEY} | {"value": known[key]})
    return rows
