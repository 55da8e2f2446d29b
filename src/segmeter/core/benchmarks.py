"""Benchmarks: what to run, what a job does, what comes out and how it is shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section

__all__ = ["Benchmark", "Curves", "Difference", "Group", "Results", "Row", "SummaryRow"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One number with its doubt."""

    model: str
    dataset: str
    user: str
    protocol: str
    measure: str
    value: float
    low: float
    high: float
    targets: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The group that it is a number of: model, data set, user and reading."""
        return self.model, self.dataset, self.user, self.protocol


@dataclass(frozen=True, slots=True)
class Difference:
    """One paired comparison: `first - second` on the same targets."""

    first: str
    second: str
    dataset: str
    user: str
    protocol: str
    measure: str
    value: float
    low: float
    high: float
    p: float
    p_holm: float
    targets: int

    @property
    def significant(self) -> bool:
        """Whether the difference survives the correction at 5 %."""
        return self.p_holm < 0.05


@dataclass(frozen=True, slots=True)
class Group:
    """All that one model did on one data set with one user in one protocol, target by target.

    Statistics are computed of groups. A benchmark adds the tables that its statistics need,
    a row per target, and nothing else: who is compared with whom, how intervals draw, and how
    a group is summarised are the same for all (`benchmarks/grouping.py`).

    Attributes
    ----------
    user
        Empty for methods without a user, and for groups of several users.
    keys
        Scene and target of each row; the target is empty where whole images are judged.
    clusters
        The image (or patient) of each row; the bootstrap resamples these.
    """

    model: str
    dataset: str
    user: str
    protocol: ProtocolName
    keys: tuple[tuple[str, str], ...]
    clusters: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, str, ProtocolName]:
        return self.model, self.dataset, self.user, self.protocol

    @property
    def comparison(self) -> tuple[str, str, ProtocolName]:
        """Data set, user and protocol: models are compared within one of these."""
        return self.dataset, self.user, self.protocol

    @property
    def scenes(self) -> tuple[str, ...]:
        return tuple(scene for scene, _ in self.keys)


@dataclass(frozen=True, slots=True)
class Curves(Group):
    """One measure of a group, `(targets, rounds)`."""

    values: npt.NDArray[np.float64]


class Results(Protocol):
    """The view of a finished run that benchmarks read."""

    @property
    def plan(self) -> Plan: ...

    @property
    def provenance(self) -> Mapping[str, Any]: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the caller, such as the path of a cost model."""
        ...

    @property
    def damaged(self) -> Mapping[str, str]:
        """Files that are left out because they are damaged, wholly or in part, and why."""
        ...

    @property
    def objects(self) -> Literal["sessions", "rows"]:
        """The smallest view in which every object of the run has a row."""
        ...

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A query over the views `rows` and `errors`, as a pyarrow table.

        Where rows are rounds of sessions, `sessions` has one row for each, with lists over its
        rounds, and answers without reading the parts again.
        What comes from a run goes in as parameters, `?` or `$name`, never into the text.
        """
        ...

    def only(self, targets: Collection[tuple[str, str, str]]) -> Results:
        """The same run on some targets only: data set, scene and target of each."""
        ...

    def job_rows(self, model: str, dataset: str, scene: str) -> list[Row]:
        """All rows of one job, masks included."""
        ...

    def curves(self, measure: str) -> list[Curves]: ...

    def scene(self, dataset: str, scene: str) -> Scene:
        """A scene of the run, to show; NotFound where the data is not at hand."""
        ...

    def scenes(self, dataset: str) -> list[str]:
        """All scenes the plan asks for; NotFound where the data is not at hand."""
        ...


@runtime_checkable
class Benchmark(Protocol):
    """A benchmark declares; the engine runs.

    It may name its `headline`, the measures that a terminal shows, and may have
    `check(plan, datasets)`, which refuses files of its own that are wrong before anything is
    written.
    """

    @property
    def name(self) -> str: ...

    def plan(self, plan: Plan) -> Plan:
        """Fill what the request left open: users, rounds, protocols, measures."""
        ...

    def work(self, segmenter: Any, scene: Scene, plan: Plan) -> list[Row]:
        """All rows of one job."""
        ...

    def summary(self, run: Results) -> list[SummaryRow]: ...

    def differences(self, run: Results) -> list[Difference]: ...

    def sections(self, run: Results) -> Sequence[Section]: ...
