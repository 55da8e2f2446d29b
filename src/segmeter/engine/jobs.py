"""Jobs of a plan, and the worker that does them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import OnDevice, WithWeights
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError, raised_at
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import Schema, columns_of_measures
from segmeter.core.scenes import Dataset, Scene
from segmeter.engine.arithmetic import steady_arithmetic
from segmeter.engine.parameters import parameter_count
from segmeter.engine.widening import rows_to_widen, users_text
from segmeter.kernels import set_threads
from segmeter.runtime.fingerprints import object_fingerprint, source_fingerprint
from segmeter.runtime.remote_files import Roots
from segmeter.store.folder import RunFolder
from segmeter.store.places import Address, DiskFull, Place, RunGone
from segmeter.store.run import declared_rows

__all__ = ["Objects", "Outcome", "Worker", "jobs_of", "rows_schema", "source_of"]

Objects = dict[str, Any]  # things of the caller's own, by the name the plan uses for them


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

    def __init__(
        self,
        plan: Plan,
        run: Address | Place,
        roots: Roots,
        objects: Objects | None = None,
        cores: int = 1,
    ) -> None:
        """`cores` are those that kernels may use, whose results do not depend on them."""
        self.plan = plan
        self.cores = cores
        self.folder = RunFolder(run)
        self.roots = roots
        self.objects = objects or {}
        self.benchmark = catalogue.benchmarks.make(plan.benchmark)
        self.schema = rows_schema(self.benchmark, plan)
        self._segmenter: tuple[Spec, Any] | None = None
        self._datasets: dict[str, Dataset] = {}
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
            own = self.objects.get(job.segmenter.name)
            provenance = _provenance(job, segmenter, own)
            kept, plan = rows_to_widen(self.folder, job, self.plan, provenance)
            rows = self.benchmark.work(segmenter, ready, plan)
            size = {"parameters": str(parameter_count(segmenter))}
            # Computed again: the device may be known only after it was used.
            self._keep(job, kept, rows, _provenance(job, segmenter, own) | size)
        except (DiskFull, RunGone) as error:
            return Outcome(job, str(error), fatal=True)
        except SegmeterError as error:
            return Outcome(job, f"{error}{raised_at(error)}", traceback.format_exc())
        except Exception as error:  # noqa: BLE001  one job's failure must not end the others
            message = f"{type(error).__name__}: {error}{raised_at(error)}"
            return Outcome(job, message, traceback.format_exc(), retryable=True)
        return Outcome(job)

    def _keep(self, job: Job, kept: list[Row], rows: list[Row], provenance: dict[str, str]) -> None:
        """Write the rows with their identity, in the columns that the benchmark declares."""
        labels = job.identity()
        whole = kept + [labels | row for row in rows]
        if self.schema is not None:
            for row in whole:
                self.schema.check(row)
        played = {"plan": self.plan.id, "users": users_text(self.plan)}
        self.folder.finish(job, whole, provenance | played, self.schema)

    def _read(self, job: Job) -> Scene:
        key = str(job.dataset)
        if key not in self._datasets:
            self._datasets[key] = self._made(catalogue.datasets.make, job.dataset)
        scene = self._datasets[key].load(job.scene)
        scene.check()
        return scene

    def _make_segmenter(self, spec: Spec) -> Any:
        """The model or method; only the last one stays in memory."""
        if self._segmenter is None or self._segmenter[0] != spec:
            self._segmenter = None
            steady_arithmetic(self.plan.threads)
            set_threads(max(self.plan.threads, self.cores))
            registry = catalogue.models if self.plan.kind == "model" else catalogue.methods
            self._segmenter = (spec, self._made(registry.make, spec))
        return self._segmenter[1]

    def _made(self, make: Callable[..., Any], spec: Spec) -> Any:
        own = self.objects.get(spec.name)
        return own if own is not None else make(spec, **self.roots.options())


def jobs_of(plan: Plan, datasets: dict[str, Dataset]) -> list[Job]:
    """All jobs, subject by subject, so that a worker seldom changes its model."""
    return [
        Job(segmenter, spec, scene)
        for segmenter in plan.segmenters
        for spec in plan.datasets
        for scene in plan.scenes_of(str(spec), datasets[str(spec)].scenes())
    ]


def source_of(spec: Spec, own: Any = None) -> str:
    """Fingerprint of a model of the user's own, an object or a `file.py:name`; else nothing."""
    if own is not None:
        return object_fingerprint(own)
    if ".py:" not in spec.name:
        return ""
    return source_fingerprint(Path(spec.name.rpartition(":")[0]), spec.options)


def rows_schema(benchmark: Any, plan: Plan) -> Schema | None:
    """The declared columns with one for each measure; None if the benchmark declares nothing."""
    schema = declared_rows(benchmark)
    if schema is None:
        return None
    ids = [catalogue.measures.make(name).id for name in plan.measures]
    return schema.plus(columns_of_measures(ids))


def _provenance(job: Job, segmenter: Any, own: Any) -> dict[str, str]:
    """The provenance of the rows of a job."""
    from segmeter.engine.provenance import library_versions

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
