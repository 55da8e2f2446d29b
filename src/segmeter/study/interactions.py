"""Interactions: what people did with a model in the loop, as a run of the benchmark `noc`.

The n-th person who segmented a target becomes the user `person-n`, so that real people stand
beside simulated ones in the same report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.benchmarks.sessions import rows_of
from segmeter.core.annotation_events import Timing
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, Trajectory
from segmeter.core.masks import Mask
from segmeter.core.plans import Job
from segmeter.core.plans import Plan as RunPlan
from segmeter.core.prompts import Click, Prompt
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.core.scenes import Image
from segmeter.core.sessions import Round
from segmeter.core.users import Observation
from segmeter.stats.costs import FittedCosts
from segmeter.stats.costs import fit_costs as fit
from segmeter.store.folder import RunFolder
from segmeter.study import tables as t
from segmeter.study.plan import Plan
from segmeter.study.segmenting import MEASURES
from segmeter.study.stimuli import Stimuli

__all__ = ["Interaction", "fit_costs", "interactions", "write_run"]


@dataclass(frozen=True, slots=True)
class Interaction:
    """One person, one target, one model: the steps, and whether they were content."""

    person: str
    scene: str
    target: str
    model: str
    content: bool
    review_ms: float
    steps: tuple[dict[str, Any], ...]


def interactions(connection: sa.Connection) -> list[Interaction]:
    """All finished ones, in the order in which they were finished."""
    steps: dict[str, list[dict[str, Any]]] = {}
    asked = sa.select(t.steps.c.trial, t.steps.c.step).order_by(t.steps.c.trial, t.steps.c.number)
    for trial, step in connection.execute(asked):
        steps.setdefault(trial, []).append(json.loads(step))
    rows = (
        sa.select(
            t.trials.c.id,
            t.trials.c.answer,
            t.batches.c.person,
            t.tasks.c.scene,
            t.tasks.c.target,
            t.tasks.c.source,
        )
        .join(t.tasks, t.tasks.c.id == t.trials.c.task)
        .join(t.batches, t.batches.c.id == t.trials.c.batch)
        .where(t.trials.c.counts == 1)
        .order_by(t.trials.c.answered, t.trials.c.id)
    )
    found = []
    for row in connection.execute(rows).mappings():
        answer = json.loads(row["answer"])
        named = (row["person"], row["scene"], row["target"], row["source"])
        done = tuple(steps.get(row["id"], []))
        found.append(Interaction(*named, answer["content"], answer["review_ms"], done))
    return found


def fit_costs(found: Sequence[Interaction]) -> FittedCosts:
    """The cost model's seconds from what people really took, as from a log of annotation."""
    if not any(each.steps for each in found):
        raise BadInput("nobody has clicked yet: there is nothing to fit costs from")
    return fit([timing for each in found for timing in _timings(each)])


def _timings(each: Interaction) -> Iterator[Timing]:
    for number, step in enumerate(each.steps):
        seconds = step["user_ms"] / 1000
        yield Timing(each.person, each.scene, "click", number == 0, seconds)
    if each.steps:
        yield Timing(each.person, each.scene, "done", False, each.review_ms / 1000)


def write_run(connection: sa.Connection, plan: Plan, stimuli: Stimuli, folder: Path) -> Path:
    """A run of `noc` that `segmeter report` and `compare` read."""
    found = interactions(connection)
    if not found:
        raise BadInput("nobody has finished segmenting yet: there is nothing to write")
    numbers = _numbered(found)
    users = tuple(f"person-{k}" for k in range(1, 1 + max(numbers)))
    run_plan = RunPlan(
        "noc",
        tuple(Spec.parse(model) for model in plan.models),
        (Spec.parse(plan.dataset),),
        users=tuple(Spec(user) for user in users),
        rounds=plan.rounds,
        protocols=("corrected",),
        measures=MEASURES,
    )
    jobs: dict[tuple[str, str], list[tuple[Interaction, str]]] = {}
    for each, number in zip(found, numbers, strict=True):
        jobs.setdefault((each.model, each.scene), []).append((each, f"person-{number}"))
    schema = SESSION_ROWS.plus(columns_of_measures(MEASURES))
    with RunFolder.claimed(folder, run_plan) as run:
        for (model, scene), played in jobs.items():
            job = Job(Spec.parse(model), Spec.parse(plan.dataset), scene)
            rows = [job.identity() | row for row in _rows(stimuli, scene, played, plan)]
            run.finish(job, rows, {"segmenter": model, "people": "real"}, schema)
    return folder


def _numbered(found: Sequence[Interaction]) -> list[int]:
    """Which person of their target and model each one is, counting from 1."""
    seen: dict[tuple[str, str, str], int] = {}
    numbers = []
    for each in found:
        key = (each.model, each.scene, each.target)
        seen[key] = seen.get(key, 0) + 1
        numbers.append(seen[key])
    return numbers


def _rows(
    stimuli: Stimuli, scene: str, played: Sequence[tuple[Interaction, str]], plan: Plan
) -> Iterator[dict[str, Any]]:
    shown = stimuli.shown(scene).scene
    assert isinstance(shown, Image)
    for each, user in played:
        target = next(one for one in shown.targets if one.id == each.target)
        record = Trajectory(SimulatedSession(target, _Person(user), "corrected"))
        record.rounds.extend(_rounds(each, shown.shape, plan.rounds))
        yield from rows_of(shown, record, 0.0, True)


def _rounds(each: Interaction, shape: tuple[int, ...], rounds: int) -> Iterator[Round]:
    """What was done, and then the last mask until the rounds are over."""
    last = None
    for number, step in enumerate(each.steps, 1):
        mask = Mask.from_coco({"size": list(shape), "counts": step["mask"]})
        last = Round(
            number,
            (Click((step["y"], step["x"]), step["positive"]),),
            mask,
            step["scores"],
            step["model_score"],
            step["candidate"],
            mask_fed_back=step["mask_fed_back"],
            batch_size=1,
            seconds_predict=step["answer_ms"] / 1000,
            seconds_user=step["user_ms"] / 1000,
        )
        yield last
    if last is not None:
        for number in range(last.number + 1, rounds + 1):
            yield Round(number, (), last.mask, last.scores, last.model_score, last.mask_index)


@dataclass(frozen=True, slots=True)
class _Person:
    """A name in the run for somebody who cannot be played again."""

    name: str

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        raise BadInput("a person of a study cannot be asked again; read the run instead")
