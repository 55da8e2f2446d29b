"""`segmeter run`: run a benchmark into a run folder. Each benchmark is a command of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, MutableMapping, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer import Option
from typer.main import get_command

import segmeter
from segmeter.api import suites
from segmeter.api.listing import BenchmarkOptions
from segmeter.cli import _options as options
from segmeter.cli._printing import print_json, print_summary, progress_bar, say, summary_rows
from segmeter.cli.app import Command, Exit, Group, command_group

_SUITE = "zero-shot"
_DEFAULTS = 4  # values of an option that its help names

_rule = options.in_panel("Rules of the benchmark")
_work = options.in_panel("Resuming, sharing, speed")

Out = Annotated[str | None, options.out_option("Run folder or URL; by default runs/BENCHMARK-N.")]
Methods = Annotated[
    list[str] | None,
    options.name_of(
        "methods", "--method", help="Method that needs no prompts, or a folder with its results."
    ),
]
Users = Annotated[
    list[str] | None,
    options.name_of("users", "--user", "-u", help="Simulated user; can be repeated."),
]
Sample = Annotated[
    int | None, Option(min=1, help="Random sample of N images or volumes of each dataset.")
]
Rounds = Annotated[int, _rule(min=0, help="Rounds (clicks) per session.")]
Measures = Annotated[
    list[str] | None,
    _rule(
        autocompletion=options.names_of("measures"),
        help="Measure to compute in every round; can be repeated.",
    ),
]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Run two images of each model and print the expected time and size; write nothing.",
    ),
]
Add = Annotated[bool, _work("--add", help="Add these models, datasets or users to the run OUT.")]
RerunChanged = Annotated[
    bool, _work("--rerun-changed", help="Re-run jobs whose weights or code have changed.")
]
Shard = Annotated[str, _work(help="Run one shard of the jobs, such as 1/4; see 'segmeter merge'.")]
Workers = Annotated[
    int | None,
    _work(min=0, help="Worker processes; by default as many as fit. Results stay the same."),
]
Threads = Annotated[int, _work(min=1, help="Threads per worker.")]
ExecutorName = Annotated[str | None, _work(help="inline, local or ray.")]
ClusterAddress = Annotated[str | None, _work(help="Ray cluster: auto, HOST:PORT or ray://HOST.")]


def run(
    benchmark: str,
    model: options.Models = None,
    method: Methods = None,
    dataset: options.ImageSets = (),  # type: ignore[assignment]  # typer makes lists
    user: Users = None,
    data: options.Data = None,
    weights: options.Weights = None,
    out: Out = None,
    protocol: options.RunProtocol = None,
    limit: options.Limit = None,
    sample: Sample = None,
    seed: options.Seed = 0,
    rounds: Rounds = 0,
    measure: Measures = None,
    dry_run: DryRun = False,
    add: Add = False,
    trust: options.Trust = False,
    rerun_changed: RerunChanged = False,
    shard: Shard = "1/1",
    workers: Workers = None,
    threads: Threads = 1,
    executor: ExecutorName = None,
    ray_address: ClusterAddress = None,
    as_json: options.AsJson = False,
    **declared: Any,
) -> int:
    """Run a benchmark. Interrupt it at any time; the same command resumes it."""
    own = {name: value for name, value in declared.items() if value is not None}
    request: dict[str, Any] = {
        "benchmark": benchmark, "methods": method or (), "users": user or (),
        "measures": measure or (), "rounds": rounds, "protocols": protocol or (), "seed": seed,
        "limit": limit, "sample": sample, "data": data, "weights": weights,
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in own.items()},
    }  # fmt: skip
    bar = progress_bar()
    if dry_run:
        found = segmeter.estimate_run(
            model or (), list(dataset), workers=workers, threads=threads, executor=executor,
            progress=bar, **request,
        )  # fmt: skip
        if as_json:
            print_json(found.facts())
        else:
            print("\n".join(found.lines()))
        return Exit.DONE
    made = segmeter.evaluate(
        model or (), list(dataset), out=out, workers=workers, threads=threads, executor=executor,
        ray_address=ray_address, shard=shard, rerun_changed=rerun_changed, add=add, trust=trust,
        progress=bar, failures="keep", **request,
    )  # fmt: skip
    print_summary(made, as_json)
    return Exit.WITH_ERRORS if made.tally is not None and made.tally.failed else Exit.DONE


def zero_shot(
    model: options.Models,
    out: Annotated[str, options.out_option("Folder for the runs.")],
    data: options.Data = None,
    weights: options.Weights = None,
    limit: options.Limit = None,
    sample: Sample = None,
    workers: Workers = None,
    as_json: options.AsJson = False,
) -> int:
    """Segment Anything's zero-shot suite: points, boxes, edges and proposals, a run each.

    Uses all of the suite's datasets that are in DATA, and names the missing ones. Interrupt it at
    any time; the same command resumes it.

    Example: `segmeter run zero-shot --model mobile-sam --data DATA --out runs/zero-shot`
    """
    bar = progress_bar()
    made = suites.zero_shot(
        model, out, data=data, weights=weights, limit=limit, sample=sample, workers=workers,
        progress=bar, tell=say, failures="keep",
    )  # fmt: skip
    if as_json:
        print_json({n: {"rows": [*map(asdict, summary_rows(one))]} for n, one in made.items()})
    else:
        for benchmark, one in made.items():
            print(f"{benchmark}\n")
            print_summary(one, as_json=False)
    failed = any(one.tally is not None and one.tally.failed for one in made.values())
    return Exit.WITH_ERRORS if failed else Exit.DONE


class _Benchmarks(Group):
    """One command per benchmark, made when it is typed: it shows the options that apply to it."""

    def list_commands(self, ctx: Any) -> list[str]:
        known = {name: BenchmarkOptions.of(name) for name in segmeter.list_benchmarks()}
        return [*(name for name, one in known.items() if one.models or one.methods), _SUITE]

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All of them, for the documentation."""
        return {name: self.get_command(None, name) for name in self.list_commands(None)}

    @commands.setter
    def commands(self, given: Any) -> None:
        """Typer registers none: benchmarks do."""

    def get_command(self, ctx: Any, name: str) -> Any:
        single = typer.Typer(rich_markup_mode="markdown", add_completion=False)
        single.command(name, cls=Command)(zero_shot if name == _SUITE else _command(name))
        return get_command(single)


def _command(benchmark: str) -> Callable[..., int]:
    """The command of one benchmark: `run` with the options that the benchmark declares."""
    known = BenchmarkOptions.of(benchmark)

    def call(**given: Any) -> int:
        return run(benchmark, **given)

    hidden = {"benchmark", "declared", *(() if known.rounds else ("user", "rounds"))}
    hidden |= (set() if known.models else {"model"}) | (set() if known.methods else {"method"})
    shared = inspect.signature(run, eval_str=True).parameters.values()
    kept = [
        _with_default(p.replace(kind=p.KEYWORD_ONLY), known.defaults.get(p.name, ()))
        for p in shared
        if p.name not in hidden
    ]
    kept += [_parameter(option) for option in known.options]
    call.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]  # typer reads it
    call.__annotations__ = {p.name: p.annotation for p in kept}
    call.__doc__ = (
        f"{known.summary[:1].upper()}{known.summary[1:]}.\n\nInterrupt it at any time; the same "
        f"command resumes it.\n\nExample: `segmeter run {benchmark} {known.example}`"
    )
    return call


def _with_default(parameter: inspect.Parameter, values: Sequence[str]) -> inspect.Parameter:
    """A shared parameter whose help names the values that a benchmark fills in."""
    if not values:
        return parameter
    kind, shown = get_args(parameter.annotation)
    more = f" and {len(values) - _DEFAULTS} more" if len(values) > _DEFAULTS else ""
    shown = copy(shown)
    shown.help += f" Default: {', '.join(values[:_DEFAULTS])}{more}."
    shown.show_default = False
    return parameter.replace(annotation=Annotated[kind, shown])


def _parameter(option: Any) -> inspect.Parameter:
    """The parameter of an option that a benchmark declares; its benchmark checks the value."""
    flags = [option.flag]
    if option.kind is bool:
        flags = [f"{option.flag}/--no-{option.flag.removeprefix('--')}"]
    default = "" if option.default in (None, "") else f" Default: {option.default}."
    choices = f" ({' or '.join(option.choices)})" if option.choices else ""
    text = option.help.rstrip(".") + f"{choices}.{default}"
    hidden = bool(option.refused)
    shown = _rule(*flags, help=text, show_default=False, hidden=hidden)
    kind: Any = option.kind | None
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, shown]
    )


group = command_group(
    "run", "Run a benchmark. Interrupt it at any time; the same command resumes it.", _Benchmarks
)
