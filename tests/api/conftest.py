"""Commands typed in this process, as in the tests of the command line."""

from ..cli.conftest import Typed, cache_home, type_here, typed

__all__ = ["Typed", "cache_home", "type_here", "typed"]
