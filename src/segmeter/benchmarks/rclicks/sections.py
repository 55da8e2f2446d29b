"""Report sections on people's clicks: conclusions, the paper's tables, effects and their null."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from segmeter.analysis import report_parts as parts
from segmeter.analysis.report_cases import object_title
from segmeter.analysis.response_section import followed_notes, response_sections
from segmeter.benchmarks.rclicks import figures
from segmeter.benchmarks.rclicks.effects import EFFECTS
from segmeter.benchmarks.rclicks.statistics import CARDS, ModelFindings, findings
from segmeter.core import sections as page
from segmeter.core.benchmarks import FEWEST_PAIRS, Difference, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.core.wording import counted, p_value, signed
from segmeter.stats.comparisons import holm


def sections(run: Results) -> list[page.Section]:
    found = findings(run)
    lead = [f for f in found if f.trial.protocol == "corrected"] or found
    view = parts.Findings(run)
    maps = {str(spec.options.get("map", "prior")) for spec in run.plan.users if spec.options}
    return [
        page.Section("Results", "", [*conclusions(lead), *followed_notes(run), _short_table(view)]),
        *pairwise_result(lead, view.differences),
        page.Section("Quality by number of clicks", _GROWTH, [figures.curves(lead)]),
        page.Section("Effect sizes against the null", _WORTH, _null_tables(found, view)),
        page.Section(
            "The paper's tables, both protocols", _PROTOCOLS, [*_paper_tables(found, view)]
        ),
        page.Section("Sensitivity to click position", _SPREAD, [*_spread(lead, view)]),
        page.Section(
            "Where people click",
            _MAPS.format(", ".join(sorted(maps))),
            figures.maps_and_groups(run, lead),
        ),
        page.Section("Hardest objects", _HARD, [*_ranking(lead), *figures.hard_targets(run, lead)]),
        *response_sections(run),
        page.Section("Correlation of statistics", _SAME, [figures.correlations(lead)], folded=True),
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


def _paper_tables(found: Sequence[ModelFindings], view: parts.Findings) -> Iterator[page.Table]:
    """Tables 9 to 12 of every dataset; in Table 12 the centre click on the same objects."""
    base = {f.key: f.base_first for f in found}
    same: parts.By = {
        page.Column("clicks of"): lambda row: row.user,
        page.Column("Base@1", "IoU, %", 2): lambda r: page.Value.of(
            base[r.model, r.dataset, r.protocol]
        ),
    }
    for dataset, _, own in view.datasets([f.trial for f in found]):
        for name, (caption, names) in _TABLES.items():
            by = same if names == _FIRST else None
            title = f"{dataset}: {caption}"
            yield view.table(f"{name}-{dataset}", own, names, by=by, caption=title)


def _short_table(view: parts.Findings) -> page.Table:
    """Table 4's shape: Sample NoC, ΔSB and ΔGR, a row per model, protocol and dataset."""
    return view.table(
        "table-4",
        view.rows,
        _SHORT,
        caption="Clicks to 90 % IoU with people's clicks (as Table 4)",
        note="The paper's formulas are means of each object's ratio, which are above zero even "
        "if nothing differs; a ratio of means over all draws is not. 95 % intervals from "
        "resampling images.",
    )


def _null_tables(found: Sequence[ModelFindings], view: parts.Findings) -> list[page.Block]:
    """Effects against the null of every model, dataset and protocol."""
    return [
        parts.null_table(
            f"nulls-{'-'.join(f.key)}",
            [row for row in view.rows if row.key == f.trial.key],
            {name: CARDS[name] for name in EFFECTS},
            f"{f.trial.model}, {f.trial.dataset}: clicks of the protocol {f.trial.protocol}",
        )
        for f in found
    ]


def _spread(lead: Sequence[ModelFindings], view: parts.Findings) -> Iterator[page.Block]:
    """Components of the spread, for groups with two draws or more; mean against spread."""
    table = view.table(
        "components",
        [row for row in view.rows if row.protocol == lead[0].trial.protocol],
        [n for name in _PARTS for n in (name, f"{name}:p")],
        by=parts.DATA,
        caption="Where the spread comes from",
        note="Means over objects. Between groups: variance due to the kind of click. Within: "
        "variance between clicks of the same kind. An estimate below zero means that groups "
        "differ less than expected by chance.",
    )
    unknown = page.Note("Each group ran once: chance and groups cannot be separated.", "warning")
    yield table if table.rows else unknown
    yield from figures.scatter(lead)


def _ranking(found: Sequence[ModelFindings]) -> Iterator[page.Table]:
    """The objects whose first click is noisiest, with each model's noise against signal."""
    ranked = figures.ranked_by_noise(found)
    shown = ranked[:20]
    noise = {
        (f.trial.model, f.trial.dataset): dict(zip(f.clicks.keys, f.clicks.noise(), strict=True))
        for f in found
        if f.clicks is not None
    }

    def of_model(model: str) -> Callable[[figures.FirstClickNoise], page.Cell]:
        return lambda one: noise.get((model, one.dataset), {}).get(one.key)

    columns: dict[page.Column, Callable[[figures.FirstClickNoise], page.Cell]] = {
        page.Column("object"): lambda one: object_title(*one.key),
        page.Column("data"): lambda one: one.dataset,
        page.Column("NSR@1", "%, all models", 1, percent=True): lambda one: one.ratio,
        page.Column("mean IoU", "%", 1, percent=True): lambda one: one.mean,
        page.Column("std", "%", 1, percent=True): lambda one: one.spread,
    }
    for model in dict.fromkeys(f.trial.model for f in found):
        column = page.Column(model, "NSR@1, %", 1, percent=True, shade=True)
        columns[column] = of_model(model)
    title = "Objects by noise against signal of the first click"
    note = f"The {len(shown)} noisiest of {len(ranked)}; mean and spread are averaged over the "
    note += "models before they are divided."
    if ranked:
        yield page.Table.of("hard-objects", shown, columns, title, note)


_GROWTH = "Mean IoU after each round, with likely and with unlikely clicks."
_SPREAD = "Variance of results on the same object, by kind of click and by chance."
_MAPS = (
    "Objects on which first clicks differ most, with the map of depth for comparison, the "
    "clickability map in use (**{}**), and its ten groups of equal mass."
)
_PROTOCOLS = (
    "**published** repeats the authors' code: groups are cut by value, so that they overlap "
    "and have more than a tenth; every image draws the same random numbers; relative "
    "differences are means of each object's ratio; standard deviations divide by n. **corrected** "
    "cuts exact tenths, draws independently for every object, group and round, takes ratios of "
    "means over all draws, merges halves for ΔHH, and divides by n - 1."
)
_SAME = "Two statistics that correlate strongly rank models, or objects, alike."
_WORTH = (
    "The null is the value if it does not matter who clicks: the users of each object are "
    "permuted at random, 500 to 2000 times (groups among themselves; the centre click with all of "
    "them). Means of ratios are above zero even then, because small denominators weigh more than "
    "large ones. p is two-sided and tests whether the users differ on these images; the interval "
    "covers other images."
)
_HARD = (
    "Noise against signal (NSR) of the first click: the spread of IoU over everybody who "
    "clicked, divided by its mean. If it is high, one person's click succeeds and "
    "another's fails."
)


# Tested for every model: the least against the most likely tenth, in clicks and quality.
_ASKED = ("dgr-noc-ratio", "dgr-auc-all")
_SURE = "95 % interval "
_PEOPLE = "sample-noc"


def conclusions(found: Sequence[ModelFindings]) -> list[page.Answer]:
    """One answer per model and dataset; p values hold for all questions of a dataset together."""
    answers = []
    for members in grouped(found, lambda f: f.trial.dataset).values():
        corrected = iter(holm([f.p(name) for f in members for name in _ASKED]))
        for f, p_clicks, p_quality in zip(members, corrected, corrected, strict=True):
            p = (p_clicks, p_quality)
            answers.append(page.Answer(_sentence(f, *p), _detail(f, *p)))
    return answers


def _sentence(f: ModelFindings, p_clicks: float, p_quality: float) -> page.Phrase:
    model, dataset, _ = f.key
    clicks = ("the least likely tenth of clicks takes ", _more(f.rows["dgr-noc-ratio"]), ".")
    images = len(set(f.trial.clusters))
    if images < FEWEST_PAIRS:
        opening = f"Whether it matters where people click with **{model}** on {dataset} cannot "
        return page.phrase(f"{opening}be determined from {counted(images, 'image')}: here ", clicks)
    opening = f"With **{model}** on {dataset} it"
    if p_clicks < 0.05:
        return page.phrase(f"{opening} matters where people click: ", clicks)
    if p_quality >= 0.05:
        return page.phrase(f"{opening} has not been shown to matter where people click: ", clicks)
    row = f.rows["dgr-auc-all"]
    which = "below" if row.value < 0 else "above"
    value = page.Value.of(row)
    text = f"{abs(row.value):.2f} points {which} that of the most likely"
    return page.phrase(
        f"{opening} matters where people click, but only for the mean IoU over the rounds: that "
        "of the least likely tenth is ",
        page.Quantity(text, value, value.limits(2, _SURE), row.statistic),
        ". It is not shown to take more clicks.",
    )


def _more(row: SummaryRow) -> page.Quantity:
    """The additional clicks of the least likely tenth."""
    value = page.Value.of(row)
    more = f"{abs(row.value):.1f} % {'more' if row.value >= 0 else 'fewer'} clicks than"
    if row.value == 0 and not row.low < row.high:
        more = "as many clicks as"
    alike = " (no image differs, so no interval can be given)" if row.low == row.high else ""
    limits = value.limits(1, _SURE)
    return page.Quantity(f"{more} the most likely{alike}", value, limits, row.statistic)


def _detail(f: ModelFindings, p_clicks: float, p_quality: float) -> str:
    """The evidence; the paper's own numbers and the null are in tables."""

    def effect(name: str, digits: int, unit: str = " %") -> str:
        row = f.rows[name]
        return f"{signed(row.value, digits)}{unit} {page.Value.of(row).limits(digits)}".strip()

    shared = ""
    if "share-noc" in f.rows:
        share = parts.measured(f.rows["share-noc"], "%", 0)
        shared = (
            f"Of the variance between people on one object, {share} is between the groups, "
            f"p {p_value(f.p('share-noc'))}; the rest is between clicks of one group. "
        )
    return (
        f"Least against most likely tenth: clicks {effect('dgr-noc-ratio', 1)}, "
        f"p {p_value(p_clicks)}; mean IoU over the rounds {effect('dgr-auc-all', 2, ' points')}, "
        f"p {p_value(p_quality)}; both corrected for the number of questions. Human against centre "
        f"clicks to 90 % IoU: {effect('dsb-noc-ratio', 1)}, p {p_value(f.p('dsb-noc-ratio'))}. "
        f"{shared}Intervals are of 95 %."
    )


def pairwise_result(
    lead: Sequence[ModelFindings], differences: Sequence[Difference]
) -> list[page.Section]:
    """One answer per dataset and the table of pairs; none for a single model."""
    own = [d for d in differences if d.protocol == lead[0].trial.protocol]
    cards = {**CARDS, _PEOPLE: replace(CARDS[_PEOPLE], title="number of clicks by people")}
    blocks: list[page.Block] = []
    for members in grouped(lead, lambda f: f.trial.dataset).values():
        rounds, alike = members[0].trial.base.shape[1], len({f.trial.keys for f in members}) == 1
        detail = (
            "Means of all groups of people. An object that never reaches the goal counts as all "
            f"{rounds} rounds."
        )
        uneven = " The models were not run on the same objects: compare pairs, not means."
        rows, effect = [f.rows[_PEOPLE] for f in members], detail + ("" if alike else uneven)
        blocks += parts.best_answer(rows, [_PEOPLE], cards, effect, own) if rows[1:] else []
    table = parts.difference_table(own, CARDS)
    return [page.Section("Significant differences", "", [*blocks, table])] if blocks else []
