"""References: every citation of what ships is a key of `references.bib`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import segmeter
from segmeter.core import catalogue
from segmeter.core.citations import cited, entries, sources

SOURCE = Path(segmeter.__file__).parent
FREE = {"your own", "nothing to cite", "", "mine"}


def test_every_entry_reads_as_a_citation() -> None:
    assert len(entries()) == (SOURCE / "references.bib").read_text().count("@")
    for key in entries():
        assert re.search(r"[\w)]\. \S.* (19|20)\d\d$", cited(key)), cited(key)


def test_two_sources_on_one_card_are_both_cited() -> None:
    assert cited("walt2014, hunter2007").count("; ") == 1
    assert cited("my paper, 2024") == "my paper, 2024"


@pytest.mark.parametrize("name", catalogue.benchmarks.names())
def test_a_benchmark_cites_keys(name: str) -> None:
    for citation in catalogue.benchmarks.make(name).citations.values():
        assert all(source in entries() for source in sources(citation)), citation


def test_measures_and_data_sets_cite_keys() -> None:
    cards = [entry.make().cite for entry in catalogue.measures]
    for file in SOURCE.rglob("*.toml"):
        tables = tomllib.loads(file.read_text()).values()
        cards += [t["citation"] for t in tables if isinstance(t, dict) and "citation" in t]
    cards += re.findall(r'citation="([^"]*)"', "".join(p.read_text() for p in SOURCE.rglob("*.py")))
    assert len(cards) > 70
    for citation in cards:
        known = all(source in entries() for source in sources(citation))
        assert known or citation in FREE or citation.startswith("segmeter's own"), citation
