"""Gates for continuous integration: is a new model worse than the old one?"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from segmeter.api.loading import listed
from segmeter.core.benchmarks import Difference
from segmeter.core.catalogue import short
from segmeter.core.errors import BadInput, suggestion
from segmeter.core.plans import display_names

if TYPE_CHECKING:
    from segmeter.api.runs import Run

_CONDITION = re.compile(r"(\S+) (worse|possibly worse)(?: by (\d+\.?\d*|\.\d+))?")


@dataclass(frozen=True, slots=True)
class GateLine:
    """One condition on one dataset: `value` is new minus old, with its 95 % interval.

    Attributes
    ----------
    objects, missing
        Objects that both have, and objects of the old model without a result of the new one.
    failed
        Whether the condition holds, which fails the gate.
    untested
        Why significance was not tested although the condition needs it: too few images.
    """

    condition: str
    dataset: str
    user: str
    old: str
    new: str
    statistic: str
    value: float
    low: float
    high: float
    p: float
    objects: int
    missing: int
    failed: bool
    untested: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of a gate: false if any condition holds."""

    lines: tuple[GateLine, ...]

    def __bool__(self) -> bool:
        return not any(line.failed for line in self.lines)

    def facts(self) -> dict[str, Any]:
        return {"passed": bool(self), "rows": [asdict(line) for line in self.lines]}

    def markdown(self) -> str:
        """A short comment for a pull request."""
        failed = sum(line.failed for line in self.lines)
        heading = "passed" if self else f"failed ({failed} of {len(self.lines)} conditions)"
        table = [
            "| dataset | statistic | old | new | new − old (95 %) | p | n | |",
            "|---|---|---|---|---:|---:|---:|---|",
        ]
        for line in self.lines:
            short_of = f", {line.missing} missing" if line.missing else ""
            result = "**worse**" if line.failed else line.untested or "ok"
            table.append(
                f"| {line.dataset} | {line.statistic} | {short(line.old)} | {short(line.new)} "
                f"| {_span(line.value, line.low, line.high)} | {_p(line.p)} "
                f"| {line.objects}{short_of} | {result} |"
            )
        conditions = ", ".join(f"`{c}`" for c in dict.fromkeys(x.condition for x in self.lines))
        return "\n".join([f"**segmeter: {heading}**", "", *table, "", f"Fails if {conditions}."])


def judge(run: Run, conditions: Sequence[str], protocol: str) -> Gate:
    """Judge the models of the runs behind the first (or of one run) against those of the first."""
    pairs, names = _pairs(run), display_names(run.plan.datasets)
    cards = {card.name: card for card in run.statistics() if card.testable}
    lines: list[GateLine] = []
    for text in listed(conditions):
        statistic, may, margin = _parsed(text, cards)
        sign = -1 if cards[statistic].better == "higher" else 1
        found = run.benchmark.differences(run, [statistic])
        counts = {r.key: r.targets for r in run.summary() if r.statistic == statistic}
        for old, new in pairs:
            both = {old, new}
            apart = [d for d in found if {d.first, d.second} == both and d.protocol == protocol]
            for d in (d if d.first == new else d.turned for d in apart):  # new minus old
                here = (d.dataset, d.user, d.protocol)
                missing = counts.get((old, *here), d.targets) - d.targets
                worse = _is_worse(d, sign, may, margin)
                lines.append(GateLine(
                    text, names.get(d.dataset, d.dataset), d.user, old, new, statistic, d.value,
                    d.low, d.high, d.p_holm, d.targets, missing, worse or missing > 0,
                    "" if may or margin else d.too_few,
                ))  # fmt: skip
            there = {(d.dataset, d.user) for d in apart}
            for (model, data, user, of), n in counts.items():
                if (model, of) == (old, protocol) and (data, user) not in there:
                    where = (text, names.get(data, data), user, old, new, statistic)
                    lines.append(GateLine(*where, nan, nan, nan, nan, 0, n, failed=True))
    if pairs and not any(line.objects for line in lines):
        raise BadInput(f"the runs share no objects in protocol '{protocol}'; nothing is compared")
    return Gate(tuple(lines))


def _pairs(run: Run) -> list[tuple[str, str]]:
    """Paired labels of the old and the new models; none if they are the same."""
    if len(run.models_by_run) == 1:
        old, *new = run.models_by_run[0].values()
        return [(old, label) for label in new]
    base, *others = run.models_by_run
    pairs = []
    for models in others:
        for name, label in models.items():
            partner = base.get(name) or (next(iter(base.values())) if len(base) == 1 else None)
            if partner is None:
                known = ", ".join(map(short, base))
                raise BadInput(f"'{short(name)}' has no partner in the first run ({known})")
            pairs.append((partner, label))
    return [(old, new) for old, new in dict.fromkeys(pairs) if old != new]


def _is_worse(d: Difference, sign: int, may: bool, margin: float) -> bool:
    """Whether the new model is worse: significantly, or possibly, by more than a margin."""
    value, ends = sign * d.value, sorted((sign * d.low, sign * d.high))
    if math.isnan(ends[0]):  # one image has no interval
        return value > margin
    if may:
        return ends[1] > margin
    return d.significant and value > 0 if not margin else ends[0] > margin


def _parsed(text: str, cards: Any) -> tuple[str, bool, float]:
    """Statistic, whether a possible loss fails, and the margin of a condition."""
    found = _CONDITION.fullmatch(" ".join(text.split()))
    if found is None:
        raise BadInput(
            f"--fail-if '{text}' is not understood; write 'noc@90 worse', 'noc@90 worse by 0.2' or "
            "'noc@90 possibly worse by 0.2'"
        )
    name = found[1]
    if name not in cards:
        known = ", ".join(cards)
        raise BadInput(
            f"--fail-if: no statistic '{name}';{suggestion(name, cards)} there are {known}"
        )
    if cards[name].better == "":
        raise BadInput(f"--fail-if: '{name}' has no direction; neither value is worse")
    return name, found[2] == "possibly worse", float(found[3] or 0)


def differences_markdown(found: Sequence[Difference]) -> str:
    lines = ["| dataset | statistic | first | second | difference (95 %) | p (Holm) | n |",
             "|---|---|---|---|---:|---:|---:|"]  # fmt: skip
    for d in found:
        span = _span(d.value, d.low, d.high)
        mark = f"**{span}**" if d.significant else span
        lines.append(
            f"| {d.dataset} | {d.statistic} | {short(d.first)} | {short(d.second)} | {mark} "
            f"| {'not tested' if d.too_few else _p(d.p_holm)} | {d.targets} |"
        )
    return "\n".join(lines)


def _span(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "no result"
    interval = "" if math.isnan(low) or low == high else f" ({low:+.2f} to {high:+.2f})"
    return f"{value:+.2f}{interval}"


def _p(p: float) -> str:
    return "" if math.isnan(p) else f"{p:.3f}"
