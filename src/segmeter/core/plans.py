"""Plans: plain data that describe a run completely, and the jobs they consist of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from segmeter.core import sections
from segmeter.core.catalogue import OPTIONS_ARE, Spec
from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint, generator

if TYPE_CHECKING:
    from segmeter.core.models import ProtocolName

Kind = Literal["model", "method"]
_NEEDED = ("benchmark", "segmenters", "datasets")  # a plan may leave out what a request may
_MOST = 2**31


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a run: models x scenes x users x protocols, rounds, measures and a seed.

    A request may leave users, rounds, protocols and measures empty; its benchmark fills them.
    """

    benchmark: str
    segmenters: tuple[Spec, ...]  # the models or methods under test
    datasets: tuple[Spec, ...]
    kind: Kind = "model"  # of the segmenters
    users: tuple[Spec, ...] = ()
    rounds: int = 0
    protocols: tuple[ProtocolName, ...] = ()
    measures: tuple[str, ...] = ()
    seed: int = 0
    threads: int = 1  # of a worker, fixed here because sums depend on it in the last digit
    limit: int | None = None  # only the first so many scenes of each dataset
    sample: int | None = None  # or so many drawn at random
    keep_masks: bool = True  # rows hold their masks, so that measures can be added later
    options: Mapping[str, Any] = field(default_factory=dict)  # further settings of the benchmark
    fingerprints: Mapping[str, str] = field(
        default_factory=dict
    )  # of datasets, own users and measures

    def __post_init__(self) -> None:
        for name in ("threads", "limit", "sample", "rounds", "seed"):
            if not _IS_FIELD[name](value := getattr(self, name)):
                least = "" if name == "seed" else " from 1"
                raise BadInput(f"{name} is a whole number{least}, not {value!r}")

    def to_json(self) -> str:
        """Canonical text: the same plan is the same text."""
        try:
            return json.dumps(asdict(self), sort_keys=True, indent=1)
        except TypeError as error:
            raise BadInput(f"a plan cannot be stored: {error}; {OPTIONS_ARE}") from error

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan; invalid text is refused with the reason."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"plan cannot be read: {error}") from error
        if not isinstance(data, dict):
            raise BadInput("plan cannot be read: it is not an object")
        unknown = [key for key in data if key not in _IS_FIELD]
        if unknown:
            raise BadInput(f"plan cannot be read: unknown field {unknown[0]!r}")
        for name, fits in _IS_FIELD.items():
            if not fits(data[name]) if name in data else name in _NEEDED:
                raise BadInput(f"plan cannot be read: its field '{name}' is missing or wrong")
        for name in {"segmenters", "datasets", "users"} & data.keys():
            data[name] = [Spec(spec["name"], spec.get("options", {})) for spec in data[name]]
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})

    def scenes_of(self, dataset: str, scenes: Sequence[str]) -> list[str]:
        """The scenes of a dataset that the plan takes, in the order of the dataset.

        >>> Plan("noc", (), (), sample=2).scenes_of("mini", ["a", "b", "c", "d"])
        ['a', 'b']
        """
        chosen = list(scenes)
        if self.sample is not None and self.sample < len(chosen):
            drawn = generator("sample", dataset, self.seed).permutation(len(chosen))
            chosen = [chosen[place] for place in sorted(drawn[: self.sample])]
        return chosen[: self.limit]

    @property
    def id(self) -> str:
        return fingerprint(self.to_json(), size=8)

    @property
    def leading_protocol(self) -> ProtocolName:
        """The protocol that a report's sentences are about: `corrected` where it was run."""
        return "corrected" if "corrected" in self.protocols else self.protocols[0]

    def differs_in(self, other: Plan) -> list[str]:
        """Names of the fields in which two plans differ."""
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]


def in_words(field: str) -> str:
    """The name of a plan's field as people call it.

    >>> in_words("segmenters")
    'models or methods'
    """
    return "models or methods" if field == "segmenters" else field


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_specs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, dict)
        and v.keys() <= {"name", "options"}
        and isinstance(v.get("name"), str)
        and _is_map(v.get("options", {}))
        for v in value
    )


_IS_FIELD: dict[str, Callable[[Any], bool]] = {
    "benchmark": lambda v: isinstance(v, str),
    "segmenters": _is_specs,
    "datasets": _is_specs,
    "kind": lambda v: v in ("model", "method"),
    "users": _is_specs,
    "rounds": _is_count,
    "protocols": lambda v: _is_texts(v) and set(v) <= {"published", "corrected"},
    "measures": _is_texts,
    "seed": lambda v: type(v) is int,
    "threads": lambda v: _is_count(v) and v >= 1,
    "limit": lambda v: v is None or (_is_count(v) and v >= 1),
    "sample": lambda v: v is None or (_is_count(v) and v >= 1),
    "keep_masks": lambda v: isinstance(v, bool),
    "options": _is_map,
    "fingerprints": lambda v: _is_map(v) and all(isinstance(p, str) for p in v.values()),
}


@dataclass(frozen=True)
class Job:
    """One scene for one model or method, encoded once."""

    segmenter: Spec
    dataset: Spec
    scene: str

    @cached_property  # read many times when a run of 1e5 jobs is resumed
    def id(self) -> str:
        return fingerprint(self.segmenter, self.dataset, self.scene, size=10)

    def identity(self) -> dict[str, str]:
        """Model, dataset and scene: the key of this job's rows."""
        return {"model": str(self.segmenter), "dataset": str(self.dataset), "scene": self.scene}

    def __str__(self) -> str:
        data = display_names([self.dataset])[str(self.dataset)]
        return f"{self.segmenter.name} on {data}/{self.scene}"


def in_order(groups: Sequence[Any], plan: Plan) -> list[Any]:
    """Groups of rows by model, then by dataset, as the plan names them; others last.

    >>> from types import SimpleNamespace as Group
    >>> plan = Plan("noc", (Spec("b"), Spec("a")), (Spec("mini"),))
    >>> [group.model for group in in_order([Group(model=m, dataset="mini") for m in "abc"], plan)]
    ['b', 'a', 'c']
    """
    models, datasets = (
        {str(spec): place for place, spec in enumerate(specs)}
        for specs in (plan.segmenters, plan.datasets)
    )
    return sorted(
        groups, key=lambda g: (models.get(g.model, len(models)), datasets.get(g.dataset, 0))
    )


def display_names(specs: Sequence[Spec]) -> dict[str, str]:
    """Display name of each dataset, by its full spec.

    A folder goes by the last part of its path, by more parts if two would share a name, and by its
    full spec if even those are equal. All others keep their names.

    >>> display_names([Spec("folder", {"path": "data/mine"}), Spec("grabcut")])
    {'folder?path=data/mine': 'mine', 'grabcut': 'grabcut'}
    """
    names = {str(spec): spec.name for spec in specs if _parts(spec) == ()}
    for spec in specs:
        parts = _parts(spec)
        tails = ["/".join(parts[-many:]) for many in range(1, len(parts) + 1)]
        if parts:
            names[str(spec)] = next((t for t in tails if t not in names.values()), str(spec))
    return {str(spec): names[str(spec)] for spec in specs}


def with_titles(part: Any, titles: Mapping[str, str]) -> Any:
    """A part of a report with datasets under their titles in all of its texts.

    >>> with_titles(sections.Note("On folder?path=x: 3"), {"folder?path=x": "x"}).text
    'On x: 3'
    """
    if isinstance(part, str):
        for name in sorted(titles, key=len, reverse=True):
            part = part.replace(name, titles[name])
        return part
    if isinstance(part, list | tuple):
        return type(part)(with_titles(one, titles) for one in part)
    if type(part).__module__ != sections.__name__:
        return part
    renamed = {f.name: with_titles(getattr(part, f.name), titles) for f in fields(part)}
    return replace(part, **renamed)


def _parts(spec: Spec) -> tuple[str, ...]:
    """The parts of a folder's path that name something; none for other datasets."""
    if spec.name != "folder":
        return ()
    path = PurePath(str(spec.options.get("path", "")))
    return tuple(p for p in path.parts if p not in ("..", path.anchor)) or ("folder",)
