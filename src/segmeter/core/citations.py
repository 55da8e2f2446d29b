"""Citations: the works that cards cite by key, with their entries in `references.bib`.

A citation is one key or several with commas between, or free text on cards of your own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

_ENTRY = re.compile(r"@\w+\{(\w+),\n.*?\n\}\n", re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{+(.*?)\}+,$", re.MULTILINE)
_VENUES = ("booktitle", "journal", "school", "institution", "publisher")


@cache
def entries() -> Mapping[str, str]:
    """BibTeX entries by key.

    >>> entries()["jaccard1912"].splitlines()[0]
    '@article{jaccard1912,'
    """
    text = resources.files("segmeter").joinpath("references.bib").read_text("utf-8")
    return {found[1]: found[0] for found in _ENTRY.finditer(text)}


def sources(citation: str) -> list[str]:
    """The keys of a citation, or its text where it is not made of keys.

    >>> sources("walt2014, hunter2007"), sources("mine, 2024")
    (['walt2014', 'hunter2007'], ['mine, 2024'])
    """
    keys = citation.split(", ")
    return keys if all(key in entries() for key in keys) else [citation]


def cited(citation: str) -> str:
    """A citation for people: surnames of the authors, title, venue and year of each source.

    >>> cited("grady2006")
    'Grady. Random walks for image segmentation. IEEE TPAMI 28(11), 2006'
    """
    return "; ".join(_text(source) for source in sources(citation))


def _text(source: str) -> str:
    if source not in entries():
        return source
    field = dict(_FIELD.findall(entries()[source]))
    surnames = [name.partition(",")[0] for name in field["author"].split(" and ")]
    authors = ", ".join(surnames).replace(", others", " et al")
    venue = next((field[name] for name in _VENUES if name in field), "")
    venue = f"arXiv:{field['eprint']}" if "eprint" in field else venue
    number = f"({field['number']})" if "number" in field else ""
    where = f"{venue} {field.get('volume', '')}{number}".strip()
    return f"{authors}. {field['title']}. {', '.join(filter(None, (where, field['year'])))}"
