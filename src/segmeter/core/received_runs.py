"""Trust in received runs: which names in them may be executed, read or contacted.

A run may come from a stranger, and its plan names models, datasets, users, measures and a
benchmark. Built-in and installed names are always looked up. A Python file is executed, and a URL
is contacted, only if the person named it in this command or trusts the run. A folder is read only
if its content has the fingerprint that the plan notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from segmeter.core.errors import NotFound

if TYPE_CHECKING:
    from segmeter.core.plans import Plan
    from segmeter.core.scenes import Dataset


_MARKS = re.compile(r"[=,&?]")
# Python files and addresses that a person named, and whether all others may be used as well.
_named: frozenset[str] = frozenset()
_open = True  # for all threads; narrowed by the command line
_here: ContextVar[bool | None] = ContextVar("open", default=None)


@contextmanager
def received(active: bool = True) -> Iterator[None]:
    """Look names up as those of a received run; not if it is trusted (`active=False`).

    >>> with received():
    ...     check_chosen("model", "theirs.py:Net")
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: the model 'theirs.py:Net' is a Python file, ...
    """
    before = _here.set(not active)
    try:
        yield
    finally:
        _here.reset(before)


@contextmanager
def contacts_only(words: Iterable[str]) -> Iterator[None]:
    """Let the whole process use only the Python files and addresses in the words of a command.

    >>> with contacts_only(["run", "noc", "--model=mine.py:Net?side=9"]):
    ...     check_chosen("model", "mine.py:Net")
    """
    global _named, _open
    given = list(words)  # `--model=mine.py:Net?side=9` holds `mine.py:Net`
    parts = (part for word in given for part in (word.partition("=")[2], *_MARKS.split(word)))
    before = _named, _open
    _named, _open = frozenset((*given, *parts)), False
    try:
        yield
    finally:
        _named, _open = before


def check_chosen(kind: str, name: str) -> None:
    """Refuse a Python file, weights or a service as a model unless the user has chosen it.

    >>> check_chosen("model", "mine.py:Net")  # in Python, the caller has
    >>> with received():
    ...     check_chosen("model", "theirs.pth")
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: the model 'theirs.pth' is a file or an address, ...
    """
    if _all_allowed() or name in _named:
        return
    python = "a Python file, which reading a run does not execute"
    what = python if ".py:" in name else "a file or an address, which reading a run does not open"
    own = f"if it is yours, name it in this command too (--{kind} {name}); "
    way_out = own if kind in ("model", "method", "user") else ""
    raise NotFound(f"the {kind} '{name}' is {what}; {way_out}if you trust the authors, use --trust")


def may_contact(address: str) -> bool:
    """Whether an address may be contacted: named by a person, or below one that was.

    >>> with contacts_only(["--data", "s3://bucket/data"]):
    ...     may_contact("s3://bucket/data/grabcut"), may_contact("s3://bucket/other")
    (True, False)
    """
    below = tuple(f"{known.rstrip('/')}/" for known in _named if "://" in known)
    return _all_allowed() or f"{address.rstrip('/')}/".startswith(below)


def check_names(plan: Plan, chosen: Plan | None = None) -> None:
    """Refuse a plan that names a Python file or an address which is not in the `chosen` plan.

    >>> from segmeter.core.catalogue import Spec
    >>> from segmeter.core.plans import Plan
    >>> plan = Plan("noc", (Spec("disc"),), (Spec("folder", {"path": "http://host/images"}),))
    >>> with received():
    ...     check_names(plan)
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: the run names the address 'http://host/images' (dataset), ...
    """
    known = set() if chosen is None else {text for _, text in _named_by(chosen)}
    for kind, text in _named_by(plan):
        if text in known:
            continue
        if ".py:" in text:
            check_chosen(kind, text)
        if "://" in text and not may_contact(text):
            raise NotFound(
                f"the run names the address '{text}' ({kind}), which reading it does not contact; "
                "if you trust the author of the run, use --trust"
            )


def _named_by(plan: Plan) -> Iterator[tuple[str, str]]:
    """All texts of a plan that name something, with what they name."""
    yield "benchmark", plan.benchmark
    yield from (("measure", name) for name in plan.measures)
    kinds = ((plan.kind, plan.segmenters), ("dataset", plan.datasets), ("user", plan.users))
    for kind, specs in kinds:
        for spec in specs:
            yield kind, spec.name
            yield from ((kind, text) for text in _texts(spec.options))
    yield from (("option", text) for text in _texts(plan.options))


def check_data(plan: Plan, name: str, made: Dataset, address: str) -> None:
    """Refuse a folder that is not the data of the run: its fingerprint must be the noted one.

    >>> from segmeter.core import catalogue
    >>> from segmeter.core.plans import Plan
    >>> with received():
    ...     check_data(Plan("noc", (), ()), "mini", catalogue.datasets.make("mini"), "runs/sent")
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: the data of 'mini' is not the data that 'runs/sent' was run on
    """
    noted = plan.fingerprints.get(name, "")
    if not noted and _all_allowed():
        return
    if not noted or made.fingerprint() != noted:
        raise NotFound(f"the data of '{name}' is not the data that '{address}' was run on")


def _all_allowed() -> bool:
    here = _here.get()
    return _open if here is None else here


def _texts(value: object) -> Iterator[str]:
    """All texts inside the options of a plan."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
