"""The report's section on obedience: does the model follow clicks, can its score be trusted?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from segmeter.benchmarks.declared import Declared, Numbers
from segmeter.benchmarks.report_parts import (
    Case,
    cases_at_hand,
    column_of,
    frame_of,
    rounds_axis,
    session_rows,
)
from segmeter.benchmarks.responses import FIRST, SPANS, STATISTICS, Responses
from segmeter.core.benchmarks import Difference, Results, Row
from segmeter.core.errors import BadInput
from segmeter.core.sections import (
    Axis,
    Block,
    Cell,
    Chart,
    Column,
    Frame,
    Illustration,
    Line,
    Multiples,
    Note,
    Replay,
    Section,
    Table,
    Value,
)
from segmeter.stats.calibration import reliability, risk_coverage
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import cards_by_name, comparisons, resampling

_CARDS = cards_by_name(STATISTICS)
_FOLLOWS = tuple(name for name in _CARDS if not name.startswith(("score-", "rice-", "obeyed-")))
_SCORES = tuple(name for name in _CARDS if name.startswith("score-"))
_SHARE = Axis("% of clicks", low=0.0, high=1.0, percent=True)
_FRACTION = Axis("", low=0.0, high=1.0, digits=1)
_REPLAYED, _MOST_POINTS = 2, 100
_TEXT = (
    "A click is **obeyed** if its pixel has the click's label in the mask that follows; an earlier "
    "click is **kept** if it still has it. A click **hurts** if it lowers IoU by more than one "
    "point. RICE is progress relative to what was left to gain (or, if negative, the share of "
    "IoU that was lost). Boxes are obeyed if nothing of the mask is outside (10 % of each side "
    "allowed), strokes by their share of pixels. The model's own **score** is compared with IoU "
    "in all rounds: ECE is the mean gap between score and IoU in ten bins of equal size; risk "
    "over coverage is the mean of 1 - IoU if only the best-scored masks are accepted."
)


def response_sections(run: Results, benchmark: Declared) -> list[Section]:
    """Curves by round and sign, tables, calibration, and the sessions that obey least."""
    lead = run.plan.leading_protocol
    found = [g for g in benchmark.groups(run) if isinstance(g, Responses) and g.protocol == lead]
    numbers = benchmark.numbers(run)
    known = {name for (_, name) in numbers if name in _CARDS}
    blocks: list[Block] = []
    for members in comparisons(found):
        blocks += _blocks(run, members, numbers)
    if not blocks:
        return []
    if "obeyed" not in known:
        blocks.append(
            Note("Masks were not stored, so obedience of clicks is not known.", "warning")
        )
    return [Section("Does the model follow clicks?", _TEXT, blocks)]


def followed_sentence(differences: Iterable[Difference], value: Callable[[str, str], Value]) -> str:
    """Which model follows more clicks, where that is significant; empty where it is not."""
    found = [d for d in differences if d.measure == "obeyed" and d.significant and d.value]
    if not found:
        return ""
    d = max(found, key=lambda d: abs(d.value))
    one = d if d.value > 0 else d.turned
    shares = [value(model, d.measure).value or 0.0 for model in (one.first, one.second)]
    return (
        f"**{one.first}** follows {shares[0]:.0f} % of clicks, **{one.second}** {shares[1]:.0f} %, "
        "and that is **significant**."
    )


def _blocks(run: Results, members: Sequence[Responses], numbers: Numbers) -> list[Block]:
    where = ", ".join(filter(None, (members[0].dataset, members[0].user)))
    stem = re.sub(r"\W+", "-", where)
    blocks: list[Block] = [
        *_wrong_pixels(members, numbers, where),
        *_table(f"obedience-{stem}", _FOLLOWS, members, numbers, f"{where}: clicks"),
        *_curves(members, where),
        *_table(f"score-{stem}", _SCORES, members, numbers, f"{where}: the model's own score"),
        *_calibration(members, where),
    ]
    if not any(np.nansum(g.given) for g in members):
        return blocks
    return [*blocks, *_replays(run, members, stem)]


def _wrong_pixels(members: Sequence[Responses], numbers: Numbers, where: str) -> list[Block]:
    """The main numbers as a sentence per model: what annotators complain about."""
    told = []
    for group in members:
        rows = {name: numbers.get((group.key, name)) for name in (*_FOLLOWS, *_SCORES)}
        parts = [
            f"after {100 - row.value:.0f} % of clicks {span.replace('-', ' to ')}"
            for span in list(SPANS)[1:]
            if (row := rows[f"obeyed@{span}"]) is not None
        ]
        kept, hurt, error = (rows[f"{name}@{FIRST}"] for name in ("kept", "hurt", "score-error"))
        if not parts or kept is None or hurt is None:
            continue
        scored = "" if error is None else f"; the score is off by {error.value:.3f}"
        told.append(
            f"**{group.model}**: the clicked pixel is still wrong {' and '.join(parts)}; "
            f"{100 - kept.value:.0f} % of earlier clicks are wrong in a later mask and "
            f"{hurt.value:.0f} % of clicks lower IoU by more than a point{scored} (clicks 2 to 10)."
        )
    return [Note(f"{where}. " + "\n\n".join(told))] if told else []


def _table(
    name: str,
    wanted: Sequence[str],
    members: Sequence[Responses],
    numbers: Numbers,
    caption: str,
) -> list[Block]:
    shown = [s for s in wanted if any((g.key, s) in numbers for g in members)]
    if not shown:
        return []
    columns = [Column("model"), *(column_of(_CARDS[s]) for s in shown)]
    rows: list[list[Cell]] = [
        [g.model, *(Value.of(numbers.get((g.key, s))) for s in shown)] for g in members
    ]
    return [Table(name, columns, rows, caption)]


def _curves(members: Sequence[Responses], where: str) -> list[Block]:
    """Shares of clicks obeyed, by round: all, positive and negative ones; and clicks kept."""
    rounds = int(max((np.nanmax(g.round, initial=1) for g in members), default=1))
    if rounds == 1 or not any(np.nansum(g.given) for g in members):
        return []
    kinds: dict[str, Callable[[Responses], tuple[Floats, Floats]]] = {
        "Clicks obeyed": lambda g: (g.obeyed, g.given),
        "Positive clicks obeyed": lambda g: (np.where(g.positive == 1, g.obeyed, np.nan), g.given),
        "Negative clicks obeyed": lambda g: (np.where(g.positive == 0, g.obeyed, np.nan), g.given),
        "Earlier clicks kept": lambda g: (g.kept, g.earlier),
    }
    charts = [
        Chart(f"{title}: {where}", rounds_axis(rounds), _SHARE,
              [_line(g, *parts(g), rounds) for g in members])
        for title, parts in kinds.items()
    ]  # fmt: skip
    return [Multiples(charts)]


def _line(group: Responses, above: Floats, below: Floats, rounds: int) -> Line:
    """Ratios of sums by round, with percentiles over resampled images."""
    known = ~np.isnan(above) & ~np.isnan(below)
    at = [known & (group.round == k) for k in range(1, rounds + 1)]
    sums = [np.stack([np.where(a, t, 0).sum(axis=1) for a in at], axis=1) for t in (above, below)]
    drawn = resampling(group)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = sums[0].sum(axis=0) / sums[1].sum(axis=0)
        draws = drawn.totals(sums[0]) / drawn.totals(sums[1])
    shown = np.flatnonzero(sums[1].sum(axis=0))
    draws = np.where(np.isnan(draws), values, draws)
    low, high = np.quantile(draws[:, shown], (0.025, 0.975), axis=0)
    limits = (low, high) if drawn.clusters > 1 else (None, None)
    return Line(group.model, shown + 1, values[shown], *limits)


def _calibration(members: Sequence[Responses], where: str) -> list[Block]:
    """Reliability diagram, and risk over coverage."""
    scored = [g for g in members if len(g.pairs()[0]) > 1]
    if not scored:
        return []
    ends = np.array([0.0, 1.0])
    diagram: list[Line] = [Line("score = IoU", ends, ends, role="guide")]
    curves = []
    for group in scored:
        scores, iou = group.pairs()
        bins = reliability(scores, iou)
        x, y = ([getattr(b, n) for b in bins] for n in ("mean_score", "mean_value"))
        diagram.append(Line(group.model, x, y))
        risk = risk_coverage(scores, 1 - iou)
        places = np.unique(np.linspace(0, len(risk) - 1, _MOST_POINTS).astype(int))
        curves.append(Line(group.model, (places + 1) / len(risk), risk[places]))
    return [
        Multiples(
            [
                Chart(f"Reliability of the score: {where}", _named("mean score"),
                      _named("mean IoU"), diagram),
                Chart(f"Risk over coverage: {where}", _named("share of masks accepted"),
                      Axis("mean 1 - IoU", low=0.0, digits=2), curves),
            ]
        )
    ]  # fmt: skip


def _named(title: str) -> Axis:
    return Axis(title, low=0.0, high=1.0, digits=1)


def _replays(run: Results, members: Sequence[Responses], stem: str) -> list[Block]:
    """The sessions of each model in which most clicks were not obeyed or not kept."""
    made: list[Block] = []
    for number, group in enumerate(members):
        lost = np.nansum(group.given - group.obeyed, axis=1)
        lost = lost + np.nansum(group.earlier - group.kept, axis=1)
        order = np.argsort(-lost, kind="stable")
        worst = [group.keys[i] for i in order[:_REPLAYED] if lost[i] > 0]
        cases, _ = cases_at_hand(run, [(group.dataset, key) for key in worst])
        for place, case in enumerate(cases):
            made += _replay(run, group, case, f"ignored-{stem}-{number}-{place}")
    return made


def _replay(run: Results, group: Responses, case: Case, key: str) -> list[Block]:
    every = run.job_rows(group.model, group.dataset, case.key[0])
    users = [group.user] if group.user else [str(row["user"]) for row in every[:1]]
    rows = session_rows(run, group, case.key, users)
    try:
        frames = _frames(rows, case)
    except BadInput:  # a run that was damaged or made up
        return []
    wrong = sum(bool(frame.note) for frame in frames)
    title = f"{case.title}, {group.model}: {wrong} of {len(frames)} masks ignore a click"
    image = Illustration(case.scene.pixels, close=True)
    return [Replay(key, title, image, frames, case.target.mask)] if frames else []


def _frames(rows: Sequence[Row], case: Case) -> list[Frame]:
    if any(row["mask"] is None for row in rows):
        return []
    given: list[Row] = []
    frames = []
    for row in rows:
        frame = frame_of(row, case.scene.shape)
        given += [row] if row["y"] is not None else []
        wrong = [
            int(r["round"])
            for r in given
            if frame.mask[(round(r["y"]), round(r["x"]))] != r["positive"]
        ]
        listed = ", ".join(map(str, wrong))
        note = f"not followed: click {listed}" if wrong else ""
        frames.append(Frame(frame.mask, frame.prompts, frame.scores, frame.seconds, note))
    return frames
