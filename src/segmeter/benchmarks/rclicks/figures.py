"""Figures: curves of groups, mean against spread, and correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.benchmarks.rclicks.estimates import Findings
from segmeter.benchmarks.round_charts import QUALITY, curve_with_band, rounds_axis
from segmeter.benchmarks.shown_cases import Key, title
from segmeter.benchmarks.summary_tables import matrix_table
from segmeter.core.sections import (
    Axis,
    Chart,
    Multiples,
    Points,
    Table,
)
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import area_under

__all__ = ["FirstClickNoise", "correlations", "curves", "ranked_by_noise", "scatter"]


def curves(found: Sequence[Findings]) -> Multiples:
    """Mean IoU after each round with G1, G10 and Base, a chart per model and data set."""
    return Multiples(
        [_curve_chart(f) for f in found],
        "Base: the centre click. G1: the least likely tenth of people's clicks; G10: the most "
        "likely. Bands are 95 % intervals from resampling images. Areas under the curves: "
        + "; ".join(_areas(f) for f in found)
        + ".",
    )


def _curve_chart(f: Findings) -> Chart:
    model, dataset, _ = f.key
    lines = [curve_with_band(name, table, f.drawn) for name, table in _three(f).items()]
    axis = rounds_axis(f.trial.base.shape[1])
    return Chart(f"{model}, {dataset}", axis, QUALITY, lines)


def _three(f: Findings) -> dict[str, Floats]:
    groups = f.trial.groups.mean(axis=0)
    return {"Base": f.trial.base, "G1": groups[0], "G10": groups[-1]}


def _areas(f: Findings) -> str:
    told = ", ".join(
        f"{name} {100 * area_under(table).mean():.2f}" for name, table in _three(f).items()
    )
    return f"{f.trial.model} on {f.trial.dataset} {told}"


@dataclass(frozen=True, slots=True)
class FirstClickNoise:
    """Mean and spread of IoU after the first click on one target, averaged over the models."""

    dataset: str
    key: Key
    mean: float
    spread: float

    @property
    def ratio(self) -> float:
        """Noise against signal (NSR)."""
        return self.spread / (self.mean + 1e-9)


def hardness(found: Sequence[Findings]) -> dict[str, list[FirstClickNoise]]:
    """Every target's noise by data set.

    Real people's clicks where there are any, else as many drawn from the map.
    """
    tables: dict[tuple[str, Key], list[tuple[float, float]]] = {}
    for f in found:
        clicks = f.first.get("people") or f.first.get("samples")
        if clicks is None:
            continue
        rows = zip(clicks.scores, clicks.means(), clicks.spreads(), strict=True)
        for key, mean, spread in rows:
            tables.setdefault((f.trial.dataset, key), []).append((float(mean), float(spread)))
    made: dict[str, list[FirstClickNoise]] = {}
    for (dataset, key), values in tables.items():
        mean, spread = map(float, np.mean(values, axis=0))
        made.setdefault(dataset, []).append(FirstClickNoise(dataset, key, mean, spread))
    return made


def ranked_by_noise(found: Sequence[Findings]) -> list[FirstClickNoise]:
    """Targets of all data sets, the noisiest first."""
    every = [noise for targets in hardness(found).values() for noise in targets]
    return sorted(every, key=lambda noise: (-noise.ratio, noise.dataset, noise.key))


def scatter(found: Sequence[Findings]) -> Chart | None:
    """Mean against spread of the first click's IoU, a dot per target (as Fig. 8)."""
    tables = hardness(found)
    if not tables:
        return None
    marks = []
    for dataset, targets in tables.items():
        x, y = np.array([(noise.mean, noise.spread) for noise in targets]).T
        ratio = float(np.mean(y / (x + 1e-9)))
        noisiest = np.argsort(-y / (x + 1e-9), kind="stable")[:_NAMED]
        labels = [title(*noise.key) if i in noisiest else "" for i, noise in enumerate(targets)]
        marks.append(Points(f"{dataset} (NSR {100 * ratio:.1f} %)", x, y, labels))
    people = any("people" in f.first for f in found)
    who = "people's recorded clicks" if people else "clicks drawn from the click map"
    return Chart(
        "Mean against spread of IoU after the first click",
        Axis("mean IoU, %", low=0.0, high=1.0, percent=True),
        Axis("standard deviation of IoU, %", low=0.0, percent=True),
        marks,
        f"A dot is an object, averaged over the models; {who}. Hard objects lie at the upper "
        "left: a low mean, and a spread that depends on where one clicks.",
    )


_ACROSS_MODELS = {
    "base-noc": "Base NoC",
    "sample-noc": "Sample NoC",
    "dsb-noc-ratio": "ΔSB NoC",
    "dgr-noc-ratio": "ΔGR NoC",
    "dhh-noc-ratio": "ΔHH NoC",
    "base-auc": "Base IoU",
    "sample-auc": "Sample IoU",
    "dgr-auc-all": "ΔGR IoU",
    "dhh-auc-all": "ΔHH IoU",
    "nsr-unbiased": "NSR@20",
}
_FEWEST = 3  # of anything that is to correlate
_NAMED = 5  # dots with names


def correlations(found: Sequence[Findings]) -> Table:
    """Which statistics say the same (as Fig. 14).

    Over models where there are three or more: per data set, averaged, then taken without
    sign, as the paper does. Else over targets, each model by itself, averaged.
    """
    models = {f.trial.model for f in found}
    if len(models) < _FEWEST:
        few = "over objects, mean over models and data sets (over models it takes three or more)"
        return _matrix([_of_targets(f) for f in found], few, unsigned=False)
    datasets = dict.fromkeys(f.trial.dataset for f in found)
    tables = [_of_models([f for f in found if f.trial.dataset == d]) for d in datasets]
    many = f"over {len(models)} models, mean over data sets, without sign"
    return _matrix(tables, many, unsigned=True)


def _of_models(members: Sequence[Findings]) -> dict[str, Floats]:
    """One number per model of each statistic."""
    return {
        words: np.array([f.seen(name).value for f in members])
        for name, words in _ACROSS_MODELS.items()
    }


def _of_targets(f: Findings) -> dict[str, Floats]:
    """One number per target of what a model did."""
    clicks, area = f.trial.clickers("noc"), f.trial.clickers("auc")
    made = {
        "Base NoC": clicks[:, 0],
        "Sample NoC": clicks[:, 1:].mean(axis=1),
        "std NoC": clicks[:, 1:].std(axis=1, ddof=1),
        "Base IoU": area[:, 0],
        "Sample IoU": area[:, 1:].mean(axis=1),
        "std IoU": area[:, 1:].std(axis=1, ddof=1),
        "Base IoU@1": f.trial.base[:, 0],
    }
    for who, name in (("people", "User"), ("samples", "Sample")):
        first = {str(k): v for k, v in f.first.items()}.get(who)
        if first is not None and tuple(first.scores) == f.trial.keys:
            made |= {f"{name} IoU@1": first.means(), f"{name} NSR@1": first.noise()}
    return made


def _matrix(tables: Sequence[Mapping[str, Floats]], over: str, unsigned: bool) -> Table:
    """Pearson above the diagonal, Spearman below."""
    names = [n for n in tables[0] if all(n in t for t in tables)]
    values = np.mean([_both([t[n] for n in names]) for t in tables], axis=0)
    np.fill_diagonal(values, np.nan)
    note = "Pearson above the diagonal, Spearman below it. A dash where nothing varies."
    shown = np.abs(values) if unsigned else values
    return matrix_table("correlations", names, shown, f"Correlations {over}", note)


def _both(columns: Sequence[Floats]) -> Floats:
    from scipy import stats

    table = np.stack(columns)
    if table.shape[1] < _FEWEST:
        return np.full((len(table), len(table)), np.nan)
    ranks = stats.rankdata(table, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson, spearman = np.corrcoef(table), np.corrcoef(ranks)
    return np.asarray(np.triu(pearson, 1) + np.tril(spearman, -1) + np.eye(len(table)))
