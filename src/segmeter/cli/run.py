"""`segmeter run`: play a benchmark into a run folder."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from segmeter.cli._clicked import clicks_option, say_of_played
from segmeter.cli._options import (
    AsJson,
    Data,
    Models,
    ReadingChoice,
    Weights,
    benchmark_options,
    dataset_spec,
    part_of,
    readings,
    roots,
)
from segmeter.cli._run_options import (
    Add,
    Again,
    BenchmarkName,
    Clicks,
    ClusterAddress,
    Datasets,
    DryRun,
    Estimate,
    ExecutorName,
    Limit,
    MaskRule,
    Measures,
    Methods,
    Out,
    PointRule,
    Rounds,
    Seed,
    Settings,
    Share,
    Threads,
    Until,
    Users,
    Workers,
)
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.devices import check_devices
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan, Roots
from segmeter.core.processes import waking

__all__ = ["run"]


@app.command()
def run(
    benchmark: BenchmarkName,
    out: Out = None,
    model: Models = None,
    method: Methods = None,
    dataset: Datasets = None,
    data: Data = None,
    weights: Weights = None,
    user: Users = None,
    rounds: Rounds = 0,
    reading: ReadingChoice = "both",
    measure: Measures = None,
    masks: MaskRule = None,
    points: PointRule = None,
    option: Settings = None,
    clicks: Clicks = None,
    until: Until = None,
    add: Add = False,
    dry: DryRun = False,
    estimate: Estimate = False,
    seed: Seed = 0,
    limit: Limit = None,
    workers: Workers = None,
    threads: Threads = 1,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    share: Share = "1/1",
    again: Again = False,
    as_json: AsJson = False,
) -> int:
    """Play a benchmark; stop it at any time, the same command goes on.

    Example: `segmeter run noc --model grabcut --dataset mini --out runs/mine`
    """
    plan = Plan(
        benchmark=benchmark,
        subjects=_subjects(method or model or [], masks=masks, points=points),
        kind="method" if method else "model",
        datasets=tuple(dataset_spec(name) for name in dataset or []),
        users=tuple(Spec.parse(name) for name in user or []),
        rounds=rounds,
        readings=readings(reading),
        measures=tuple(measure or []),
        seed=seed,
        limit=limit,
        threads=threads,
        options=benchmark_options(option or [])
        | clicks_option(benchmark, clicks)
        | ({} if until is None else {"until": until}),
    )
    places = roots(data, weights)
    ours = plan.kind == "model" and executor in (None, "local") and not (dry or estimate)
    with waking(workers if ours else 0) as early:  # before anything heavy is imported here
        from segmeter.cli._tables import print_summary
        from segmeter.cli._terminal import Bar
        from segmeter.engine import run_plan
        from segmeter.engine.estimates import free_folder

        check_devices(plan.subjects)
        _say_data(plan.datasets, places)
        if "clicks" in plan.options:
            say_of_played(plan, places)
        if dry:
            return _say_estimate(plan, places, workers, as_json)
        if estimate:
            from segmeter.cli._estimates import say_cost

            return say_cost(plan, places, workers, executor, as_json)
        if add:
            plan = _added(plan, out, places)
        if out is None:
            out = str(free_folder(plan, places))
            typer.echo(f"run folder: {out}", err=True)
        tally = run_plan(
            plan,
            out,
            roots=places,
            workers=workers,
            progress=Bar(),
            again=again,
            executor=executor,
            early=early,
            share=part_of(share),
            address=address,
            tell=lambda sentence: typer.echo(printable(sentence), err=True),
        )
        print_summary(out, tally, as_json)
        return Exit.WITH_ERRORS if tally.failed else Exit.DONE


def _subjects(names: Sequence[str], **rules: str | None) -> tuple[Spec, ...]:
    """What is played: models or methods, with the rules that were asked for of all of them."""
    asked = {key: value for key, value in rules.items() if value is not None}
    specs = [Spec.parse(name) for name in names]
    return tuple(Spec(spec.name, {**asked, **spec.options}) for spec in specs)


def _say_data(specs: Sequence[Spec], places: Roots) -> None:
    """On stderr: what was recognised in a folder, and what of a set is not at hand."""
    for spec in specs:
        data = catalogue.datasets.make(spec, **places.options())
        said = getattr(data, "recognised", "") or data.card.missing
        if said:
            typer.echo(f"{data.card.name}: {said}", err=True)


def _say_estimate(plan: Plan, places: Roots, workers: int | None, as_json: bool) -> int:
    """What a plan would do, and about how long; nothing is written."""
    from dataclasses import asdict

    from segmeter.cli._tables import rows_json
    from segmeter.engine.estimates import dry_run, whole_seconds

    found = dry_run(plan, places)
    if as_json:
        print(rows_json([asdict(e) for e in found]))
        return Exit.DONE
    for e in found:
        each = f"{e.seconds:.2f} s and {e.rows:.0f} rows for the first"
        scenes = "1 scene" if e.scenes == 1 else f"{e.scenes} scenes"
        typer.echo(f"{e.subject} on {e.dataset}: {scenes}, {each}")
    minutes = whole_seconds(found, plan, workers) / 60
    typer.echo(f"about {minutes:.1f} minutes in all, were all scenes as the first; nothing written")
    return Exit.DONE


def _added(plan: Plan, out: str | None, places: Roots) -> Plan:
    """The plan of an existing run with more models, data sets or users; all else must agree."""
    from segmeter.engine.adding import add_to_run

    if out is None:
        raise BadInput("--add needs --out: which run to add to")
    return add_to_run(plan, out, places)
