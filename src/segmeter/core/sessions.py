"""Sessions: one user prompts an encoded scene round by round and gets masks back.

`Session.step` is one round of one session, called by notebooks, replays and studies.
`run_round` is a round of several sessions of one encoded scene, as `core.lockstep` runs for
simulated users: all requests go in one call, and sessions with equal prompts and state share a
request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeVar

from segmeter.core import models
from segmeter.core.capabilities import OffersSome
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Prediction, ProtocolName, Request
from segmeter.core.prompts import MaskHint, Prompt, Prompts, as_prompts, check_inside
from segmeter.core.scenes import Scene, Target

Given = TypeVar("Given")
Made = TypeVar("Made")

# Threads take turns at the interpreter: below so many pixels per round waiting costs more than
# it saves (eleven sessions of a DAVIS frame: 0.12 s per target with eight threads, 0.03 without).
_WORTH_THREADS = 4_000_000

Scores = dict[str, float]
Judge = Callable[[Target, Mask], Scores]


@dataclass(frozen=True, slots=True)
class Round:
    """One round: prompts, mask, scores, seconds.

    If the user accepts the mask, there is no prompt, and the round repeats the last mask and
    scores. `candidate_scores` has the scores of every candidate mask if all were scored.
    `seconds_predict` is the session's share of a call with `batch_size` requests; `seconds_user`
    is the time that a person took, or a simulated user to compute. An `inherited` round was run
    by another session (`lockstep.Bound`).

    >>> mask = Mask.box((40, 50), (10, 20), (30, 40))
    >>> Round(number=2, prompts=(), mask=mask, scores={"iou": 0.93}).stopped
    True
    """

    number: int
    prompts: tuple[Prompt, ...]
    mask: Mask
    scores: Scores
    model_score: float = float("nan")
    mask_index: int = -1
    candidate_scores: tuple[Scores, ...] = ()
    mask_fed_back: bool = False
    batch_size: int = 0
    seconds_predict: float = 0.0
    seconds_user: float = 0.0
    inherited: bool = False

    @property
    def stopped(self) -> bool:
        return not self.prompts


class Session:
    """One user prompting one encoded scene, round by round.

    Parameters
    ----------
    target
        The object to segment; None where it is unknown, as for a detector's box.
    judge
        Scores a mask against the target; None for no scores.
    protocol
        The protocol of the whole session, predictions included.
    oracle_rounds
        Number of first rounds in which every candidate is scored, not only the shown one.
    forgets
        The model gets only the new prompts of a round, with its own state.
    start
        The mask to correct; the model gets it as a mask prompt. None or an empty
        mask starts from nothing.

    Examples
    --------
    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene()
    >>> session = Session(scene, Disc(radius=5).encode(scene))
    >>> session.step(Click((40, 60))).mask.area
    81
    """

    def __init__(
        self,
        scene: Scene,
        encoded: EncodedScene,
        target: Target | None = None,
        *,
        judge: Judge | None = None,
        protocol: ProtocolName = "corrected",
        oracle_rounds: int = 0,
        forgets: bool = False,
        start: Mask | None = None,
    ) -> None:
        self.scene = scene
        self.encoded = models.in_protocol(encoded, protocol)
        self.target = target
        self.judge = judge
        self.protocol: ProtocolName = protocol
        self.oracle_rounds = oracle_rounds
        self.forgets = forgets
        self.start = start or None
        self.mask = start or Mask.empty(scene.shape)
        self.prompts: tuple[Prompt, ...] = ()
        self.last: Prediction | None = None
        self.stopped = False
        self.rounds: list[Round] = []

    def step(self, prompts: Prompts, *, seconds_user: float = 0.0) -> Round:
        """Give the next prompts and return the round; no prompts accept the mask."""
        given = as_prompts(prompts)
        if not given:
            return self.rest(seconds_user)
        run_round([self], [given], [seconds_user])
        return self.rounds[-1]

    def rest(self, seconds_user: float = 0.0) -> Round:
        """A round without prompts: the user accepted the last mask."""
        self.stopped = True
        if self.rounds:
            last = self.rounds[-1]
            kept = last.mask, last.scores, last.model_score, last.mask_index, last.candidate_scores
            made = Round(last.number + 1, (), *kept, seconds_user=seconds_user)
        else:
            made = Round(1, (), self.mask, self.scores_of(self.mask), seconds_user=seconds_user)
        self.rounds.append(made)
        return made

    def take_over(self, other: Session) -> None:
        """Continue from the current state of another session of the same scene."""
        own, theirs = self.rounds[-1], other.rounds[-1]
        self.rounds[-1] = replace(theirs, seconds_user=own.seconds_user, inherited=True)
        self.mask, self.prompts = other.mask, other.prompts
        self.last, self.stopped = other.last, other.stopped

    def request(self, prompts: tuple[Prompt, ...]) -> Request:
        """All prompts so far and the new ones, with the state of the last prediction."""
        check_inside(prompts, self.scene)
        every = prompts if self.forgets else (*self.prompts, *prompts)
        if self.start is not None and not (self.forgets and self.prompts):
            every = (MaskHint(self.start), *every)
        state = None if self.last is None else self.last.state
        kept = state is not None and models.keeps_state(self.encoded, every, self.protocol)
        return Request(every, state if kept else None)

    def scores_of(self, mask: Mask) -> Scores:
        """A mask's scores; none without a judge or a target."""
        return {} if self.judge is None or self.target is None else self.judge(self.target, mask)


def run_round(
    sessions: Sequence[Session],
    prompts: Sequence[tuple[Prompt, ...]],
    seconds: Sequence[float],
    pool: Executor | None = None,
) -> None:
    """A round of several sessions of one encoded scene: one call for all of them, then scores.

    `seconds` is the time each user took.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> from segmeter.core.prompts import Click
    >>> scene = drawn_scene(); encoded = Disc(radius=5).encode(scene)
    >>> sessions = [Session(scene, encoded), Session(scene, encoded)]
    >>> run_round(sessions, [(Click((40, 60)),), (Click((50, 70)),)], [0.0, 0.0])
    >>> [session.rounds[-1].batch_size for session in sessions]
    [2, 2]
    """
    encoded = sessions[0].encoded
    if any(session.encoded is not encoded for session in sessions):
        raise BadInput("sessions of one round must share one encoded scene and one protocol")
    requests = [session.request(given) for session, given in zip(sessions, prompts, strict=True)]
    places, unique = _distinct(requests, [session.last for session in sessions])
    start = perf_counter()
    predictions = encoded.predict(unique)
    masks = models.render(encoded, predictions)
    share = (perf_counter() - start) / len(unique)
    for session, given, place in zip(sessions, prompts, places, strict=True):
        session.prompts = (*session.prompts, *given)
        session.last, session.mask = predictions[place], masks[place]
    scores = _judge_once(sessions, places, pool)
    oracle = _judge_candidates(sessions, pool)
    for i, (session, place) in enumerate(zip(sessions, places, strict=True)):
        prediction = predictions[place]
        made = Round(
            number=len(session.rounds) + 1,
            prompts=prompts[i],
            mask=masks[place],
            scores=scores[i],
            model_score=float(prediction.scores[prediction.shown]),
            mask_index=prediction.shown,
            candidate_scores=oracle[i],
            mask_fed_back=requests[i].state is not None,
            batch_size=len(unique),
            seconds_predict=share,
            seconds_user=seconds[i],
        )
        session.rounds.append(made)


def _distinct(
    requests: Sequence[Request], lasts: Sequence[Prediction | None]
) -> tuple[list[int], list[Request]]:
    """Index of each request among the distinct ones, and the distinct requests.

    Requests are equal if their prompts are equal and their state is that of one prediction.
    """
    seen: dict[tuple[object, int], int] = {}
    unique: list[Request] = []
    places = []
    for request, last in zip(requests, lasts, strict=True):
        key = (request.prompts, 0 if request.state is None else id(last))
        if key not in seen:
            seen[key] = len(unique)
            unique.append(request)
        places.append(seen[key])
    return places, unique


def _judge_once(
    sessions: Sequence[Session], places: Sequence[int], pool: Executor | None
) -> list[Scores]:
    """Scores of each session's mask; a mask that several share is judged once per target."""
    keys = [(s.target and s.target.id, place) for s, place in zip(sessions, places, strict=True)]
    first = dict(zip(keys, sessions, strict=True))
    helpers = pool if sum(s.mask.bits.size for s in sessions) > _WORTH_THREADS else None
    scores = mapped(lambda session: session.scores_of(session.mask), list(first.values()), helpers)
    known = dict(zip(first, scores, strict=True))
    return [known[key] for key in keys]


def _judge_candidates(
    sessions: Sequence[Session], pool: Executor | None
) -> list[tuple[Scores, ...]]:
    """Scores of every candidate, in the rounds in which a session needs them."""

    def one(session: Session) -> tuple[Scores, ...]:
        found = session.last
        if found is None or len(session.rounds) >= session.oracle_rounds:
            return ()
        offered = found.offered if isinstance(found, OffersSome) else range(len(found.scores))
        return tuple(session.scores_of(found.mask(k)) for k in offered)

    return mapped(one, sessions, pool)


def mapped(
    function: Callable[[Given], Made], items: Iterable[Given], pool: Executor | None
) -> list[Made]:
    """Apply a function to each item, in order: in a pool, or in this thread without one.

    >>> mapped(abs, [-1, 2], None)
    [1, 2]
    """
    return list(map(function, items) if pool is None else pool.map(function, items))
