"""Listing what exists: models, datasets, users, measures, benchmarks and methods, by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import RunOption
from segmeter.core.catalogue import Entry, Registry, required
from segmeter.core.citations import cited
from segmeter.core.errors import NotFound, SegmeterError, suggestion
from segmeter.core.measures import Measure
from segmeter.core.plans import Kind, Plan
from segmeter.runtime.remote_files import Roots

KINDS: dict[str, Registry[Any]] = {
    "models": catalogue.models,
    "methods": catalogue.methods,
    "detectors": catalogue.detectors,
    "datasets": catalogue.datasets,
    "users": catalogue.users,
    "measures": catalogue.measures,
    "benchmarks": catalogue.benchmarks,
}


def list_models(*, synthetic: bool = False) -> list[str]:
    """Names of all models that `load_model` and `evaluate` take.

    Parameters
    ----------
    synthetic
        Also models with a known behaviour for tests, such as `synthetic-oracle`.

    Returns
    -------
    list of str
        Built-in models and those of installed plug-ins, sorted.

    Examples
    --------
    >>> import segmeter
    >>> "mobile-sam" in segmeter.list_models(), "synthetic-oracle" in segmeter.list_models()
    (True, False)
    """
    return list(summaries("models", synthetic=synthetic))


def list_methods() -> list[str]:
    """Names of all methods: segmenters that work without a user, such as hierarchies.

    Examples
    --------
    >>> import segmeter
    >>> "automatic" in segmeter.list_methods()
    True
    """
    return list(summaries("methods"))


def list_detectors() -> list[str]:
    """Names of all detectors that propose boxes.

    Examples
    --------
    >>> import segmeter
    >>> "picodet" in segmeter.list_detectors()
    True
    """
    return list(summaries("detectors"))


def list_datasets() -> list[str]:
    """Names of all datasets that `load_dataset` and `evaluate` take.

    Examples
    --------
    >>> import segmeter
    >>> {"grabcut", "mini"} <= set(segmeter.list_datasets())
    True
    """
    return list(summaries("datasets"))


def list_users() -> list[str]:
    """Names of all simulated users.

    Examples
    --------
    >>> import segmeter
    >>> "centre-click" in segmeter.list_users()
    True
    """
    return list(summaries("users"))


def list_measures() -> list[str]:
    """Names of all measures of masks, partitions and boundaries.

    Examples
    --------
    >>> import segmeter
    >>> {"iou", "dice"} <= set(segmeter.list_measures())
    True
    """
    return list(summaries("measures"))


def list_benchmarks() -> list[str]:
    """Names of all benchmarks that `evaluate` runs.

    Examples
    --------
    >>> import segmeter
    >>> "noc" in segmeter.list_benchmarks()
    True
    """
    return list(summaries("benchmarks"))


def describe(kind: str, name: str, *, data: Any = None, weights: Any = None) -> dict[str, Any]:
    """Everything known about one model, dataset, user, measure, method or benchmark.

    Parameters
    ----------
    kind
        `"models"`, `"datasets"`, `"users"`, `"measures"`, `"methods"`, `"detectors"` or
        `"benchmarks"`.
    name
        One of the names of that kind.
    data, weights
        Folders of datasets and weights, for what has to be opened to be described.

    Returns
    -------
    dict
        Summary, options with their defaults, and the fields of its card, such as the licence and
        the citation; `not here` is the reason why it cannot be used on this machine.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.describe("measures", "iou")["better"]
    'higher'
    """
    registry, places = _registry(kind), Roots(data, weights).options()
    entry = registry.entry(name)
    facts: dict[str, Any] = {"name": name, "summary": entry.summary, "options": _options(entry)}
    if set(required(entry)) - places.keys():
        return facts  # what needs an option that is not given is not made
    thing = None
    try:
        thing = registry.make(name, **places)
    except SegmeterError as error:
        from segmeter.models.weights import describing

        facts["not here"] = str(error)
        with suppress(SegmeterError), describing():  # made without weights, for its card alone
            thing = registry.make(name, **places)
    return facts | {key: value for key, value in _card(thing).items() if key not in facts}


def summaries(kind: str, *, synthetic: bool = False) -> dict[str, str]:
    """Names of one kind with a line about each; synthetic models only on request."""
    return {
        entry.name: entry.summary
        for entry in _registry(kind)
        if synthetic or not getattr(entry.make, "synthetic", False)
    }


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """Options of `segmeter run BENCHMARK`: those it declares, and what it evaluates."""

    summary: str
    options: tuple[RunOption, ...]
    models: bool
    methods: bool
    rounds: bool
    example: str
    defaults: Mapping[str, Sequence[str]]
    """Values of options that the benchmark fills in: rounds, users and measures."""

    @classmethod
    def of(cls, benchmark: str) -> BenchmarkOptions:
        """The options of a benchmark by name.

        >>> [option.flag for option in BenchmarkOptions.of("noc").options]
        ['--until', '--consistency', '--start']
        """
        made = catalogue.benchmarks.make(benchmark)
        evaluates: tuple[Kind, ...] = getattr(made, "evaluates", ("model",))
        plan = Plan(benchmark, (), (), protocols=("published", "corrected"))
        if evaluates:
            plan = made.plan(replace(plan, kind=evaluates[0]))
        return cls(
            catalogue.benchmarks.entry(benchmark).summary,
            tuple(option for option in made.options if option.help or option.refused),
            models="model" in evaluates,
            methods="method" in evaluates,
            rounds=any(column.name == "round" for column in made.schema.columns),
            example=getattr(made, "example", "--model grabcut --dataset mini"),
            defaults={
                "rounds": [str(plan.rounds)],
                "user": [str(user) for user in plan.users],
                "measure": plan.measures,
            },
        )


def measure_cards() -> dict[str, Any]:
    return {entry.name: entry.make() for entry in catalogue.measures}


def _registry(kind: str) -> Registry[Any]:
    if kind not in KINDS:
        hint = suggestion(kind, KINDS)
        raise NotFound(f"cannot list '{kind}';{hint} choose {', '.join(KINDS)}")
    if kind == "methods":
        catalogue.benchmarks.names()  # some benchmarks bring methods of their own
    return KINDS[kind]


def _options(entry: Entry[Any]) -> dict[str, dict[str, Any]]:
    """Options that may follow the name; of a benchmark, those of `segmeter run BENCHMARK`."""
    declared = getattr(entry.make, "options", None)
    if isinstance(declared, tuple):
        return {o.name: {"default": o.default if o.default != "" else None}
                for o in declared if o.help}  # fmt: skip
    return {
        name: {} if p.default is p.empty else {"default": p.default}
        for name, p in inspect.signature(entry.make).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and name != "name"
    }


def _card(thing: Any) -> dict[str, Any]:
    """The filled fields of a card; a measure is its own."""
    card = getattr(thing, "card", None)
    fields = {} if card is None else asdict(card)
    if isinstance(thing, Measure):
        names = ("range", "better", "both_empty", "one_empty", "cite")
        fields = {name: getattr(thing, name) for name in names}
    return {
        key: cited(value) if key in ("citation", "cite")
        else sorted(value) if isinstance(value, frozenset | set) else value
        for key, value in fields.items() if value not in ("", None)
    }  # fmt: skip
