"""Validation: a plan is filled in and widened, and refused if it cannot run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from segmeter.core import capabilities, catalogue
from segmeter.core.benchmarks import Benchmark
from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.measures import Measure
from segmeter.core.plans import Plan
from segmeter.core.received_runs import check_names, received
from segmeter.core.scenes import Dataset, Scene, Volume
from segmeter.core.users import User
from segmeter.engine.jobs import Built, check_needs
from segmeter.runtime.fingerprints import installed, object_fingerprint
from segmeter.runtime.redaction import refuse_credentials
from segmeter.store.folder import value_text


def complete(plan: Plan, built: Built, *, to_run: bool = True) -> tuple[Plan, dict[str, Dataset]]:
    """A request with the benchmark's own settings filled in, and its datasets.

    Makes everything that can be wrong go wrong now, before anything is written. What is
    tested has to be available only where it is `to_run`.
    """
    _refuse_secrets(plan)
    benchmark = catalogue.benchmarks.make(plan.benchmark)
    asked = plan.measures
    plan = benchmark.plan(plan)
    if not plan.segmenters:
        raise BadInput(f"nothing to test: name at least one {plan.kind} with --{plan.kind}")
    if not plan.datasets:
        raise BadInput("no data: name at least one dataset with --dataset")
    users = [catalogue.users.make(spec, **built.roots.options()) for spec in plan.users]
    for spec, user in zip(plan.users, users, strict=True):
        if not (isinstance(getattr(user, "name", None), str) and hasattr(user, "next")):
            raise BadInput(f"'{spec}' is no user: it needs a 'name' and next(observation, rng)")
    if to_run:
        _check_segmenters(plan, built, users, benchmark)
    _refuse_twins(plan.kind, map(str, plan.segmenters))
    _refuse_twins("dataset", map(str, plan.datasets))
    _refuse_twins("user", (user.name for user in users))
    for name in plan.measures:
        catalogue.measures.entry(name)
    datasets = {str(spec): built.dataset(spec) for spec in plan.datasets}
    if to_run:
        firsts = {name: scene for name, d in datasets.items() if (scene := _first_scene(d))}
        _check_ground_truths(plan, firsts)
        plan = replace(plan, measures=_measures_that_fit(plan, asked, firsts))
    if isinstance(benchmark, capabilities.ChecksData):
        benchmark.check(plan, datasets)
    prints = {name: dataset.fingerprint() for name, dataset in datasets.items()}
    return replace(plan, fingerprints=prints | _of_the_users_own(plan, users)), datasets


def _of_the_users_own(plan: Plan, users: Sequence[User]) -> dict[str, str]:
    """Fingerprints of simulated annotators and measures that are not installed."""
    judges = {name: catalogue.measures.make(name) for name in plan.measures}
    own = {f"measure {name}": getattr(made, "function", made) for name, made in judges.items()}
    own |= {f"user {spec}": user for spec, user in zip(plan.users, users, strict=True)}
    return {name: object_fingerprint(thing) for name, thing in own.items() if not installed(thing)}


def _refuse_secrets(plan: Plan) -> None:
    """A plan is kept and sent to others: no address in it may hold credentials."""
    given = (spec for specs in (plan.segmenters, plan.datasets, plan.users) for spec in specs)
    values = (v for spec in given for v in (spec.name, *spec.options.values()))
    for value in (*values, *plan.options.values()):
        if isinstance(value, str):
            refuse_credentials(value)


def _check_segmenters(
    plan: Plan, built: Built, users: Sequence[User], benchmark: Benchmark
) -> None:
    """Refuse a model or method that cannot be had, before anything is written.

    Our own are made, which finds their weights and looks at no more than their headers. Objects of
    user code may be slow to make: only name, options and methods are checked.
    """
    registry = catalogue.models if plan.kind == "model" else catalogue.methods
    verb = "encode" if plan.kind == "model" else "segment"
    for spec in plan.segmenters:
        if spec.name in built.own:
            _check_prompts(plan, built.own[spec.name], users, benchmark)
            continue
        entry, _ = registry.check(spec, **built.roots.options())
        if entry.source.startswith("segmeter."):
            _check_prompts(plan, built.segmenter(plan.kind, spec), users, benchmark)
        elif isinstance(entry.make, type) and not hasattr(entry.make, verb):  # a method's class
            raise BadInput(f"'{spec.name}' is not a {plan.kind}: it has no '{verb}(scene)'")


def _check_prompts(plan: Plan, segmenter: Any, users: Sequence[User], benchmark: Benchmark) -> None:
    """Refuse a model that does not take what a user gives, or what any of them gives."""
    check_needs(benchmark, segmenter, plan)
    if isinstance(benchmark, capabilities.ChoosesUsers):
        users = benchmark.users_for(segmenter, users)
        if not users:
            raise BadInput(
                f"model '{segmenter.card.name}' takes nothing that the users of "
                f"'{plan.benchmark}' give; name one that fits with --user"
            )
    if plan.options.get("start") and "mask" not in segmenter.card.abilities:
        raise BadInput(
            f"model '{segmenter.card.name}' takes no mask to start from; leave it or --start out"
        )
    for user in users:
        given = capabilities.prompts_given_by(user, plan.rounds) or {"click"}
        unknown = given - segmenter.card.abilities
        if unknown:
            kinds = "no " + " and no ".join(f"{kind} prompts" for kind in sorted(unknown))
            later = not unknown & (capabilities.prompts_given_by(user) or {"click"})
            when, what = (" from round 2 on", "use --rounds 1, ") if later else ("", "")
            raise BadInput(
                f"model '{segmenter.card.name}' takes {kinds}, which "
                f"user '{user.name}' gives{when}; "
                f"{what}leave one of them out, or choose another --user"
            )


def _first_scene(dataset: Dataset) -> Scene | None:
    """The first scene of a dataset, which shows what the others are like, if it can be read."""
    try:
        scene = dataset.load(dataset.scenes()[0])
        _ = scene.targets, scene.partitions  # read now
    except Exception:  # noqa: BLE001  its job will fail, and say why
        return None
    return scene


def _check_ground_truths(plan: Plan, firsts: Mapping[str, Scene]) -> None:
    """Refuse partitions where targets are wanted, and targets where partitions are."""
    for name, scene in firsts.items():
        targets, partitions = bool(scene.targets), bool(scene.partitions)
        if plan.kind == "model" and partitions and not targets:
            raise BadInput(
                f"dataset '{name}' has partitions and no targets; run a benchmark of "
                "methods on it (--method)"
            )
        if plan.kind == "method" and targets and not partitions:
            raise BadInput(
                f"dataset '{name}' has no human partitions; use one that has, such as bsds500"
            )


def _measures_that_fit(
    plan: Plan, asked: Sequence[str], firsts: Mapping[str, Scene]
) -> tuple[str, ...]:
    """The plan's measures that are defined for its data.

    A requested one that is not defined is refused; a benchmark's own default is left out.
    """
    kept = []
    for measure in plan.measures:
        found = catalogue.measures.make(measure)
        misfit = next((name for name, s in firsts.items() if not defined(found, s)), None)
        if misfit is None:
            kept.append(measure)
        elif measure in asked:
            raise BadInput(
                f"measure '{measure}' is not defined for the data of dataset '{misfit}'; leave one "
                "of them out"
            )
    return tuple(kept)


def defined(measure: Any, scene: Scene) -> bool:
    """Whether a measure is defined for scenes like this one."""
    sides = 3 if isinstance(scene, Volume) else 2
    return not isinstance(measure, Measure) or sides in measure.dimensions


def _refuse_twins(kind: str, names: Iterable[str]) -> None:
    """Rows are identified by these names, so each may occur once."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadInput(f"two {kind}s are called '{twice[0]}'; name each {kind} once")


_MAY_DIFFER = {"segmenters", "datasets", "fingerprints"}
_EMPTY = Plan("", (), ())
_FROM_RUN = (
    *("segmenters", "datasets", "users", "rounds", "measures", "protocols", "options"),
    *("limit", "sample", "seed", "threads"),
)


def check_received(held: Plan, asked: Plan) -> None:
    """Refuse to add to a run that names Python files, addresses or folders of its own choice."""
    registry = catalogue.models if held.kind == "model" else catalogue.methods
    with received():
        check_names(held, chosen=asked)
        for spec in held.segmenters:
            if spec not in asked.segmenters:
                registry.entry(spec.name)
    known = {str(spec) for spec in asked.datasets}
    for spec in held.datasets:
        if spec.options and str(spec) not in {*held.fingerprints, *known}:
            raise RunConflict(
                f"the run has no fingerprint of its dataset '{spec}'; name the dataset in "
                "this command, or use --trust if you know who made the run"
            )


def wider_plan(
    held: Plan, asked: Plan, built: Built, address: str
) -> tuple[Plan, dict[str, Dataset]]:
    """The plan of a run widened by the models, datasets and users of another; its datasets.

    Whatever the request leaves at its default (datasets, users, rounds, seed, threads and so on) is
    taken from the run. Existing rows stay as they are; added users run on the scenes of the run.
    Benchmarks whose users depend on each other, such as attacks, take no further users.
    """
    left_out = [n for n in _FROM_RUN if getattr(asked, n) == getattr(_EMPTY, n)]
    wanted = {name: getattr(held, name) for name in left_out}
    filled, _ = complete(replace(asked, **wanted), built)
    apart = isinstance(
        catalogue.benchmarks.make(held.benchmark), capabilities.RunsUsersIndependently
    )
    may_differ = _MAY_DIFFER | ({"users"} if apart else set())
    differ = [f for f in held.differs_in(filled) if f not in may_differ]
    if differ:
        what = "models, datasets and users" if apart else "models and datasets"
        changes = [
            f"{f} {value_text(getattr(held, f))}, not {value_text(getattr(filled, f))}"
            for f in differ
        ]
        raise RunConflict(
            f"'{address}' was run with {'; '.join(changes)}; only {what} can be added to a run of "
            f"'{held.benchmark}': leave those options out to keep the run's, or use another --out "
            "('segmeter compare' reads several runs)"
        )
    grown: dict[str, Any] = {
        name: tuple({str(spec): spec for p in (held, filled) for spec in getattr(p, name)}.values())
        for name in ("segmenters", "datasets", "users")
    }
    wider = replace(held, **grown, fingerprints={})
    whole, datasets = complete(wider, built, to_run=False)
    changed = [d for d, f in held.fingerprints.items() if whole.fingerprints.get(d) != f]
    if changed:
        raise RunConflict(f"'{changed[0]}' has changed since '{address}' was run")
    return whole, datasets
