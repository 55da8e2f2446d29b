"""Meta sections: the table of meta-measures, and the densities of each."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.seism.discrimination import MetaRow
from segmeter.benchmarks.seism.pairs import PairScores
from segmeter.core.sections import (
    Answer,
    Axis,
    Cell,
    Chart,
    Column,
    Label,
    Line,
    Multiples,
    Note,
    Section,
    Table,
    Value,
)
from segmeter.measures.meta import Densities, densities, human_discrimination
from segmeter.stats.intervals import Interval

__all__ = ["NAMES", "meta_sections"]

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
    "count as right, and each method stands at the setting that is best on these images.\n\n"
    "**corrected**: SIHD is balanced accuracy, so that chance is 50 in all three; ties count half, "
    "and each image is judged at a setting that was chosen on others."
)


def meta_sections(rows: Sequence[MetaRow], pairs: PairScores) -> list[Section]:
    """A table per protocol, best first, with the answer, then the densities of every measure."""
    ranked = sorted(rows, key=_rank)
    protocols = dict.fromkeys(row.protocol for row in ranked)
    tables = [_table([row for row in ranked if row.protocol == protocol]) for protocol in protocols]
    text = (
        "A person's partition against other people's of the same image, and of another. "
        "The further apart the two curves lie, the better the measure knows them."
    )
    charts = [_densities(name, pairs) for name in dict.fromkeys(row.measure for row in ranked)]
    return [
        Section("Meta-measures", blocks=[_answer(ranked), *tables, Note(_PROTOCOLS)]),
        Section("How scores of people are spread", text, [Multiples(charts)]),
    ]


def _rank(row: MetaRow) -> tuple[bool, float]:
    """Published before corrected, then best first."""
    value = row.overall if row.overall is not None else row.sihd.value if row.sihd else 0.0
    return (row.protocol != "published", -value)


def _answer(ranked: Sequence[MetaRow]) -> Answer:
    best = ranked[0]
    value = best.overall if best.overall is not None else best.sihd.value if best.sihd else 0.0
    what = "Global" if best.overall is not None else "SIHD"
    tells = "tells best" if len({row.measure for row in ranked}) > 1 else "tells them apart"
    sentence = f"{NAMES.get(best.measure, best.measure)} {tells} ({what} {100 * value:.1f} %)."
    return Answer(sentence, f"{best.protocol.capitalize()} protocol; intervals are in the table.")


def _table(ranked: Sequence[MetaRow]) -> Table:
    parts = ("SIHD", "SABD", "SISD", "Global")
    asked = [name for name in parts if any(_of(row, name) is not None for row in ranked)]
    columns = [Column(n, "%", digits=1, percent=True, better="higher") for n in asked]
    body: list[list[Cell]] = [
        [
            Label(NAMES.get(row.measure, row.measure), protocol=row.protocol),
            *(_of(row, name) for name in asked),
        ]
        for row in ranked
    ]
    return Table(
        f"meta-measures-{ranked[0].protocol}",
        [Column("measure"), *columns],
        body,
        caption=f"{ranked[0].protocol.capitalize()}: with 95 % intervals over images",
    )


def _of(row: MetaRow, name: str) -> Value | None:
    if name == "Global":
        return None if row.overall is None else Value(row.overall)
    found: Interval | None = getattr(row, name.lower())
    return None if found is None else Value(found.value, found.low, found.high)


def _densities(measure: str, pairs: PairScores) -> Chart:
    same, different = pairs.same[measure], pairs.different[measure]
    spread: Densities = densities(same, different)
    found = human_discrimination(same, different)
    top = float(max(spread.same.max(), spread.different.max()))
    return Chart(
        NAMES.get(measure, measure),
        Axis("bits apart" if measure == "voi" else "score"),
        Axis("density", 0),
        [
            Line("parted here", [found.threshold] * 2, [0, top], role="guide"),
            Line("another", spread.centres, spread.different),
            Line("same", spread.centres, spread.same),
        ],
        caption=f"SIHD {100 * found.sihd:.1f} % (published), "
        f"{100 * found.accuracy:.1f} % (corrected)",
    )
