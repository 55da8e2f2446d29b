"""Responses of models to prompts: whether they obey clicks, and whether their score is right.

Statistics of every benchmark with rounds; the rows of a run hold what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Group, Results
from segmeter.core.grouping import grouped
from segmeter.core.rows import SESSION_LISTS
from segmeter.core.scores_by_step import Tables, spread, words_of
from segmeter.measures.obedience import HURT, setbacks
from segmeter.stats.calibration import ScoredRows
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles, share_interval
from segmeter.stats.statistics import Better, Statistic, resampling

GOAL = 0.9
"""IoU at which a mask is good enough, for AUROC."""

SPANS = {"1": (1, 1), "2-4": (2, 4), "5-10": (5, 10)}
"""Rounds over which obedience is reported: the first, the next three, up to ten."""

FIRST = "2-10"
"""Rounds of corrections that most sessions have: runs with more rounds are compared over these."""

_LEAST_DRAWS, _DRAWS, _MOST_ROWS = 100, 400, 2_000_000  # resamples of statistics of a group


@dataclass(frozen=True)
class Responses(Group):
    """The rounds of a group, a line per object; NaN where a round was not run or is unknown.

    `round` numbers the rounds; several users that are reported together follow each other.
    """

    round: Floats
    iou: Floats
    score: Floats
    positive: Floats
    given: Floats
    obeyed: Floats
    earlier: Floats
    kept: Floats
    undone: Floats
    changed: Floats
    start: Floats
    order: Floats
    jitter: Floats
    jitter_spread: Floats

    @cached_property
    def before(self) -> Floats:
        """IoU before each round; before the first that of the starting mask, else 0."""
        last = np.concatenate([np.zeros((len(self.iou), 1)), self.iou[:, :-1]], axis=1)
        return np.where(self.round == 1, np.nan_to_num(self.start), last)

    @cached_property
    def rice(self) -> Floats:
        """Progress of each round relative to what was left (`measures.obedience.rice`)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(self.before >= 1, 0.0, (self.iou - self.before) / (1 - self.before))
            return np.where(self.iou >= self.before, gain, self.iou / self.before - 1)

    @cached_property
    def hurt(self) -> Floats:
        """Whether each round lowered IoU by more than one point.

        From the second round on, or from the first if there is a starting mask.
        """
        later = (self.round > 1) | (self.start > 0)
        known = ~np.isnan(self.iou) & ~np.isnan(self.before) & later
        return np.where(known, self.iou < self.before - HURT, np.nan)

    def pairs(self) -> tuple[Floats, Floats]:
        """Scores and IoU of all rounds that have both."""
        known = ~np.isnan(self.score) & ~np.isnan(self.iou)
        return self.score[known], self.iou[known]

    def sessions(self) -> tuple[list[str], Floats, Floats]:
        """Cluster, scores and IoU of each session that has scores; pooled users one by one."""
        starts = [*np.flatnonzero((self.round == 1).any(axis=0)), self.round.shape[1]]
        both, width = np.stack([self.score, self.iou]), int(np.diff(starts).max(initial=0))
        padded = np.full((2, len(starts) - 1, self.size, width), np.nan)
        for place, (a, b) in enumerate(pairwise(starts)):
            padded[:, place, :, : b - a] = both[:, :, a:b]
        tables = padded.reshape(2, -1, width)
        known = ~np.isnan(tables).any(axis=0).all(axis=1)
        clusters = np.tile(np.array(self.clusters), len(starts) - 1)[known]
        return clusters.tolist(), tables[0][known], tables[1][known]

    def only(self, lines: Sequence[int]) -> Responses:
        """The same of some objects."""
        keys, clusters = tuple(self.keys[i] for i in lines), tuple(self.clusters[i] for i in lines)
        tables = {name: getattr(self, name)[lines] for name in _TABLES}
        return replace(self, keys=keys, clusters=clusters, **tables)


_TABLES = [field.name for field in fields(Responses)[len(fields(Group)) :]]


def response_groups(
    run: Results, together: Callable[[str], str] = lambda user: user
) -> list[Responses]:
    """The responses of each model to the prompts of each user.

    `together` gives the name under which a user is reported; users of one name are pooled.
    """
    there = run.columns()
    quality = "iou" if "iou" in there else "dice"
    wanted = [c for c in (quality, "kinds_", *SESSION_LISTS) if c in there]
    every = [_group(t, quality, together(t.user)) for t in Tables.load(run, wanted)]
    return [_pooled(members) for members in grouped(every, lambda g: g.key).values()]


def _group(tables: Tables, quality: str, user: str) -> Responses:
    iou = tables.table(quality)
    rounds = iou.shape[1]
    kinds = tables.lists("kinds_")
    words, which = words_of(kinds.flatten())
    prompted = spread(kinds, np.array([w != "" for w in words], bool)[which], False, rounds)
    if quality == "dice":
        iou = iou / (2 - iou)
    unknown = np.full(iou.shape, np.nan)
    held = {
        name: tables.table(name, np.nan, rounds) if name in tables.lines.column_names else unknown
        for name in SESSION_LISTS
    }
    if len(np.unique(held["score"][~np.isnan(held["score"])])) < 2:
        held["score"] = unknown  # a constant is no score
    numbers = np.broadcast_to(np.arange(1.0, rounds + 1), iou.shape)
    every = (numbers, iou, *(held[name] for name in SESSION_LISTS))
    model, dataset, _, protocol = tables.key
    head = (model, dataset, user, protocol, tables.keys, tables.clusters)
    return Responses(*head, *(np.where(prompted, table, np.nan) for table in every))


def _pooled(members: Sequence[Responses]) -> Responses:
    """Users of one name as one group: an object's line holds the rounds of all of them."""
    first = members[0]
    if len(members) == 1:
        return first
    keys = tuple(dict.fromkeys(key for group in members for key in group.keys))
    clusters = {k: c for group in members for k, c in zip(group.keys, group.clusters, strict=True)}
    places = {key: line for line, key in enumerate(keys)}
    wide = np.full((len(_TABLES), len(keys), sum(g.round.shape[1] for g in members)), np.nan)
    start = 0
    for group in members:
        lines, end = [places[key] for key in group.keys], start + group.round.shape[1]
        wide[:, lines, start:end] = [getattr(group, name) for name in _TABLES]
        start = end
    tables = dict(zip(_TABLES, wide, strict=True))
    return replace(first, keys=keys, clusters=tuple(clusters[key] for key in keys), **tables)


Parts = Callable[[Responses], tuple[Floats, Floats]]


def _share(
    name: str, title: str, unit: str, parts: Parts, better: Better = "higher", percent: bool = True
) -> Statistic:
    """A ratio of sums over rounds; `parts` are both tables, NaN where a round does not count.

    A share of 0 or 100 % has Wilson's limits: resamples would all agree.

    Differences are tested on the linearised ratio, R + (y - R x) / mean x of each object, whose
    mean is the ratio itself.
    """

    def sums(group: Responses) -> tuple[Floats, Floats]:
        above, below = parts(group)
        known = ~np.isnan(above) & ~np.isnan(below)
        return np.where(known, above, 0).sum(axis=1), np.where(known, below, 0).sum(axis=1)

    def whole(group: Responses) -> Interval | None:
        above, below = sums(group)
        some = below > 0
        if not some.any():
            return None
        clusters = [c for c, s in zip(group.clusters, some, strict=True) if s]
        found = Resampling(clusters, seed=group.dataset).ratio(above[some], below[some])
        if percent and found.value in (0.0, 1.0) and not np.isnan(found.low):
            return share_interval(np.full(len(clusters), found.value), clusters)
        return found

    def linear(group: Responses) -> Floats:
        above, below = sums(group)
        if not below.any():
            return np.full(group.size, np.nan)
        ratio = above.sum() / below.sum()
        return np.asarray(ratio + (above - ratio * below) / below.mean())

    digits = 1 if percent else 3
    return Statistic(
        name, title, unit, digits, better, percent, whole=whole, paired=linear, of=Responses
    )


_index = partial(_share, percent=False)


def _words(low: int, high: int) -> str:
    return f"rounds {low} to {high}" if high > low else f"round {low}"


def _rounds(parts: Parts, low: int, high: int) -> Parts:
    """The same over some rounds only."""

    def limited(group: Responses) -> tuple[Floats, Floats]:
        above, below = parts(group)
        inside = (group.round >= low) & (group.round <= high)
        return np.where(inside, above, np.nan), below

    return limited


def of_sign(positive: bool) -> Parts:
    return lambda g: (np.where(g.positive == positive, g.obeyed, np.nan), g.given)


def _mean(values: Callable[[Responses], Floats]) -> Parts:
    def parts(group: Responses) -> tuple[Floats, Floats]:
        table = values(group)
        return table, np.where(np.isnan(table), np.nan, 1.0)

    return parts


def _resampled(
    prepared: Callable[[Responses], Callable[[Floats], Floats]],
) -> Callable[[Responses], Interval | None]:
    """A statistic of the whole group, with percentiles of what resampled images give.

    It is computed from how often each object counts, `(resamples, objects)`.
    """

    def whole(group: Responses) -> Interval | None:
        compute = prepared(group)
        value = float(compute(np.ones((1, group.size)))[0])
        if not np.isfinite(value):
            return None
        many = max(_LEAST_DRAWS, min(_DRAWS, _MOST_ROWS // max(1, group.iou.size)))
        drawn = resampling(group, many)
        return percentiles(value, drawn.statistic(compute, group.iou.size), drawn.clusters)

    return whole


def _score(
    name: str, title: str, unit: str, compute: Callable[[ScoredRows, Floats], Floats],
    better: Better = "lower",
) -> Statistic:  # fmt: skip
    def prepared(group: Responses) -> Callable[[Floats], Floats]:
        objects, _ = np.nonzero(~np.isnan(group.score) & ~np.isnan(group.iou))
        if len(objects) < 2:
            return lambda counts: np.full(len(counts), np.nan)
        rows = ScoredRows(*group.pairs())

        def of_resamples(counts: Floats) -> Floats:
            weights = counts[:, objects]
            return np.where(weights.sum(axis=1) > 1, compute(rows, weights), np.nan)

        return of_resamples

    return Statistic(name, title, unit, 3, better, whole=_resampled(prepared), of=Responses)


def _recovery(group: Responses) -> Callable[[Floats], Floats]:
    """Median number of rounds until IoU is back (Kaplan and Meier); none where half never are."""
    falls = (np.fmax.accumulate(group.iou, axis=1) > group.iou).any(axis=1)
    found = [
        (line, s.rounds_to_recover or len(session) - s.round, s.rounds_to_recover is not None)
        for line in np.flatnonzero(falls)
        for session in np.split(group.iou[line], np.flatnonzero(group.round[line] == 1))
        for s in setbacks(session[~np.isnan(session)].tolist())
    ]
    if not found:
        return lambda counts: np.full(len(counts), np.nan)
    places, lasted, recovered = (np.array(column) for column in zip(*found, strict=True))
    return lambda counts: _median_times(lasted, recovered.astype(bool), counts[:, places])


def _median_times(lasted: Floats, recovered: npt.NDArray[np.bool_], weights: Floats) -> Floats:
    """The first time by which half have recovered in each resample; infinite if half never do."""
    left, median = np.ones(len(weights)), np.full(len(weights), np.inf)
    for time in np.unique(lasted[recovered]):
        at_risk = weights[:, lasted >= time].sum(axis=1)
        ended = weights[:, (lasted == time) & recovered].sum(axis=1)
        left *= 1 - ended / np.maximum(at_risk, 1)
        median[np.isinf(median) & (left <= 0.5)] = time
    return median


OBEYED: Parts = lambda g: (g.obeyed, g.given)  # noqa: E731
KEPT: Parts = lambda g: (g.kept, g.earlier)  # noqa: E731
_HURT = _mean(lambda g: g.hurt)
_ERROR = _mean(lambda g: np.abs(g.score - g.iou))

FOLLOWS = [
    _share("obeyed", "clicks obeyed", "% of clicks", OBEYED),
    *(
        _share(f"obeyed@{span}", f"obeyed, {_words(*limits)}", "% of clicks",
               _rounds(OBEYED, *limits))
        for span, limits in SPANS.items()
    ),
    _share("kept", "earlier clicks kept", "% of earlier clicks", KEPT),
    _share(f"kept@{FIRST}", f"kept, {_words(2, 10)}", "% of earlier clicks", _rounds(KEPT, 2, 10)),
    _share("undone", "rounds that undo a click", "% of rounds",
           _mean(lambda g: np.where(g.earlier > 0, g.undone > 0, np.nan)), "lower"),
    _share("hurt", "clicks that hurt", "% of clicks 2 on", _HURT, "lower"),
    _share(f"hurt@{FIRST}", f"hurt, {_words(2, 10)}", "% of clicks",
           _rounds(_HURT, 2, 10), "lower"),
    _share("drop", "drop per click that hurts", "IoU points",
           _mean(lambda g: np.where(g.hurt == 1, g.before - g.iou, np.nan)), "lower"),
    Statistic("recovery", "rounds to recover", "median", 0, "lower",
              whole=_resampled(_recovery), of=Responses),
    _share("stuck", "mask did not change", "% of clicks 2 on", _mean(lambda g: np.where(
        (g.round > 1) & ~np.isnan(g.changed), (g.changed == 0) & (g.iou < GOAL), np.nan
    )), "lower"),
    _share("start", "IoU of the starting mask", "%",
           _mean(lambda g: np.where(g.round == 1, g.start, np.nan))),
    _index("order", "same mask in other orders", "mean IoU", _mean(lambda g: g.order)),
    _index("jitter", "same mask 2 px away", "mean IoU", _mean(lambda g: g.jitter)),
    _share("jitter-spread", "range of IoU 2 px away", "IoU points",
           _mean(lambda g: g.jitter_spread), "lower"),
    _index("rice", "RICE", "mean", _mean(lambda g: g.rice)),
]  # fmt: skip
"""Obedience and progress."""

DETAILS = [
    _share("obeyed-positive", "positive obeyed", "% of clicks", of_sign(True)),
    _share("obeyed-negative", "negative obeyed", "% of clicks", of_sign(False)),
    _index("rice-gain", "RICE, gains", "mean", _mean(lambda g: np.maximum(g.rice, 0))),
    _index("rice-loss", "RICE, losses", "mean", _mean(lambda g: np.minimum(g.rice, 0))),
]
"""Parts of these, which the page shows as curves."""

SCORES = [
    _index("score-error", "error of the score", "mean |score - IoU|", _ERROR, "lower"),
    _index(f"score-error@{FIRST}", f"error, {_words(2, 10)}", "mean |score - IoU|",
           _rounds(_ERROR, 2, 10), "lower"),
    _index("score-bias", "bias of the score", "mean score - IoU",
           _mean(lambda g: g.score - g.iou), ""),
    _score("score-ece", "ECE of the score", "IoU, 10 bins",
           ScoredRows.calibration_error),
    _score("score-auroc", f"AUROC of IoU >= {GOAL:g}", "",
           lambda rows, weights: rows.area_under_roc(weights, GOAL), "higher"),
    _score("score-rank", "rank correlation", "Spearman", ScoredRows.rank_correlation, "higher"),
    _score("score-aurc", "risk over coverage", "mean 1 - IoU",
           ScoredRows.area_under_risk),
]  # fmt: skip
"""Calibration of the model's own score."""

STATISTICS = [*FOLLOWS, *DETAILS, *SCORES]
