"""Which users fit which models: slices or the whole, and the prompts a model takes."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.core.capabilities import prompts_given_by
from segmeter.core.models import Model
from segmeter.core.users import User
from segmeter.models.volumes.slicewise import Slicewise
from segmeter.users.volumes.intrabench_prompters import Prompter
from segmeter.users.volumes.intrabench_refiners import Refiner

__all__ = ["DEFAULT_USERS", "fits", "fitting", "needs", "sees_slices"]

DEFAULT_USERS = (
    "point-interpolation?n=3",
    "point-interpolation?n=5",
    "point-propagation",
    "points-per-slice?n=1",
    "points-per-slice?n=5",
    "box-propagation",
    "boxes-from-3d-box",
    "box-interpolation?n=3",
    "box-interpolation?n=5",
    "box-per-slice",
    "scribble-refinement?start=point-interpolation&n=5",
    "scribble-refinement?start=box-interpolation&n=3",
    "centre-points-per-volume?n=1",
    "box-3d",
    "point-per-volume-refinement?start=centre-points-per-volume",
)
"""Prompters for slices and for the whole; each model gets those that fit it."""


def needs(user: User) -> frozenset[str]:
    """Every kind of prompt that a user may give."""
    if isinstance(user, Prompter):
        return user.gives or frozenset({"click"})
    return prompts_given_by(user) | {"click"}


def sees_slices(model: Model) -> bool:
    """Whether a model looks at a volume slice by slice: all that are not made for volumes."""
    return isinstance(model, Slicewise) or "volume" not in model.card.abilities


def fits(model: Model, user: User) -> bool:
    """Whether a model takes what a user gives, where it gives it.

    Prompters of slices and of the whole are kept apart; users who click one voxel a round
    may play with either.
    """
    if not needs(user) <= model.card.abilities:
        return False
    if isinstance(user, Prompter | Refiner):
        return user.whole is not sees_slices(model)
    return True


def fitting(model: Model, users: Sequence[User]) -> list[User]:
    """The users that a model can play with, in their order."""
    return [user for user in users if fits(model, user)]
