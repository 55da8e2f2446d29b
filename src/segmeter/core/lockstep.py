"""Lockstep: simulated users play their sessions of a scene together, round by round.

`play` asks the view once per round for everybody who plays, and once for players whose prompts
and memory are the same, such as two readings that have not yet parted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, overload

import numpy as np

from segmeter.core.capabilities import AnswersLater, Team, forgets_prompts, team_of
from segmeter.core.errors import BadInput
from segmeter.core.models import Reading, View, in_protocol
from segmeter.core.prompts import Prompt, as_prompts
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import LazyGenerators, generator
from segmeter.core.sessions import Judge, Round, Scores, Session, begin_round, mapped
from segmeter.core.users import Observation, User

__all__ = ["Bound", "Player", "Trajectory", "play"]

Timed = tuple[tuple[Prompt, ...], float]  # prompts of a round, and the seconds they took
_WORTH_LANES = 8  # players; fewer keep a GPU no busier in two halves than in one


@dataclass(frozen=True, slots=True)
class Bound:
    """A player who may end no round on the wrong side of another, the leader.

    Where that happens the player takes over the leader's session of so many rounds, and
    goes on from there. So a player who looks for bad clicks never does better than one who
    does not look, even when greedy choices led astray.

    `leader` is the leader's place among the players; nobody may lead who is bound.
    """

    leader: int
    side: Literal["below", "above"]
    measure: str = "iou"


@dataclass(frozen=True, slots=True)
class Player:
    """One simulated user after one target, in one reading."""

    target: Target
    user: User
    reading: Reading
    bound: Bound | None = None


@dataclass(slots=True)
class Trajectory:
    """The record of one player."""

    player: Player
    rounds: list[Round] = field(default_factory=list)


def play(
    scene: Scene,
    view: View,
    players: Sequence[Player],
    rounds: int,
    judge: Judge,
    *,
    seed: int = 0,
    pool: Executor | None = None,
    oracle_rounds: int = 0,
    until: Callable[[Scores], bool] | None = None,
) -> list[Trajectory]:
    """Play all sessions of a scene together and return their records.

    Parameters
    ----------
    judge
        Scores of a mask against a target; called once for each new mask.
    seed
        Together with dataset, scene, target, user and round it decides every draw.
    pool
        Threads for prompts and scores; None works in this thread. Changes nothing else.
    oracle_rounds
        In how many first rounds every candidate is judged.
    until
        Ends a session once its scores satisfy it; its record then stops there.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.drawn import Disc
    >>> from segmeter.users.centre_click import CentreClick
    >>> scene = drawn_scene(); view = Disc(radius=5).look(scene)
    >>> players = [Player(scene.targets[0], CentreClick(), 'sound')]
    >>> (record,) = play(scene, view, players, 3, lambda target, mask: {})
    >>> [made.number for made in record.rounds]
    [1, 2, 3]
    """
    if rounds < 1:
        raise BadInput(f"a session has at least one round, not {rounds}")
    views = {reading: in_protocol(view, reading) for reading in {p.reading for p in players}}
    sessions = [_session(scene, views[p.reading], p, judge, oracle_rounds) for p in players]
    lanes = [_Lane(players, sessions, places, seed, pool) for places in _lanes(sessions, players)]
    for number in range(1, rounds + 1):
        for lane in lanes:
            lane.end()
            lane.begin(number, until)
        if any(player.bound is not None for player in players):
            for lane in lanes:
                lane.end()
            _keep_bounds(players, sessions)
    for lane in lanes:
        lane.end()
    return [Trajectory(p, s.rounds) for p, s in zip(players, sessions, strict=True)]


def _session(scene: Scene, view: View, player: Player, judge: Judge, oracle_rounds: int) -> Session:
    return Session(
        scene,
        view,
        player.target,
        judge=judge,
        reading=player.reading,
        oracle_rounds=oracle_rounds,
        forgets=forgets_prompts(player.user),
    )


def _lanes(sessions: Sequence[Session], players: Sequence[Player]) -> list[Sequence[int]]:
    """Players who are asked together: those of one view.

    Two halves where the view works by itself: it answers one while the other is clicked for.
    """
    by_view: dict[int, list[int]] = {}
    for i, session in enumerate(sessions):
        by_view.setdefault(id(session.view), []).append(i)
    lanes: list[Sequence[int]] = []
    for places in by_view.values():
        view, half = sessions[places[0]].view, len(places) // 2
        if (
            len(places) < _WORTH_LANES
            or not isinstance(view, AnswersLater)
            or not view.works_beside
            or any(player.bound is not None for player in players)
        ):
            lanes.append(places)
        else:
            lanes += [places[:half], places[half:]]
    return lanes


class _Lane:
    """Players whose rounds are begun and ended together."""

    def __init__(
        self,
        players: Sequence[Player],
        sessions: Sequence[Session],
        places: Sequence[int],
        seed: int,
        pool: Executor | None,
    ) -> None:
        self.players = [players[i] for i in places]
        self.sessions = [sessions[i] for i in places]
        self.seed, self.pool = seed, pool
        self._end: Callable[[], None] = _nothing

    def begin(self, number: int, until: Callable[[Scores], bool] | None) -> None:
        """Ask every player who is neither over nor content, then the view."""
        going = [i for i, session in enumerate(self.sessions) if not _over(session, until)]
        active = [i for i in going if not self.sessions[i].content]
        given = _next_prompts(
            [self.players[i] for i in active],
            [self.sessions[i] for i in active],
            number,
            self.seed,
            self.pool,
        )
        speaking = {i: one for i, one in zip(active, given, strict=True) if one[0]}
        for i in going:
            if i not in speaking:
                self.sessions[i].rest()
        if speaking:
            self._end = begin_round(
                [self.sessions[i] for i in speaking],
                [prompts for prompts, _ in speaking.values()],
                [seconds for _, seconds in speaking.values()],
                self.pool,
            )

    def end(self) -> None:
        """Take the view's answers of the round that was begun."""
        end, self._end = self._end, _nothing
        end()


def _nothing() -> None:
    """No round was begun."""


def _over(session: Session, until: Callable[[Scores], bool] | None) -> bool:
    return until is not None and bool(session.rounds) and until(session.rounds[-1].scores)


def _keep_bounds(players: Sequence[Player], sessions: Sequence[Session]) -> None:
    """Let bound players who ended on the wrong side take over their leader's session."""
    for player, session in zip(players, sessions, strict=True):
        bound = player.bound
        if bound is None:
            continue
        leader = sessions[bound.leader]
        own, theirs = session.rounds[-1], leader.rounds[-1]
        above = own.scores[bound.measure] - theirs.scores[bound.measure]
        if above > 0 if bound.side == "below" else above < 0:
            session.take_over(leader)


def _next_prompts(
    players: Sequence[Player],
    sessions: Sequence[Session],
    number: int,
    seed: int,
    pool: Executor | None,
) -> list[Timed]:
    """Each player's next prompts with the seconds they took; teams are asked as one."""
    found: list[Timed] = [((), 0.0)] * len(players)
    seen = [_observation(p, s, number) for p, s in zip(players, sessions, strict=True)]

    def draws(i: int) -> np.random.Generator:
        scene, player = sessions[i].scene, players[i]
        return generator(seed, scene.dataset, scene.id, player.target.id, player.user.name, number)

    teams, alone = _teams(players)
    for team, members in teams:
        start = perf_counter()
        users, theirs = [players[i].user for i in members], [seen[i] for i in members]
        given = team.next_batch(users, theirs, LazyGenerators(draws, members))
        share = (perf_counter() - start) / len(members)
        for i, prompts in zip(members, given, strict=True):
            found[i] = (as_prompts(prompts), share)

    def one(i: int) -> Timed:
        start = perf_counter()
        prompts = as_prompts(players[i].user.next(seen[i], draws(i)))
        return prompts, perf_counter() - start

    for i, answer in zip(alone, mapped(one, alone, pool), strict=True):
        found[i] = answer
    return found


def _teams(players: Sequence[Player]) -> tuple[list[tuple[Team, list[int]]], list[int]]:
    """Each team with the places of its members, and the places of those who have none."""
    members: dict[int, tuple[Team, list[int]]] = {}
    alone = []
    for i, player in enumerate(players):
        team = team_of(player.user)
        if team is None:
            alone.append(i)
        else:
            members.setdefault(id(team), (team, []))[1].append(i)
    return list(members.values()), alone


def _observation(player: Player, session: Session, number: int) -> Observation:
    return Observation(
        session.scene,
        player.target,
        session.mask,
        session.prompts,
        session.reading,
        session.view,
        session.last,
        number,
        _Rounds(session),
    )


@dataclass(frozen=True, slots=True)
class _Rounds(Sequence[Round]):
    """A session's rounds so far, judged when somebody looks: few users do."""

    session: Session

    def __len__(self) -> int:
        return len(self.session.rounds)

    @overload
    def __getitem__(self, place: int) -> Round: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Round]: ...

    def __getitem__(self, place: int | slice) -> Round | Sequence[Round]:
        return self.session.rounds[place]
