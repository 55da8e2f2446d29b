"""Playing a scene's points, with every candidate of the first round judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segmeter.benchmarks.sessions import rows_of, simulate_all
from segmeter.core.benchmarks import Row
from segmeter.core.lockstep import Trajectory
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.users import User

__all__ = ["oracle_iou", "simulate_points"]


def simulate_points(model: Model, scene: Scene, plan: Plan, users: Sequence[User]) -> list[Row]:
    """Look once, play every target with every user in every protocol, together.

    Rows have one more column, `oracle_iou`: in the first round the IoU of the best mask that
    the model offers, whichever it shows. It has no influence on later rounds.
    """
    records, seconds_encode = simulate_all(model, scene, plan, users, oracle_rounds=1)
    return [row for record in records for row in _rows(scene, record, seconds_encode, plan)]


def oracle_iou(record: Trajectory) -> float:
    """IoU of the best candidate of the first round."""
    first = record.rounds[0]
    return max([first.scores["iou"], *(scores["iou"] for scores in first.candidate_scores)])


def _rows(scene: Scene, record: Trajectory, seconds_encode: float, plan: Plan) -> Iterator[Row]:
    for row in rows_of(scene, record, seconds_encode, plan.keep_masks):
        yield row | {"oracle_iou": oracle_iou(record) if row["round"] == 1 else None}
