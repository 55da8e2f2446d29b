"""The base of benchmark classes: groups and statistics are declared, all numbers follow.

Summaries, differences, breakdowns, tables and leaderboards are computed here from what a
benchmark declares, once per run.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from segmeter.core import catalogue
from segmeter.core.benchmarks import (
    Difference,
    Group,
    PaperLayout,
    Results,
    RunOption,
    SummaryRow,
    once_per_run,
)
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.measures import mask_measure
from segmeter.core.plans import Plan, in_order
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.sections import Section
from segmeter.core.seeds import fingerprint
from segmeter.core.sessions import Judge
from segmeter.measures.judging import judge_by
from segmeter.stats.statistics import Statistic, differences_of, summary_of
from segmeter.users.starts import with_start


def digest_of(path: str) -> str:
    """A digest of a file's whole content; empty where there is none, which `check` refuses."""
    if not Path(path).is_file():
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


def elsewhere(place: str) -> Any:
    """A method that is `module:function` of the benchmark's folder, imported when it is called."""
    return lambda self, *given: self._function(place)(*given)


class Declared:
    """A benchmark that declares the groups of a run and the statistics of a group.

    Work, statistics and pages are in modules of its folder, which are imported when a job is run or
    numbers are needed, so that listing benchmarks does not load them.
    """

    __slots__ = ()
    name: str
    users: ClassVar[tuple[str, ...]] = ()  # defaults of a plan; none for one without users
    rounds: ClassVar[int] = 1
    measures: ClassVar[tuple[str, ...]] = ()
    headline: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[RunOption, ...]] = ()  # of `segmeter run`, of its own
    # The option that may name a file. A plan holds the file's digest as the option `digest`, so
    # that a run is resumed only with the same file.
    file_option: ClassVar[str] = ""
    model_options: ClassVar[Mapping[str, str]] = {}  # where a model takes them
    cited: ClassVar[str] = ""  # the work to cite; one with several overrides `citations`
    split_by: ClassVar[tuple[str, ...]] = ()
    cases: ClassVar[str] = "object"  # what statistics are over, one of them
    # The module of its folder that has `sections(run)`, or `module:function`; without one a
    # report has the headline and differences.
    pages: ClassVar[str] = ""
    layout: ClassVar[PaperLayout | None] = None  # papers' table, if it is the same for all runs
    evaluates: ClassVar[tuple[str, ...]] = ("model",)
    example: ClassVar[str] = "--model grabcut --dataset mini"  # of `segmeter run NAME --help`

    @property
    def citations(self) -> Mapping[str, str]:
        """The works to cite, by the reason."""
        return {f"benchmark {self.name}": self.cited} if self.cited else {}

    def plan(self, plan: Plan) -> Plan:
        """Fill what the request left open: users, rounds, protocols, measures and options."""
        if plan.kind != "model":
            raise BadInput(f"benchmark '{self.name}' tests models, not methods; use --model")
        if plan.users and not self.users:
            raise BadInput(f"benchmark '{self.name}' has no users; leave out --user")
        for name in plan.measures:
            mask_measure(name)
        return replace(
            plan,
            segmenters=tuple(map(self.with_defaults, plan.segmenters)),
            users=plan.users or tuple(Spec.parse(name) for name in self.users),
            rounds=(plan.rounds or self.rounds) if self.users else 1,
            protocols=plan.protocols or ("published", "corrected"),
            measures=tuple(dict.fromkeys((*self.measures, *plan.measures))),
            options=with_start(self.options_of(plan)),
        )

    def needs(self, plan: Plan) -> frozenset[str]:
        return frozenset()

    def with_defaults(self, spec: Spec) -> Spec:
        """A model with the options that it takes, unless another value was given."""
        try:
            taken = inspect.signature(catalogue.models.entry(spec.name).make).parameters
        except NotFound:
            return spec  # an object of the caller's own
        named = {name: value for name, value in self.model_options.items() if name in taken}
        return Spec(spec.name, {**named, **spec.options})

    def options_of(self, plan: Plan) -> dict[str, Any]:
        """The plan's options, checked, with the defaults of those that were not given."""
        declared = {option.name: option for option in self.options}
        written = {"digest"} if self.file_option else set()  # by this method
        for name in plan.options:
            if name not in declared.keys() | written:
                known = [option.name for option in self.options if option.help]
                has = f"it has {', '.join(known)}" if known else "it has none"
                hint = suggestion(name, known)
                raise BadInput(f"benchmark '{self.name}' has no option '{name}';{hint} {has}")
        given = {o.name: plan.options.get(o.name, o.default) for o in self.options}
        found = {name: declared[name].read(v) for name, v in given.items() if v is not None}
        if self.file_option:
            found["digest"] = digest_of(found[self.file_option])
        return found

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        """Read the recorded clicks before anything is written; a wrong row stops the run.

        For benchmarks with the option `clicks` that declare to check data.
        """
        if plan.options["clicks"]:
            from segmeter.users.replay import check_clicks

            absent = plan.options.get("absent", "skip")
            check_clicks(Path(plan.options["clicks"]), datasets.values(), absent)

    def judge(self, plan: Plan, scene: Scene, measures: Sequence[str] | None = None) -> Judge:
        """Scores masks of a scene by the plan's measures, or by others."""
        chosen = plan.measures if measures is None else measures
        return judge_by(chosen, scene.header.spacing_mm, plan.options)

    work = elsewhere("work:work")  # all rows of one job
    load = elsewhere("statistics:groups")  # the groups of a run, from its rows

    def statistics(self, run: Results) -> Sequence[Statistic]:
        """The statistics of the run's groups, as listed: `STATISTICS` of its module.

        Where they depend on the run, the module has `statistics(run)` instead.
        """
        module = self._module("statistics")
        made = getattr(module, "statistics", None)
        found: Sequence[Statistic] = made(run) if made else module.STATISTICS
        return found

    def sections(self, run: Results) -> Sequence[Section]:
        """Sections of the report; those without contents are left out."""
        from segmeter.analysis.report_parts import Findings, headline_sections

        if self.pages:
            made: Sequence[Section] = self._function(self.pages)(run)
        else:
            made = headline_sections(Findings(run), self.headline, self.summary(run))
        return [section for section in made if section.blocks]

    def _module(self, name: str) -> Any:
        return import_module(f"{type(self).__module__}.{name}")

    def _function(self, place: str) -> Any:
        module, _, name = place.partition(":")
        return getattr(self._module(module), name or "sections")

    def groups(self, run: Results) -> Sequence[Group]:
        """The groups of a run, loaded once, in the order in which models and data were named."""
        return once_per_run(run, "groups", lambda: in_order(self.load(run), run.plan))

    def summary(self, run: Results) -> list[SummaryRow]:
        """Every statistic of every group, with its interval."""

        def compute() -> list[SummaryRow]:
            return list(summary_of(self.groups(run), self.statistics(run)))

        made = once_per_run(run, "summary", lambda: run.cached("summary", SummaryRow, compute))
        return list(made)

    def differences(self, run: Results, names: Sequence[str] | None = None) -> list[Difference]:
        """Every pair of models in the named statistics, by default in those that are tested."""
        what = "differences" if names is None else f"differences-{fingerprint(*names, size=6)}"

        def compute() -> list[Difference]:
            return differences_of(self.groups(run), self.statistics(run), names)

        return list(once_per_run(run, what, lambda: run.cached(what, Difference, compute)))

    def paper_table(self, run: Results) -> PaperLayout | None:
        """The columns of the table that papers print; none for the headline."""
        return self.layout

    def cost_section(self, run: Results, objects: int, rate: float | None) -> Section | None:
        """Hours and money for so many objects; None where it does not measure time."""
        return None
