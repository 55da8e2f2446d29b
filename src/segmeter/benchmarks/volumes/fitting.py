"""Which users fit which models: slices or the whole, and the prompts a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from segmeter.benchmarks.volumes import PROMPTERS
from segmeter.benchmarks.volumes.tables import typed
from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.capabilities import prompts_given_by
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.models import Model, ProtocolName
from segmeter.core.users import User
from segmeter.models.volumes.slicewise import Slicewise
from segmeter.users.volumes.intrabench_prompters import Prompter, Refiner


def fits(model: Model, user: User) -> bool:
    """Whether a model takes what a user gives, where it gives it.

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
    ran: dict[str, set[str]] = {}
    for row in run.sql("select distinct model, prompter from sessions order by all").to_pylist():
        ran.setdefault(row["model"], set()).add(row["prompter"])
    asked = [name for spec in run.plan.users if ".py:" not in spec.name for name in _names(spec)]
    sentences = []
    for model, users in ran.items():
        missing = [typed(name) for name in asked if name not in users]
        if missing:
            sentences.append(f"{model} does not take the prompts of: {', '.join(missing)}; not run")
    return sentences


def _names(spec: Spec) -> list[str]:
    try:
        return [catalogue.users.make(spec).name]
    except SegmeterError:  # a user that this version does not have
        return []
