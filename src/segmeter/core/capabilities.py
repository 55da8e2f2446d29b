"""Capabilities: optional interfaces of encoded scenes, models, methods and users.

A class declares its capabilities by name, `@capable(RendersTogether, KeepsState)`, and subclasses
inherit them. `isinstance(thing, RendersTogether)` is true only for what was declared: a method of
the same name is not enough. To type checkers a capability is a protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from typing import runtime_checkable as capability

    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    from segmeter.core.action_counts import Effort
    from segmeter.core.masks import Mask
    from segmeter.core.models import EncodedScene, Prediction, ProtocolName, Request, Segmentation
    from segmeter.core.plans import Plan
    from segmeter.core.prompts import Prompt, Prompts
    from segmeter.core.scenes import Dataset, Scene, Target
    from segmeter.core.users import Observation, User

__all__ = ["capability"]  # to type checkers it is imported

Declaring = TypeVar("Declaring")
JudgePair: TypeAlias = "Callable[[Target, Mask], tuple[float, float]]"
PhraseObjects: TypeAlias = "tuple[str, bool, Sequence[tuple[Sequence[Mask], Sequence[Mask]]]]"
"""A phrase, whether its objects are annotated exhaustively, and the objects and crowd regions of
each annotator."""


class _Capability(type):
    """Metaclass of capabilities: at run time each is a name that classes declare."""

    def __instancecheck__(cls, thing: object) -> bool:
        return cls.__name__ in getattr(type(thing), "capabilities", ())


if not TYPE_CHECKING:

    def capability(protocol):
        """Make a capability of a protocol."""
        kept = {key: getattr(protocol, key) for key in ("__doc__", "__module__", "__qualname__")}
        return _Capability(protocol.__name__, (), kept)


def capable(*declared: object) -> Callable[[Declaring], Declaring]:
    """Declare that a class has capabilities, besides those of its base classes.

    >>> @capable(OnDevice)
    ... class Model:
    ...     device = "cpu"
    >>> isinstance(Model(), OnDevice), isinstance(Model(), WithWeights)
    (True, False)
    """
    names = frozenset(getattr(one, "__name__", "") for one in declared)

    def declare(cls: Declaring) -> Declaring:
        cls.capabilities = getattr(cls, "capabilities", frozenset()) | names  # type: ignore[attr-defined]
        return cls

    return declare


@capability
class RendersTogether(Protocol):
    """An encoded scene that renders the shown masks of many predictions in one call."""

    def render(self, predictions: Sequence[Prediction]) -> Sequence[Mask]: ...


@capability
class KeepsState(Protocol):
    """An encoded scene that decides whether its last state goes back with the next prompts.

    The originals sometimes drop it; see the protocol `published`.
    """

    def keeps_state(self, prompts: tuple[Prompt, ...], protocol: ProtocolName) -> bool: ...


@capability
class ScoresSingleClicks(Protocol):
    """An encoded scene with a fast path for thousands of single clicks, as in a click-response map.

    `single_click_scores` gives IoU and Boundary IoU `(n, 2)` after a single positive click at
    each point `(n, 2)`, or None where there is no fast path. `judge_pair` scores a mask by
    both, `band_px` is the width of the boundary's band (0 leaves it out); `speed` are
    options of the fast path: precision, compilation, progress.
    """

    def single_click_scores(
        self,
        points: npt.NDArray[np.int64],
        target: Target,
        judge_pair: JudgePair,
        band_px: int,
        **speed: Any,
    ) -> npt.NDArray[np.float64] | None: ...


@capability
class OffersSome(Protocol):
    """A prediction that holds more candidates than a person is offered in this round."""

    offered: Sequence[int]


@capability
class OnDevice(Protocol):
    """A model with a `device`."""

    device: Any


@capability
class WithWeights(Protocol):
    """A model with a weights file."""

    weights_path: Any


@capability
class Sweeps(Protocol):
    """A method that segments a scene at each of its settings."""

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]: ...


@capability
class SweepsProtocols(Protocol):
    """A method whose sweep has a result for each protocol, all from encoding the scene once."""

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]: ...


@capability
class SweptByRegions(Protocol):
    """A method that lists the region counts at which its hierarchies are cut."""

    region_counts: Sequence[int]


@capability
class RepeatsDraws(Protocol):
    """A user who repeats each session with other random draws; the first is draw 1."""

    draw: int


@capability
class GivesPrompts(Protocol):
    """A user who gives other prompts than clicks, by the names of abilities.

    A model that does not take them is refused before the run and not at every object.
    """

    gives: frozenset[str]


@capability
class GivesLater(Protocol):
    """A user whose prompts change kind after the first round, such as a box and then clicks."""

    gives_later: frozenset[str]


@capability
class FollowsProtocol(Protocol):
    """An encoded scene that predicts in either protocol from the same embeddings."""

    def in_protocol(self, protocol: ProtocolName) -> EncodedScene: ...


@capability
class ChoosesUsers(Protocol):
    """A benchmark that leaves out, for each model, the users that do not fit it.

    `left_out` has a sentence for each user of a run's plan that was not run for a model.
    """

    def users_for(self, segmenter: Any, users: Sequence[User]) -> Sequence[User]: ...

    def left_out(self, run: Any) -> Sequence[str]: ...


@capability
class ShowsSessions(Protocol):
    """A benchmark whose `viewer` is the block of a page for the rows of one session.

    SegmeterError where there is none.
    """

    def viewer(self, scene: Any, ground_truth: Any, rows: Any) -> Any: ...


@capability
class WritesChallengeTable(Protocol):
    """A benchmark that writes a model's results as the CSV that a challenge expects."""

    def challenge_table(self, run: Any, model: str, protocol: str) -> str: ...


@capability
class RunsUsersIndependently(Protocol):
    """A benchmark whose rows of one user do not depend on the other users.

    Users can then be added to scenes that are already done.
    """


@capability
class LosesPrompts(Protocol):
    """An encoded scene whose crops or coarser grids can lose prompts or whole targets.

    `lost_prompts` counts those of each round of a session that the network does not get; a target
    vanishes if nothing of it is left on the network's grid.
    """

    def lost_prompts(self, rounds: Sequence[Sequence[Prompt]]) -> list[int]: ...

    def vanishes(self, target: Mask) -> bool: ...


@capability
class ForgetsPrompts(Protocol):
    """A user whose earlier prompts are not given to the model again.

    The model then gets only the new prompts and its own state.
    """

    forgets_prompts: bool


@capability
class CountsEffort(Protocol):
    """A user who states the effort of a person for the prompts of round `number`.

    `paper_interactions` are those that a paper would print, such as `5` or `2X` for two per slice.
    """

    paper_interactions: str

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort: ...


@capability
class ChecksData(Protocol):
    """A benchmark that refuses files of its own that are wrong before anything is written."""

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None: ...


@capability
class HasVocabulary(Protocol):
    """A scene whose dataset lists its classes, so that some are known to be absent."""

    absent_classes: Sequence[str]
    classes_by_scene: Mapping[str, frozenset[str]]


@capability
class HasPhrases(Protocol):
    """A scene that comes with phrases and the objects that they name; none for a negative."""

    phrases: Sequence[PhraseObjects]


@capability
class HasScanInfo(Protocol):
    """A volume with its scan parameters and its intensity window."""

    modality: str
    window: tuple[float, float] | None
    slice_numbers: tuple[tuple[str, int, int], ...]
    """For each axis `(z, y, x)`: the file's word for a slice, the first number, the step."""


class MovableClicks(Protocol):
    """Many sessions whose last click may move, each in the frame its network sees.

    From `step_sizes` the published attack takes its step; SAM's wrapper takes the image's size
    although its clicks are in another frame.
    """

    sizes: list[tuple[int, int]]  # height and width of each session's frame
    step_sizes: list[tuple[int, int]]

    def start(self) -> Tensor:
        """Positions of the last clicks, `(B, 2)`: row and column in each frame."""

    def logits(self, points: Tensor) -> list[Tensor]:
        """Logits `(h, w)`, one per session, differentiable in the points `(B, 2)`."""

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        """Masks of these logits at the image's size."""

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        """A mask of the image on the grid of a session's logits, 0 and 1."""

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        """A map of the image, `(H, W)`, in a session's frame."""

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        """Points of the frames in the image."""


@runtime_checkable
class Differentiable(Protocol):
    """An encoded scene whose logits are differentiable in the position of the last click."""

    def movable_clicks(self, requests: Sequence[Request]) -> MovableClicks: ...


class Team(Protocol):
    """Users for whom the next prompts of many at once are cheaper than one by one.

    `generators(i)` makes the random generator of the i-th user; most users draw nothing.
    """

    def __call__(
        self,
        users: Sequence[Any],
        observations: Sequence[Observation],
        generators: Callable[[int], np.random.Generator],
        /,
    ) -> Sequence[Prompts]: ...


def prompts_given_by(user: User, rounds: int = 1) -> frozenset[str]:
    """Kinds of prompts that a user gives in that many rounds; clicks if it declares none.

    >>> from segmeter.core import catalogue
    >>> sorted(prompts_given_by(catalogue.users.make('scribble')))
    ['scribble']
    >>> sorted(prompts_given_by(catalogue.users.make('box'), rounds=2))
    ['box', 'click']
    """
    given = user.gives if isinstance(user, GivesPrompts) else frozenset()
    later = user.gives_later if isinstance(user, GivesLater) and rounds > 1 else frozenset()
    return given | later


def team_of(user: User) -> Team | None:
    """The team that a user names as `team`; none for a subclass that does not name one itself.

    A subclass may act differently from what its parent's team would do for it.

    >>> from segmeter.core import catalogue
    >>> team_of(catalogue.users.make('scribble')) is None
    True
    """
    for place in (vars(type(user)), getattr(user, "__dict__", {})):
        if "team" in place:
            team: Team | None = getattr(user, "team", None)
            return team
    return None
