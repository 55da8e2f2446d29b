"""Scoring later: a new measure from stored masks, without the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.plans import Job, Roots
from segmeter.core.scenes import Target
from segmeter.engine.jobs import jobs_of
from segmeter.engine.runner import complete
from segmeter.store.folder import RunFolder
from segmeter.store.parts import write_part

__all__ = ["score_run"]

_KEY = ("model", "dataset", "scene", "target", "user", "reading", "round")


def score_run(
    path: Path,
    measure: str,
    roots: Roots,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Add a measure to every finished job of a run; jobs scored before are left alone.

    Returns how many jobs were scored.
    """
    folder = RunFolder.existing(path)
    plan = folder.plan
    if measure in plan.measures:
        raise BadInput(f"'{path}' was run with the measure '{measure}'; nothing to add")
    judge = mask_measure(measure)
    name = judge.id
    fresh, datasets = complete(plan, roots, to_play=False)
    if fresh.fingerprints != plan.fingerprints:
        raise BadInput(f"the data has changed since '{path}' was run; its masks cannot be judged")
    with folder.locked():
        finished = [job for job in jobs_of(plan, datasets) if folder.done(job)]
        left = [job for job in finished if not _scored(folder, name, job).is_file()]
        for count, job in enumerate(left, 1):
            scene = datasets[str(job.dataset)].load(job.scene)
            targets = {target.id: target for target in scene.targets}
            rows = _score_part(folder.part(job), targets, judge)
            write_part(_scored(folder, name, job), rows)
            tell(count, len(left))
    return len(left)


def _scored(folder: RunFolder, measure: str, job: Job) -> Path:
    return folder.scores(measure) / f"{job.id}.parquet"


def _score_part(part: Path, targets: dict[str, Target], judge: Any) -> list[dict[str, Any]]:
    """A value for each row; a mask that stands in many rows is judged once."""
    table = pq.read_table(part)
    if "mask" not in table.column_names or table["mask"].null_count:
        raise BadInput("this run kept no masks, so nothing can be measured later")
    known: dict[tuple[str, str], float] = {}
    rows = []
    for row in table.to_pylist():
        key = (row["target"], row["mask"])
        if key not in known:
            target = targets[row["target"]]
            mask = Mask.decoded(row["mask"], target.mask.shape)
            known[key] = judge(target.mask, mask, target.ignore)
        rows.append({name: row[name] for name in _KEY} | {"value": known[key]})
    return rows
