"""One volume for one model: all targets, users that fit and protocols, one row per round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import accumulate
from typing import Any

import numpy as np

from segmeter.benchmarks.volumes import PROMPTERS
from segmeter.benchmarks.volumes.tables import table_of, typed
from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.benchmarks import Results, Row
from segmeter.core.capabilities import CountsEffort, HasScanInfo, LosesPrompts, prompts_given_by
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.core.lockstep import SimulatedSession, Start, Trajectory
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, ProtocolName, in_protocol
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene, Volume
from segmeter.core.sessions import Round
from segmeter.core.users import User
from segmeter.measures.challenges import lesion_scores
from segmeter.measures.objects import dice
from segmeter.models.volumes.slicewise import SliceEncodedScene, Slicewise, on_volumes
from segmeter.users.simulation import rows_of, run_sessions, timed_encode, whole_path
from segmeter.users.starts import starts_of
from segmeter.users.volumes.intrabench_prompters import Prompter, Refiner
from segmeter.users.volumes.volume_clicks import AutopetUser


def work(segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once, then simulate every target with every user that fits, in every protocol."""
    if not isinstance(scene, Volume):
        raise BadInput(f"{scene.name} is an image; benchmark 'volumes' needs volumes")
    model = on_volumes(segmenter)
    users = fitting(segmenter, [catalogue.users.make(spec) for spec in plan.users])
    encoded, seconds_encode = timed_encode(model, scene)
    rows: list[Row] = []
    for protocol in plan.protocols:
        seen = in_protocol(encoded, protocol)
        draws = plan.options["draws"]
        drawn = {one.name: (one, user) for user in users for one in repeats(user, protocol, draws)}
        sessions = [
            SimulatedSession(target, one, protocol, start=start)
            for one, _ in drawn.values()
            for target, starts in zip(scene.targets, starts_of(scene, plan, model), strict=True)
            for start in starts
        ]
        records = run_sessions(scene, seen, sessions, plan)
        rows += [
            row | _prompter_columns(drawn[one.user.name][1], one.start)
            for one, row in _rows(scene, seen, records, seconds_encode, plan)
        ]
    return rows


def _prompter_columns(user: User, start: Start | None) -> Row:
    """The user that all draws are of, with its name and table in the paper."""
    label, table, source = user.name, 0, f" from {start.source}" if start else ""
    if isinstance(user, Prompter | Refiner):
        label, table = user.label, 0 if start else table_of(user)
    count = user.paper_interactions if isinstance(user, CountsEffort) else ""
    columns = ("prompter", "prompter_label", "paper_table", "paper_interactions")
    return dict(zip(columns, (user.name + source, label + source, table, count), strict=True))


def _rows(
    scene: Volume,
    encoded: EncodedScene,
    records: Sequence[Trajectory],
    seconds_encode: float,
    plan: Plan,
) -> Iterator[tuple[SimulatedSession, Row]]:
    """All columns that do not depend on the user's name, prompts that the network lost included."""
    # The original's case Dice of each user, class and round: instances re-matched.
    matched = {
        key: published_case_dice(*zip(*masks, strict=True))
        for key, masks in grouped_pairs(
            ((r.simulated.name, r.simulated.target.label, made.number),
             (r.simulated.target.mask, made.mask))
            for r in records for made in r.rounds
        ).items()
    }  # fmt: skip
    voxel_ml = math.prod(scene.spacing_mm or (1.0, 1.0, 1.0)) / 1000
    outlines = {t.id: whole_path(t, scene.spacing_mm) for t in scene.targets}
    # The darkest and brightest value that a network for slices sees.
    window = encoded.window if isinstance(encoded, SliceEncodedScene) else None
    low, high = window or (None, None)
    modality = scene.modality if isinstance(scene, HasScanInfo) else ""
    loses = encoded if isinstance(encoded, LosesPrompts) else None
    vanished = {t.id: loses.vanishes(t.mask) for t in scene.targets} if loses else {}
    for record in records:
        simulated, given = record.simulated, [made.prompts for made in record.rounds]
        rows = rows_of(scene, record, seconds_encode, plan.keep_masks)
        efforts = accumulate(_effort(simulated, made) for made in record.rounds)
        lost = loses.lost_prompts(given) if loses else [None] * len(given)
        for row, made, effort, outside in zip(rows, record.rounds, efforts, lost, strict=True):
            more: Row = {
                "modality": modality,
                "window_low": low,
                "window_high": high,
                "cluster": simulated.target.groups.get("patient", scene.id),
                "target_slices": int(simulated.target.mask.bits.any(axis=(1, 2)).sum()),
                "volume_ml": simulated.target.mask.area * voxel_ml,
                "outline_mm": outlines[simulated.target.id],
                "predicted_ml": made.mask.area * voxel_ml,
                "interactions": float(effort.interactions),
                "degrees_of_freedom": float(effort.degrees_of_freedom),
                **{f"effort_{name}": float(count) for name, count in asdict(effort).items()},
                "case_dice_published": matched[simulated.name, simulated.target.label, made.number],
                "prompts_outside_input": outside,
                "target_vanished": vanished.get(simulated.target.id),
            }
            yield simulated, row | more | _lesions(scene, simulated, made.mask)


def _lesions(scene: Volume, simulated: SimulatedSession, mask: Mask) -> Row:
    """Columns of autoPET's scores, for the users of that challenge."""
    if not isinstance(simulated.user, AutopetUser):
        return {}
    spacing = scene.spacing_mm or (1.0, 1.0, 1.0)
    bits = (simulated.target.mask.dense(), mask.dense())
    found = lesion_scores(*bits, spacing, simulated.protocol)
    return {"fpv_ml": found.fpv, "fnv_ml": found.fnv}


def _effort(one: SimulatedSession, made: Round) -> Effort:
    if isinstance(one.user, CountsEffort):
        return one.user.effort(one.target, one.protocol, made.number, made.prompts)
    return Effort(points=len(made.prompts))


def published_case_dice(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> float:
    """The original's `lw_dice` of a case: the mean of its entries.

    >>> one, two = Mask.box((9,), (0,), (3,)), Mask.box((9,), (4,), (7,))
    >>> published_case_dice([one, two], [one, Mask.box((9,), (7,), (9,))])
    0.333...
    >>> published_case_dice([one, two], [two, one])
    1.0
    """
    entries = published_entries(ground_truths, predictions)
    return float(np.mean(entries)) if entries else float("nan")


def published_entries(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> list[float]:
    """Dice of predictions and ground truths after re-matching, best first.

    Masks are matched to objects again: the assignment with the largest sum of Dice counts. An
    unmatched prediction is an entry of 0, and so is a ground truth, so that a miss costs two. An
    empty prediction for the first instance is dropped, a later one is not.
    """
    from scipy.optimize import linear_sum_assignment

    kept = [g for i, g in enumerate(predictions) if g or i > 0]
    pairs = [dice(t, g) if t and g else 0.0 for g in kept for t in ground_truths]
    table = np.array(pairs).reshape(len(kept), len(ground_truths))
    rows, columns = linear_sum_assignment(table, maximize=True)
    matched = [float(table[r, c]) for r, c in zip(rows, columns, strict=True) if table[r, c] > 0]
    left = len(kept) + len(ground_truths) - 2 * len(matched)
    return sorted(matched, reverse=True) + [0.0] * left


def fits(model: Model, user: User) -> bool:
    """Whether a model accepts the prompts of a user, in the places where it gives them.

    Prompters of slices and of the whole are kept apart; users who click one voxel a round
    may use either.
    """
    given = prompts_given_by(user) or {"click"}
    if not isinstance(user, Prompter):
        given |= {"click"}  # in later rounds
    if not given <= model.card.abilities:
        return False
    if isinstance(user, Prompter | Refiner):
        by_slices = isinstance(model, Slicewise) or "volume" not in model.card.abilities
        return user.whole is not by_slices
    return True


def fitting(model: Model, users: Sequence[User]) -> list[User]:
    """The users whose prompts a model takes, in their order; BadInput names others if none."""
    found = [user for user in users if fits(model, user)]
    if not found:
        kinds = sorted(model.card.abilities & {"click", "box", "scribble", "mask"})
        listed = [catalogue.users.make(name) for name in PROMPTERS]
        fit = ", ".join(user.name for user in listed if fits(model, user)) or "none of those listed"
        raise BadInput(
            f"model '{model.card.name}' takes {' and '.join(kinds)} prompts only, and no --user "
            f"that was given fits; these do: {fit}"
        )
    return found


def repeats(user: Any, protocol: ProtocolName, draws: int) -> list[User]:
    """The draws of a user that prompts at random; `published` has one fixed draw."""
    own = isinstance(user, Prompter)
    drawn = user.random if own else "repeat" in getattr(user, "__dataclass_fields__", ())
    if protocol == "published" or draws == 1 or not drawn:
        return [user]
    return [user.again(i) if own else replace(user, repeat=i) for i in range(1, draws + 1)]


def left_out(run: Results) -> list[str]:
    """Users that were not run for a model because it does not take their prompts."""
    rows = run.sql("select distinct model, prompter from sessions order by all").to_pylist()
    ran = grouped_pairs((row["model"], row["prompter"]) for row in rows)
    asked = []
    for spec in run.plan.users:
        with suppress(SegmeterError):  # a user that this version does not have
            asked += [] if ".py:" in spec.name else [catalogue.users.make(spec).name]
    missing = {m: [typed(n) for n in asked if n not in users] for m, users in ran.items()}
    return [
        f"{model} does not take the prompts of: {', '.join(names)}; not run"
        for model, names in missing.items()
        if names
    ]
