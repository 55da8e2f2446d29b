"""Report sections on people's clicks: tables shaped like the paper's, effects against the null."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.rclicks.answers import conclusions, pairwise_result
from segmeter.benchmarks.rclicks.effects import EFFECTS
from segmeter.benchmarks.rclicks.figures import (
    FirstClickNoise,
    correlations,
    curves,
    hard_targets,
    maps_and_groups,
    ranked_by_noise,
    scatter,
)
from segmeter.benchmarks.rclicks.statistics import CARDS, ModelFindings, findings
from segmeter.benchmarks.response_section import followed_notes, response_sections
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Block, Cell, Column, Note, Section, Table, Value


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    found = findings(run)
    lead = [f for f in found if f.trial.protocol == "corrected"] or found
    view = parts.Findings(run)
    pairwise = pairwise_result(lead, view.differences)
    maps = {str(spec.options.get("map", "prior")) for spec in run.plan.users if spec.options}
    return [
        Section(
            "Results", "", [*conclusions(lead), *followed_notes(run), _short_table(found, view)]
        ),
        *([pairwise] if pairwise else []),
        Section("Quality by number of clicks", _GROWTH, [curves(lead)]),
        Section("Effect sizes against the null", _WORTH, _null_tables(lead, view)),
        Section("The paper's tables, both protocols", _PROTOCOLS, [*_paper_tables(found, view)]),
        Section("Sensitivity to click position", _SPREAD, [*_spread(lead, view)]),
        Section(
            "Where people click", _MAPS.format(", ".join(sorted(maps))), maps_and_groups(run, lead)
        ),
        Section("Hardest objects", _HARD, [*_ranking(lead), *hard_targets(run, lead)]),
        *response_sections(run),
        Section("Correlation of statistics", _SAME, [correlations(lead)], folded=True),
        Section(
            "Every statistic and its null", _NULL, _null_tables(found, view, True), folded=True
        ),
    ]


def _names(measure: str, form: str) -> tuple[str, ...]:
    """The statistics of one measure; `form` is what `corrected` computes differences by."""
    unbiased = () if measure == "nof" else (f"std-{measure}-unbiased",)
    gaps = (f"{r}-{measure}{f}" for r in ("dsb", "dgr", "dhh") for f in ("", f"-{form}"))
    return (f"base-{measure}", f"sample-{measure}", f"std-{measure}", *unbiased, *gaps)


_SHORT = ("sample-noc", "std-noc", "dsb-noc", "dsb-noc-ratio", "dgr-noc", "dgr-noc-ratio")
_FIRST = ("iou@1", "std@1", "nsr@1", "nsr", "nsr-unbiased")
_PARTS = [f"{part}-{m}" for m in ("noc", "auc") for part in ("between", "within", "share")]
_TABLES = {
    "noc": ("clicks to 90 % IoU (as Table 9)", _names("noc", "ratio")),
    "nof": ("objects that fail to reach 90 % (as Table 10)", _names("nof", "all")),
    "auc": ("mean IoU over the rounds (as Table 11)", _names("auc", "all")),
    "first-clicks": ("the first click, and noise against signal (as Table 12)", _FIRST),
}


def _paper_tables(found: Sequence[ModelFindings], view: parts.Findings) -> Iterator[Table]:
    """Tables 9 to 12 of every dataset; in Table 12 the centre click on the same objects."""
    base = {f.key: f.base_first for f in found}
    same: parts.By = {
        Column("clicks of"): lambda row: row.user,
        Column("Base@1", "IoU, %", 2): lambda r: Value.of(base[r.model, r.dataset, r.protocol]),
    }
    for dataset in dict.fromkeys(f.trial.dataset for f in found):
        own = [row for row in view.rows if row.dataset == dataset]
        for name, (caption, names) in _TABLES.items():
            by = same if names == _FIRST else None
            title = f"{dataset}: {caption}"
            yield view.table(f"{name}-{dataset}", own, names, by=by, caption=title)


def _short_table(found: Sequence[ModelFindings], view: parts.Findings) -> Table:
    """Table 4's shape: Sample NoC, ΔSB and ΔGR, a row per model, protocol and dataset."""
    return view.table(
        "table-4",
        view.rows,
        _SHORT,
        by=parts.DATA if len({f.trial.dataset for f in found}) > 1 else None,
        caption="Clicks to 90 % IoU with people's clicks (as Table 4)",
        note="The paper's formulas are means of each object's ratio, which are above zero even "
        "when nothing differs; a ratio of means over all draws is not. 95 % intervals from "
        "resampling images.",
    )


def _null_tables(
    found: Sequence[ModelFindings], view: parts.Findings, everything: bool = False
) -> list[Block]:
    """Effects against the null of every model, dataset and protocol."""
    main = (("noc", ""), ("noc", "ratio"), ("auc", "all"))  # what the text is about
    names = [e.name for e in EFFECTS.values() if everything or (e.measure, e.form) in main]
    return [
        parts.null_table(
            f"nulls-{'-'.join(f.key)}" + ("-all" if everything else ""),
            [row for row in view.rows if row.key == f.trial.key],
            {name: CARDS[name] for name in names},
            f"{f.trial.model}, {f.trial.dataset}: clicks of the protocol {f.trial.protocol}",
        )
        for f in found
    ]


def _spread(lead: Sequence[ModelFindings], view: parts.Findings) -> Iterator[Block]:
    """Components of the spread, for groups with two draws or more; mean against spread."""
    table = view.table(
        "components",
        [row for row in view.rows if row.protocol == lead[0].trial.protocol],
        [n for name in _PARTS for n in (name, f"{name}:p")],
        by=parts.DATA,
        caption="Where the spread comes from",
        note="Means over objects. Between groups: what the kind of click changes. Within: what two "
        "clicks of the same kind differ by. An estimate below zero means that groups differ "
        "less than chance alone would make them.",
    )
    unknown = Note("Each group ran once: chance and groups cannot be separated.", "warning")
    yield table if table.rows else unknown
    chart = scatter(lead)
    if chart is not None:
        yield chart


def _ranking(found: Sequence[ModelFindings]) -> Iterator[Table]:
    """The objects whose first click is noisiest, with each model's noise against signal."""
    ranked, noise = ranked_by_noise(found), {}
    shown = ranked[:20]
    for f in found:
        if f.clicks is not None:
            each = zip(f.clicks.scores, map(float, f.clicks.noise()), strict=True)
            noise[f.trial.model, f.trial.dataset] = dict(each)

    def of_model(model: str) -> Callable[[FirstClickNoise], Cell]:
        return lambda one: noise.get((model, one.dataset), {}).get(one.key)

    columns: dict[Column, Callable[[FirstClickNoise], Cell]] = {
        Column("object"): lambda one: parts.title(*one.key),
        Column("data"): lambda one: one.dataset,
        Column("NSR@1", "%, all models", 1, percent=True): lambda one: one.ratio,
        Column("mean IoU", "%", 1, percent=True): lambda one: one.mean,
        Column("std", "%", 1, percent=True): lambda one: one.spread,
        **{
            Column(model, "NSR@1, %", 1, percent=True, shade=True): of_model(model)
            for model in dict.fromkeys(f.trial.model for f in found)
        },
    }
    if ranked:
        yield Table.of(
            "hard-objects",
            shown,
            columns,
            "Objects by noise against signal of the first click",
            f"The {len(shown)} noisiest of {len(ranked)}; mean and spread are averaged over the "
            "models before they are divided.",
        )


_GROWTH = "Mean IoU after each round, with clicks that many people would make and few would."
_SPREAD = "Variance of results on the same object, by kind of click and by chance."
_MAPS = (
    "The clickability map in use is **{}**. Objects on which first clicks differ most, "
    "with the map of depth for comparison, the one in use, and its ten groups of equal mass."
)
_PROTOCOLS = (
    "**published** repeats the authors' code: groups are cut by value, so that they overlap "
    "and hold more than a tenth; every image draws the same random numbers; relative "
    "differences are means of each object's ratio; standard deviations divide by n. **corrected** "
    "cuts exact tenths, draws independently for every object, group and round, takes ratios of "
    "means over all draws, merges halves for ΔHH, and divides by n - 1."
)
_SAME = "Two statistics that correlate strongly rank models, or objects, alike."
_NULL = "All statistics, each with its value where it does not matter who clicked."
_WORTH = (
    "Compare each number with its value under the null, in which the clickers of an object are "
    "permuted at random (groups among themselves; the centre "
    "click with all of them), and the statistic is computed again, 500 to 2000 times. Means of "
    "ratios are above zero even then, because a small count below the line weighs more "
    "than a large one. p is two-sided: the share of shuffles that lie at least as far from "
    "their own mean as what was seen. It asks whether the labels matter on these "
    "images; the interval asks what other images would give: one may leave out "
    "zero while the other finds no difference from the null."
)
_HARD = (
    "Noise against signal (NSR) of the first click: the spread of IoU over everybody who "
    "clicked, divided by its mean. Where it is high, one person's click succeeds and "
    "another's fails."
)
