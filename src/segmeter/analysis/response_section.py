"""The report's section on obedience: does the model obey clicks, can its score be trusted?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis import responses
from segmeter.analysis.costs import cost_of
from segmeter.analysis.report_cases import available_cases, session_frames
from segmeter.analysis.responses import Responses
from segmeter.core import sections as page
from segmeter.core.benchmarks import FEWEST_PAIRS, Difference, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.core.prompts import Click
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.calibration import Stopping, reliability, risk_coverage, stop_at
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles
from segmeter.stats.statistics import cards_by_name, comparisons, resampling

_CARDS = cards_by_name(responses.STATISTICS)
_FOLLOWS, _SCORES = (
    [card.name for card in cards] for cards in (responses.FOLLOWS, responses.SCORES)
)
_SHARE = page.Axis("% of clicks", low=0.0, high=1.0, percent=True)
_BY_CLASS = ("obeyed", "kept", "hurt", "score-error", "score-ece", "score-auroc", "score-aurc")
_MOST_POINTS, _MOST_CLASSES, _STOPS = 100, 8, (0.8, 0.9, 0.95)
_TEXT = (
    "A click is **obeyed** if its pixel has the click's label in the next mask, and **kept** if "
    "it still has it in later ones. A click **hurts** if it lowers IoU by more than one point. "
    "RICE is the gain in IoU relative to the largest possible gain (if negative, the loss "
    "relative to the previous IoU). A box is obeyed if the mask stays inside it (10 % of each "
    "side allowed), a stroke by its share of pixels. The model's own **score** is compared with "
    "IoU in all rounds: ECE is the mean gap between score and IoU in ten bins of equal size; risk "
    "over coverage is the mean of 1 - IoU if only the best-scored masks are accepted."
)
_BOLD = (
    " Bold in these tables: the best value if its interval overlaps no other, of at least "
    f"{FEWEST_PAIRS} images or scans; no test is behind it."
)


def response_sections(run: Results, *, corrections_only: bool = False) -> list[page.Section]:
    """Curves by round and sign, tables, calibration, and the sessions that obey least.

    `corrections_only` leaves out users who prompt once.
    """
    findings = parts.Findings(run)
    found = findings.groups(Responses, findings.lead)
    once = {g.user for g in found if corrections_only and np.nanmax(g.round, initial=1) == 1}
    found = [g for g in found if g.user not in once]
    cost = cost_of(run)
    axes = run.sql("select max(len(shape)) as axes from sessions")["axes"][0].as_py()
    # An object has one price by hand in images, unless that is by outline.
    price, classes = cost if axes == 2 and not cost.by_hand_px else None, _classes(run)
    fewest = max((card.fewest for card in findings.cards.values()), default=0)
    head = {page.Column("model"): lambda group: group.model}
    blocks: list[page.Block] = []
    compared = list(comparisons(found))
    for members in compared:
        where = ", ".join(filter(None, (members[0].dataset, members[0].user)))
        stem = re.sub(r"\W+", "-", where)
        shown = {"obedience": (_FOLLOWS, "clicks"), "score": (_SCORES, "the model's own score")}
        tables = {
            name: [page.Table.of(f"{name}-{stem}", members, head | columns, f"{where}: {what}")]
            for name, (names, what) in shown.items()
            if (columns := findings.columns(members, names))
        }
        made = [
            *tables.get("obedience", []),
            *_curves(members, where),
            *tables.get("score", []),
            *_calibration(members, where),
            *_stopping(members, where, stem, price),
            *by_class(members, where, stem, classes),
            *_replays(run, members, stem, 1 if len(compared) > 2 else 2),
        ]
        cases = len(set(members[0].clusters))
        made = [_without_limits(block) for block in made] if cases < fewest else made
        blocks += [_without_bold(block) for block in made] if cases < FEWEST_PAIRS else made
    if once:
        text = f"Users who prompt once correct nothing and are left out: {', '.join(sorted(once))}."
        blocks.append(page.Note(text))
    if not blocks:
        return []
    bold = _BOLD if any(len(members) > 1 for members in compared) else ""
    return [page.Section("Does the model obey clicks?", _TEXT + bold if found else "", blocks)]


def _without_limits(block: page.Block) -> page.Block:
    """The same numbers and curves without intervals: there are too few cases for them."""
    bare = partial(replace, low=None, high=None)
    match block:
        case page.Table(rows=rows):
            cells = [[bare(c) if isinstance(c, page.Value) else c for c in row] for row in rows]
            return replace(block, rows=cells)
        case page.Multiples(charts=charts):
            return replace(block, charts=[replace(c, marks=[*map(bare, c.marks)]) for c in charts])
    return block


def _without_bold(block: page.Block) -> page.Block:
    """The same without a best value: there are too few cases to name one."""
    if not isinstance(block, page.Table):
        return block
    return replace(block, columns=[replace(column, better="") for column in block.columns])


def followed_notes(run: Results) -> Sequence[page.Block]:
    """A sentence on every dataset where models differ significantly in clicks obeyed."""
    if len(run.plan.segmenters) < 2:
        return []
    numbers, notes, lead = parts.Findings(run).numbers, [], run.plan.leading_protocol
    found = [d for d in run.benchmark.differences(run, ["obeyed"]) if d.protocol == lead]
    for where, apart in grouped(found, lambda d: (d.dataset, d.user, d.protocol)).items():
        rows = {(key[0], name): row for (key, name), row in numbers.items() if key[1:] == where}
        sentence = followed_sentence(apart, rows)
        if sentence:
            notes.append(page.Note(f"{', '.join(filter(None, where[:2]))}: {sentence}"))
    return notes


def followed_sentence(
    differences: Iterable[Difference], rows: Mapping[tuple[str, str], SummaryRow]
) -> str:
    """The model that obeys more clicks (or boxes), if significantly; else empty.

    `rows` are those of the summary, by model and statistic.
    """
    found = [d for d in differences if d.statistic == "obeyed" and d.significant and d.value]
    if not found:
        return ""
    d = max(found, key=lambda d: abs(d.value))
    one = d if d.value > 0 else d.turned
    shares = [rows[model, d.statistic].value for model in (one.first, one.second)]
    return (
        f"**{one.first}** obeys {shares[0]:.0f} % of prompts, **{one.second}** {shares[1]:.0f} %; "
        "the difference is **significant**."
    )


def _curves(members: Sequence[Responses], where: str) -> list[page.Block]:
    """Shares of clicks obeyed, by round: all, positive and negative ones; and clicks kept."""
    rounds = int(max((np.nanmax(g.round, initial=1) for g in members), default=1))
    if rounds == 1 or not any(np.nansum(g.given) for g in members):
        return []
    kinds = {
        "Clicks obeyed": responses.OBEYED,
        "Positive clicks obeyed": responses.of_sign(True),
        "Negative clicks obeyed": responses.of_sign(False),
        "Earlier clicks kept": responses.KEPT,
    }
    charts = [
        page.Chart(f"{title}: {where}", parts.rounds_axis(rounds), _SHARE,
              [_line(g, *share(g), rounds) for g in members])
        for title, share in kinds.items()
    ]  # fmt: skip
    return [page.Multiples(charts)]


def _line(group: Responses, above: Floats, below: Floats, rounds: int) -> page.Line:
    """Ratios of sums by round, with percentiles over resampled images."""
    known = ~np.isnan(above) & ~np.isnan(below)
    numbers = np.nan_to_num(group.round).max(axis=0, initial=0)  # of its columns
    at = [numbers == k for k in range(1, rounds + 1)]
    held = [np.where(known, table, 0) for table in (above, below)]
    sums = [np.stack([table[:, columns].sum(axis=1) for columns in at], axis=1) for table in held]
    drawn = resampling(group)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = sums[0].sum(axis=0) / sums[1].sum(axis=0)
        draws = drawn.totals(sums[0]) / drawn.totals(sums[1])
    rows: dict[float, Interval] = {
        k + 1: percentiles(float(values[k]), draws[:, k], drawn.clusters)
        for k in np.flatnonzero(sums[1].sum(axis=0)).tolist()
    }
    return parts.line_of(group.model, rows)


def _calibration(members: Sequence[Responses], where: str) -> list[page.Block]:
    """Reliability diagram, and risk over coverage."""
    diagram: list[page.Line] = []
    curves = []
    for group in members:
        scores, iou = group.pairs()
        if len(scores) < 2:
            continue
        bins = reliability(scores, iou)
        means = [b.mean_score for b in bins], [b.mean_value for b in bins]
        diagram.append(page.Line(group.model, *means))
        risk = risk_coverage(scores, 1 - iou)
        places = np.unique(np.linspace(0, len(risk) - 1, _MOST_POINTS).astype(int))
        curves.append(page.Line(group.model, (places + 1) / len(risk), risk[places]))
    if not diagram:
        return []
    # Scores may exceed 1, and most lie close together: both axes span what there is.
    held = np.concatenate([[*line.x, *line.y] for line in diagram])
    low, high = float(np.floor(held.min() * 10) / 10), float(np.ceil(held.max() * 10) / 10)
    diagram.insert(0, page.Line("", np.array([low, high]), np.array([low, high]), role="guide"))
    axes = [page.Axis(f"mean {name}", low=low, high=high, digits=1) for name in ("score", "IoU")]
    shares = page.Axis("share of masks accepted", low=0.0, high=1.0, digits=1)
    risks = page.Axis("mean 1 - IoU", low=0.0, digits=2)
    title = f"Reliability of the score (grey: score = IoU): {where}"
    charts = [page.Chart(title, axes[0], axes[1], diagram),
              page.Chart(f"Risk over coverage: {where}", shares, risks, curves)]  # fmt: skip
    return [page.Multiples(charts)]


def _stopping(
    members: Sequence[Responses], where: str, stem: str, cost: CostModel | None
) -> list[page.Block]:
    """Costs of stopping, or of sending an object to a person, by the model's own score."""
    shown: dict[page.Column, Callable[[Stopping], Floats]] = {
        page.Column("clicks", "per object", 2): lambda found: found.clicks,
        page.Column(f"IoU >= {responses.GOAL:g}", "% of objects", 1): lambda found: (
            100 * found.right
        ),
        page.Column("score not reached", "%", 1): lambda found: 100 * (1 - found.passed),
        page.Column("stopped too early", "%", 1): lambda found: 100 * found.early,
        page.Column("wasted", "clicks", 2): lambda found: found.wasted_clicks,
        page.Column("below the best round", "IoU points", 1): lambda found: 100 * found.regret,
    }
    note = "If no round reaches the score, a person takes over after the last one."
    if cost is not None:
        shown[page.Column("time", "s per object", 1)] = lambda found: _seconds(found, cost)
        note += f" Masks below {responses.GOAL:g} are drawn by hand ({cost.by_hand:g} s)."
    rows: list[list[page.Cell]] = []
    for group in members:
        clusters, scores, iou = group.sessions()
        if not clusters:
            continue
        drawn = Resampling(clusters, seed=group.dataset)
        tried = np.unique(np.nanquantile(scores, np.linspace(0, 1, 21)))
        least = min(tried, key=lambda s: _seconds(stop_at(scores, iou, s), cost).mean())
        for limit, text in [*((s, f"{s:g}") for s in _STOPS), (least, f"{least:.3g}, cheapest")]:
            found = stop_at(scores, iou, limit)
            values = (page.Value.of(drawn.interval(of(found))) for of in shown.values())
            rows.append([group.model, text, *values])
    columns = [page.Column("model"), page.Column("stop at score"), *shown]
    caption = f"{where}: stop when the model's score passes a threshold"
    note += " The cheapest score was chosen on the same objects."
    return [page.Table(f"stopping-{stem}", columns, rows, caption, note)] if rows else []


def _seconds(found: Stopping, cost: CostModel | None) -> Floats:
    """A person's seconds per object; without a price by hand those of a typical cost model."""
    price = cost or CostModel()
    return price.per_object + price.click * found.clicks + price.by_hand * (1 - found.right)


def _classes(run: Results) -> dict[tuple[str, str, str], str]:
    """Class names of objects, by dataset, scene and target."""
    found = run.sql("""
        select dataset, scene, target, min(label) as label from sessions
        where label <> '' group by all order by all
    """)
    return {(r["dataset"], r["scene"], r["target"]): r["label"] for r in found.to_pylist()}


def by_class(
    members: Sequence[Responses], where: str, stem: str, labels: Mapping[tuple[str, str, str], str]
) -> list[page.Block]:
    """Obedience and calibration of the most frequent classes, of two objects or more."""
    rows: list[list[page.Cell]] = []
    every = Counter(labels.get((g.dataset, *key), "") for g in members for key in g.keys)
    least = 2 * len(members)
    classes = [name for name, n in every.most_common() if name and n >= least][:_MOST_CLASSES]
    for group in members if len(classes) > 1 else ():
        for name in classes:
            at = [i for i, k in enumerate(group.keys) if labels.get((group.dataset, *k)) == name]
            part = group.only(at)
            found = [_CARDS[card].estimate(part) if at else None for card in _BY_CLASS]
            values = [page.Value.of(None if one is None else one[0]) for one in found]
            rows.append([group.model, name, len(at), *values])
    columns = [page.Column("model"), page.Column("class"), page.Column("objects", digits=0)]
    columns += [parts.column_of(_CARDS[name]) for name in _BY_CLASS]
    caption = f"{where}: clicks and score by class"
    return [page.Table(f"classes-{stem}", columns, rows, caption)] if rows else []


def _replays(run: Results, members: Sequence[Responses], stem: str, each: int) -> list[page.Block]:
    """The sessions of each model in which most clicks were not obeyed or not kept."""
    made: list[page.Block] = []
    for number, group in enumerate(members):
        lost = np.nansum(group.given - group.obeyed, axis=1)
        lost = lost + np.nansum(group.earlier - group.kept, axis=1)
        order = np.argsort(-lost, kind="stable")
        worst = [group.keys[i] for i in order[:each] if lost[i] > 0]
        cases, _ = available_cases(run, [(group.dataset, key) for key in worst])
        for place, case in enumerate(cases):
            every = run.job_rows(group.model, group.dataset, case.key[0])
            users = [group.user] if group.user else [str(row["user"]) for row in every[:1]]
            frames = _noted(session_frames(run, group, case, users))
            wrong = sum(bool(frame.note) for frame in frames)
            caption_text = f"{group.model}: {wrong} of {len(frames)} masks disobey a click"
            key = f"ignored-{stem}-{number}-{place}"
            made += [case.replay(key, caption_text, frames, None, "")] if frames else []
    return made


def _noted(frames: Sequence[page.Frame]) -> list[page.Frame]:
    """Rounds with a note on the clicks so far that their masks do not obey."""
    given: list[tuple[int, Click]] = []
    made = []
    for number, frame in enumerate(frames, start=1):
        if len(frame.prompts) == 1 and isinstance(frame.prompts[0], Click):
            given.append((number, frame.prompts[0]))
        wrong = [str(k) for k, c in given if frame.mask[c.pixel] != c.positive]
        clicks = "click" if len(wrong) == 1 else "clicks"
        note = f"not obeyed: {clicks} {', '.join(wrong)}" if wrong else ""
        made.append(replace(frame, note=note))
    return made
