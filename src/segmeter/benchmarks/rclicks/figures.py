"""Figures: curves of groups, mean against spread, correlations, clickability maps, mean masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.report_cases import (
    NO_MASKS,
    Case,
    Key,
    available_cases,
    object_title,
    painted,
    session_frames,
    session_rows,
)
from segmeter.benchmarks.rclicks.statistics import CARDS, ModelFindings, first_clickers
from segmeter.clickability.groups import GROUPS, group_of_pixels
from segmeter.clickability.map_sources import source
from segmeter.clickability.maps import ClickRegion
from segmeter.core import catalogue
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.core.grouping import grouped, grouped_pairs
from segmeter.core.prompts import Prompt, round_from_json
from segmeter.stats.comparisons import spearman
from segmeter.stats.goals import area_under
from segmeter.stats.intervals import Floats
from segmeter.users.humanlike_clicks import ClickingGroup


def curves(found: Sequence[ModelFindings]) -> page.Multiples:
    """Mean IoU after each round with G1, G10 and Base, a chart per model and dataset."""
    charts, areas = [], []
    for f in found:
        groups, (model, dataset, _) = f.trial.groups.mean(axis=0), f.key
        tables = {"Base": f.trial.base, "G1": groups[0], "G10": groups[-1]}
        charts.append(parts.curves_chart(f"{model}, {dataset}", f.trial, tables))
        shown = (f"{name} {100 * area_under(table).mean():.2f}" for name, table in tables.items())
        areas.append(f"{model} on {dataset} {', '.join(shown)}")
    return page.Multiples(
        charts,
        "Base: the centre click. G1: the least likely tenth of people's clicks; G10: the most "
        "likely. Bands are 95 % intervals from resampling images. Areas under the curves: "
        f"{'; '.join(areas)}.",
    )


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


def ranked_by_noise(found: Sequence[ModelFindings]) -> list[FirstClickNoise]:
    """Targets of all datasets, the noisiest first."""
    held = grouped_pairs(
        ((f.trial.dataset, key), (mean, spread))
        for f in found
        if (clicks := f.clicks) is not None
        for key, mean, spread in zip(clicks.keys, clicks.means(), clicks.spreads(), strict=True)
    )
    every = [FirstClickNoise(*place, *np.mean(v, axis=0).tolist()) for place, v in held.items()]
    return sorted(every, key=lambda noise: (-noise.ratio, noise.dataset, noise.key))


def scatter(found: Sequence[ModelFindings]) -> list[page.Chart]:
    """Mean against spread of the first click's IoU, a dot per target (as Fig. 8)."""
    marks = []
    ranked = grouped(ranked_by_noise(found), lambda noise: noise.dataset)
    for dataset in dict.fromkeys(f.trial.dataset for f in found if f.trial.dataset in ranked):
        targets = ranked[dataset]
        x, y, ratios = np.array([(noise.mean, noise.spread, noise.ratio) for noise in targets]).T
        labels = [object_title(*noise.key) if i < _NAMED else "" for i, noise in enumerate(targets)]
        name = f"{dataset} (NSR {100 * ratios.mean():.1f} %)"
        marks.append(page.Points(name, x, y, labels))
    people = any("people" in f.first for f in found)
    who = "people's recorded clicks" if people else "clicks drawn from the clickability map"
    chart = page.Chart(
        "Mean against spread of IoU after the first click",
        page.Axis("mean IoU, %", low=0.0, high=1.0, percent=True),
        page.Axis("standard deviation of IoU, %", low=0.0, percent=True),
        marks,
        f"A dot is an object, averaged over the models; {who}. Hard objects are at the upper "
        "left: a low mean, and a large spread between clicks.",
    )
    return [chart] if marks else []


_ACROSS_MODELS = (
    "base-noc", "sample-noc", "dsb-noc-ratio", "dgr-noc-ratio", "dhh-noc-ratio", "base-auc",
    "sample-auc", "dgr-auc-all", "dhh-auc-all", "nsr-unbiased",
)  # fmt: skip
_FEWEST = 3  # of anything that is to correlate
_NAMED = 5  # dots with names


def correlations(found: Sequence[ModelFindings]) -> page.Table:
    """Correlation of statistics (as Fig. 14): Pearson above the diagonal, Spearman below.

    Over models where there are three or more: per dataset, averaged, then taken without
    sign, as the paper does. Else over targets, each model by itself, averaged.
    """
    models = {f.trial.model for f in found}
    over = "over objects, mean over models and datasets (over models it takes three or more)"
    tables = [_of_targets(f) for f in found]
    if len(models) >= _FEWEST:
        over = f"over {len(models)} models, mean over datasets, without sign"
        tables = [
            {CARDS[n].title: np.array([f.rows[n].value for f in own]) for n in _ACROSS_MODELS}
            for own in grouped(found, lambda f: f.trial.dataset).values()
        ]
    names = [n for n in tables[0] if all(n in t for t in tables)]
    values = np.mean([_both(np.stack([t[n] for n in names])) for t in tables], axis=0)
    np.fill_diagonal(values, np.nan)
    note = "Pearson above the diagonal, Spearman below it. A dash where nothing varies."
    shown = np.abs(values) if len(models) >= _FEWEST else values
    return parts.matrix_table("correlations", names, shown, f"Correlations {over}", note)


def _of_targets(f: ModelFindings) -> dict[str, Floats]:
    """One number per target of what a model did."""
    made: dict[str, Floats] = {}
    for measure, word in (("noc", "NoC"), ("auc", "IoU")):
        table = f.trial.clickers(measure)
        made |= {
            f"Base {word}": table[:, 0],
            f"Sample {word}": table[:, 1:].mean(axis=1),
            f"std {word}": table[:, 1:].std(axis=1, ddof=1),
        }
    made["Base IoU@1"] = f.trial.base[:, 0]
    for who, name in (("people", "User"), ("samples", "Sample")):
        first = f.first.get(who)
        if first is not None and first.keys == f.trial.keys:
            made |= {f"{name} IoU@1": first.means(), f"{name} NSR@1": first.noise()}
    return made


def _both(table: Floats) -> Floats:
    """Correlations between lines: Pearson above the diagonal, Spearman below."""
    if table.shape[1] < _FEWEST:
        return np.full((len(table), len(table)), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.triu(np.corrcoef(table), 1) + np.tril(spearman(table.T), -1))


_SHOWN_MAPS, _HARD, _EASY, _MODELS, _DOTS = 3, 4, 2, 3, 24
_LEGEND = (
    "Dashed: the object. Maps: yellow where clicks are likely, dark blue where they are rare, not "
    "coloured where there are none. Groups: dark blue G1, the least likely tenth of clicks, to "
    "yellow G10, the most likely."
)


def maps_and_groups(run: Results, found: Sequence[ModelFindings]) -> list[page.Block]:
    """First clicks, depth, the map in use and its ten groups (as Fig. 4 and 6)."""
    chosen, why = _noisy_cases(run, found, _SHOWN_MAPS, 0)
    if why:
        return [page.Note(f"Maps cannot be shown: {why}", "warning")]
    made = (catalogue.users.make(s) for s in run.plan.users if s.name == "clicking-group")
    user: ClickingGroup = next(made, ClickingGroup())
    words = {"distance": "depth (DT)"}  # to compare with
    names = {**words, user.map: f"{words.get(user.map, user.map)}: the map in use"}
    blocks: list[page.Block] = []
    for case, _ in chosen:
        dots = _first_points(run, found, case)
        title = f"**{case.title}** and {len(dots)} first clicks"
        images = [case.drawn(title, prompts=dots)]
        region = ClickRegion(case.scene, case.target, case.target.mask, True, "corrected")
        weights_of = {user.map: None if user.checkpoint is None else Path(user.checkpoint)}
        maps = {name: source(name, weights_of.get(name)).map(region) for name in names}
        for name, map in maps.items():
            weights = map.dense().astype(np.float64)
            level = weights / max(float(weights.max()), 1e-30)  # the likeliest pixel brightest
            images.append(_over(case, np.where(weights > 0, level, np.nan), names[name]))
        used = maps[user.map]
        groups = replace(used, weights=group_of_pixels(used, 0).astype(np.float32)).dense()
        level = np.where(groups > 0, (groups - 1) / (GROUPS - 1), np.nan)
        images.append(_over(case, level, "groups: dark G1 to bright G10"))
        blocks.append(page.Gallery(images, _LEGEND))
    return blocks


def hard_targets(run: Results, found: Sequence[ModelFindings]) -> list[page.Block]:
    """Targets by noise against signal of the first click, with mean masks (as Fig. 15, 16)."""
    chosen, why = _noisy_cases(run, found, _HARD, _EASY)
    if why:
        return [page.Note(f"Objects cannot be shown: {why}", "warning")]
    blocks: list[page.Block] = []
    for case, noise in chosen:
        dots = _first_points(run, found, case)
        images = [case.drawn(f"**{case.title}** · NSR {100 * noise:.1f} %", prompts=dots)]
        for f in [f for f in found if f.trial.dataset == case.dataset][:_MODELS]:
            frames = session_frames(run, f.trial, case, _clickers(run, f, case))
            if not frames:
                return [NO_MASKS]
            mean = np.mean([frame.mask.dense() for frame in frames], axis=0)
            shade = np.repeat((255 * mean[..., None]).astype(np.uint8), 3, axis=2)
            caption = f"{f.trial.model}: mean mask"
            images.append(case.drawn(caption, f"{caption} of {case.title}", pixels=shade))
        blocks.append(page.Gallery(images))
    note = (
        "White: in all masks; black: in none; dashed: the ground truth. The objects "
        "with the noisiest first clicks come first, the quietest last."
    )
    return [*blocks, page.Note(note)]


def _noisy_cases(
    run: Results, found: Sequence[ModelFindings], hard: int, easy: int
) -> tuple[list[tuple[Case, float]], str]:
    """The noisiest and the quietest targets of all datasets with their NSR, or why none."""
    ranked = ranked_by_noise(found)
    quiet = ranked[max(hard, len(ranked) - easy) :] if easy else []
    chosen = [*ranked[:hard], *quiet]
    cases, why = available_cases(run, [(one.dataset, one.key) for one in chosen])
    shown = [(case, one.ratio) for case, one in zip(cases, chosen, strict=False)]
    return shown, why or ("" if shown else "there are no single first clicks")


def _over(case: Case, level: Floats, caption: str) -> page.Illustration:
    pixels = painted(case.scene.pixels, level)
    return case.drawn(caption, f"{caption} of {case.title}", pixels=pixels)


def _first_points(run: Results, found: Sequence[ModelFindings], case: Case) -> list[Prompt]:
    """First clicks of people on an object: recorded ones, else drawn ones."""
    f = next(f for f in found if f.trial.dataset == case.dataset)
    rows = session_rows(run, f.trial, case.key, _clickers(run, f, case))
    return [prompt for row in rows[:_DOTS] for prompt in round_from_json(row["prompt"])]


def _clickers(run: Results, f: ModelFindings, case: Case) -> list[str]:
    """Users with one click on an object: recorded people where there are any, else drawn ones."""
    every = first_clickers(run).values()
    return next((u for u in every if session_rows(run, f.trial, case.key, u)), [])
