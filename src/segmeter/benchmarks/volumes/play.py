"""One volume for one model: all targets, users and readings, one row per round."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from segmeter.benchmarks.sessions import rows_of, timed_look
from segmeter.benchmarks.volumes.fitting import fitting
from segmeter.benchmarks.volumes.instances import published_case_dice
from segmeter.benchmarks.volumes.judging import judge_volume
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import CountsEffort, LosesPrompts
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Player, Trajectory, play
from segmeter.core.masks import Mask
from segmeter.core.models import Model, Reading, View, in_protocol
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene, Volume
from segmeter.core.users import User
from segmeter.models.volumes.slicewise import on_volumes

__all__ = ["play_volume"]


def play_volume(subject: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Look once, then play every target with every user that fits, in every reading."""
    if not isinstance(scene, Volume):
        raise BadInput(f"{scene.name} is a picture; benchmark 'volumes' needs volumes")
    model = on_volumes(subject)
    users = fitting(model, [catalogue.users.make(spec) for spec in plan.users])
    if not users:
        raise BadInput(
            f"model '{subject.card.name}' takes none of the prompts of the users asked for; "
            "name one that fits with --user"
        )
    view, seconds_look = timed_look(model, scene)
    rows: list[Row] = []
    for reading in plan.readings:
        seen = in_protocol(view, reading)
        records = _played(scene, seen, users, reading, plan)
        made = list(_rows(scene, records, seconds_look, plan.keep_masks))
        rows += _told_lost(made, records, seen) if isinstance(seen, LosesPrompts) else made
    return rows


def _told_lost(
    rows: Sequence[Row], records: Sequence[Trajectory], view: LosesPrompts
) -> Iterator[Row]:
    """The rows, with the prompts and targets that the view's network never saw."""
    targets = {r.player.target.id: r.player.target.mask for r in records}
    vanished = {name: view.vanishes(mask) for name, mask in targets.items()}
    lost = [n for r in records for n in view.lost_prompts([made.prompts for made in r.rounds])]
    for row, count in zip(rows, lost, strict=True):
        gone = vanished[row["target"]]
        yield row | {"prompts_lost": count, "lost_in_resampling": gone}


def _played(
    scene: Volume, seen: View, users: Sequence[User], reading: Reading, plan: Plan
) -> list[Trajectory]:
    players = [Player(target, user, reading) for user in users for target in scene.targets]
    judge = judge_volume(plan.measures, scene.spacing_mm)
    return play(scene, seen, players, plan.rounds, judge, seed=plan.seed)


def _rows(
    scene: Volume, records: Sequence[Trajectory], seconds_look: float, keep_masks: bool
) -> Iterator[Row]:
    matched = _matched(records)
    for record in records:
        player = record.player
        spent = _efforts(record)
        nominal = player.user.nominal if isinstance(player.user, CountsEffort) else ""
        rows = rows_of(scene, record, seconds_look, keep_masks)
        for row, made, work in zip(rows, record.rounds, spent, strict=True):
            yield row | {
                "cluster": player.target.groups.get("patient", scene.id),
                "voxels": player.target.mask.area,
                "nominal": nominal,
                "interactions": float(work.interactions),
                "degrees_of_freedom": float(work.degrees_of_freedom),
                "effort": json.dumps(asdict(work)),
                "case_dice_published": matched[player.user.name, player.target.label, made.number],
            }


def _efforts(record: Trajectory) -> list[Effort]:
    """What a person has spent by the end of each round."""
    player, total, spent = record.player, Effort(), []
    for made in record.rounds:
        if isinstance(player.user, CountsEffort):
            total += player.user.effort(player.target, player.reading, made.number, made.prompts)
        else:
            total += Effort(points=len(made.prompts))
        spent.append(total)
    return spent


def _matched(records: Sequence[Trajectory]) -> dict[tuple[str, str, int], float]:
    """The original's case Dice of each user, class and round: instances matched anew."""
    groups: dict[tuple[str, str, int], tuple[list[Mask], list[Mask]]] = {}
    for record in records:
        player = record.player
        for made in record.rounds:
            key = (player.user.name, player.target.label, made.number)
            truths, guesses = groups.setdefault(key, ([], []))
            truths.append(player.target.mask)
            guesses.append(made.mask)
    return {key: published_case_dice(*pair) for key, pair in groups.items()}
