"""The benchmark interface: plan, jobs, rows, statistics and report sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.rows import Schema
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section
from segmeter.core.sessions import Judge
from segmeter.core.wording import counted

Row = dict[str, Any]
T = TypeVar("T")
FEWEST_PATIENTS = 5
"""Patients or scans that an interval needs: resamples of two hold the true mean in 52 %."""
FEWEST_PAIRS = 6
"""Cases that a test needs: exchanging two models in five cannot reach p = 0.05."""
_HELD: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_KINDS = {int: "a whole number", float: "a number", bool: "true or false"}


def too_few(cases: int, unit: str) -> str:
    """Why a difference is not tested on so many cases; empty where it is, or for none.

    >>> too_few(3, "scan"), too_few(6, "scan")
    ('not tested: 3 scans, 6 needed', '')
    """
    if not 0 < cases < FEWEST_PAIRS:
        return ""
    return f"not tested: {counted(cases, unit)}, {FEWEST_PAIRS} needed"


def once_per_run(run: Any, what: str, compute: Callable[[], T]) -> T:
    """A value of this run, computed when first needed.

    >>> class Run: ...
    >>> run = Run()
    >>> once_per_run(run, "objects", lambda: 28), once_per_run(run, "objects", lambda: 29)
    (28, 28)
    """
    held = _HELD.setdefault(run, {})
    if what not in held:
        held[what] = compute()
    found: T = held[what]
    return found


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One statistic with its confidence interval; `nan` where there is no interval.

    >>> row = SummaryRow("disc", "mini", "centre-click", "corrected", "noc@90", 6.2, 4.1, 8.5, 34)
    >>> f"{row.model}: {row.value} clicks ({row.low} to {row.high})"
    'disc: 6.2 clicks (4.1 to 8.5)'
    """

    model: str
    dataset: str
    user: str
    protocol: str
    statistic: str
    value: float
    low: float
    high: float
    targets: int

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            if math.isnan(getattr(self, name)):  # one object, so that equal rows compare equal
                object.__setattr__(self, name, math.nan)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The group it summarises: model, dataset, user and protocol."""
        return self.model, self.dataset, self.user, self.protocol


@dataclass(frozen=True, slots=True)
class Difference:
    """One paired comparison of two models: `first - second` on the same objects.

    `cases` are the images, scans or patients (`unit`) that hold them; 0 if unknown.

    >>> pair = Difference("a", "b", "mini", "centre-click", "corrected", "noc@90",
    ...                   -1.4, -2.3, -0.5, p=0.004, p_holm=0.012, targets=34)
    >>> pair.significant
    True
    """

    first: str
    second: str
    dataset: str
    user: str
    protocol: str
    statistic: str
    value: float
    low: float
    high: float
    p: float
    p_holm: float
    targets: int
    cases: int = 0
    unit: str = "image"

    @property
    def significant(self) -> bool:
        """Whether the Holm-corrected p value is below 5 %."""
        return self.p_holm < 0.05

    @property
    def too_few(self) -> str:
        """Why it was not tested, where there are too few cases; else empty."""
        return "" if self.significant else too_few(self.cases, self.unit)

    @property
    def turned(self) -> Difference:
        """The same as `second - first`."""
        swapped = replace(self, first=self.second, second=self.first)
        return replace(swapped, value=0.0 - self.value, low=0.0 - self.high, high=0.0 - self.low)


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one model on one dataset, with one user and protocol, object by object.

    Statistics are computed of groups. A benchmark adds the tables that its statistics need,
    a row per target, and nothing else: who is compared with whom, how intervals draw, and how
    a group is summarised are the same for all (`analysis/report_parts.py`).
    """

    model: str
    dataset: str
    user: str  # empty for methods without a user, and for groups of several users
    protocol: ProtocolName
    keys: tuple[tuple[str, str], ...]  # scene and target of each row; no target of whole images
    clusters: tuple[str, ...]  # image or patient of each row, which the bootstrap resamples
    unit: str = field(default="image", kw_only=True)  # what a cluster is

    @property
    def key(self) -> tuple[str, str, str, ProtocolName]:
        return self.model, self.dataset, self.user, self.protocol

    @property
    def comparison(self) -> tuple[str, str, ProtocolName]:
        """Dataset, user and protocol: models are compared within one of these."""
        return self.dataset, self.user, self.protocol

    @property
    def scenes(self) -> tuple[str, ...]:
        return tuple(scene for scene, _ in self.keys)

    @property
    def size(self) -> int:
        """How many objects its statistics are over."""
        return len(self.keys)

    @property
    def breakdowns(self) -> Mapping[tuple[str, str], Mapping[str, str]] | None:
        """Groups of each key by heading (`class`, `size`), where rows do not have them."""
        return None


@dataclass(frozen=True, slots=True)
class RunOption:
    """An option of `segmeter run BENCHMARK` that the benchmark declares, such as `--until`."""

    name: str  # its key in the plan's options; the flag has `-` for `_`
    kind: type  # `int`, `float`, `bool`, `str`, or `Path` (kept as text)
    default: Any  # the plan's value unless another is given; None leaves it out of the plan
    help: str = ""  # one sentence; empty for what the benchmark writes itself and is not offered
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()  # the texts that are allowed; any if empty
    refused: str = ""  # why the benchmark does not have an option that others have

    @property
    def flag(self) -> str:
        """How it is typed.

        >>> RunOption("nsd_mm", str, "2").flag
        '--nsd-mm'
        """
        return "--" + self.name.replace("_", "-")

    def read(self, value: Any) -> Any:
        """A value of its type, or BadInput.

        >>> RunOption("nms", float, 0.9).read(1)
        1.0
        """
        if self.refused:
            raise BadInput(f"{self.flag} is not for this benchmark: {self.refused}")
        if self.kind in (str, Path):
            value = str(value)  # a file may be called 7
        elif self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind and self.kind is not Path:
            raise BadInput(f"option '{self.name}' is {_KINDS[self.kind]}, not '{value}'")
        if self.choices and value not in self.choices:
            allowed = " or ".join(self.choices)
            raise BadInput(f"option '{self.name}' is {allowed}, not '{value}'")
        if self.kind in (int, float) and not self.least <= value <= self.most:
            upper = "" if self.most == math.inf else f" to {self.most:g}"
            raise BadInput(
                f"option '{self.name}' is {_KINDS[self.kind]} from {self.least:g}{upper}, "
                f"not {value}"
            )
        return value


@dataclass(frozen=True, slots=True)
class PaperLayout:
    """The table that papers of a benchmark print: columns by statistic, with their headings."""

    columns: Mapping[str, str]
    caption: str


class Results(Protocol):
    """The view of a finished run that benchmarks read."""

    @property
    def plan(self) -> Plan: ...

    @property
    def benchmark(self) -> Benchmark: ...

    @property
    def provenance(self) -> Mapping[str, Any]: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the caller, such as the path of a cost model."""

    @property
    def whole(self) -> Results:
        """The run that this is a part of (`only`); itself if it is none."""

    @property
    def damaged(self) -> Mapping[str, str]:
        """Files that are left out because they are damaged, wholly or in part, and why."""

    @property
    def objects(self) -> Literal["sessions", "rows"]:
        """The smallest view in which every object of the run has a row."""

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A query over the views `rows` and `errors`, as a pyarrow table.

        Where rows are rounds of sessions, `sessions` has one row for each, with lists over its
        rounds, which are read from the files only once. Values that come from a run must be
        parameters, `?` or `$name`, never part of the text.
        """

    def columns(self, view: str = "") -> list[str]:
        """The columns of a view, by default of `objects`."""

    def cached(self, what: str, kind: type[T], compute: Callable[[], list[T]]) -> list[T]:
        """Lines of numbers that an earlier command computed, or that are computed now."""

    def only(self, targets: Collection[tuple[str, str, str]]) -> Results:
        """The same run on some targets only: dataset, scene and target of each."""

    def job_rows(self, model: str, dataset: str, scene: str) -> list[Row]:
        """All rows of one job, masks included."""

    def scene(self, dataset: str, scene: str) -> Scene:
        """A scene of the run, to show; NotFound if the data is not available."""

    def scenes(self, dataset: str) -> list[str]:
        """All scenes of the plan; NotFound if the data is not available."""


@runtime_checkable
class Benchmark(Protocol):
    """Declarations of a benchmark; running it and its tables are generic.

    `segmeter.benchmarks.declared.Declared` has most of it: what a method returns is stated there.
    `schema` are the columns and the key of its rows, `headline` the statistics that a terminal and
    a leaderboard show, the ranking one first, `citations` the works to cite, by the reason,
    `split_by` the statistics of quality that `--by` breaks down (those that are tested if empty),
    and `cases` what the rows of a group are: objects, images, or pairs.
    """

    name: str
    schema: Schema
    headline: Sequence[str]
    options: Sequence[RunOption]
    citations: Mapping[str, str]
    split_by: Sequence[str]
    cases: str

    def plan(self, plan: Plan) -> Plan: ...

    def needs(self, plan: Plan) -> frozenset[str]:
        """Abilities that a model must have for prompts that no user gives."""

    def work(self, segmenter: Any, scene: Scene, plan: Plan) -> list[Row]:
        """All rows of one job."""

    def judge(self, plan: Plan, scene: Scene, measures: Sequence[str] | None = None) -> Judge: ...

    def groups(self, run: Results) -> Sequence[Group]: ...

    def statistics(self, run: Results) -> Sequence[Any]:
        """The `segmeter.stats.statistics.Statistic`s of a run, in the order of lists."""

    def summary(self, run: Results) -> list[SummaryRow]: ...

    def differences(self, run: Results, names: Sequence[str] | None = None) -> list[Difference]: ...

    def sections(self, run: Results) -> Sequence[Section]: ...

    def paper_table(self, run: Results) -> PaperLayout | None: ...

    def cost_section(self, run: Results, objects: int, rate: float | None) -> Section | None: ...
