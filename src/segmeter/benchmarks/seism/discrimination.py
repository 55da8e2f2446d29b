"""The meta-measures of a set of measures: people, methods and baselines of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segmeter.benchmarks.seism.pairs import BOUNDARY, MethodSweeps, PairScores
from segmeter.core import sections as page
from segmeter.core.models import ProtocolName
from segmeter.measures.meta import (
    Densities,
    against_baselines,
    against_swapped,
    densities,
    global_score,
    human_discrimination,
)
from segmeter.stats.intervals import Interval, Resampling


@dataclass(frozen=True, slots=True)
class MetaRow:
    """One measure judged: each meta-measure with its interval, where it was asked for."""

    measure: str
    protocol: ProtocolName
    sihd: Interval | None
    sabd: Interval | None = None
    sisd: Interval | None = None

    @property
    def overall(self) -> float | None:
        """Global, the mean of the three."""
        if self.sihd is None or self.sabd is None or self.sisd is None:
            return None
        return global_score(self.sihd.value, self.sabd.value, self.sisd.value)

    @property
    def value(self) -> float:
        """Global, or SIHD where that alone was asked for; rows are ranked by it."""
        return self.overall if self.overall is not None else self.sihd.value if self.sihd else 0.0


def meta_rows(
    pairs: PairScores | None,
    methods: Sequence[MethodSweeps],
    baselines: Sequence[MethodSweeps],
    measures: Sequence[str],
    protocols: Sequence[ProtocolName],
) -> list[MetaRow]:
    """The table: SIHD from people, SABD and SISD from methods and baselines.

    The corrected protocol takes settings from the sweeps' training images, or for each image from
    all others.
    """
    return [
        MetaRow(
            measure,
            protocol,
            _sihd(pairs, measure, protocol) if pairs is not None else None,
            *_of_methods(methods, baselines, measure, protocol),
        )
        for measure in measures
        for protocol in protocols
    ]


def densities_of(pairs: PairScores) -> dict[str, Densities]:
    """How the scores of same and different pairs are spread, by measure (Fig. 5)."""
    return {m: densities(pairs.same[m], pairs.different[m]) for m in pairs.same}


def _sihd(pairs: PairScores, measure: str, protocol: ProtocolName) -> Interval:
    """The decision is right for both pairs of an annotation, for one or for none."""
    found = human_discrimination(pairs.same[measure], pairs.different[measure])
    right = (found.right_same.astype(float) + found.right_different) / 2
    limits = Resampling(pairs.images, seed="sihd").interval(right)
    if protocol == "corrected":
        return Interval(found.accuracy, limits.low, limits.high)
    return Interval(found.sihd, 2 * limits.low - 1, 2 * limits.high - 1)


def _of_methods(
    methods: Sequence[MethodSweeps],
    baselines: Sequence[MethodSweeps],
    measure: str,
    protocol: ProtocolName,
) -> tuple[Interval | None, Interval | None]:
    """SABD, where there are baselines, and SISD."""
    if not methods or measure not in methods[0].own:
        return None, None
    own, others = ([m.sweep(measure) for m in some] for some in (methods, baselines))
    away = [m.sweep(measure, swapped=True) for m in methods]
    drawn = Resampling(methods[0].images, seed="meta")
    swapped = drawn.interval(against_swapped(own, away, protocol).mean(axis=0))
    if not baselines:
        return None, swapped
    return drawn.interval(against_baselines(own, others, protocol).mean(axis=0)), swapped


def known_measures() -> list[str]:
    """Measures that can be judged, those of boundaries last."""
    from segmeter.measures.partitions import FORMULAS

    return [*FORMULAS, "fr", "fop", *BOUNDARY]


NAMES = {
    "fb": "F_b, boundaries",
    "fb-contour": "F_b, contour grid",
    "fop": "F_op, objects and parts",
    "fr": "F_r, pairs of pixels",
    "ssc": "covering of the ground truth",
    "sc": "covering of the prediction",
    "dhd": "directional Hamming, dhd",
    "sdhd": "directional Hamming, sdhd",
    "vd": "van Dongen",
    "bgm": "bipartite matching, BGM",
    "bce": "bidirectional consistency, BCE",
    "gce": "global consistency, GCE",
    "lce": "local consistency, LCE",
    "voi": "variation of information",
    "nvoi": "normalised VoI",
    "pri": "Rand index, PRI",
}

_PROTOCOLS = (
    "**published**: SIHD is 1 less both error rates, so that chance is 0; in SABD and SISD ties "
    "count as right, and each method uses the setting that is best on these images.\n\n"
    "**corrected**: SIHD is balanced accuracy, so that chance is 50 in all three; ties count half, "
    "and each image is judged at a setting that was chosen on others."
)


def meta_sections(rows: Sequence[MetaRow], pairs: PairScores) -> list[page.Section]:
    """A table per protocol, best first, with the answer, then the densities of every measure."""
    ranked = sorted(rows, key=lambda row: (row.protocol != "published", -row.value))
    protocols = dict.fromkeys(row.protocol for row in ranked)
    tables = [
        _meta_table([row for row in ranked if row.protocol == protocol]) for protocol in protocols
    ]
    text = (
        "Scores of a human partition against those of other people for the same image, and for "
        "another image. The further apart the two curves, the better the measure."
    )
    charts = [_densities(name, pairs) for name in dict.fromkeys(row.measure for row in ranked)]
    return [
        page.Section("Meta-measures", blocks=[_answer(ranked), *tables, page.Note(_PROTOCOLS)]),
        page.Section("How scores of people are spread", text, [page.Multiples(charts)]),
    ]


def _answer(ranked: Sequence[MetaRow]) -> page.Answer:
    best = ranked[0]
    what = "Global" if best.overall is not None else "SIHD"
    tells = "tells best" if len({row.measure for row in ranked}) > 1 else "tells them apart"
    sentence = f"{NAMES.get(best.measure, best.measure)} {tells} ({what} {100 * best.value:.1f} %)."
    return page.Answer(
        sentence, f"{best.protocol.capitalize()} protocol; intervals are in the table."
    )


_META = {"sihd": "SIHD", "sabd": "SABD", "sisd": "SISD", "overall": "Global"}


def _meta_table(ranked: Sequence[MetaRow]) -> page.Table:
    def cell(row: MetaRow, name: str) -> page.Cell:
        found: Interval | float | None = getattr(row, name)
        return page.Value.of(found) if isinstance(found, Interval) else found

    shown = [n for n in _META if any(getattr(row, n) is not None for row in ranked)]
    columns = [page.Column(_META[n], "%", digits=1, percent=True, better="higher") for n in shown]
    names = [NAMES.get(row.measure, row.measure) for row in ranked]
    rows: list[list[page.Cell]] = [
        [page.Label(name, protocol=row.protocol), *(cell(row, n) for n in shown)]
        for name, row in zip(names, ranked, strict=True)
    ]
    protocol = ranked[0].protocol
    caption = f"{protocol.capitalize()}: with 95 % intervals over images"
    return page.Table(
        f"meta-measures-{protocol}", [page.Column("measure"), *columns], rows, caption
    )


def _densities(measure: str, pairs: PairScores) -> page.Chart:
    same, different = pairs.same[measure], pairs.different[measure]
    spread: Densities = densities(same, different)
    found = human_discrimination(same, different)
    top = float(max(spread.same.max(), spread.different.max()))
    return page.Chart(
        NAMES.get(measure, measure),
        page.Axis("bits apart" if measure == "voi" else "score"),
        page.Axis("density", 0),
        [
            page.Line("parted here", [found.threshold] * 2, [0, top], role="guide"),
            page.Line("another", spread.centres, spread.different),
            page.Line("same", spread.centres, spread.same),
        ],
        caption=f"SIHD {100 * found.sihd:.1f} % (published), "
        f"{100 * found.accuracy:.1f} % (corrected)",
    )
