"""The order in which a view hands prompts on: which of them are new, which were heard before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from segmeter.core.prompts import Prompt

__all__ = ["Heard"]

Several: TypeAlias = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a session's last answer was told.

    Attributes
    ----------
    asked
        Its prompts as they were asked, oldest first.
    passed
        The same as they were handed on: IntRaBench's code lists the newest round first.
    """

    asked: Several = ()
    passed: Several = ()

    def new(self, prompts: Several) -> Several:
        """Those that were not heard; all of them when earlier ones are not said again.

        >>> from segmeter.core.prompts import Click
        >>> first, second = Click((1, 1, 1)), Click((2, 2, 2))
        >>> Heard((first,), (first,)).new((first, second)) == (second,)
        True
        """
        return prompts[len(self.asked) :] if self.repeated_in(prompts) else prompts

    def repeated_in(self, prompts: Several) -> bool:
        """Whether prompts begin with all that was heard, and say something new."""
        known = len(self.asked)
        return 0 < known < len(prompts) and prompts[:known] == self.asked

    def newest_first(self, prompts: Several) -> Several:
        """The new ones, then what was handed on before."""
        earlier = self.passed if self.repeated_in(prompts) else ()
        return (*self.new(prompts), *earlier)
