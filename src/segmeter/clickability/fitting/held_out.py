"""Held-out datasets: the prior where it was not fitted, predicted against seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.clickability.fitting.correction_clicks import CorrectionFit
from segmeter.clickability.fitting.first_clicks import CLICKS, Case, Fit, expect
from segmeter.clickability.maps import Numbers
from segmeter.core.sections import Axis, Chart, Line, Points

Values = npt.NDArray[np.float64]
_NAMES = ("depth", "spread", "sloppy", "jitter")
_FLAT, _STILL = 1e3, 1e-9
# What one would assume without a fit: anywhere on the object, by depth, by its cube.
BASELINES = {
    "uniform": Numbers(_STILL, _FLAT, _STILL, _STILL),
    "depth": Numbers(1.0, _FLAT, _STILL, _STILL),
    "depth³": Numbers(3.0, _FLAT, _STILL, _STILL),
}
STATISTICS = {
    "nss": "NSS of the distance map",
    "pde": "PDE of the distance map, times the object's area",
    "inside": "share of clicks on the object",
    "pl1": "PL1 to uniform clicks",
    "pl1_depth": "PL1 to clicks by depth (not used in the fit)",
}

_LATER = {
    "gain": STATISTICS["pde"],
    "nearer": "PL1 to clicks by depth over PL1 to uniform clicks",
    "inside": "share of clicks on the error region",
}
_SEEN = {"nss": "seen.nss_depth", "pde": "gain", "inside": "inside", "pl1": "seen.pl1_uniform",
         "pl1_depth": "seen.pl1_depth"}  # fmt: skip
_PREDICTED = {"nss": "nss", "pde": "gain", "inside": "inside", "pl1": "pl1_uniform",
              "pl1_depth": "pl1_depth"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A dataset, the fit on the others, and per target what was seen and predicted.

    `baselines` hold the mean absolute errors of simpler distributions; `covered` is the share of
    targets whose PDE is within the 95 % range that the fit gives for it.
    """

    name: str
    fit: Fit
    areas: Values
    seen: Mapping[str, Values]
    predicted: Mapping[str, Values]
    baselines: Mapping[str, Mapping[str, float]]
    covered: float

    def error(self, statistic: str) -> float:
        return float(np.abs(self.seen[statistic] - self.predicted[statistic]).mean())

    def correlation(self, statistic: str) -> float:
        return float(np.corrcoef(self.seen[statistic], self.predicted[statistic])[0, 1])


def held_out(name: str, cases: Sequence[Case], fit: Fit) -> HeldOut:
    predicted = [expect(case.shape, fit.numbers) for case in cases]
    seen = _columns(cases, _SEEN)
    baselines = {}
    for other, numbers in BASELINES.items():
        prediction = _columns([expect(case.shape, numbers) for case in cases], _PREDICTED)
        baselines[other] = {k: float(np.abs(seen[k] - prediction[k]).mean()) for k in STATISTICS}
    variance = np.array([t.gain_variance / CLICKS for t in predicted]) + fit.between_gain**2
    columns = _columns(predicted, _PREDICTED)
    away = np.abs(seen["pde"] - columns["pde"]) / np.sqrt(variance)
    areas = np.array([float(case.mask.area) for case in cases])
    return HeldOut(name, fit, areas, seen, columns, baselines, float((away < 1.96).mean()))


def markdown(held: Sequence[HeldOut], whole: Fit, later: CorrectionFit | None) -> str:
    parts = [fitted_table(held, whole), _tested(held)]
    if later is not None:
        parts.append(_later(later))
    return "\n".join(parts)


def prior_json(held: Sequence[HeldOut], whole: Fit, later: CorrectionFit | None) -> str:
    """The shipped file: each number with its interval.

    The first round's interval is that of the fit on all targets, widened to hold what each
    of the fits without one dataset gave.
    """
    first = {}
    for name in _NAMES:
        value = getattr(whole.numbers, name)
        ends = [*whole.interval(name), *(getattr(h.fit.numbers, name) for h in held)]
        first[name] = _entry(value, min(ends), max(ends))
    rounds: dict[str, Any] = {"first": first, "later": first}
    if later is not None:
        rounds["later"] = {
            name: _entry(getattr(later.numbers, name), *later.interval(name)) for name in _NAMES[:3]
        } | {"jitter": first["jitter"]}
    return json.dumps(rounds, indent=1) + "\n"


def _entry(value: float, low: float, high: float) -> dict[str, float]:
    return {k: float(f"{v:.3g}") for k, v in (("value", value), ("low", low), ("high", high))}


def _columns(things: Sequence[Any], names: Mapping[str, str]) -> dict[str, Values]:
    return {n: np.array([attrgetter(path)(t) for t in things]) for n, path in names.items()}


def fitted_table(held: Sequence[HeldOut], whole: Fit) -> str:
    rows = [
        [h.name, str(h.fit.targets), *(f"{getattr(h.fit.numbers, n):.3g}" for n in _NAMES)]
        for h in held
    ]
    numbers = [_number(whole, name) for name in _NAMES]
    rows.append(["none (95 % interval)", str(whole.targets), *numbers])
    title = "Numbers of the first round, fitted without one dataset, and on all:"
    return _table(title, ["left out", "targets fitted", *_NAMES], rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join([title, "", *(f"| {' | '.join(line)} |" for line in lines), ""])


def _number(fit: Fit | CorrectionFit, name: str) -> str:
    low, high = fit.interval(name)
    return f"{getattr(fit.numbers, name):.3g} ({low:.3g} to {high:.3g})"


def _tested(held: Sequence[HeldOut]) -> str:
    rows = []
    for statistic, words in STATISTICS.items():
        for h in held:
            means = [float(column[statistic].mean()) for column in (h.seen, h.predicted)]
            errors = [h.error(statistic), *(h.baselines[r][statistic] for r in BASELINES)]
            cells = [f"{v:.3f}" for v in (*means, h.correlation(statistic), *errors)]
            rows.append([words, h.name, *cells])
    title = (
        "Tested on the dataset left out: mean seen at real clicks, mean predicted, correlation\n"
        "over targets, and mean absolute error of the prior and of three simpler distributions:"
    )
    columns = ["statistic", "dataset", "seen", "predicted", "r", "error", *BASELINES]
    shares = ", ".join(f"{h.name} {100 * h.covered:.0f} %" for h in held)
    inside = f"Targets whose PDE is within the 95 % range predicted for it: {shares}.\n"
    return f"{_table(title, columns, rows)}\n{inside}"


def _later(later: CorrectionFit) -> str:
    rows = []
    for name, words in _LATER.items():
        means = [float(column[name].mean()) for column in (later.seen, later.predicted)]
        rows.append([words, f"{means[0]:.3f}", f"{means[1]:.3f}", f"{later.apart(name):.2f}"])
    title = (
        f"Later rounds: distributions over {later.keys} published keys against those that the\n"
        f"fitted prior gives on {later.proxy_errors} real error regions (never key by key):"
    )
    columns = ["statistic", "mean seen", "mean predicted", "gap of quantiles, in deviations"]
    ranges = ", ".join(f"{name} {_number(later, name)}" for name in _NAMES[:3])
    numbers = f"Numbers of later rounds: {ranges}; jitter as in the first round.\n"
    return f"{_table(title, columns, rows)}\n{numbers}"


def charts_of(held: Sequence[HeldOut], name: str) -> list[Chart]:
    """NSS or PDE of every target, predicted by the fit on the other datasets."""
    made = []
    for h in held:
        seen, predicted = h.seen[name], h.predicted[name]
        if name == "pde":  # as the tables print it: a pixel's probability
            seen, predicted = seen / h.areas, predicted / h.areas
        ends = float(predicted.min()) * 0.6, float(predicted.max()) * 1.7
        titles = (f"{name.upper()} {where}" for where in ("predicted", "at real clicks"))
        x, y = (Axis(title, *ends, scale="log") for title in titles)
        # A value outside the frame is drawn at its edge: few targets have one.
        dots = Points("", predicted, np.clip(seen, *ends))
        made.append(Chart(h.name, x, y, [Line("", ends, ends, role="guide"), dots]))
    return made


def charts_of_later(later: CorrectionFit) -> list[Chart]:
    """Quantiles of three statistics in later rounds, seen and predicted."""
    names = {
        "gain": "PDE x area",
        "nearer": "PL1 ratio, depth : uniform",
        "inside": "share of clicks inside",
    }
    levels, sides = np.linspace(0.01, 0.99, 99), {"seen": later.seen, "predicted": later.predicted}
    return [
        Chart("", Axis("share of keys"), Axis(words),
              [Line(side, levels, np.quantile(of[name], levels)) for side, of in sides.items()])
        for name, words in names.items()
    ]  # fmt: skip
