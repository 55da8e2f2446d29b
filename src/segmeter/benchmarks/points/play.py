"""Playing a scene's points, with every candidate of the first round judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from time import perf_counter

from segmeter.benchmarks.sessions import judge_by, rows_of
from segmeter.core.benchmarks import Row
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.sessions import Player, Trajectory, play
from segmeter.core.users import User

__all__ = ["oracle_iou", "play_points"]


def play_points(model: Model, scene: Scene, plan: Plan, users: Sequence[User]) -> list[Row]:
    """Look once, play every target with every user in every reading, together.

    Rows have one more column, `oracle_iou`: in the first round the IoU of the best mask that
    the model offers, whichever it shows. It has no influence on later rounds.
    """
    start = perf_counter()
    view = model.look(scene)
    seconds_look = perf_counter() - start
    players = [
        Player(target, user, reading)
        for target in scene.targets
        for user in users
        for reading in plan.readings
    ]
    judge = judge_by(plan.measures)
    threads = ThreadPoolExecutor(plan.threads) if plan.threads > 1 else nullcontext()
    with threads as pool:
        records = play(
            scene, view, players, plan.rounds, judge, seed=plan.seed, pool=pool, oracle_rounds=1
        )
    return [row for record in records for row in _rows(scene, record, seconds_look, plan)]


def oracle_iou(record: Trajectory) -> float:
    """IoU of the best candidate of the first round."""
    first = record.rounds[0]
    return max([first.scores["iou"], *(scores["iou"] for scores in first.candidate_scores)])


def _rows(scene: Scene, record: Trajectory, seconds_look: float, plan: Plan) -> Iterator[Row]:
    for row in rows_of(scene, record, seconds_look, plan.keep_masks):
        yield row | {"oracle_iou": oracle_iou(record) if row["round"] == 1 else None}
