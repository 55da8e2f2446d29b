"""Sessions: prompts go to a view round by round, by hand or all players in lockstep.

`Session.step` is one round of one session: notebooks, replays and studies with people call it
themselves. `play` drives the sessions of simulated users together: everybody who plays on a
scene asks in the same call, and players whose prompts and memory are the same, such as two
readings that have not yet parted, are asked for once. The next prompts need a mask and not its
scores, so a round is judged while the view works on the next (`capabilities.AnswersLater`);
whoever reads `Session.rounds` before finds it judged all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, TypeVar, overload

import numpy as np

from segmeter.core.capabilities import AnswersLater, OffersSome, Team, forgets_prompts, team_of
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Prediction, Reading, View, keeps_memory, start_answer
from segmeter.core.prompts import Prompt, Prompts, as_prompts, check_inside
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import generator
from segmeter.core.users import Observation, User

__all__ = ["Bound", "Judge", "Player", "Round", "Session", "Trajectory", "play", "step_together"]

# Threads take turns at the interpreter: below so many pixels per round waiting costs more than
# it saves (eleven players of a DAVIS frame: 0.12 s per target with eight threads, 0.03 without).
_WORTH_THREADS = 4_000_000
_WORTH_LANES = 8  # players; fewer keep a GPU no busier in two halves than in one

Scores = dict[str, float]
Judge = Callable[[Target, Mask], Scores]
Given = TypeVar("Given")
Made = TypeVar("Made")


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


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in one round.

    A content user gives no prompt; the round then repeats the last mask and scores.
    `candidate_scores` holds the scores of every candidate where all were judged, so that the
    best of them, the oracle's choice, can be told. `seconds_answer` is the session's share of a
    call that served `batch` asks; `seconds_user` is what a person took, or what a simulated user
    computed. A round that was `taken_over` is the leader's, see `Bound`.
    """

    number: int
    prompts: tuple[Prompt, ...]
    mask: Mask
    scores: Scores
    model_score: float = float("nan")
    candidate: int = -1
    candidate_scores: tuple[Scores, ...] = ()
    fed: bool = False
    batch: int = 0
    seconds_answer: float = 0.0
    seconds_user: float = 0.0
    taken_over: bool = False

    @property
    def content(self) -> bool:
        return not self.prompts


@dataclass(slots=True)
class Trajectory:
    """The record of one player."""

    player: Player
    rounds: list[Round] = field(default_factory=list)


class Session:
    """One view answering one person's prompts, round by round.

    Parameters
    ----------
    target
        What the person is after; None where nobody knows, such as a detector's box.
    judge
        Scores of a mask against the target; without one, or without a target, there are none.
    oracle_rounds
        In how many first rounds every candidate is judged, not only the shown one.
    forgets
        The view gets only the new prompts of a round, with its own memory.

    Examples
    --------
    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.drawn import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene()
    >>> session = Session(scene, Disc(radius=5).look(scene))
    >>> session.step(Click((40, 60))).mask.area
    81
    """

    def __init__(
        self,
        scene: Scene,
        view: View,
        target: Target | None = None,
        *,
        judge: Judge | None = None,
        reading: Reading = "sound",
        oracle_rounds: int = 0,
        forgets: bool = False,
    ) -> None:
        self.scene = scene
        self.view = view
        self.target = target
        self.judge = judge
        self.reading: Reading = reading
        self.oracle_rounds = oracle_rounds
        self.forgets = forgets
        self.mask = Mask.empty(scene.shape)
        self.prompts: tuple[Prompt, ...] = ()
        self.last: Prediction | None = None
        self.content = False
        self._rounds: list[Round] = []
        self._unjudged: _Unjudged | None = None

    @property
    def rounds(self) -> list[Round]:
        """All rounds so far, judged."""
        if self._unjudged is not None:
            self._unjudged.settle()
        return self._rounds

    def step(self, prompts: Prompts, *, seconds_user: float = 0.0) -> Round:
        """Give the next prompts and return the round; none means that the person is content."""
        given = as_prompts(prompts)
        if not given:
            return self.rest(seconds_user)
        return step_together([self], [given], [seconds_user])[0]

    def rest(self, seconds_user: float = 0.0) -> Round:
        """A round in which the person was content: the last mask stands."""
        self.content = True
        if self.rounds:
            last = self.rounds[-1]
            made = replace(last, number=last.number + 1, prompts=(), fed=False, batch=0)
            made = replace(made, seconds_answer=0.0, seconds_user=seconds_user, taken_over=False)
        else:
            made = Round(1, (), self.mask, self.scores_of(self.mask), seconds_user=seconds_user)
        self.rounds.append(made)
        return made

    def take_over(self, other: Session) -> None:
        """Go on from where another session of the same scene stands."""
        own, theirs = self.rounds[-1], other.rounds[-1]
        self.rounds[-1] = replace(theirs, seconds_user=own.seconds_user, taken_over=True)
        self.mask, self.prompts = other.mask, other.prompts
        self.last, self.content = other.last, other.content

    def ask(self, prompts: tuple[Prompt, ...]) -> Ask:
        """All prompts so far and the new ones, with the memory of the last prediction."""
        check_inside(prompts, self.scene)
        every = prompts if self.forgets else (*self.prompts, *prompts)
        memory = None if self.last is None else self.last.memory
        kept = memory is not None and keeps_memory(self.view, every, self.reading)
        return Ask(every, memory if kept else None)

    def scores_of(self, mask: Mask) -> Scores:
        """A mask's scores; none without a judge or a target."""
        return {} if self.judge is None or self.target is None else self.judge(self.target, mask)


def step_together(
    sessions: Sequence[Session],
    prompts: Sequence[tuple[Prompt, ...]],
    seconds: Sequence[float],
    pool: Executor | None = None,
) -> list[Round]:
    """One round of several sessions of one view: one call for all of them.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.drawn import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene(); view = Disc(radius=5).look(scene)
    >>> sessions = [Session(scene, view), Session(scene, view)]
    >>> prompts = [(Click((40, 60)),), (Click((50, 70)),)]
    >>> [made.batch for made in step_together(sessions, prompts, [0.0, 0.0])]
    [2, 2]
    """
    _advance(sessions, prompts, seconds, pool)
    return [session.rounds[-1] for session in sessions]


def _advance(
    sessions: Sequence[Session],
    prompts: Sequence[tuple[Prompt, ...]],
    seconds: Sequence[float],
    pool: Executor | None,
) -> None:
    """One round whose judging is left for when the view is at work again, or scores are read."""
    if sessions:
        _begin(sessions, prompts, seconds, pool)()


def _begin(
    sessions: Sequence[Session],
    prompts: Sequence[tuple[Prompt, ...]],
    seconds: Sequence[float],
    pool: Executor | None,
) -> Callable[[], None]:
    """Ask the view; while it works, judge the round before. What comes back ends the round."""
    asks = [session.ask(given) for session, given in zip(sessions, prompts, strict=True)]
    places, unique = _distinct(asks, [session.last for session in sessions])
    start = perf_counter()
    finish = start_answer(sessions[0].view, unique)
    begun = perf_counter() - start
    for session in sessions:
        _ = session.rounds  # judges what is not

    def end() -> None:
        start = perf_counter()
        predictions, masks = finish()
        share = (perf_counter() - start + begun) / len(unique)
        made = []
        for i, (session, place) in enumerate(zip(sessions, places, strict=True)):
            session.prompts = (*session.prompts, *prompts[i])
            found = session.last = predictions[place]
            session.mask = masks[place]
            made.append(
                Round(
                    len(session.rounds) + 1,
                    prompts[i],
                    session.mask,
                    {},
                    float(found.scores[found.shown]),
                    found.shown,
                    (),
                    asks[i].memory is not None,
                    len(unique),
                    share,
                    seconds[i],
                )
            )
        _Unjudged(sessions, made, pool)
        if any(session.oracle_rounds for session in sessions):
            _ = sessions[0].rounds

    return end


class _Unjudged:
    """Rounds that were played together and are judged together, once."""

    def __init__(
        self, sessions: Sequence[Session], rounds: Sequence[Round], pool: Executor | None
    ) -> None:
        self._sessions, self._made, self._pool = sessions, rounds, pool
        for session in sessions:
            session._unjudged = self

    def settle(self) -> None:
        for session in self._sessions:
            session._unjudged = None
        scores = _judge_once(self._sessions, self._made, self._pool)
        oracle = _judge_candidates(self._sessions, self._pool)
        for session, made, own, every in zip(
            self._sessions, self._made, scores, oracle, strict=True
        ):
            session._rounds.append(replace(made, scores=own, candidate_scores=every))


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
    sessions = [
        Session(
            scene,
            view,
            p.target,
            judge=judge,
            reading=p.reading,
            oracle_rounds=oracle_rounds,
            forgets=forgets_prompts(p.user),
        )
        for p in players
    ]
    lanes = [_Lane(players, sessions, places, seed, pool) for places in _lanes(view, players)]
    for number in range(1, rounds + 1):
        for lane in lanes:
            lane.end()
            lane.begin(number, until)
        if len(lanes) == 1:
            lanes[0].end()
            _keep_bounds(players, sessions)
    for lane in lanes:
        lane.end()
    return [Trajectory(p, s.rounds) for p, s in zip(players, sessions, strict=True)]


def _lanes(view: View, players: Sequence[Player]) -> list[Sequence[int]]:
    """Two halves where the view works by itself: it answers one while the other is clicked for."""
    count = len(players)
    if (
        count < _WORTH_LANES
        or not isinstance(view, AnswersLater)
        or not view.works_beside
        or any(player.bound is not None for player in players)
    ):
        return [range(count)]
    return [range(count // 2), range(count // 2, count)]


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
            self._end = _begin(
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


Said = tuple[tuple[Prompt, ...], float]


def _next_prompts(
    players: Sequence[Player],
    sessions: Sequence[Session],
    number: int,
    seed: int,
    pool: Executor | None,
) -> list[Said]:
    """Each player's next prompts with the seconds they took; teams are asked as one."""
    said: list[Said] = [((), 0.0)] * len(players)
    seen = [_observation(p, s, number) for p, s in zip(players, sessions, strict=True)]
    teams, alone = _teams(players)
    for team, members in teams:
        start = perf_counter()
        users = [players[i].user for i in members]
        draws = _Draws([players[i] for i in members], sessions[0].scene, number, seed)
        given = team.next_batch(users, [seen[i] for i in members], draws)
        share = (perf_counter() - start) / len(members)
        for i, prompts in zip(members, given, strict=True):
            said[i] = (as_prompts(prompts), share)

    def one(i: int) -> Said:
        start = perf_counter()
        draws = _Draws([players[i]], sessions[i].scene, number, seed)[0]
        prompts = as_prompts(players[i].user.next(seen[i], draws))
        return prompts, perf_counter() - start

    for i, answer in zip(alone, _each(one, alone, pool), strict=True):
        said[i] = answer
    return said


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


@dataclass(frozen=True, slots=True)
class _Draws(Sequence[np.random.Generator]):
    """A generator for each player, made when asked for: most teams never draw (perf/session.py)."""

    players: Sequence[Player]
    scene: Scene
    number: int
    seed: int

    def __len__(self) -> int:
        return len(self.players)

    @overload
    def __getitem__(self, place: int) -> np.random.Generator: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[np.random.Generator]: ...

    def __getitem__(
        self, place: int | slice
    ) -> np.random.Generator | Sequence[np.random.Generator]:
        if isinstance(place, slice):
            return replace(self, players=self.players[place])
        player, scene = self.players[place], self.scene
        names = (scene.dataset, scene.id, player.target.id, player.user.name)
        return generator(self.seed, *names, self.number)


def _distinct(
    asks: Sequence[Ask], lasts: Sequence[Prediction | None]
) -> tuple[list[int], list[Ask]]:
    """Where each ask's answer will lie among the distinct ones, and those.

    Asks are the same when their prompts are and their memory is that of one prediction.
    """
    seen: dict[tuple[object, int], int] = {}
    unique: list[Ask] = []
    places = []
    for ask, last in zip(asks, lasts, strict=True):
        key = (ask.prompts, 0 if ask.memory is None else id(last))
        if key not in seen:
            seen[key] = len(unique)
            unique.append(ask)
        places.append(seen[key])
    return places, unique


def _judge_once(
    sessions: Sequence[Session], rounds: Sequence[Round], pool: Executor | None
) -> list[Scores]:
    """Scores of each round's mask; a mask that several share is judged once per target."""
    pixels = sum(made.mask.bits.size for made in rounds)
    pairs = list(zip(sessions, rounds, strict=True))
    keys = [(_target_id(session), id(made.mask)) for session, made in pairs]
    first = dict(zip(keys, pairs, strict=True))
    helpers = pool if pixels > _WORTH_THREADS else None
    scores = _each(lambda both: both[0].scores_of(both[1].mask), list(first.values()), helpers)
    known = dict(zip(first, scores, strict=True))
    return [known[key] for key in keys]


def _judge_candidates(
    sessions: Sequence[Session], pool: Executor | None
) -> list[tuple[Scores, ...]]:
    """Scores of every candidate on offer, in the rounds in which a session wants them."""

    def one(session: Session) -> tuple[Scores, ...]:
        found = session.last
        if found is None or len(session._rounds) >= session.oracle_rounds:
            return ()
        offered = found.offered if isinstance(found, OffersSome) else range(len(found.scores))
        return tuple(session.scores_of(found.mask(k)) for k in offered)

    return _each(one, sessions, pool)


def _target_id(session: Session) -> str | None:
    return None if session.target is None else session.target.id


def _each(
    function: Callable[[Given], Made], items: Iterable[Given], pool: Executor | None
) -> list[Made]:
    return list(map(function, items) if pool is None else pool.map(function, items))
