"""People interacting with a model in the loop: clicks to content, final quality, seconds."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.core.sections import Answer, Cell, Column, Note, Section, Table, Value
from segmeter.stats.intervals import Resampling
from segmeter.study.interactions import Interaction, fit_costs, interactions

__all__ = ["interact_sections"]


def interact_sections(connection: sa.Connection) -> list[Section]:
    """How many clicks people needed, how good it got, how long it took."""
    found = interactions(connection)
    if not found:
        raise BadInput("nobody has finished segmenting yet: there is nothing to report")
    columns = (
        Column("model"),
        Column("sessions", digits=0),
        Column("clicks to content", digits=2, better="lower", plot=True),
        Column("final IoU", digits=3, better="higher", plot=True),
        Column("seconds of the person", digits=1, better="lower", plot=True),
        Column("content", "%", 0, percent=True),
    )
    models = sorted({each.model for each in found})
    rows = [_row(name, [e for e in found if e.model == name and e.steps]) for name in models]
    costs = fit_costs(found)
    sentence = f"People were content after **{np.mean([len(e.steps) for e in found]):.1f}** clicks."
    told = {name: f"{price.value:.2f} s" for name, price in costs.prices.items()}
    finding = f", finding the object {told['locate']} more" if "locate" in told else ""
    note = Note(
        f"A click takes {told['click']}{finding}, and agreeing {told.get('review', '0 s')} (means "
        f"of {costs.steps['click']} clicks of {costs.annotators} people, pauses left out); "
        "`segmeter study costs` writes them as a cost model. Intervals draw images anew."
    )
    table = Table("interactions", columns, rows)
    return [Section("Segmenting with a model", "", [Answer(sentence), table, note])]


def _row(name: str, some: list[Interaction]) -> tuple[Cell, ...]:
    drawn = Resampling([each.scene for each in some], seed=name)
    seconds = [
        (sum(s["user_ms"] + s["answer_ms"] for s in e.steps) + e.review_ms) / 1000 for e in some
    ]
    columns = (
        [float(len(each.steps)) for each in some],
        [each.steps[-1]["scores"]["iou"] for each in some],
        seconds,
    )
    values = [drawn.interval(column) for column in columns]
    cells = [Value(each.value, each.low, each.high) for each in values]
    return (name, len(some), *cells, float(np.mean([each.content for each in some])))
