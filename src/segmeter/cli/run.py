"""`segmeter run`: play a benchmark into a run folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from segmeter.cli import _run_options as options
from segmeter.cli._option_values import benchmark_options, dataset_spec, protocols, roots, shard_of
from segmeter.cli._options import AsJson, Data, Limit, Models, ProtocolChoice, Seed, Trust, Weights
from segmeter.cli._recorded_clicks import clicks_option, say_of_played
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.plans import Plan
from segmeter.core.received import received
from segmeter.runtime.processes import check_devices, prewarming
from segmeter.runtime.remote_files import Roots

__all__ = ["run"]


@app.command()
def run(
    benchmark: options.BenchmarkName,
    model: Models = None,
    method: options.Methods = None,
    dataset: options.Datasets = None,
    user: options.Users = None,
    data: Data = None,
    weights: Weights = None,
    out: options.Out = None,
    protocol: ProtocolChoice = "both",
    limit: Limit = None,
    seed: Seed = 0,
    rounds: options.Rounds = 0,
    measure: options.Measures = None,
    until: options.Until = None,
    clicks: options.Clicks = None,
    masks: options.MaskRule = None,
    points: options.PointRule = None,
    option: options.Settings = None,
    dry: options.DryRun = False,
    add: options.Add = False,
    trust: Trust = False,
    again: options.Again = False,
    shard: options.Shard = "1/1",
    workers: options.Workers = None,
    threads: options.Threads = 1,
    executor: options.ExecutorName = None,
    address: options.ClusterAddress = None,
    as_json: AsJson = False,
) -> int:
    """Run a benchmark. Interrupt it at any time; the same command resumes it.

    Example: `segmeter run noc --model grabcut --dataset mini --out runs/mine`
    """
    if model and method:
        raise BadInput("a run plays models or methods; give --model or --method, not both")
    plan = Plan(
        benchmark=benchmark,
        segmenters=_segmenters(method or model or [], masks=masks, points=points),
        kind="method" if method else "model",
        datasets=tuple(dataset_spec(name) for name in dataset or []),
        users=tuple(Spec.parse(name) for name in user or []),
        rounds=rounds,
        protocols=protocols(protocol),
        measures=tuple(measure or []),
        seed=seed,
        limit=limit,
        threads=threads,
        options=_settings(benchmark, option or [], clicks, until),
    )
    places = roots(data, weights)
    if trust and not add:
        raise BadInput("--trust is about the run that --add widens; leave it out")
    crew = _Crew(workers, executor, address, shard_of(shard), again, trust)
    if dry:
        return _estimate(plan, places, crew, as_json)
    return _play(plan, places, crew, out, as_json, add=add)


@dataclass(frozen=True, slots=True)
class _Crew:
    """Who plays the jobs, and which of them."""

    workers: int | None
    executor: str | None
    address: str | None
    shard: tuple[int, int]
    again: bool
    trust: bool


def _segmenters(names: Sequence[str], **rules: str | None) -> tuple[Spec, ...]:
    """What is played: models or methods, with the rules that were asked for of all of them."""
    asked = {key: value for key, value in rules.items() if value is not None}
    specs = [Spec.parse(name) for name in names]
    return tuple(Spec(spec.name, {**asked, **spec.options}) for spec in specs)


def _settings(
    benchmark: str, texts: list[str], clicks: Path | None, until: str | None
) -> dict[str, Any]:
    """The benchmark's own settings, those that have an option of their own among them."""
    ends = {} if until is None else {"until": until}
    return benchmark_options(texts) | clicks_option(benchmark, clicks) | ends


def _play(
    plan: Plan, places: Roots, crew: _Crew, out: str | None, as_json: bool, *, add: bool
) -> int:
    """Play the plan, or what is left of it, and say what it gave."""
    ours = plan.kind == "model" and crew.executor in (None, "local")
    with prewarming(
        crew.workers if ours else 0
    ) as prewarmed:  # before anything heavy is imported here
        from segmeter.cli._progress import Bar
        from segmeter.cli._tables import print_summary
        from segmeter.engine import run_plan
        from segmeter.engine.estimates import free_folder
        from segmeter.engine.executors import executor_names

        if crew.executor is not None:
            check_choice("executor", crew.executor, executor_names())
        _check(plan, places)
        if add and out is None:
            raise BadInput("--add needs --out: which run to add to")
        folder = out or str(free_folder(plan, places))
        bar = Bar("" if out else f"run folder: {folder}")
        with received(active=False) if crew.trust else nullcontext():
            tally = run_plan(
                plan,
                folder,
                roots=places,
                workers=crew.workers,
                progress=bar,
                again=crew.again,
                add=add,
                trust=crew.trust,
                executor=crew.executor,
                prewarmed=prewarmed,
                shard=crew.shard,
                address=crew.address,
                tell=lambda sentence: typer.echo(printable(sentence), err=True),
            )
        print_summary(folder, tally, as_json)
        sys.stdout.flush()
        bar.say_reason()
        return Exit.WITH_ERRORS if tally.failed else Exit.DONE


def _check(plan: Plan, places: Roots) -> None:
    """Refuse devices that are not there; say on stderr what is known about the data."""
    check_devices(plan.segmenters)
    for spec in plan.datasets:
        data = catalogue.datasets.make(spec, **places.options())
        # What was recognised in a folder, or what of a set is not at hand.
        said = getattr(data, "recognised", "") or data.card.missing
        if said:
            typer.echo(f"{data.card.name}: {said}", err=True)
    if "clicks" in plan.options:
        say_of_played(plan, places)


def _estimate(plan: Plan, places: Roots, crew: _Crew, as_json: bool) -> int:
    """Print what a plan would do, and about how long it would take; nothing is written."""
    from segmeter.cli._estimates import say_cost

    _check(plan, places)
    say_cost(plan, places, crew.workers, crew.executor, as_json)
    return Exit.DONE
