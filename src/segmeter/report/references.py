"""References of a run: BibTeX of everything it used, from the citations on the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.errors import SegmeterError
from segmeter.core.measures import Measure
from segmeter.core.received import received

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
    """One entry for each source, with what it was used for."""
    used: dict[str, list[str]] = {}
    for what, text in citations.items():
        for source in re.split(r";\s+(?=[A-Z][\w-]+(?:,|\.| et al| and ))", text):
            used.setdefault(source, []).append(what)
    keys: set[str] = set()
    return "\n".join(_entry(text, whats, keys) for text, whats in used.items())


def _entry(text: str, whats: Sequence[str], keys: set[str]) -> str:
    authors, title, rest = _parts(text)
    years = re.findall(r"\b(?:19|20)\d\d\b", text)
    key = _key(authors, years[-1] if years else "", keys)
    fields = {
        "author": " and ".join(_people(authors)),
        "title": title,
        "howpublished": rest,
        "year": years[-1] if years else "",
        "note": f"used for: {', '.join(whats)}",
    }
    lines = [f"  {name} = {_braced(name, value)}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{{key},", *lines, "}", ""])


def _braced(field: str, value: str) -> str:
    """A value in braces; a title in two, so that its capitals stay."""
    return f"{{{{{_plain(value)}}}}}" if field == "title" else f"{{{_plain(value)}}}"


def _parts(text: str) -> tuple[str, str, str]:
    """Authors, title, and where it appeared, of a citation in either style of the cards.

    >>> _parts("P. Jaccard, The distribution of the flora, New Phytologist 11, 1912")
    ('P. Jaccard', 'The distribution of the flora', 'New Phytologist 11, 1912')
    """
    initials = re.match(r"(?:(?:[A-Z]\.[ -]?)+[^\W\d_][\w'-]*(?:, | and )?)+", text)
    if initials:
        title, _, where = text[initials.end() :].partition(", ")
        return initials[0].removesuffix(", "), title, where
    authors, _, rest = text.partition(". ")
    title, _, where = rest.partition(". ")
    return authors, title, where


def _people(authors: str) -> Iterator[str]:
    others = authors.endswith("et al")
    names = re.split(r",\s*| and ", authors.removesuffix("et al").strip())
    yield from (name for name in names if name)
    if others:
        yield "others"


def _key(authors: str, year: str, keys: set[str]) -> str:
    words = re.findall(r"[A-Z][a-z]+|[a-z]{4,}", authors)
    stem = words[0].lower() if words else "source"
    key, k = f"{stem}{year}", 2
    while key in keys:
        key, k = f"{stem}{year}-{k}", k + 1
    keys.add(key)
    return key


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
