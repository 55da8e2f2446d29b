"""Evaluation in one call: run a benchmark with names or objects, or estimate what it takes."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from segmeter.api.loading import dataset_spec, listed, parsed_options, protocol_names, roots_of
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec, short
from segmeter.core.errors import BadInput, SegmeterError, check_choice, suggestion
from segmeter.core.plans import Plan, display_names
from segmeter.core.received_runs import received
from segmeter.core.wording import counted, printable, size_text, time_text
from segmeter.runtime.remote_files import Roots, is_address
from segmeter.runtime.workers_and_devices import check_devices, prewarming

if TYPE_CHECKING:
    from segmeter.api.progress import Bar
    from segmeter.api.runs import Run
    from segmeter.engine.estimates import Cost, Estimate
    from segmeter.engine.jobs import Objects


class Execution(TypedDict, total=False):
    """How the jobs of a run are executed; results do not depend on it.

    Attributes
    ----------
    workers
        Processes; 0 runs in this one and needs no `if __name__ == "__main__":`, None takes as
        many as fit; on a Ray cluster both do.
    threads
        Threads per worker.
    executor, ray_address
        `"inline"`, `"local"` or `"ray"`; the address of the Ray cluster.
    shard
        Run one shard of the jobs, such as `"1/4"`; `merge` joins them.
    rerun_changed
        Re-run jobs in `out` whose model has changed since; otherwise a changed model is an error.
    add, trust
        Add these models, datasets or users to the run in `out`; let that run name Python files.
    progress
        Show progress on stderr: a bar on a terminal, elsewhere a line every half minute (True: a
        line per job; False: nothing), or a `segmeter.api.progress.Bar`.
    failures
        `"warn"` warns if some jobs fail and raises if all do; `"keep"` does neither.
    """

    workers: int | None
    threads: int
    executor: str | None
    ray_address: str | None
    shard: str
    rerun_changed: bool
    add: bool
    trust: bool
    progress: bool | Bar | None
    failures: Literal["warn", "keep"]


def evaluate(
    models: Any = (),
    datasets: Any = None,
    *,
    out: str | Path | None = None,
    benchmark: str = "noc",
    methods: Any = (),
    users: Any = (),
    measures: Any = (),
    rounds: int = 0,
    protocols: str | Sequence[str] = (),
    seed: int = 0,
    limit: int | None = None,
    sample: int | None = None,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    until: str | None = None,
    options: Mapping[str, Any] | Sequence[str] | None = None,
    **execution: Unpack[Execution],
) -> Run:
    """Run a benchmark and return the run; resumes a run in `out` that was interrupted.

    Parameters
    ----------
    models, datasets, users, measures
        A name, an object, or a list of either; a dataset may be a folder, a model also a
        function `predict(image, clicks)` or a predictor with `set_image`. Objects of your own
        run in this process. Datasets are the built-in `mini` by default, with `add` those of the
        run.
    out
        Run folder or address, `runs/<benchmark>-<n>` by default.
    methods
        Methods instead of models, for benchmarks of methods.
    protocols
        `"corrected"`, `"published"`, `"both"` or a list of them; both by default, or with `add`
        those of the run.
    limit, sample
        Only the first scenes of each dataset, or a random sample of this size.
    until, options
        A goal at which sessions end, such as `"iou>=0.9"`; settings of the benchmark.
    **execution
        Workers, progress and so on; see `segmeter.evaluation.Execution`.

    Examples
    --------
    >>> import tempfile
    >>> run = evaluate("synthetic-oracle", "drawn", out=f"{tempfile.mkdtemp()}/run", limit=1)
    >>> run.sql("select round(avg(iou), 2) as iou from rows").to_pylist()
    [{'iou': 1.0}]
    """
    plan, objects = _requested(
        models, datasets, methods=methods, benchmark=benchmark, users=users, measures=measures,
        rounds=rounds, protocols=protocols, seed=seed, limit=limit, sample=sample,
        until=until, options=options, add=execution.get("add", False),
    )  # fmt: skip
    return _run(plan, objects, out, roots_of(data, weights), execution)


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Time and space that a run takes: `cost` of all, and a row per model and dataset."""

    cost: Cost
    rows: Sequence[Estimate]

    def facts(self) -> dict[str, Any]:
        rows = [asdict(e) | {"each": e.each} for e in self.rows]
        return {"cost": asdict(self.cost), "rows": rows}

    def lines(self) -> list[str]:
        sentences = []
        titles = display_names([Spec.parse(e.dataset) for e in self.rows])
        for e in self.rows:
            seconds = " and ".join(f"{s:.2f}" for s in (e.seconds, *e.later))
            what = f"{short(e.segmenter)} on {titles[e.dataset]}: {counted(e.scenes, 'scene')}"
            size = f"{e.rows:.0f} rows and {size_text(e.bytes)} per scene"
            sentences.append(printable(f"{what}; run here on {e.device} in {seconds} s, {size}"))
        cost = self.cost
        work = f"{counted(cost.jobs, 'job')}, {counted(cost.predictions, 'prediction')}"
        time, hands = time_text(cost.seconds), counted(cost.workers, "worker")
        size = f"{size_text(cost.bytes)} on the disk; nothing was written"
        return [*sentences, work, f"about {time} with {hands} like this machine, {size}"]


def estimate_run(
    models: Any = (),
    datasets: Any = None,
    *,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    workers: int | None = 0,
    executor: str | None = None,
    progress: bool | Bar | None = None,
    **request: Any,
) -> RunEstimate:
    """Run two scenes of each model and dataset, keep nothing, and estimate what all would take.

    Takes what `evaluate` takes. A worker of a cluster counts as fast as this machine; without a
    number of workers the estimate for a cluster is that of one.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.estimate_run("disc", "mini", rounds=2).cost.jobs
    11
    """
    from segmeter.engine.arithmetic import caller_state_kept
    from segmeter.engine.estimates import cost_of, run_some

    plan, objects = _requested(models, datasets, **request)
    roots, shown = roots_of(data, weights), _progress(progress, "")
    _check(plan, roots, objects, shown.say)
    with caller_state_kept():
        rows = run_some(plan, roots, objects or None, tell=shown.say)
    asked = 1 if executor == "ray" and workers is None else workers
    return RunEstimate(cost_of(rows, plan, asked), rows)


def _run(plan: Plan, objects: Objects, out: str | Path | None, roots: Roots, how: Execution) -> Run:
    """Run a plan, or resume it, and open the run."""
    known = [*Execution.__annotations__, *signature(evaluate).parameters]
    for name in how:
        if name not in Execution.__annotations__:
            raise TypeError(f"evaluate has no argument '{name}';{suggestion(name, known)}")
    check_choice("failures", how.get("failures", "warn"), ("warn", "keep"))
    workers, executor = how.get("workers", 0), how.get("executor")
    if workers and multiprocessing.parent_process() is not None:
        raise BadInput("put evaluate(workers=...) of a script under: if __name__ == '__main__':")
    shard, add, trust = _shard(how.get("shard", "1/1")), how.get("add", False), how.get("trust")
    if trust and not add:
        raise BadInput("--trust is about the run that --add widens; leave it out")
    if add and out is None:
        raise BadInput("--add needs --out: which run to add to")
    plan = replace(plan, threads=how.get("threads", 1))
    ours = plan.kind == "model" and executor in (None, "local") and not objects
    # Workers start before anything heavy is imported here.
    with prewarming(workers if ours else 0) as prewarmed:
        from segmeter.api.runs import Run
        from segmeter.engine import run_plan
        from segmeter.engine.arithmetic import caller_state_kept
        from segmeter.engine.executors import executor_names
        from segmeter.engine.runner import free_folder

        if executor is not None:
            check_choice("executor", executor, executor_names())
        place: str | Path = free_folder(plan, roots, objects) if out is None else out
        place = place if is_address(place) else Path(place)
        progress = _progress(how.get("progress"), "" if out else f"run folder: {place}")
        _check(plan, roots, objects, progress.say)
        with caller_state_kept(), received(active=False) if trust else nullcontext():
            tally = run_plan(
                plan, place, roots=roots, workers=workers, objects=objects or None,
                progress=progress, again=how.get("rerun_changed", False), add=add,
                trust=bool(trust), executor=executor, prewarmed=prewarmed, shard=shard,
                address=how.get("ray_address"), tell=progress.say,
            )  # fmt: skip
    run = Run.open(place, roots, trust=True)
    run.tally = tally
    if tally.failed and how.get("failures", "warn") == "warn":
        if not tally.done + tally.before:
            raise SegmeterError(f"every job failed, the first with: {progress.reason}")
        message = f"{counted(tally.failed, 'job')} failed; run.errors() names them"
        warnings.warn(message, stacklevel=3)
    return run


def _requested(
    models: Any,
    datasets: Any,
    *,
    benchmark: str = "noc",
    methods: Any = (),
    users: Any = (),
    measures: Any = (),
    protocols: str | Sequence[str] = (),
    until: str | None = None,
    options: Mapping[str, Any] | Sequence[str] | None = None,
    add: bool = False,
    **settings: Any,
) -> tuple[Plan, Objects]:
    """The plan of what was named or passed on, and the objects that it names."""
    objects: Objects = {}
    if listed(models) and listed(methods):
        raise BadInput("a run is of models or of methods; give --model or --method, not both")
    given = dict(options) if isinstance(options, Mapping) else parsed_options(options or ())
    usual = () if add else "mini"
    plan = Plan(
        benchmark,
        tuple(_model(thing, objects) for thing in listed(models) or listed(methods)),
        tuple(
            dataset_spec(str(thing)) if isinstance(thing, str | Path) else _data(thing, objects)
            for thing in listed(usual if datasets is None else datasets)
        ),
        kind="method" if listed(methods) else "model",
        users=tuple(_user(thing, objects) for thing in listed(users)),
        measures=tuple(_measure(thing) for thing in listed(measures)),
        protocols=protocol_names(protocols or (() if add else "both")),
        options=given if until is None else {**given, "until": until},
        **settings,
    )
    return plan, objects


def _check(plan: Plan, roots: Roots, objects: Objects, say: Callable[[str], None]) -> None:
    """Refuse devices that are not there; print what is known about the data."""
    check_devices(plan.segmenters)
    for spec in plan.datasets:
        if spec.name in objects:
            continue
        data = catalogue.datasets.make(spec, **roots.options())
        # What was recognised in a folder, or what of a set is not available.
        about = getattr(data, "recognised", "") or data.card.missing
        if about:
            say(f"{data.card.name}: {about}")
    if plan.options.get("clicks"):
        from segmeter.api.click_files import warn_of_skipped

        warn_of_skipped(plan, roots, say)


def _progress(asked: bool | Bar | None, first: str) -> Bar:
    """The object that shows progress: as given, else a bar, which may be quiet."""
    from segmeter.api.progress import Bar

    if asked is not None and not isinstance(asked, bool):
        asked.first = first
        return asked
    return Bar(first, quiet=asked is False, every=asked is True, sparse=asked is None)


def _shard(text: str) -> tuple[int, int]:
    """Which shard of how many.

    >>> _shard("2/4")
    (2, 4)
    """
    which, _, all_ = text.partition("/")
    if not (which.isdecimal() and all_.isdecimal() and 1 <= int(which) <= int(all_)):
        raise BadInput(f"--shard is which of how many, as 1/4, not '{text}'")
    return int(which), int(all_)


def _model(thing: Any, objects: Objects) -> Spec:
    """The spec of a name, or of an object under its card's name."""
    if isinstance(thing, str | Path):
        return Spec.parse(str(thing))
    if not hasattr(thing, "card"):
        thing = catalogue.adapted_model(thing)
    return _named(thing, objects)


def _data(thing: Any, objects: Objects) -> Spec:
    if not hasattr(thing, "card"):
        kind = type(thing).__name__
        raise BadInput(
            f"an object of type '{kind}' is not a dataset; give a name, a folder or your arrays as "
            "segmeter.Dataset.from_arrays(images, masks)"
        )
    return _named(thing, objects)


def _named(thing: Any, objects: Objects) -> Spec:
    name = thing.card.name
    if objects.setdefault(name, thing) is not thing:
        raise BadInput(f"two objects are called '{name}'; give each its own card.name")
    return Spec(name)


def _user(thing: Any, objects: Objects) -> Spec:
    if isinstance(thing, str):
        return Spec.parse(thing)
    if isinstance(thing, type) or not {"name", "next"} <= {*dir(thing)}:
        raise BadInput("a user of your own is an object with a name and next(observation, rng)")
    catalogue.users.put(thing.name, thing, "your own user")
    objects[f"user {thing.name}"] = thing
    return Spec(thing.name)


def _measure(thing: Any) -> str:
    """The name of a measure, or of an object that `@measure` made."""
    name = thing if isinstance(thing, str) else getattr(thing, "id", None)
    if not isinstance(name, str):
        raise BadInput("a measure of your own is a function under @measure(...)")
    return name
