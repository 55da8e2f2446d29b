"""Report sections of TETRIS."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.response_section import followed_notes, response_sections
from segmeter.benchmarks.tetris import Tetris
from segmeter.benchmarks.tetris.cases import fragile, heat_maps, replays, shift_maps
from segmeter.benchmarks.tetris.statistics import CARDS, AttackedSessions, attacks_of, roles_of
from segmeter.benchmarks.tetris.tables import (
    PAPER_ROUNDS,
    TARGETS,
    Summary,
    agreement_tables,
    area_tables,
    compared_with_the_paper,
    first_click_tables,
    paper_rows,
)
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.stats.statistics import resampling

_NAMES = {"max": "best clicks", "base": "centre clicks", "min": "worst clicks"}


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order."""
    summary, lead = Summary.of_run(run), run.plan.leading_protocol
    apart = parts.difference_section(summary.tested(lead), CARDS)
    made = [
        _results(run, summary, lead),
        *apart,
        _beside(summary),
        _trajectories(summary, lead),
        _first_click(summary, lead),
        _agreement(summary, lead),
        *response_sections(run, Tetris()),
        *_cases(run, summary, lead),
    ]
    return [section for section in made if section is not None]


def _results(run: Results, summary: Summary, lead: str) -> page.Section:
    blocks: list[page.Block] = []
    for dataset in summary.datasets:
        members = summary.of(lead, dataset)
        for attack in dict.fromkeys(group.user for group in members):
            alike = [group for group in members if group.user == attack]
            blocks.append(_answer(run, summary, alike))
        warning = parts.uneven(dataset, members)
        blocks += [warning] if warning else []
    blocks += [*followed_notes(run, Tetris()), *_unequal(run, summary)]
    blocks += filter(None, area_tables(summary))
    text = (
        "The mask depends on where on the object a person clicks. One simulated user searches "
        "for the clicks with the lowest IoU, one for those with the highest, and one clicks the "
        "centre of each error region. All clicks are in the error region."
    )
    return page.Section("Results", text, blocks)


def _answer(run: Results, summary: Summary, members: Sequence[AttackedSessions]) -> page.Answer:
    clicks = f"{members[0].role('base').shape[1]} clicks"
    return page.Answer(span_sentence(summary, members, clicks), _order_kept(run, members))


def span_sentence(summary: Summary, members: Sequence[AttackedSessions], what: str) -> page.Phrase:
    """How far apart worst and best lie, of the models with the least and the most span."""
    order = sorted(members, key=lambda g: float(g.each("iou-d").mean()))
    least, most = order[0], order[-1]
    sentence = page.phrase(
        f"On {least.dataset}{_by(least)}, the worst and the best {what} lie ",
        _span(summary, least, " points of IoU apart", "95 % interval "),
        f" for **{least.model}**",
    )
    if len(order) > 1:
        also = page.phrase(
            ", the least, and ", _span(summary, most), f" for **{most.model}**, the most"
        )
        sentence = page.phrase(sentence, also)
    return page.phrase(sentence, ".")


def _by(group: AttackedSessions) -> str:
    """How clicks were found, where models were not all attacked alike."""
    return f" (by {group.user})" if group.user else ""


def _span(
    summary: Summary, group: AttackedSessions, unit: str = "", words: str = ""
) -> page.Quantity:
    """D with its interval, where images differ and so give one."""
    d = summary.value(group, "iou-d")
    limits = ""
    if d.low is not None and d.high is not None and d.low < d.high:
        limits = f"({words}{d.low:.1f} to {d.high:.1f})"
    return page.Quantity(f"{d.value:.1f}{unit}", d, limits, "iou-d")


def _unequal(run: Results, summary: Summary) -> list[page.Block]:
    """A warning where some models were attacked by gradient and others by search."""
    attacks = attacks_of(run)
    searched = [m for m in summary.models if attacks.get(m) == "search"]
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
    total, broken = _out_of_order(members)
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


def _out_of_order(members: Sequence[AttackedSessions]) -> tuple[int, int]:
    """How many masks of the base there are, and how many are not between Min and Max."""
    total = broken = 0
    for group in members:
        low, base, high = (group.role(role) for role in ("min", "base", "max"))
        total += base.size
        broken += int(((low > base) | (base > high)).sum())
    return total, broken


def _beside(summary: Summary) -> page.Section | None:
    table = compared_with_the_paper(summary)
    if table is None:
        return _not_beside(summary)
    text = (
        "The attack can be reproduced only approximately: the paper's renderer of discs is "
        "replaced by an analytic one, and the authors' repository is not available. In "
        "`published` the step is taken from the image's size although SAM's clicks are in "
        "another frame, the allowance for leaving the error region compounds, clicks stay "
        "fractional, and curves may cross; `corrected` repairs these. EISeg's network is compared "
        "with RITM's HR18-IT, whose design and data it shares."
    )
    return page.Section("Comparison with the paper", text, [table])


def _not_beside(summary: Summary) -> page.Section | None:
    """Why the paper's numbers are not shown, where the paper has some of these models and data."""
    for group in summary.groups:
        model = group.model.partition("?")[0]
        if group.complete and paper_rows(group.dataset, model, "iou") is not None:
            targets, rounds = group.role("base").shape
            text = (
                f"The paper's numbers for {group.dataset} are of "
                f"{TARGETS[group.dataset]} targets and {PAPER_ROUNDS} clicks, these of {targets} "
                f"and {rounds}: they are not compared."
            )
            return page.Section("Comparison with the paper", blocks=[page.Note(text)])
    return None


def _trajectories(summary: Summary, lead: str) -> page.Section | None:
    charts = [_chart(group, len(summary.datasets) > 1) for group in summary.of(lead)]
    if not charts:
        return None
    text = (
        "Mean IoU after each click of the three sessions, with 95 % bands from resampling "
        f"images and the areas beneath; protocol {lead}."
    )
    return page.Section("Quality by number of clicks", text, [page.Multiples(charts)])


def _chart(group: AttackedSessions, many: bool) -> page.Chart:
    drawn = resampling(group)
    areas = [group.each(f"iou-{role}").mean() for role in ("min", "base", "max")]
    return page.Chart(
        group.model + (f", {group.dataset}" if many else ""),
        parts.rounds_axis(group.role("base").shape[1], "click"),
        parts.QUALITY,
        [parts.curve_with_band(name, group.role(role), drawn) for role, name in _NAMES.items()],
        "Areas: worst {:.1f}, centre {:.1f}, best {:.1f}".format(*areas),
    )


def _first_click(summary: Summary, lead: str) -> page.Section | None:
    members = summary.of(lead)
    if not members:
        return None
    tables = first_click_tables(summary, lead)
    blocks: list[page.Block] = list(filter(None, tables))
    if tables[1] is None and lead == "corrected":
        blocks.append(
            page.Note(
                "No scene of this run was clicked exhaustively; `--exhaustive 1` does so and shows "
                "how far the attack is from the true extremes."
            )
        )
    marks = [
        page.Points(
            group.model + (f", {group.dataset}" if len(summary.datasets) > 1 else ""),
            group.each("distance-min") / 100,
            (group.each("first-base") - group.each("first-min")) / 100,
        )
        for group in members
    ]
    blocks.append(
        page.Chart(
            "What moving the first click costs",
            page.Axis(
                "distance from the centre click, % of the object's diagonal", 0, percent=True
            ),
            page.Axis("IoU lost, points", 0, percent=True),
            marks,
            "Each dot is an object: how far its worst first click lies from the centre click, "
            "and how much IoU is lost there.",
        )
    )
    text = "The effect of the first click alone: worst, centre and best click of each object."
    return page.Section("The first click", text, blocks)


def _agreement(summary: Summary, lead: str) -> page.Section | None:
    found = agreement_tables(summary, lead)
    if not found:
        return None
    text = (
        "Spearman's rank correlations over the models of this run, as in Figures 9 and 10 of "
        "the paper. With few models they are unreliable: among four, swapping two neighbours "
        "changes a correlation by 0.2."
    )
    return page.Section("Which numbers agree", text, found, folded=True)


def _cases(run: Results, summary: Summary, lead: str) -> list[page.Section]:
    galleries: list[page.Block] = []
    maps: list[page.Block] = []
    sessions: list[page.Block] = []
    for dataset in summary.datasets:
        members = summary.of(lead, dataset)
        if members:
            galleries.append(fragile(run, members))
            maps += heat_maps(run, members)
            sessions += replays(run, members)
    made = []
    if galleries:
        text = "Objects with the widest span between the worst and the best sessions."
        made.append(page.Section("Hardest objects", text, galleries))
    if maps:
        text = (
            "IoU after a single click at each place of the object: dark where it fails. Only "
            "scenes that were clicked exhaustively."
        )
        made.append(page.Section("Worst click positions", text, maps))
    if sessions:
        text = "The worst and the best clicks of the most fragile objects, round by round."
        made.append(page.Section("Sessions", text, sessions))
    return made


def box_sections(run: Results) -> list[page.Section]:
    """All sections, in reading order."""
    summary, lead = Summary.of_run(run), run.plan.leading_protocol
    apart = parts.difference_section(summary.tested(lead), CARDS)
    text = (
        "Each side of the tight box is moved by at most a tenth of the box, and never by more "
        "than 20 pixels: the reach of the noise that Segment Anything was trained with. Worst "
        "and best are found by trying, coarse to fine, from the tight box on."
    )
    answers: list[page.Block] = []
    cases: list[page.Block] = []
    shifts: list[page.Block] = []
    for members in filter(None, (summary.of(lead, dataset) for dataset in summary.datasets)):
        total, broken = _out_of_order(members)
        kept = "does not hold" if broken else "holds"
        order = f"Min ≤ Base ≤ Max {kept} in all {total} cases, each object with each model."
        answers.append(page.Answer(span_sentence(summary, members, "box"), order))
        cases.append(fragile(run, members, "box"))
        shifts += shift_maps(run, members)
    tables = filter(None, area_tables(summary, "box"))
    return [
        page.Section("Results", text, [*answers, *tables]),
        *apart,
        page.Section("Hardest objects", "Objects with the widest span between boxes.", cases),
        page.Section(
            "Moving the whole box",
            "IoU when the tight box is moved as a whole, up to a tenth of its sides either way; "
            "the middle is no move.",
            shifts,
        ),
    ]
