"""Report sections on people's clicks: tables shaped like the paper's, effects against the null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.answers import conclusions, pairwise_result
from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect
from segmeter.benchmarks.rclicks.figures import (
    FirstClickNoise,
    correlations,
    curves,
    hard_targets,
    maps_and_groups,
    ranked_by_noise,
    scatter,
)
from segmeter.benchmarks.rclicks.groups import CARDS, Findings, findings
from segmeter.benchmarks.report_parts import title
from segmeter.benchmarks.response_section import followed_notes, response_sections
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Block, Cell, Column, Label, Note, Section, Table, Value
from segmeter.stats.intervals import Interval
from segmeter.stats.null_distributions import Components, Null

Got = Callable[[Findings], Interval | None]


@dataclass(frozen=True, slots=True)
class _Head:
    """One statistic of a paper's table: where each protocol finds it, and how it is shown."""

    title: str
    published: Got
    corrected: Got
    unit: str
    digits: int = 2

    def column(self, protocol: str, many: bool) -> Column:
        unit = f"{protocol}, {self.unit}" if many else self.unit
        return Column(self.title, unit, self.digits)

    def of(self, f: Findings) -> Interval | None:
        return self.corrected(f) if f.trial.protocol == "corrected" else self.published(f)


def _named(published: str, corrected: str | None = None) -> tuple[Got, Got]:
    return lambda f: f.seen(published), lambda f: f.seen(corrected or published)


def _first(who: str, name: str) -> tuple[Got, Got]:
    def got(f: Findings) -> Interval | None:
        clicks = {str(k): v for k, v in f.first.items()}.get(who)
        if clicks is None:
            return None
        found = CARDS[name].estimate(clicks)
        return None if found is None else found[0]

    return got, got


def _heads(
    measure: str, unit: str, digits: int, form: str, gap: str, gap_digits: int
) -> list[_Head]:
    """The columns of one measure; `form` is what `corrected` computes differences by."""
    std = f"std-{measure}" + ("" if measure == "nof" else "-unbiased")
    return [
        _Head("Base", *_named(f"base-{measure}"), unit, digits),
        _Head("Sample", *_named(f"sample-{measure}"), unit, digits),
        _Head("± std", *_named(f"std-{measure}", std), unit),
        *(
            _Head(title, *_named(f"{role}-{measure}", f"{role}-{measure}-{form}"), gap, gap_digits)
            for role, title in (("dsb", "ΔSB"), ("dgr", "ΔGR"), ("dhh", "ΔHH"))
        ),
    ]


_NOC = _heads("noc", "clicks", 2, "ratio", "%", 1)
_NOF = _heads("nof", "objects", 1, "all", "objects", 2)
_AUC = _heads("auc", "%", 2, "all", "points", 2)
_FIRST = [
    _Head("User@1", *_first("people", "iou@1"), "IoU, %"),
    _Head("± std", *_first("people", "std@1"), "IoU, %"),
    _Head("Sample@1", *_first("samples", "iou@1"), "IoU, %"),
    _Head("± std", *_first("samples", "std@1"), "IoU, %"),
    _Head("Base@1", lambda f: f.base_first, lambda f: f.base_first, "IoU, %"),
    _Head("User NSR@1", *_first("people", "nsr@1"), "%"),
    _Head("Sample NSR@1", *_first("samples", "nsr@1"), "%"),
    _Head("NSR@20", *_named("nsr", "nsr-unbiased"), "%"),
]
_SHORT = _NOC[1:5]
_TABLES = (
    ("noc", "clicks to 90 % IoU (as Table 9)", _NOC),
    ("nof", "objects that fail to reach 90 % (as Table 10)", _NOF),
    ("auc", "mean IoU over the rounds (as Table 11)", _AUC),
    ("first-clicks", "the first click, and noise against signal (as Table 12)", _FIRST),
)


def paper_tables(found: Sequence[Findings]) -> list[Table]:
    """Tables 9 to 12 of every data set, protocols side by side."""
    made = []
    for dataset in dict.fromkeys(f.trial.dataset for f in found):
        members = [f for f in found if f.trial.dataset == dataset]
        for name, caption, heads in _TABLES:
            made.append(_side_by_side(members, heads, f"{name}-{dataset}", f"{dataset}: {caption}"))
    return made


def short_table(found: Sequence[Findings]) -> Table:
    """Table 4's shape: Sample NoC, ΔSB and ΔGR over the data sets, a row per model and reading."""
    datasets = list(dict.fromkeys(f.trial.dataset for f in found))
    columns = [Column("model")]
    for dataset in datasets:
        columns += [Column(h.title, f"{dataset}, {h.unit}", h.digits) for h in _SHORT]
    rows: list[list[Cell]] = []
    for model, protocol in dict.fromkeys((f.trial.model, f.trial.protocol) for f in found):
        by_set = {f.trial.dataset: f for f in found if f.key[0] == model and f.key[2] == protocol}
        cells = [_cell(by_set.get(d), h) for d in datasets for h in _SHORT]
        rows.append([Label(model, protocol=protocol), *cells])
    return Table(
        "table-4",
        columns,
        rows,
        "Clicks to 90 % IoU with people's clicks (as Table 4)",
        "Published: means of each object's ratio, which are above zero even when nothing "
        "differs. Corrected: ratio of the means over all draws. 95 % intervals from resampling "
        "images.",
    )


def _side_by_side(
    members: Sequence[Findings], heads: Sequence[_Head], name: str, caption: str
) -> Table:
    protocols = list(dict.fromkeys(f.trial.protocol for f in members))
    shown = [h for h in heads if any(h.of(f) is not None for f in members)]
    columns = [Column("model")]
    columns += [h.column(r, len(protocols) > 1) for h in shown for r in protocols]
    rows: list[list[Cell]] = []
    for model in dict.fromkeys(f.trial.model for f in members):
        by_protocol = {f.trial.protocol: f for f in members if f.trial.model == model}
        rows.append([model, *(_cell(by_protocol.get(r), h) for h in shown for r in protocols)])
    return Table(name, columns, rows, caption)


def _cell(f: Findings | None, head: _Head) -> Value:
    return Value.of(None if f is None else head.of(f))


_VERDICTS = {True: "differs from the null", False: "not shown to differ from the null"}
_WITH_NULL = [e for e in EFFECTS.values() if e.relabelled != "none"]


def _is_main(effect: Effect) -> bool:
    """Whether the text is about it; the others are folded away."""
    return (effect.measure, effect.form) in (("noc", ""), ("noc", "ratio"), ("auc", "all"))


def null_table(f: Findings, everything: bool = False) -> Table:
    """Statistics that have a null: seen, under the null, what is left, and p."""
    model, dataset, protocol = f.key
    told = [f.by_name[e.name] for e in _WITH_NULL if everything or _is_main(e)]
    columns: dict[Column, Callable[[tuple[str, Interval, Null, Interval]], Cell]] = {
        Column("statistic"): lambda r: r[0],
        Column("seen", "95 % interval", 2): lambda r: Value.of(r[1]),
        Column("under the null", "middle 95 %", 2): lambda r: Value(r[2].mean, r[2].low, r[2].high),
        Column("left", "95 % interval", 2): lambda r: Value.of(r[3]),
        Column("p", "uncorrected", 3): lambda r: r[2].p,
        Column("conclusion"): lambda r: _VERDICTS[r[2].p < 0.05],
    }
    return Table.of(
        f"nulls-{model}-{dataset}-{protocol}" + ("-all" if everything else ""),
        [
            (_titled(one.effect), one.seen, one.null, one.excess)
            for one in told
            if one.null is not None and one.excess is not None
        ],
        columns,
        f"{model}, {dataset}: clicks of the protocol {protocol}",
    )


def _titled(effect: Effect) -> str:
    card = CARDS[effect.name]
    return f"{card.title}, {card.unit}"


def components_table(found: Sequence[Findings]) -> Table | None:
    """Variance components, for groups with two draws or more."""
    units = {"noc": "clicks to 90 %", "auc": "IoU AuC, %"}
    columns: dict[Column, Callable[[tuple[Findings, str, Components]], Cell]] = {
        Column("model"): lambda r: Label(r[0].trial.model, protocol=r[0].trial.protocol),
        Column("data"): lambda r: r[0].trial.dataset,
        Column("of"): lambda r: units[r[1]],
        Column("between groups", "variance", 3): lambda r: Value.of(r[2].between),
        Column("within a group", "variance", 3): lambda r: Value.of(r[2].within),
        Column("share between", "%", 1, percent=True): lambda r: Value.of(r[2].share),
        Column("p", "of no share", 3): lambda r: r[2].p,
    }
    table = Table.of(
        "components",
        [(f, measure, parts) for f in found for measure, parts in f.parts.items()],
        columns,
        "Where the spread comes from",
        "Means over objects. Between groups: what the kind of click changes. Within: what two "
        "clicks of the same kind differ by. An estimate below zero means that groups differ "
        "less than chance alone would make them.",
    )
    return table if table.rows else None


_RANKED = 20


def ranking_table(found: Sequence[Findings]) -> Table | None:
    """The objects whose first click is noisiest, with each model's noise against signal."""
    ranked = ranked_by_noise(found)
    if not ranked:
        return None
    columns: dict[Column, Callable[[FirstClickNoise], Cell]] = {
        Column("object"): lambda one: title(*one.key),
        Column("data"): lambda one: one.dataset,
        Column("NSR@1", "%, all models", 1, percent=True): lambda one: one.ratio,
        Column("mean IoU", "%", 1, percent=True): lambda one: one.mean,
        Column("std", "%", 1, percent=True): lambda one: one.spread,
    }
    noise = {(f.trial.model, f.trial.dataset): _noise_of(f) for f in found}

    def of_model(model: str) -> Callable[[FirstClickNoise], Cell]:
        return lambda one: noise.get((model, one.dataset), {}).get(one.key)

    for model in dict.fromkeys(f.trial.model for f in found):
        columns[Column(model, "NSR@1, %", 1, percent=True, shade=True)] = of_model(model)
    shown = ranked[:_RANKED]
    return Table.of(
        "hard-objects",
        shown,
        columns,
        "Objects by noise against signal of the first click",
        f"The {len(shown)} noisiest of {len(ranked)}; mean and spread are averaged over the models "
        "before they are divided.",
    )


def _noise_of(f: Findings) -> dict[tuple[str, str], float]:
    clicks = f.first.get("people") or f.first.get("samples")
    if clicks is None:
        return {}
    return dict(zip(clicks.scores, map(float, clicks.noise()), strict=True))


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    found = findings(run)
    lead = [f for f in found if f.trial.protocol == "corrected"] or found
    followed = followed_notes(run, Rclicks())
    pairwise = pairwise_result(lead, Rclicks().differences(run))
    return [
        Section("Results", "", [*conclusions(lead), *followed, short_table(found)]),
        *([pairwise] if pairwise else []),
        _growth(lead),
        _worth(lead),
        Section("The paper's tables, both protocols", _PROTOCOLS, paper_tables(found)),
        _spread(lead),
        Section("Where people click", _maps_text(run), maps_and_groups(run, lead)),
        _hard(run, lead),
        *response_sections(run, Rclicks()),
        Section("Correlation of statistics", _SAME, [correlations(lead)], folded=True),
        Section(
            "Every statistic and its null", _NULL, [null_table(f, True) for f in found], folded=True
        ),
    ]


_PROTOCOLS = (
    "**published** repeats the authors' code: groups are cut by value, so that they overlap "
    "and hold more than a tenth; every image draws the same random numbers; relative "
    "differences are means of each object's ratio; standard deviations divide by n. **corrected** "
    "cuts exact tenths, draws independently for every object, group and round, takes ratios of "
    "means over all draws, merges halves for ΔHH, and divides by n - 1."
)
_SAME = "Two statistics that correlate strongly rank models, or objects, alike."
_NULL = "All statistics, each with its value where it does not matter who clicked."
_HARD = (
    "Noise against signal (NSR) of the first click: the spread of IoU over everybody who "
    "clicked, divided by its mean. Where it is high, one person's click succeeds and "
    "another's fails."
)


def _growth(lead: Sequence[Findings]) -> Section:
    text = "Mean IoU after each round, with clicks that many people would make and few would."
    return Section("Quality by number of clicks", text, [curves(lead)])


def _worth(lead: Sequence[Findings]) -> Section:
    """Each statistic against what shuffled labels give."""
    text = (
        "A number is worth what it exceeds the same number under the null by. Under the null: the "
        "clickers of an object change places at random (groups among themselves; the centre "
        "click with all of them), and the statistic is computed again, 500 to 2000 times. Means of "
        "ratios are above zero even then, because a small count below the line weighs more "
        "than a large one. p is two-sided: the share of shuffles that lie at least as far from "
        "their own mean as what was seen. It asks whether the labels matter on these "
        "images; the interval asks what other images would give: one may leave out "
        "zero while the other finds no difference from the null."
    )
    return Section("Effect sizes against the null", text, [null_table(f) for f in lead])


def _spread(lead: Sequence[Findings]) -> Section:
    """Mean against spread, and where the spread comes from."""
    parts, chart = components_table(lead), scatter(lead)
    unknown = Note("Each group ran once: chance and groups cannot be separated.", "warning")
    blocks: list[Block] = [unknown if parts is None else parts, *([chart] if chart else [])]
    text = "How far results lie apart on the same object, by the kind of click and by chance."
    return Section("Sensitivity to click position", text, blocks)


def _hard(run: Results, lead: Sequence[Findings]) -> Section:
    ranking = ranking_table(lead)
    blocks = hard_targets(run, lead) if ranking is None else [ranking, *hard_targets(run, lead)]
    return Section("Hardest objects", _HARD, blocks)


def _maps_text(run: Results) -> str:
    maps = {spec.options.get("map", "prior") for spec in run.plan.users if spec.options}
    names = ", ".join(sorted(map(str, maps)))
    return (
        f"The clickability map in use is **{names}**. Objects on which first clicks differ most, "
        "with the map of depth for comparison, the one in use, and its ten groups of equal mass."
    )
