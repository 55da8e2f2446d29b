"""Report sections of TETRIS, for clicks and boxes: Min, Base, Max and D, the first click."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.response_section import followed_notes, response_sections
from segmeter.benchmarks.tetris import statistics as tetris
from segmeter.benchmarks.tetris.cases import fragile, heat_maps, replays, shift_maps
from segmeter.benchmarks.tetris.statistics import AREAS, ROLES, AttackedSessions
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Results
from segmeter.core.grouping import grouped
from segmeter.stats.comparisons import spearman
from segmeter.stats.statistics import standing_out

_NAMES = {"max": "best clicks", "base": "centre clicks", "min": "worst clicks"}


def sections(run: Results) -> list[page.Section]:
    found = Attacks(run)
    members, lead = found.of(found.lead), found.lead
    charts = [_chart(found, group) for group in members]
    places = [own for _, own, _ in found.datasets(members)]
    maps = [block for own in places for block in heat_maps(run, own)]
    return [
        page.Section("Results", _RESULTS, [*_results(found)]),
        *found.difference_section(found.tested),
        _comparison(found),
        page.Section(
            "Quality by number of clicks",
            "Mean IoU after each click of the three sessions, with 95 % bands from resampling "
            f"images; protocol {lead}.",
            [page.Multiples(charts)] if charts else [],
        ),
        page.Section("The first click", _FIRST_CLICK, [*_first_click(found, members)]),
        page.Section("Which numbers agree", _AGREEMENT, [*agreement_tables(found)], folded=True),
        *response_sections(run),
        page.Section("Hardest objects", _HARDEST, [fragile(run, own) for own in places]),
        page.Section("Worst click positions", _WORST, maps),
        page.Section("Sessions", _SESSIONS, [b for own in places for b in replays(run, own)]),
    ]


def box_sections(run: Results) -> list[page.Section]:
    """The report on boxes: the worst and the best within human-like jitter, and the tight one."""
    found = Attacks(run)
    text = (
        "Each side of the tight box is moved by at most a tenth of the box, and never by more "
        "than 20 pixels, the range of the noise that Segment Anything was trained with. The worst "
        "and the best box are found by a coarse-to-fine search from the tight box."
    )
    places = [own for _, own, _ in found.datasets(found.of(found.lead))]
    cases = [fragile(run, own, "box") for own in places]
    return [
        page.Section("Results", text, [*_results(found, "box")]),
        *found.difference_section(found.tested),
        page.Section("Hardest objects", "Objects with the widest span between boxes.", cases),
        page.Section(
            "Moving the whole box",
            "IoU if the tight box is moved as a whole, by up to a tenth of its sides in each "
            "direction; the centre is the unmoved box.",
            [block for own in places for block in shift_maps(run, own)],
        ),
    ]


_RESULTS = (
    "The mask depends on where on the object a person clicks. One simulated user searches "
    "for the clicks with the lowest IoU, one for those with the highest, and one clicks the "
    "centre of each error region. All clicks are in the error region."
)
_HARDEST = "Objects with the widest span between the worst and the best sessions."
_WORST = (
    "IoU after a single click at each place of the object: dark where it fails. Only "
    "scenes that were clicked exhaustively."
)
_SESSIONS = "The worst and the best clicks of the most fragile objects, round by round."
_FIRST_CLICK = "The effect of the first click alone: worst, centre and best click of each object."
_AGREEMENT = (
    "Spearman's rank correlations over the models of this run, as in Figures 9 and 10 of "
    "the paper. With few models they are unreliable: among four, swapping two neighbours "
    "changes a correlation by 0.2."
)


def _results(found: Attacks, prompt: str = "click") -> Iterator[page.Block]:
    for dataset, members, _ in found.datasets(found.of(found.lead)):
        for alike in grouped(members, lambda group: group.user).values():
            yield page.Answer(span_sentence(found, alike, prompt), _order_kept(found, alike))
        yield from filter(None, [parts.uneven(dataset, members)])
    yield from (*followed_notes(found.run), *_unequal(found), *area_tables(found, prompt))


def span_sentence(found: Attacks, members: Sequence[AttackedSessions], prompt: str) -> page.Phrase:
    """The gap between worst and best, of the models with the smallest and the largest one.

    The search method is named if models were not all attacked in the same way.
    """
    order = sorted(members, key=lambda g: float(g.each("iou-d").mean()))
    least, most = order[0], order[-1]
    what = f"{least.role('base').shape[1]} clicks" if prompt == "click" else prompt
    by = f" (by {least.user})" if least.user else ""
    low, high = (found.numbers[group.key, "iou-d"] for group in (least, most))
    span = parts.measured(high, "", 1)
    also = page.phrase(", the least, and ", span, f" for **{most.model}**, the most")
    return page.phrase(
        f"On {least.dataset}{by}, the worst and the best {what} are ",
        parts.measured(low, "points of IoU apart", 1, "95 % interval "),
        f" for **{least.model}**",
        also if len(order) > 1 else "",
        ".",
    )


def _unequal(found: Attacks) -> list[page.Block]:
    """A warning where some models were attacked by gradient and others by search."""
    attacks = tetris.attacks_of(found.run)
    searched = [g.model for g in found.attacked if attacks.get(g.model) == "search"]
    text = (
        f"{', '.join(dict.fromkeys(searched))} has no gradient and was attacked by search, which "
        'finds worse clicks than a gradient does (see "The first click"). Its D '
        "is not compared with that of the other models; `--user worst-click-search --user "
        "best-click-search` attacks all of them by search."
    )
    mixed = searched and len(set(attacks.values())) > 1
    return [page.Note(text, "warning")] if mixed else []


def _order_kept(found: Attacks, members: Sequence[AttackedSessions]) -> str:
    """How often Min <= Base <= Max holds, and how often a session was taken over."""
    protocol, dataset = members[0].protocol, members[0].dataset
    bounds = [[group.role(role) for role in ("min", "base", "max")] for group in members]
    held = np.concatenate([((a <= b) & (b <= c)).ravel() for a, b, c in bounds])
    kept = f"Min ≤ Base ≤ Max holds after {held.sum()} of {held.size} prompts"
    if protocol != "corrected":
        return f"{kept}; `published` does not guarantee it."
    users = [user for user, role in tetris.roles_of(found.run).items() if role != "base"]
    query = """
        select avg(inherited::int) as share from rows
        where protocol = 'corrected' and list_contains($users, "user") and dataset = $dataset
    """
    (row,) = found.run.sql(query, {"users": users, "dataset": dataset}).to_pylist()
    return (
        f"{kept} (`corrected`, by construction: in {100 * (row['share'] or 0):.1f} % of rounds an "
        "attack that was worse than the base took over its session)."
    )


def _comparison(found: Attacks) -> page.Section:
    """The paper's rows, or why they are not shown where the paper has such models and data."""
    title, table = "Comparison with the paper", compared_with_the_paper(found.of(), found.numbers)
    if table is not None:
        text = (
            "The attack can be reproduced only approximately: the paper's renderer of discs is "
            "replaced by an analytic one, and the authors' repository is not available. EISeg's "
            "network is compared with RITM's HR18-IT, whose design and data it shares."
        )
        return page.Section(title, text, [table])
    for group in found.of():
        if printed := paper_rows(group.dataset, group.model, "iou"):
            targets, rounds = group.role("base").shape
            text = (
                f"The paper's numbers for {group.dataset} are of {printed['targets']:g} targets "
                f"and {PAPER_ROUNDS} clicks, these of {targets} and {rounds}: not compared."
            )
            return page.Section(title, blocks=[page.Note(text)])
    return page.Section(title)


def _chart(found: Attacks, group: AttackedSessions) -> page.Chart:
    tables = {name: group.role(role) for role, name in _NAMES.items()}
    return parts.curves_chart(found.named(group), group, tables, "click")


def _first_click(found: Attacks, members: Sequence[AttackedSessions]) -> Iterator[page.Block]:
    if not members:
        return
    yield from first_click_tables(found)
    if found.lead == "corrected" and not any("all-min" in group.values for group in members):
        yield page.Note(
            "No scene of this run was clicked exhaustively; `--exhaustive 1` does so and shows "
            "how far the attack is from the true extremes."
        )
    yield page.Chart(
        "IoU lost by moving the first click",
        page.Axis("distance from the centre click, % of the object's diagonal", 0, percent=True),
        page.Axis("IoU lost, points", 0, percent=True),
        [
            page.Points(
                found.named(group),
                group.each("distance-min") / 100,
                (group.each("first-base") - group.each("first-min")) / 100,
            )
            for group in members
        ],
        "Each dot is an object: the distance of its worst first click from the centre click, "
        "and the IoU lost there.",
    )


PAPER_ROUNDS = 10  # clicks of the paper's sessions
_FEWEST = 3  # models to correlate

_Printed = tuple[AttackedSessions, str, dict[str, float]]
"""A group, the kind of IoU, and what the paper prints of it."""


class Attacks(parts.Findings):
    """A run with its attacks."""

    @cached_property
    def attacked(self) -> list[AttackedSessions]:
        return self.groups(AttackedSessions)

    @cached_property
    def areas(self) -> list[Difference]:
        return self.run.benchmark.differences(self.run, AREAS)

    @property
    def several(self) -> bool:
        """Whether a table has to name the dataset."""
        return len({group.dataset for group in self.attacked}) > 1

    def named(self, group: AttackedSessions) -> str:
        return group.model + (f", {group.dataset}" if self.several else "")

    @property
    def tested(self) -> list[Difference]:
        """The leading differences in the statistics that are tested unasked."""
        own = [d for d in self.areas if d.protocol == self.lead]
        return [d for d in own if self.cards[d.statistic].tested == "yes"]

    def of(self, protocol: str = "") -> list[AttackedSessions]:
        """Groups that have both attacks, of one protocol or of all."""
        return [g for g in self.groups(AttackedSessions, protocol) if g.complete]

    def shown(
        self, name: str, members: Sequence[AttackedSessions], names: Sequence[str], **options: Any
    ) -> Iterator[page.Table]:
        """A table of some statistics of some groups; none where they have none of them.

        Areas are set bold where significant; D below zero is no merit: best clicks did worse than
        worst ones. `options` go to `table`.
        """
        keys = {group.key for group in members}
        rows = [row for row in self.rows if row.key in keys]
        by: parts.By = {**(parts.DATA if self.several else {}), **options.pop("by", {})}
        if set(names) <= set(AREAS):
            found = standing_out(self.rows, self.areas, self.cards)
            options["best"] = {key for key in found if self.numbers[key].value >= 0}
        table = self.table(name, rows, names, by=by, **options)
        if table.rows:
            yield table


def area_tables(found: Attacks, prompt: str = "click") -> Iterator[page.Table]:
    """Min, Base, Max and D of IoU and Boundary IoU, as in the paper's tables."""
    what = "after one box: worst, tight, best"
    if prompt == "click":
        what = "over the clicks: worst, centre and best clicks"
    notes = {"click": "As Table {} of the paper, with Base added. ", "box": ""}
    for number, (kind, title) in enumerate((("iou", "IoU"), ("biou", "Boundary IoU")), 1):
        chosen = "Clicks are chosen by IoU: Min may be above Max. " if number == 2 else ""
        yield from found.shown(
            f"table-{number}-{kind}",
            found.of(),
            [f"{kind}-{role}" for role in ROLES],
            plot=f"{kind}-d",
            caption=f"{title} {what}, and D, best minus worst",
            note=f"{chosen}{notes[prompt].format(number)}{parts.INTERVALS}",
        )


def paper_rows(dataset: str, model: str, measure: str) -> dict[str, float]:
    """The paper's targets, min, max and d for a model on a dataset; empty if it has no such row."""
    name = model.partition("?")[0]
    for row in parts.published_rows("tetris", "paper.csv"):
        if (row["measure"], row["name"]) == (measure, dataset) and name in row["models"].split():
            return {column: float(row[column]) for column in ("targets", "min", "max", "d")}
    return {}


def compared_with_the_paper(
    groups: Sequence[AttackedSessions], numbers: parts.Numbers
) -> page.Table | None:
    """Our numbers and the printed ones, for models and data that the paper has.

    Like with like: a group is listed only with the targets of the paper's dataset, all of them,
    and ten clicks.
    """

    def here(role: str) -> Callable[[_Printed], page.Value]:
        return lambda r: page.Value.of(numbers.get((r[0].key, f"{r[1]}-{role}")))

    def there(role: str) -> Callable[[_Printed], float]:
        return lambda r: r[2][role]

    kinds = {"iou": ("IoU", "iou"), "biou": ("Boundary IoU", "boundary-iou")}
    found = [
        (group, kind, printed)
        for group in groups
        for kind, (_, measure) in kinds.items()
        if (printed := paper_rows(group.dataset, group.model, measure))
        if group.role("base").shape == (printed["targets"], PAPER_ROUNDS)
    ]
    columns: dict[page.Column, Callable[[_Printed], page.Cell]] = {
        page.Column("model"): lambda r: page.Label(r[0].model, protocol=r[0].protocol),
        page.Column("data"): lambda r: r[0].dataset,
        page.Column("measure"): lambda r: kinds[r[1]][0],
        **{page.Column(title, "here, %", 2): here(role) for role, title in ROLES.items()},
        **{page.Column(ROLES[role], "paper, %", 2): there(role) for role in ("min", "max", "d")},
        page.Column("D", "here − paper", 2): lambda r: (here("d")(r).value or 0.0) - r[2]["d"],
    }
    title = "Comparison with the paper's rows"
    return page.Table.of("compared-with-paper", found, columns, title) if found else None


def first_click_tables(found: Attacks) -> Iterator[page.Table]:
    """Effect of the first click alone, the true extremes, and real people's first clicks."""
    corrected = found.of("corrected")
    kinds = ("all", "gap", "found", "search-gap", "search-found")
    yield from found.shown(
        "first-click",
        found.of(found.lead),
        ("first-min", "first-base", "first-max", "first-spread", "distance-min", "distance-max"),
        plot="first-spread",
        caption="IoU after the first click: worst, centre and best click found, and how far they "
        "lie apart",
        note="Distances are from the centre click, in diagonals of the object's box.",
    )
    yield from found.shown(
        "extremes",
        [group for group in corrected if "all-min" in group.values],
        [f"{kind}-{role}" for role in ("min", "max") for kind in kinds],
        caption="How far from the true extremes of the first click the attack stays",
        note="True extremes are from clicks at every few pixels of the object; found means within "
        "5 points. A search also tries clicks between these: it is off by less than 0 if it finds "
        "a better one. For models without a gradient the attack is the search.",
        by={page.Column("objects", "", 0): lambda row: row.targets},
    )
    yield from found.shown(
        "people",
        [group for group in corrected if "coverage" in group.values],
        ("people-min", "people-max", "people-spread", "first-spread", "coverage",
         "people-distance"),
        caption="Real people's first clicks and the attack's range",
    )  # fmt: skip


def agreement_tables(found: Attacks) -> Iterator[page.Table]:
    """Rank correlations over models: of metrics on each dataset, of datasets in each metric.

    As in Figures 9 and 10 of the paper; over the models that have all, three at least.
    """
    held = {(g.model, g.dataset): g for g in found.of(found.lead)}
    datasets = list(dict.fromkeys(group.dataset for group in found.attacked))
    titles = {m: m.replace("iou", "IoU").replace("bI", "BI") for m in AREAS}
    asked = [(d, "metrics", [(d, metric) for metric in AREAS]) for d in datasets]
    metrics = ("iou-min", "iou-max", "iou-d", "biou-d") if found.several else ()
    asked += [(metric, "datasets", [(d, metric) for d in datasets]) for metric in metrics]
    for which, over, places in asked:
        every = dict.fromkeys(group.model for group in found.attacked)
        models = [m for m in every if all((m, d) in held for d, _ in places)]
        if len(models) >= _FEWEST:
            table = [[held[m, d].each(metric).mean() for d, metric in places] for m in models]
            labels = [*titles.values()] if over == "metrics" else datasets
            caption = f"{titles.get(which, which)}: rank correlation of {over} over {len(models)} "
            name, values = f"spearman-{over}-{which}", spearman(np.array(table))
            yield parts.matrix_table(name, labels, values, f"{caption}models")
