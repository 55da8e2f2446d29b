"""The API of `import segmeter`: one module per thing that people do.

Front ends such as the command line import this package and nothing below it.
"""

import importlib
from typing import Any

from segmeter.core.catalogue import short
from segmeter.core.grouping import grouped
from segmeter.core.plans import display_names, with_titles
from segmeter.core.received_runs import contacts_only
from segmeter.core.wording import counted, printable, size_text

__all__ = [
    "contacts_only", "counted", "display_names", "grouped", "printable", "short", "size_text",
    "with_titles", "write_file",  # the last when first used
]  # fmt: skip

_CLICKS = ("click_files", "click_fitting", "click_response", "click_training")
_ON_DEMAND = ("fairness", "fetching", *_CLICKS)


def __getattr__(name: str) -> Any:
    """Import a module when it is first used, so that help texts need not wait for it."""
    if name in _ON_DEMAND:
        return importlib.import_module(f"segmeter.api.{name}")
    if name == "write_file":
        return importlib.import_module("segmeter.store.local").write_file
    raise AttributeError(f"module 'segmeter.api' has no attribute '{name}'")
