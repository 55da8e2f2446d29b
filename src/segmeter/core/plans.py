"""Plans: plain data that say all that a run will do, and jobs, their smallest pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.models import Reading
from segmeter.core.seeds import fingerprint

__all__ = ["Job", "Plan", "Roots"]

Kind = Literal["model", "method"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: subjects x scenes x users x readings, rounds, measures and a seed.

    A request may leave users, rounds, readings and measures empty; its benchmark fills them.

    Attributes
    ----------
    benchmark
        Its name in the catalogue.
    subjects, kind
        The models or methods under test, and which of the two they are.
    limit
        Only the first so many scenes of each data set; None takes all.
    threads
        Threads a worker may use, fixed here because sums depend on it in the last digit.
    keep_masks
        Whether rows hold their masks, so that measures can be added later.
    options
        Further settings of the benchmark.
    fingerprints
        Digest of each data set when the plan was made.
    """

    benchmark: str
    subjects: tuple[Spec, ...]
    datasets: tuple[Spec, ...]
    kind: Kind = "model"
    users: tuple[Spec, ...] = ()
    rounds: int = 0
    readings: tuple[Reading, ...] = ()
    measures: tuple[str, ...] = ()
    seed: int = 0
    threads: int = 1
    limit: int | None = None
    keep_masks: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Canonical text: the same plan is the same text."""
        return json.dumps(asdict(self), sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        try:
            data = json.loads(text)
            specs = {
                key: tuple(Spec(**spec) for spec in data[key])
                for key in ("subjects", "datasets", "users")
            }
            lists = {key: tuple(data[key]) for key in ("readings", "measures")}
            return cls(**{**data, **specs, **lists})
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"plan cannot be read: {error}") from error

    @property
    def id(self) -> str:
        return fingerprint(self.to_json(), size=8)

    def differs_in(self, other: Plan) -> list[str]:
        """Names of the fields in which two plans differ."""
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]


@dataclass(frozen=True, slots=True)
class Job:
    """One scene for one subject: everything that needs that one look."""

    subject: Spec
    dataset: Spec
    scene: str

    @property
    def id(self) -> str:
        return fingerprint(self.subject, self.dataset, self.scene, size=10)

    def __str__(self) -> str:
        return f"{self.subject.name} on {self.dataset.name}/{self.scene}"


@dataclass(frozen=True, slots=True)
class Roots:
    """Where data and weights lie on this machine; no part of a plan's identity."""

    data: Path | None = None
    weights: Path | None = None

    def options(self) -> dict[str, Path]:
        """What the catalogue may hand to readers and adapters that ask for it."""
        given = {"data": self.data, "weights": self.weights}
        return {key: path for key, path in given.items() if path is not None}
