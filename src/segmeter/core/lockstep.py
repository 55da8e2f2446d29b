"""Lockstep: all sessions of a scene advance together, round by round.

`simulate` calls the model once per round for all sessions, with one request for sessions whose
prompts and state are equal, such as two protocols that have not yet diverged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

import numpy as np

from segmeter.core.capabilities import ForgetsPrompts, Team, team_of
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, ProtocolName, in_protocol
from segmeter.core.prompts import Prompt, as_prompts
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import generator
from segmeter.core.sessions import Judge, Round, Scores, Session, mapped, run_round
from segmeter.core.users import Observation, User

Timed = tuple[tuple[Prompt, ...], float]  # prompts of a round, and the seconds they took


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on a session: its score may not exceed that of another session, the leader.

    If a round ends on the wrong side, the session continues from a copy of the leader's. So a
    user who searches for bad clicks never scores better than one who does not, even when greedy
    choices led astray.

    `leader` is the leader's index among the sessions; a leader has no bound itself.
    """

    leader: int
    side: Literal["below", "above"]
    measure: str = "iou"


@dataclass(frozen=True, slots=True)
class Start:
    """The mask that a session starts from, and the name of its source."""

    mask: Mask
    source: str

    @staticmethod
    def label(user: str, source: str) -> str:
        """The label of a user who starts from the masks of a source."""
        return f"{user} from {source}"


@dataclass(frozen=True, slots=True)
class SimulatedSession:
    """One simulated user with one target, in one protocol; without a `start` from nothing."""

    target: Target
    user: User
    protocol: ProtocolName
    bound: Bound | None = None
    start: Start | None = None

    @property
    def name(self) -> str:
        """The user's name, with the source of the mask that it starts from."""
        if self.start is None:
            return self.user.name
        return self.start.label(self.user.name, self.start.source)


Member = tuple[SimulatedSession, Session]


@dataclass(slots=True)
class Trajectory:
    """The record of one session; `consistency` are scores of further requests at its end."""

    simulated: SimulatedSession
    rounds: list[Round] = field(default_factory=list)
    consistency: dict[str, float] = field(default_factory=dict)


def simulate(
    scene: Scene,
    encoded: EncodedScene,
    simulated_sessions: Sequence[SimulatedSession],
    rounds: int,
    judge: Judge,
    *,
    seed: int = 0,
    pool: Executor | None = None,
    oracle_rounds: int = 0,
    until: Callable[[Scores], bool] | None = None,
) -> list[Trajectory]:
    """Run all sessions of a scene together and return their records.

    `judge` scores each new mask once. `seed` decides every draw, together with dataset, scene,
    target, user and round. Prompts and scores are computed in the threads of `pool`, which changes
    nothing else. In the first `oracle_rounds` every candidate mask is scored. A session and its
    record end once its scores satisfy `until`.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> from segmeter.users.error_prompts import CentreClick
    >>> scene = drawn_scene(); encoded = Disc(radius=5).encode(scene)
    >>> simulated_sessions = [SimulatedSession(scene.targets[0], CentreClick(), 'corrected')]
    >>> (record,) = simulate(scene, encoded, simulated_sessions, 3, lambda target, mask: {})
    >>> [made.number for made in record.rounds]
    [1, 2, 3]
    """
    if rounds < 1:
        raise BadInput(f"a session has at least one round, not {rounds}")
    by_protocol = {p: in_protocol(encoded, p) for p in {s.protocol for s in simulated_sessions}}
    members: list[Member] = []
    for simulated in simulated_sessions:
        user, protocol = simulated.user, simulated.protocol
        session = Session(
            scene,
            by_protocol[protocol],
            simulated.target,
            judge=judge,
            protocol=protocol,
            oracle_rounds=oracle_rounds,
            forgets=isinstance(user, ForgetsPrompts) and user.forgets_prompts,
            start=simulated.start.mask if simulated.start else None,
        )
        members.append((simulated, session))
    together = grouped_pairs((id(member[1].encoded), member) for member in members).values()
    for number in range(1, rounds + 1):
        for sharing in together:
            ended = [until and s.rounds and until(s.rounds[-1].scores) for _, s in sharing]
            left = [m for m, over in zip(sharing, ended, strict=True) if not over]
            _advance(left, number, seed, pool)
        _keep_bounds(members)
    return [Trajectory(simulated, session.rounds) for simulated, session in members]


def _advance(members: Sequence[Member], number: int, seed: int, pool: Executor | None) -> None:
    """One round of the sessions of an encoded scene; those without prompts rest."""
    active = [member for member in members if not member[1].stopped]
    given = _next_prompts(active, number, seed, pool)
    asking = {id(m[1]): one for m, one in zip(active, given, strict=True) if one[0]}
    for _, session in members:
        if id(session) not in asking:
            session.rest()
    if asking:
        prompts, seconds = zip(*asking.values(), strict=True)
        run_round([s for _, s in members if id(s) in asking], prompts, seconds, pool)


def _keep_bounds(members: Sequence[Member]) -> None:
    """Continue bound sessions that ended on the wrong side from their leader's."""
    for simulated, session in members:
        bound = simulated.bound
        if bound is None:
            continue
        leader = members[bound.leader][1]
        own, theirs = session.rounds[-1], leader.rounds[-1]
        above = own.scores[bound.measure] - theirs.scores[bound.measure]
        if above > 0 if bound.side == "below" else above < 0:
            session.take_over(leader)


def _next_prompts(
    members: Sequence[Member], number: int, seed: int, pool: Executor | None
) -> list[Timed]:
    """Next prompts of each session with the seconds they took; a team is called once."""
    found: list[Timed] = [((), 0.0)] * len(members)
    seen = [Observation.of(session, simulated.target, number) for simulated, session in members]
    users = [simulated.user for simulated, _ in members]

    def draws(i: int) -> np.random.Generator:
        scene, target = seen[i].scene, seen[i].target
        return generator(seed, scene.dataset, scene.id, target.id, users[i].name, number)

    def one(i: int) -> Timed:
        start = perf_counter()
        prompts = as_prompts(users[i].next(seen[i], draws(i)))
        return prompts, perf_counter() - start

    def together(team: Team, places: Sequence[int]) -> list[Timed]:
        start = perf_counter()
        theirs = [users[i] for i in places], [seen[i] for i in places]
        given = team(*theirs, lambda k: draws(places[k]))
        share = (perf_counter() - start) / len(places)
        return [(as_prompts(prompts), share) for prompts in given]

    teams = [team_of(user) for user in users]
    for places in grouped_pairs((id(team), i) for i, team in enumerate(teams)).values():
        team = teams[places[0]]
        answers = mapped(one, places, pool) if team is None else together(team, places)
        for i, answer in zip(places, answers, strict=True):
            found[i] = answer
    return found
