"""What the typed values of options mean."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.api.loading import dataset_spec
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.runtime.remote_files import Roots, as_typed, is_address

if TYPE_CHECKING:
    from segmeter.core.models import ProtocolName

__all__ = [
    "benchmark_options",
    "dataset_spec",
    "finite",
    "protocols",
    "roots",
    "shard_of",
]


def protocols(choice: str) -> tuple[ProtocolName, ...]:
    """The protocols that a choice stands for."""
    match choice:
        case "both":
            return ("published", "corrected")
        case "published":
            return ("published",)
        case "corrected":
            return ("corrected",)
    raise BadInput(f"--protocol is published, corrected or both, not '{choice}'")


def roots(data: Path | None, weights: Path | None) -> Roots:
    """Where data and weights lie, folders or addresses; a folder that was named must be there."""
    found = [None if path is None else as_typed(path) for path in (data, weights)]
    for flag, path in zip(("--data", "--weights"), found, strict=True):
        if path is not None and not is_address(path) and not Path(path).is_dir():
            raise BadInput(f"{flag}: there is no folder '{path}'")
    return Roots(found[0], found[1])


def shard_of(text: str) -> tuple[int, int]:
    """Which shard of how many.

    >>> shard_of("2/4")
    (2, 4)
    """
    which, _, all_ = text.partition("/")
    if not (which.isdecimal() and all_.isdecimal() and 1 <= int(which) <= int(all_)):
        raise BadInput(f"--shard is which of how many, as 1/4, not '{text}'")
    return int(which), int(all_)


def finite(flag: str, value: float, *, above: float = -math.inf) -> float:
    """A number from the command line; ranges alone would let through what is not a number."""
    if not math.isfinite(value) or value <= above:
        wanted = "a number" if above == -math.inf else f"a number above {above:g}"
        raise BadInput(f"{flag} is {wanted}, not {value:g}")
    return value


def benchmark_options(texts: list[str]) -> dict[str, Any]:
    """Settings of a benchmark's own, each as `name=value`; values are JSON where they can be."""
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise BadInput(f"--option is name=value, not '{text}'")
    return dict(Spec.parse("benchmark?" + "&".join(texts)).options)
