"""References of a run: BibTeX of everything it used, by the keys on the cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.errors import SegmeterError
from segmeter.core.measures import Measure
from segmeter.core.received import received
from segmeter.core.references import entries, sources

__all__ = ["bibtex", "citations_of"]


def citations_of(run: Results) -> dict[str, str]:
    """The citation of each thing that the run used; nothing that it names is run or contacted."""
    with received():
        return _citations(run)


def _citations(run: Results) -> dict[str, str]:
    plan = run.plan
    found = dict(_benchmark(run))
    for name, facts in run.provenance["segmenters"].items():
        found[f"{plan.kind} {name}"] = str(facts.get("citation", ""))
    for spec in plan.datasets:
        found[f"data set {spec.name}"] = _of_data(str(spec))
    for name in plan.measures:
        card = catalogue.measures.make(name) if name in catalogue.measures.names() else None
        found[f"measure {name}"] = card.cite if isinstance(card, Measure) else ""
    return {what: text for what, text in found.items() if text and text != "nothing to cite"}


def _benchmark(run: Results) -> Mapping[str, str]:
    """Citations of the run's benchmark, where it is installed."""
    try:
        cited: Mapping[str, str] = catalogue.benchmarks.make(run.plan.benchmark).citations
    except SegmeterError:
        return {}
    return cited


def _of_data(spec: str) -> str:
    try:
        return str(catalogue.datasets.make(spec).card.citation)
    except SegmeterError:  # not on this machine, so its citation is unknown
        return ""


def bibtex(citations: dict[str, str]) -> str:
    """One entry for each source, with what it was used for; free text is a note."""
    used: dict[str, list[str]] = {}
    for what, text in citations.items():
        for source in sources(text):
            used.setdefault(source, []).append(what)
    return "\n".join(_entry(number, *item) for number, item in enumerate(used.items(), 1))


def _entry(number: int, source: str, whats: Sequence[str]) -> str:
    note = _plain(f"used for: {', '.join(whats)}")
    if source in entries():
        return f"{entries()[source][:-2]}  note = {{{note}}},\n}}\n"
    return f"@misc{{source{number},\n  note = {{{_plain(source)}; {note}}},\n}}\n"


# What LaTeX would obey, as commands that print it; braces stay balanced for BibTeX.
_PRINTED = {
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{c: f"\\{c}" for c in "&%#_$"},
}


def _plain(text: str) -> str:
    r"""Text that LaTeX prints and does not obey; citations of a received run are not trusted.

    >>> print(_plain(r"50 % & \input{x}"))
    50 \% \& \textbackslash{}input\textbraceleft{}x\textbraceright{}
    """
    shown = "".join(c if c.isprintable() else " " for c in text)
    return "".join(_PRINTED.get(c, c) for c in shown)
