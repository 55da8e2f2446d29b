"""One volume for one model: all targets, users and protocols, one row per round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from segmeter.benchmarks.sessions import rows_of, timed_encode
from segmeter.benchmarks.volumes.fitting import fitting, repeated, takes_none
from segmeter.benchmarks.volumes.judging import Surfaces, judge_volume, published_case_dice
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import CountsEffort, KnowsItsScan, LosesPrompts
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, Trajectory, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, ProtocolName, in_protocol
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene, Volume
from segmeter.core.users import User
from segmeter.models.volumes.slicewise import SliceEncodedScene, on_volumes

__all__ = ["simulate_volume"]


def simulate_volume(segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Look once, then play every target with every user that fits, in every protocol."""
    if not isinstance(scene, Volume):
        raise BadInput(f"{scene.name} is an image; benchmark 'volumes' needs volumes")
    model = on_volumes(segmenter)
    users = fitting(model, [catalogue.users.make(spec) for spec in plan.users])
    if not users:
        raise BadInput(takes_none(segmenter))
    encoded, seconds_encode = timed_encode(model, scene)
    rows: list[Row] = []
    for protocol in plan.protocols:
        seen = in_protocol(encoded, protocol)
        drawn = repeated(users, protocol, plan.options["draws"])
        records = _played(scene, seen, drawn, protocol, plan)
        shown = _shown(scene, seen)
        made = [row | shown for row in _rows(scene, records, seconds_encode, plan.keep_masks)]
        rows += _told_lost(made, records, seen) if isinstance(seen, LosesPrompts) else made
    return rows


def _shown(scene: Volume, encoded: EncodedScene) -> Row:
    """Modality, and the darkest and brightest value that a network for slices sees."""
    window = encoded.window if isinstance(encoded, SliceEncodedScene) else None
    low, high = window or (None, None)
    modality = scene.modality if isinstance(scene, KnowsItsScan) else ""
    return {"modality": modality, "window_low": low, "window_high": high}


def _told_lost(
    rows: Sequence[Row], records: Sequence[Trajectory], encoded: LosesPrompts
) -> Iterator[Row]:
    """The rows, with the prompts and targets that the view's network never saw."""
    targets = {r.simulated.target.id: r.simulated.target.mask for r in records}
    vanished = {name: encoded.vanishes(mask) for name, mask in targets.items()}
    lost = [n for r in records for n in encoded.lost_prompts([made.prompts for made in r.rounds])]
    for row, count in zip(rows, lost, strict=True):
        gone = vanished[row["target"]]
        yield row | {"prompts_outside_input": count, "target_vanished": gone}


def _played(
    scene: Volume, seen: EncodedScene, users: Sequence[User], protocol: ProtocolName, plan: Plan
) -> list[Trajectory]:
    simulated_sessions = [
        SimulatedSession(target, user, protocol) for user in users for target in scene.targets
    ]
    judge = judge_volume(plan.measures, scene.spacing_mm, Surfaces.of(plan.options))
    return simulate(scene, seen, simulated_sessions, plan.rounds, judge, seed=plan.seed)


def _rows(
    scene: Volume, records: Sequence[Trajectory], seconds_encode: float, keep_masks: bool
) -> Iterator[Row]:
    matched = _matched(records)
    voxel_ml = math.prod(scene.spacing_mm or (1.0, 1.0, 1.0)) / 1000
    for record in records:
        simulated = record.simulated
        spent = _efforts(record)
        paper_interactions = (
            simulated.user.paper_interactions if isinstance(simulated.user, CountsEffort) else ""
        )
        rows = rows_of(scene, record, seconds_encode, keep_masks)
        for row, made, work in zip(rows, record.rounds, spent, strict=True):
            yield row | {
                "cluster": simulated.target.groups.get("patient", scene.id),
                "target_slices": int(simulated.target.mask.bits.any(axis=(1, 2)).sum()),
                "volume_ml": simulated.target.mask.area * voxel_ml,
                "predicted_ml": made.mask.area * voxel_ml,
                "paper_interactions": paper_interactions,
                "interactions": float(work.interactions),
                "degrees_of_freedom": float(work.degrees_of_freedom),
                **{f"effort_{name}": float(count) for name, count in asdict(work).items()},
                "case_dice_published": matched[
                    simulated.user.name, simulated.target.label, made.number
                ],
            }


def _efforts(record: Trajectory) -> list[Effort]:
    """Effort of a person by the end of each round."""
    simulated, total, spent = record.simulated, Effort(), []
    for made in record.rounds:
        if isinstance(simulated.user, CountsEffort):
            total += simulated.user.effort(
                simulated.target, simulated.protocol, made.number, made.prompts
            )
        else:
            total += Effort(points=len(made.prompts))
        spent.append(total)
    return spent


def _matched(records: Sequence[Trajectory]) -> dict[tuple[str, str, int], float]:
    """The original's case Dice of each user, class and round: instances re-matched."""
    groups: dict[tuple[str, str, int], tuple[list[Mask], list[Mask]]] = {}
    for record in records:
        simulated = record.simulated
        for made in record.rounds:
            key = (simulated.user.name, simulated.target.label, made.number)
            ground_truths, predictions = groups.setdefault(key, ([], []))
            ground_truths.append(simulated.target.mask)
            predictions.append(made.mask)
    return {key: published_case_dice(*pair) for key, pair in groups.items()}
