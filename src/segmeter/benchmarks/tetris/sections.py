"""Report sections of TETRIS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.response_section import followed_notes, response_sections
from segmeter.benchmarks.tetris.cases import fragile, heat_maps, replays
from segmeter.benchmarks.tetris.statistics import AttackedSessions, attacks_of, roles_of
from segmeter.benchmarks.tetris.tables import (
    DATASETS,
    PAPER_ROUNDS,
    Attacks,
    agreement_tables,
    area_tables,
    compared_with_the_paper,
    first_click_tables,
    paper_rows,
)
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results

_NAMES = {"max": "best clicks", "base": "centre clicks", "min": "worst clicks"}


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order; those without contents are left out."""
    found = Attacks(run)
    members, lead = found.of(found.lead), found.lead
    charts = [_chart(group, found.several) for group in members]
    made = [
        page.Section("Results", _RESULTS, [*_results(found)]),
        *parts.difference_section(found.tested, found.cards),
        _beside(found),
        page.Section(
            "Quality by number of clicks",
            "Mean IoU after each click of the three sessions, with 95 % bands from resampling "
            f"images and the areas beneath; protocol {lead}.",
            [page.Multiples(charts)] if charts else [],
        ),
        page.Section("The first click", _FIRST_CLICK, [*_first_click(found, members)]),
        page.Section("Which numbers agree", _AGREEMENT, [*agreement_tables(found)], folded=True),
        *response_sections(run),
        *_cases(run, [here for _, here, _ in found.datasets(members)]),
    ]
    return [section for section in made if section.blocks]


_RESULTS = (
    "The mask depends on where on the object a person clicks. One simulated user searches "
    "for the clicks with the lowest IoU, one for those with the highest, and one clicks the "
    "centre of each error region. All clicks are in the error region."
)
_FIRST_CLICK = "The effect of the first click alone: worst, centre and best click of each object."
_AGREEMENT = (
    "Spearman's rank correlations over the models of this run, as in Figures 9 and 10 of "
    "the paper. With few models they are unreliable: among four, swapping two neighbours "
    "changes a correlation by 0.2."
)


def _results(found: Attacks) -> Iterator[page.Block]:
    for dataset, members, _ in found.datasets(found.of(found.lead)):
        for attack in dict.fromkeys(group.user for group in members):
            alike = [group for group in members if group.user == attack]
            clicks = f"{alike[0].role('base').shape[1]} clicks"
            yield page.Answer(span_sentence(found, alike, clicks), _order_kept(found.run, alike))
        warning = parts.uneven(dataset, members)
        if warning:
            yield warning
    yield from (*followed_notes(found.run), *_unequal(found), *area_tables(found))


def span_sentence(found: Attacks, members: Sequence[AttackedSessions], what: str) -> page.Phrase:
    """How far apart worst and best lie, of the models with the least and the most span.

    How clicks were found is named where models were not all attacked alike.
    """
    order = sorted(members, key=lambda g: float(g.each("iou-d").mean()))
    least, most = order[0], order[-1]
    by = f" (by {least.user})" if least.user else ""
    also = page.phrase(", the least, and ", _span(found, most), f" for **{most.model}**, the most")
    return page.phrase(
        f"On {least.dataset}{by}, the worst and the best {what} lie ",
        _span(found, least, " points of IoU apart", "95 % interval "),
        f" for **{least.model}**",
        also if len(order) > 1 else "",
        ".",
    )


def _span(
    found: Attacks, group: AttackedSessions, unit: str = "", words: str = ""
) -> page.Quantity:
    """D with its interval, where images differ and so give one."""
    d = page.Value.of(found.numbers.get((group.key, "iou-d")))
    limits = ""
    if d.low is not None and d.high is not None and d.low < d.high:
        limits = f"({words}{d.low:.1f} to {d.high:.1f})"
    return page.Quantity(f"{d.value:.1f}{unit}", d, limits, "iou-d")


def _unequal(found: Attacks) -> list[page.Block]:
    """A warning where some models were attacked by gradient and others by search."""
    attacks = attacks_of(found.run)
    models = dict.fromkeys(group.model for group in found.attacked)
    searched = [m for m in models if attacks.get(m) == "search"]
    if not searched or len(set(attacks.values())) < 2:
        return []
    return [
        page.Note(
            f"{', '.join(searched)} has no gradient to follow and was attacked by search, which "
            "finds worse clicks than a gradient does (see the first click below). Its D is not "
            "compared with that of the other models; `--user worst-click-search --user "
            "best-click-search` attacks all of them by search.",
            "warning",
        )
    ]


def _order_kept(run: Results, members: Sequence[AttackedSessions]) -> str:
    """Whether Min <= Base <= Max holds, counted; and how often a session was taken over."""
    total, broken = out_of_order(members)
    protocol, dataset = members[0].protocol, members[0].dataset
    kept = f"Min ≤ Base ≤ Max holds after {total - broken} of {total} clicks"
    if protocol != "corrected":
        return f"{kept}; `published` does not promise it."
    users = [user for user, role in roles_of(run).items() if role != "base"]
    (row,) = run.sql(
        """
        select avg(inherited::int) as share from rows
        where protocol = 'corrected' and list_contains($users, "user") and dataset = $dataset
        """,
        {"users": users, "dataset": dataset},
    ).to_pylist()
    return (
        f"{kept} (corrected, by construction: in {100 * (row['share'] or 0):.1f} % of rounds "
        "an attack's greedy choices had fallen behind, and it took over the centre clicks' "
        "session)."
    )


def out_of_order(members: Sequence[AttackedSessions]) -> tuple[int, int]:
    """How many masks of the base there are, and how many are not between Min and Max."""
    total = broken = 0
    for group in members:
        low, base, high = (group.role(role) for role in ("min", "base", "max"))
        total += base.size
        broken += int(((low > base) | (base > high)).sum())
    return total, broken


def _beside(found: Attacks) -> page.Section:
    """The paper's rows, or why they are not shown where the paper has such models and data."""
    table = compared_with_the_paper(found.attacked, found.numbers)
    title = "Comparison with the paper"
    if table is not None:
        text = (
            "The attack can be reproduced only approximately: the paper's renderer of discs is "
            "replaced by an analytic one, and the authors' repository is not available. In "
            "`published` the step is taken from the image's size although SAM's clicks are in "
            "another frame, the allowance for leaving the error region compounds, clicks stay "
            "fractional, and curves may cross; `corrected` repairs these. EISeg's network is "
            "compared with RITM's HR18-IT, whose design and data it shares."
        )
        return page.Section(title, text, [table])
    for group in found.attacked:
        model = group.model.partition("?")[0]
        if group.complete and paper_rows(group.dataset, model, "iou") is not None:
            targets, rounds = group.role("base").shape
            text = (
                f"The paper's numbers for {group.dataset} are of "
                f"{DATASETS[group.dataset][1]} targets and {PAPER_ROUNDS} clicks, these of "
                f"{targets} and {rounds}: they are not compared."
            )
            return page.Section(title, blocks=[page.Note(text)])
    return page.Section(title)


def _chart(group: AttackedSessions, many: bool) -> page.Chart:
    areas = [group.each(f"iou-{role}").mean() for role in ("min", "base", "max")]
    return parts.curves_chart(
        group.model + (f", {group.dataset}" if many else ""),
        group,
        {name: group.role(role) for role, name in _NAMES.items()},
        "click",
        "Areas: worst {:.1f}, centre {:.1f}, best {:.1f}".format(*areas),
    )


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
        "What moving the first click costs",
        page.Axis("distance from the centre click, % of the object's diagonal", 0, percent=True),
        page.Axis("IoU lost, points", 0, percent=True),
        [
            page.Points(
                group.model + (f", {group.dataset}" if found.several else ""),
                group.each("distance-min") / 100,
                (group.each("first-base") - group.each("first-min")) / 100,
            )
            for group in members
        ],
        "Each dot is an object: how far its worst first click lies from the centre click, "
        "and how much IoU is lost there.",
    )


def _cases(run: Results, places: Sequence[Sequence[AttackedSessions]]) -> list[page.Section]:
    """The cases of each dataset; `places` are its groups."""
    return [
        page.Section(
            "Hardest objects",
            "Objects with the widest span between the worst and the best sessions.",
            [fragile(run, members) for members in places],
        ),
        page.Section(
            "Worst click positions",
            "IoU after a single click at each place of the object: dark where it fails. Only "
            "scenes that were clicked exhaustively.",
            [block for members in places for block in heat_maps(run, members)],
        ),
        page.Section(
            "Sessions",
            "The worst and the best clicks of the most fragile objects, round by round.",
            [block for members in places for block in replays(run, members)],
        ),
    ]
