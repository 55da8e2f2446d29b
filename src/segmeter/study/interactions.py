"""Interactions of participants with a model, and simulated users on the same objects.

Both become users of one run of the benchmark `noc`: a participant under their code, a simulated
user under its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.core import catalogue
from segmeter.core.annotation_events import Timing
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.lockstep import SimulatedSession, Trajectory, simulate
from segmeter.core.masks import Mask
from segmeter.core.plans import Job
from segmeter.core.plans import Plan as RunPlan
from segmeter.core.prompts import Prompt
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.core.scenes import Scene
from segmeter.core.sessions import Round
from segmeter.core.users import Observation
from segmeter.stats.cost_fitting import FittedCosts
from segmeter.stats.cost_fitting import fit_costs as fit
from segmeter.store.folder import RunFolder
from segmeter.study.exports import counted_rows
from segmeter.study.plan import Plan
from segmeter.study.records import steps_of
from segmeter.study.segmenting import MEASURES, OF_ROUND, click_of, judge_of, model_for
from segmeter.study.stimuli import Stimuli, dataset_spec
from segmeter.users.simulation import rows_of, timed_encode


@dataclass(frozen=True, slots=True)
class Interaction:
    """One participant, one target, one model: the steps that stand, and how it ended."""

    person: str
    device: str
    scene: str
    target: str
    model: str
    accepted: bool
    review_ms: float
    steps: tuple[dict[str, Any], ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.model, self.scene, self.target

    @property
    def seconds(self) -> float:
        """Time from the first sight of the object to accepting, undone clicks left out."""
        clicking = sum(step["user_ms"] + step["model_ms"] for step in self.steps)
        return float(clicking + self.review_ms) / 1000

    def iou_after(self, clicks: int) -> float:
        """IoU after so many clicks; the last mask is carried forward."""
        return float(self.steps[min(clicks, len(self.steps)) - 1]["scores"]["iou"])


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated user's session on one target with one model."""

    user: str
    scene: str
    target: str
    model: str
    record: Trajectory
    seconds_encode: float

    @property
    def key(self) -> tuple[str, str, str]:
        return self.model, self.scene, self.target

    def iou_after(self, clicks: int) -> float:
        rounds = self.record.rounds
        return float(rounds[min(clicks, len(rounds)) - 1].scores["iou"])


def interactions(connection: sa.Connection, plan: Plan) -> list[Interaction]:
    """All sessions that count, in the order in which they ended."""
    rows = counted_rows(connection, plan)
    found = []
    for row in sorted(rows, key=lambda row: (row["answered"], row["trial"])):
        named = (row["person"], row["device"], row["scene"], row["target"], row["source"])
        steps = tuple(steps_of(connection, row["trial"]))
        found.append(Interaction(*named, row["accepted"], row["review_ms"], steps))
    return found


def fit_costs(found: Sequence[Interaction]) -> FittedCosts:
    used = [each for each in found if each.steps]
    if not used:
        raise BadInput("there are no clicks yet; costs cannot be fitted")
    timings = []
    for each in used:
        for number, step in enumerate(each.steps):
            seconds = step["user_ms"] / 1000
            timings.append(Timing(each.person, each.scene, "click", number == 0, seconds))
        timings.append(Timing(each.person, each.scene, "done", False, each.review_ms / 1000))
    return fit(timings)


def simulate_users(
    found: Sequence[Interaction],
    plan: Plan,
    stimuli: Stimuli,
    users: Sequence[str],
    weights: Path | None = None,
) -> list[Simulated]:
    """Let simulated users segment the objects that participants segmented."""
    if not users:
        return []
    wanted = grouped_pairs(((each.model, each.scene), each.target) for each in found)
    models = {name: model_for(stimuli, name, weights) for name in plan.design.models}
    made = []
    for (model, scene), targets in sorted(wanted.items()):
        shown = stimuli.shown(scene).scene
        encoded, seconds = timed_encode(models[model], shown)
        sessions = [
            SimulatedSession(target, catalogue.users.make(user), "corrected")
            for user in users
            for target in shown.targets
            if target.id in targets
        ]
        judge, rounds = judge_of(shown), plan.design.rounds
        for record in simulate(shown, encoded, sessions, rounds, judge, seed=plan.seed):
            own = record.simulated
            named = (own.user.name, scene, own.target.id, model)
            made.append(Simulated(*named, record, seconds))
    return made


def write_run(
    found: Sequence[Interaction],
    simulated: Sequence[Simulated],
    plan: Plan,
    stimuli: Stimuli,
    folder: Path,
) -> Path:
    """A run of `noc` with participants and simulated users, for `segmeter report`."""
    if not found:
        raise BadInput("no participant has finished yet; there is nothing to write")
    if stimuli.volumes:
        raise BadInput("runs of 'noc' hold images; a study of volumes is compared in its report")
    people = sorted({each.person for each in found})
    robots = list(dict.fromkeys(each.user for each in simulated))
    dataset = dataset_spec(plan)
    run_plan = RunPlan(
        "noc",
        tuple(Spec.parse(model) for model in plan.design.models),
        (dataset,),
        users=tuple(Spec(user) for user in (*people, *robots)),
        rounds=plan.design.rounds,
        protocols=("corrected",),
        measures=MEASURES,
        seed=plan.seed,
    )
    schema = SESSION_ROWS.plus(columns_of_measures(MEASURES))
    jobs = sorted({(each.model, each.scene) for each in found})
    with RunFolder.claimed(folder, run_plan) as run:
        for model, scene in jobs:
            shown = stimuli.shown(scene).scene
            people_here = [each for each in found if each.key[:2] == (model, scene)]
            robots_here = [each for each in simulated if each.key[:2] == (model, scene)]
            records = [(_record(each, shown, plan.design.rounds), 0.0) for each in people_here]
            records += [(each.record, each.seconds_encode) for each in robots_here]
            job = Job(Spec.parse(model), dataset, scene)
            rows = [
                job.identity() | row
                for record, seconds in records
                for row in rows_of(shown, record, seconds, True)
            ]
            about = {"segmenter": model, "people": json.dumps(people), "study": plan.hash}
            run.finish(job, rows, about, schema)
    return folder


def _record(each: Interaction, scene: Scene, rounds: int) -> Trajectory:
    """The steps, and then the last mask until the rounds are over."""
    target = next(one for one in scene.targets if one.id == each.target)
    record = Trajectory(SimulatedSession(target, _Participant(each.person), "corrected"))
    for number, step in enumerate(each.steps, 1):
        last = Round(
            number,
            (click_of(step),),
            Mask.decoded(step["mask"], scene.shape),
            **{name: step[name] for name in OF_ROUND},
            batch_size=1,
            seconds_predict=step["model_ms"] / 1000,
            seconds_user=step["user_ms"] / 1000,
        )
        record.rounds.append(last)
    for number in range(len(record.rounds) + 1, rounds + 1 if record.rounds else 0):
        kept = (last.mask, last.scores, last.model_score, last.mask_index)
        record.rounds.append(Round(number, (), *kept))
    return record


@dataclass(frozen=True, slots=True)
class _Participant:
    """The name of a participant in a run; it cannot give further prompts."""

    name: str

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        raise BadInput("a participant of a study cannot be simulated; read the run instead")
