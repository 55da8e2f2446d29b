"""`segmeter run`: play a benchmark into a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

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
    benchmark: Annotated[str, typer.Argument(help="Which benchmark; see 'segmeter list'.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="Run folder or address; by default runs/BENCHMARK-N, printed."
        ),
    ] = None,
    model: Models = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Method, or a folder of its results (for seism)."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", "-d", help="Data set by name, or a folder of your own."),
    ] = None,
    data: Data = None,
    weights: Weights = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", "-u", help="Simulated user; several may play.")
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", help="Rounds of a session; 0 takes the benchmark's own.")
    ] = 0,
    reading: ReadingChoice = "both",
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Measure to take in every round.")
    ] = None,
    masks: Annotated[
        str | None, typer.Option("--masks", help="Which of a SAM's masks: published or sound.")
    ] = None,
    points: Annotated[
        str | None, typer.Option("--points", help="A SAM's point rule: published or sound.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A setting of the benchmark's own, as name=value."),
    ] = None,
    clicks: Annotated[
        Path | None, typer.Option("--clicks", help="People's clicks (for rclicks and tetris).")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="End a session at a goal, as 90 or 'iou>=0.9' (for noc)."),
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Add these models, data sets or users to --out.")
    ] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Play one scene of each, say how long all take.")
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Play two scenes of each, say what all cost.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every draw.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first scenes of each set.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=0, help="Processes; changes speed, never results."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads a worker.")] = 1,
    executor: Annotated[
        str | None, typer.Option("--executor", help="Who does the work: inline, local or ray.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Ray cluster: auto, HOST:PORT or ray://HOST.")
    ] = None,
    share: Annotated[
        str,
        typer.Option("--share", help="Play one share of the jobs, as 1/4; 'merge' joins them."),
    ] = "1/1",
    again: Annotated[
        bool, typer.Option("--again", help="Play anew what other weights or sources played.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Play a benchmark; stop it at any time, the same command goes on.

    Example: `segmeter run noc --model grabcut --dataset mini --out runs/mine`
    """
    settings = {"masks": masks, "points": points}
    extra = {key: value for key, value in settings.items() if value is not None}
    specs = [Spec.parse(name) for name in (method or model or [])]
    plan = Plan(
        benchmark=benchmark,
        subjects=tuple(Spec(s.name, {**extra, **s.options}) for s in specs),
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
