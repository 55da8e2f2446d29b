"""Sessions: users and one view, round by round, all players in lockstep.

Everybody who plays on a scene asks in the same call. Players whose prompts and memory are
the same, such as two readings that have not yet parted, are asked for once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Literal, TypeVar

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Prediction, Reading, View, keeps_memory, render
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import later_generator
from segmeter.core.users import Sight, User

__all__ = ["Bound", "Judge", "Player", "Round", "Trajectory", "play"]

# Threads take turns at the interpreter: below so many pixels a round waiting costs more than
# it saves (eleven players of a DAVIS frame: 0.12 s a target with eight threads, 0.03 without).
_WORTH_THREADS = 4_000_000

Judge = Callable[[Target, Mask], dict[str, float]]
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
    """One user after one target, in one reading."""

    target: Target
    user: User
    reading: Reading
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in one round.

    A content user gives no prompt; the round then repeats the last mask and scores.
    `seconds_answer` is the player's share of a call that served `batch` asks. A round that
    was `taken_over` is the leader's, see `Bound`.
    """

    number: int
    prompt: Prompt | None
    mask: Mask
    scores: dict[str, float]
    model_score: float = float("nan")
    candidate: int = -1
    fed: bool = False
    batch: int = 0
    seconds_answer: float = 0.0
    seconds_user: float = 0.0
    taken_over: bool = False

    @property
    def content(self) -> bool:
        return self.prompt is None


@dataclass(slots=True)
class Trajectory:
    """The record of one player."""

    player: Player
    rounds: list[Round] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    """Where a player stands between rounds."""

    player: Player
    mask: Mask
    prompts: tuple[Prompt, ...] = ()
    last: Prediction | None = None
    content: bool = False


def play(
    scene: Scene,
    view: View,
    players: Sequence[Player],
    rounds: int,
    judge: Judge,
    *,
    seed: int = 0,
    pool: Executor | None = None,
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
    """
    if rounds < 1:
        raise BadInput(f"a session has at least one round, not {rounds}")
    states = [_State(p, Mask.empty(scene.shape)) for p in players]
    records = [Trajectory(p) for p in players]
    for number in range(1, rounds + 1):
        for i, made in _round(scene, view, states, number, judge, seed, pool).items():
            records[i].rounds.append(made)
        for record, state in zip(records, states, strict=True):
            if state.content and len(record.rounds) < number:
                record.rounds.append(_repeat(record, state, number, judge))
        _keep_bounds(records, states)
    return records


def _keep_bounds(records: Sequence[Trajectory], states: Sequence[_State]) -> None:
    """Let bound players who ended on the wrong side take over their leader's session."""
    for record, state in zip(records, states, strict=True):
        bound = state.player.bound
        if bound is None:
            continue
        own, theirs = record.rounds[-1], records[bound.leader].rounds[-1]
        above = own.scores[bound.measure] - theirs.scores[bound.measure]
        if above > 0 if bound.side == "below" else above < 0:
            record.rounds[-1] = replace(theirs, seconds_user=own.seconds_user, taken_over=True)
            leader = states[bound.leader]
            state.mask, state.prompts = leader.mask, leader.prompts
            state.last, state.content = leader.last, leader.content


def _round(
    scene: Scene,
    view: View,
    states: Sequence[_State],
    number: int,
    judge: Judge,
    seed: int,
    pool: Executor | None,
) -> dict[int, Round]:
    """Ask every player who is not content, then the view, then the judge."""
    active = [i for i, state in enumerate(states) if not state.content]
    prompts = _next_prompts(scene, view, [states[i] for i in active], number, seed, pool)
    speaking: list[tuple[int, Prompt, float]] = []
    for i, (prompt, seconds) in zip(active, prompts, strict=True):
        if prompt is None:
            states[i].content = True
        else:
            speaking.append((i, prompt, seconds))
    if not speaking:
        return {}
    asks = [_ask(view, states[i], prompt) for i, prompt, _ in speaking]
    places, unique = _distinct(asks, [states[i].last for i, _, _ in speaking])
    start = perf_counter()
    predictions = view.answer(unique)
    masks = render(view, predictions)
    share = (perf_counter() - start) / len(unique)
    for (i, _, _), ask, place in zip(speaking, asks, places, strict=True):
        states[i].prompts, states[i].last = ask.prompts, predictions[place]
        states[i].mask = masks[place]
    scores = _judge_once(judge, [states[i] for i, _, _ in speaking], pool)
    return {
        i: Round(
            number,
            prompt,
            states[i].mask,
            score,
            float(predictions[place].scores[predictions[place].shown]),
            predictions[place].shown,
            ask.memory is not None,
            len(unique),
            share,
            seconds,
        )
        for (i, prompt, seconds), ask, place, score in zip(
            speaking, asks, places, scores, strict=True
        )
    }


def _next_prompts(
    scene: Scene,
    view: View,
    states: Sequence[_State],
    number: int,
    seed: int,
    pool: Executor | None,
) -> list[tuple[Prompt | None, float]]:
    """Each player's next prompt with the seconds it took; teams are asked as one."""
    answers: list[tuple[Prompt | None, float]] = [(None, 0.0)] * len(states)
    teams, alone = _teams(states)
    for team, members in teams:
        start = perf_counter()
        users = [states[i].player.user for i in members]
        sights = [_sight(scene, view, states[i], number) for i in members]
        draws = [_draws(scene, states[i], number, seed) for i in members]
        prompts = team.next_for(users, sights, draws)
        share = (perf_counter() - start) / len(members)
        for i, prompt in zip(members, prompts, strict=True):
            answers[i] = (prompt, share)

    def one(i: int) -> tuple[Prompt | None, float]:
        start = perf_counter()
        sight = _sight(scene, view, states[i], number)
        draws = _draws(scene, states[i], number, seed)
        prompt = states[i].player.user.next(sight, draws)
        return prompt, perf_counter() - start

    for i, answer in zip(alone, _each(one, alone, pool), strict=True):
        answers[i] = answer
    return answers


def _teams(states: Sequence[_State]) -> tuple[list[tuple[Any, list[int]]], list[int]]:
    """Each team with the places of its members, and the places of those who have none."""
    members: dict[int, tuple[Any, list[int]]] = {}
    alone = []
    for i, state in enumerate(states):
        team = _team(state.player.user)
        if team is None:
            alone.append(i)
        else:
            members.setdefault(id(team), (team, []))[1].append(i)
    return list(members.values()), alone


def _team(user: User) -> Any:
    """The user's team; none for a subclass that does not say so, since it may act differently."""
    named = "team" in vars(type(user)) or "team" in getattr(user, "__dict__", ())
    return getattr(user, "team", None) if named else None


def _sight(scene: Scene, view: View, state: _State, number: int) -> Sight:
    return Sight(
        scene,
        state.player.target,
        state.mask,
        state.prompts,
        state.player.reading,
        view,
        state.last,
        number,
    )


def _draws(scene: Scene, state: _State, number: int, seed: int) -> Any:
    player = state.player
    return later_generator(
        seed, scene.dataset, scene.id, player.target.id, player.user.name, number
    )


def _ask(view: View, state: _State, prompt: Prompt) -> Ask:
    prompts = (*state.prompts, prompt)
    memory = None if state.last is None else state.last.memory
    kept = memory is not None and keeps_memory(view, prompts, state.player.reading)
    return Ask(prompts, memory if kept else None)


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
    judge: Judge, states: Sequence[_State], pool: Executor | None
) -> list[dict[str, float]]:
    """Scores of each state's mask; a mask that several share is judged once a target."""
    pixels = sum(state.mask.bits.size for state in states)
    helpers = pool if pixels > _WORTH_THREADS else None
    keys = [(state.player.target.id, id(state.mask)) for state in states]
    first = dict(zip(keys, states, strict=True))
    scores = _each(lambda s: judge(s.player.target, s.mask), list(first.values()), helpers)
    known = dict(zip(first, scores, strict=True))
    return [known[key] for key in keys]


def _repeat(record: Trajectory, state: _State, number: int, judge: Judge) -> Round:
    """A round in which the user was content: the last mask stands."""
    if record.rounds:
        last = record.rounds[-1]
        return Round(number, None, last.mask, last.scores, last.model_score, last.candidate)
    return Round(number, None, state.mask, judge(state.player.target, state.mask))


def _each(
    function: Callable[[Given], Made], items: Iterable[Given], pool: Executor | None
) -> list[Made]:
    return list(map(function, items) if pool is None else pool.map(function, items))
