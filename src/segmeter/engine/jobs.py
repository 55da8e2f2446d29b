"""Jobs of a plan, and the worker that does them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import Benchmark, Row
from segmeter.core.capabilities import OnDevice, WithWeights
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError, error_text
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import Schema, columns_of_measures
from segmeter.core.scenes import Dataset, Scene
from segmeter.engine.arithmetic import fix_arithmetic
from segmeter.engine.provenance import library_versions, parameter_count
from segmeter.kernels import set_threads
from segmeter.runtime.fingerprints import object_fingerprint, source_fingerprint
from segmeter.runtime.remote_files import Roots
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import provenance_of
from segmeter.store.local import DiskFull, RunRemoved
from segmeter.store.storage import Address, Place

Objects = dict[str, Any]  # things of the caller's own, by the name the plan uses for them


class Built:
    """Models, methods and datasets by their specs, each made once in this process.

    Objects of the caller's own are taken as they are.
    """

    def __init__(self, roots: Roots | None = None, objects: Objects | None = None) -> None:
        self.roots, self.own = roots or Roots(), objects or {}
        self._made: dict[tuple[str, str], Any] = {}

    def dataset(self, spec: Spec) -> Dataset:
        made: Dataset = self._get(catalogue.datasets, spec)
        return made

    def segmenter(self, kind: str, spec: Spec) -> Any:
        return self._get(catalogue.models if kind == "model" else catalogue.methods, spec)

    def release(self, spec: Spec) -> None:
        """Release a model or method, so that its memory can be used by the next."""
        for kind in ("model", "method"):
            self._made.pop((kind, str(spec)), None)

    def _get(self, registry: catalogue.Registry[Any], spec: Spec) -> Any:
        if spec.name in self.own:
            return self.own[spec.name]
        key = (registry.kind, str(spec))
        if key not in self._made:
            self._made[key] = registry.make(spec, **self.roots.options())
        return self._made[key]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. `fatal` stops the run: a full disk, a run folder that was removed."""

    job: Job
    error: str | None = None
    detail: str = ""
    retryable: bool = False  # worth another try
    fatal: bool = False


class Worker:
    """Does jobs one after the other; keeps the model loaded and reads scenes ahead."""

    def __init__(self, plan: Plan, run: Address | Place, built: Built, cores: int = 1) -> None:
        """`cores` are those that kernels may use, whose results do not depend on them."""
        self.plan = plan
        self.cores = cores
        self.folder = RunFolder(run)
        self.built = built
        self.benchmark = catalogue.benchmarks.make(plan.benchmark)
        self.schema = rows_schema(self.benchmark, plan)
        self._segmenter: Spec | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._ahead: dict[str, Future[Scene]] = {}

    def read_ahead(self, job: Job) -> None:
        """Start reading a job's image while another job is worked on."""
        if job.id not in self._ahead:
            self._ahead[job.id] = self._reader.submit(self._read, job)

    def do(self, job: Job) -> Outcome:
        """Do a job and keep its rows; an error becomes an outcome, never an exception."""
        try:
            scene = self._ahead.pop(job.id, None)
            ready = scene.result() if scene is not None else self._read(job)
            if self.plan.users and not ready.targets:
                raise BadInput(f"{ready.name} has no target; there is nothing to segment")
            segmenter = self._make_segmenter(job.segmenter)
            own = self.built.own.get(job.segmenter.name)
            provenance = _provenance(job, segmenter, own)
            kept, plan = self._rows_to_widen(job, provenance)
            check_needs(self.benchmark, segmenter, plan)
            rows = self.benchmark.work(segmenter, ready, plan)
            size = {"parameters": str(parameter_count(segmenter))}
            # Computed again: the device may be known only after it was used.
            self._keep(job, kept, rows, _provenance(job, segmenter, own) | size)
        except (DiskFull, RunRemoved) as error:
            return Outcome(job, str(error), fatal=True)
        except Exception as error:  # noqa: BLE001  one job's failure must not end the others
            again = not isinstance(error, SegmeterError)
            return Outcome(job, error_text(error), traceback.format_exc(), retryable=again)
        return Outcome(job)

    def _keep(self, job: Job, kept: list[Row], rows: list[Row], provenance: dict[str, str]) -> None:
        """Write the rows with their identity, in the columns that the benchmark declares."""
        labels = job.identity()
        whole = kept + [labels | row for row in rows]
        for row in whole:
            self.schema.check(row)
        users = json.dumps([str(spec) for spec in self.plan.users])
        made_by = {"plan": self.plan.id, "users": users}
        self.folder.finish(job, whole, provenance | made_by, self.schema)

    def _rows_to_widen(self, job: Job, provenance: Mapping[str, str]) -> tuple[list[Row], Plan]:
        """Rows of a job that are kept, and the plan of what is left to run of it.

        Nothing is kept of a job file of other weights or other source code, and no measure that
        was added to it.
        """
        if not self.folder.place.exists(f"jobs/{job.id}.parquet"):  # compacted ones are unpacked
            return [], self.plan
        table = self.folder.rows(job.id)
        then = provenance_of(table.schema)
        lacking = lacking_users(then, table.column_names, self.plan)
        changed = any(then.get(what, provenance[what]) != provenance[what] for what in _SAME)
        if changed or len(lacking) in (0, len(self.plan.users)):
            return [], self.plan
        declared = table.select([n for n in table.column_names if n in self.schema.names])
        rows: list[Row] = declared.to_pylist(maps_as_pydicts="lossy")
        return rows, replace(self.plan, users=lacking)

    def _read(self, job: Job) -> Scene:
        scene = self.built.dataset(job.dataset).load(job.scene)
        scene.check()
        return scene

    def _make_segmenter(self, spec: Spec) -> Any:
        """The model or method; only the last one stays in memory."""
        if self._segmenter != spec:
            if self._segmenter is not None:
                self.built.release(self._segmenter)
            self._segmenter = spec
            fix_arithmetic(self.plan.threads)
            set_threads(max(self.plan.threads, self.cores))
        return self.built.segmenter(self.plan.kind, spec)


def jobs_of(plan: Plan, datasets: dict[str, Dataset]) -> list[Job]:
    """All jobs, model by model, so that a worker seldom changes its model."""
    return [
        Job(segmenter, spec, scene)
        for segmenter in plan.segmenters
        for spec in plan.datasets
        for scene in plan.scenes_of(str(spec), datasets[str(spec)].scenes())
    ]


def check_needs(benchmark: Benchmark, segmenter: Any, plan: Plan) -> None:
    """Refuse a model that does not take what the benchmark itself gives."""
    needed = benchmark.needs(plan)
    if lost := sorted(needed - segmenter.card.abilities if needed else ()):
        kinds = " and no ".join(f"{kind} prompts" for kind in lost)
        raise BadInput(
            f"model '{segmenter.card.name}' takes no {kinds}, which benchmark '{plan.benchmark}' "
            f"gives (it takes {', '.join(sorted(segmenter.card.abilities))}); choose another model"
        )


def source_of(spec: Spec, own: Any = None) -> str:
    """Fingerprint of a model of the user's own, an object or a `file.py:name`; else nothing."""
    if own is not None:
        return object_fingerprint(own)
    if ".py:" not in spec.name:
        return ""
    return source_fingerprint(Path(spec.name.rpartition(":")[0]), spec.options)


def rows_schema(benchmark: Benchmark, plan: Plan) -> Schema:
    """The declared columns with one for each measure."""
    ids = [catalogue.measures.make(name).id for name in plan.measures]
    return benchmark.schema.plus(columns_of_measures(ids))


def _provenance(job: Job, segmenter: Any, own: Any) -> dict[str, str]:
    card = segmenter.card
    return {
        "segmenter": str(job.segmenter),
        "weights": str(segmenter.weights_path) if isinstance(segmenter, WithWeights) else "",
        "fingerprint": card.fingerprint,
        "source": source_of(job.segmenter, own),
        "device": str(segmenter.device) if isinstance(segmenter, OnDevice) else "cpu",
        "licence": card.licence,
        "citation": card.citation,
        **library_versions(),
    }


_SAME = ("fingerprint", "source")


def lacking_users(
    provenance: Mapping[str, str], columns: Collection[str], plan: Plan
) -> tuple[Spec, ...]:
    """The users of a plan that rows do not hold, by their provenance."""
    if provenance.get("plan") == plan.id or "user" not in columns:
        return ()
    try:
        noted = list(map(str, json.loads(provenance.get("users", ""))))
    except (ValueError, TypeError, RecursionError):  # damaged: they run again
        noted = []
    return tuple(spec for spec in plan.users if str(spec) not in noted)
