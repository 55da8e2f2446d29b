"""Several runs as one: their plans joined, and labels for models that only share a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import cast

from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.scores_by_step import quoted
from segmeter.store.folder import RunFolder
from segmeter.store.validated_rows import SESSION, Contents, database

_SAME_MODEL = ("fingerprint", "source")


class Source:
    """One folder of a run: its plan, its verified contents, and the labels of its models."""

    def __init__(self, folder: RunFolder, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.contents: Contents | None = None
        self.labels: dict[str, str] = {}

    def named(self, label: str) -> list[str]:
        """The names that models with a label have in this folder."""
        return [n for n in map(str, self.plan.segmenters) if self.labels.get(n, n) == label]


def label_models(sources: Sequence[Source], contents: Sequence[Contents]) -> None:
    """Give labels to models of one name that are different models."""
    versions: dict[str, list[int]] = {}  # by name: the first run of each version of a model
    for number, held in enumerate(contents):
        for name in held.models:
            firsts = versions.setdefault(name, [])
            if not any(_same(held, contents[first], name) for first in firsts):
                firsts.append(number)
    for source, held in zip(sources, contents, strict=True):
        for name in held.models:
            first = next(k for k in versions[name] if _same(held, contents[k], name))
            alone = len(versions[name]) == 1
            source.labels[name] = name if alone else f"{name} ({sources[first].folder.address})"


def _same(one: Contents, other: Contents, model: str) -> bool:
    """Whether two runs hold the same version of a model."""
    if one is other:
        return True
    ours, theirs = one.models[model], other.models[model]
    alike = all(ours.get(what, "") == theirs.get(what, "") for what in _SAME_MODEL)
    return alike and not _contradict(one, other, model)


def _contradict(one: Contents, other: Contents, model: str) -> bool:
    """Whether two runs hold the same session of a model with other values."""
    if one.sessions is None or other.sessions is None:
        return False
    connection = database()
    connection.register("one", one.sessions)
    connection.register("other", other.sessions)
    shared = set(one.sessions.column_names).intersection(other.sessions.column_names)
    values = [n for n in sorted(shared) if n not in (*SESSION, "cluster", "contour_px")]
    steady = [quoted(name) for name in values if not name.startswith("seconds")]
    differ = " or ".join(f"one.{name} is distinct from other.{name}" for name in steady)
    key = ", ".join(map(quoted, SESSION))
    query = f"select 1 from one join other using ({key}) where model = ? and ({differ}) limit 1"
    return bool(connection.execute(query, [model]).fetchall())


def joined_plan(plans: Sequence[Plan]) -> Plan:
    """One plan for several runs; refused where their numbers cannot be compared."""
    first = plans[0]
    for one, other in combinations(plans, 2):
        shared = set(map(str, one.datasets)).intersection(map(str, other.datasets))
        for what in ("benchmark", "rounds", *(("limit", "sample") if shared else ())):
            ours, theirs = getattr(one, what), getattr(other, what)
            if ours != theirs:
                on = f" on '{min(shared)}'" if what in ("limit", "sample") else ""
                raise BadInput(
                    f"runs of different {what.rstrip('s')}s{on} ({ours} and {theirs}) cannot be "
                    "compared; run both with the same, or read them one by one"
                )
        for name in sorted(one.options.keys() & other.options.keys()):
            values = [str(plan.options[name]) for plan in (one, other)]
            if values[0] != values[1] and "/" not in values[0]:  # of a file the digest counts
                raise BadInput(
                    f"runs with different '{name}' ({' and '.join(values)}) cannot be compared; "
                    "run both with the same, or read them one by one"
                )
        for name, digest in other.fingerprints.items():
            if one.fingerprints.get(name, digest) != digest:
                raise BadInput(f"the runs used different versions of '{name}'")
    taken = {(plan.limit, plan.sample) for plan in plans}
    return replace(
        first,
        limit=first.limit if len(taken) == 1 else None,
        sample=first.sample if len(taken) == 1 else None,
        datasets=tuple({str(spec): spec for p in plans for spec in p.datasets}.values()),
        users=tuple({str(spec): spec for p in plans for spec in p.users}.values()),
        protocols=cast(
            tuple[ProtocolName, ...], tuple(dict.fromkeys(r for p in plans for r in p.protocols))
        ),
        options={k: v for p in plans for k, v in p.options.items()},
        fingerprints={k: v for p in plans for k, v in p.fingerprints.items()},
    )
