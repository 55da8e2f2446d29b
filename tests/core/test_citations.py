"""References: every citation of what ships is a key of `references.bib`."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

import segmeter
from segmeter.core import catalogue
from segmeter.core.citations import cited, entries, sources
from segmeter.core.errors import NotFound
from segmeter.models.weights import describing

SOURCE = Path(segmeter.__file__).parent
FREE = {"your own", "nothing to cite", "", "mine"}


def test_every_entry_reads_as_a_citation() -> None:
    assert len(entries()) == (SOURCE / "references.bib").read_text().count("@")
    for key in entries():
        assert re.search(r"[\w)]\. \S.* (19|20)\d\d$", cited(key)), cited(key)


def test_entries_have_full_names_of_authors_and_well_formed_dois() -> None:
    text = (SOURCE / "references.bib").read_text()
    authors = re.findall(r"^  author = \{(.*)\},$", text, re.MULTILINE)
    people = [name for line in authors for name in line.split(" and ") if name[0] != "{"]
    assert len(people) > 300
    assert [name for name in people if ", " not in name and name != "others"] == []
    dois = re.findall(r"^  doi = \{(.*)\},$", text, re.MULTILINE)
    assert len(set(dois)) == len(dois) > 50
    assert all(re.fullmatch(r"10\.\d{4,5}/\S+", doi) for doi in dois)
    assert cited("walt2014").startswith("van der Walt, Schönberger, Nunez-Iglesias")


def test_segmeter_is_cited_as_in_its_citation_file() -> None:
    own = entries()["segmeter"]
    file = (Path(__file__).parents[2] / "CITATION.cff").read_text()
    assert own.startswith("@software{segmeter,")
    assert f"version = {{{segmeter.__version__}}}" in own
    for field, found in (("title", r"title = \{\{(.*)\}\}"), ("name", r"author = \{\{(.*)\}\}")):
        value = re.search(found, own)
        assert value is not None
        assert re.search(rf'{field}: "?{re.escape(value[1])}"?$', file, re.MULTILINE)


def test_every_model_cites_keys() -> None:
    cards = dict[str, str]()
    for entry in catalogue.models:
        with describing(), suppress(NotFound):  # packages that are not installed
            model = None if catalogue.required(entry) else entry.make()
            if hasattr(model, "card"):
                cards[model.card.name] = model.card.citation
    free = {n: c for n, c in cards.items() if c and any(s not in entries() for s in sources(c))}
    assert len(cards) > 40
    assert free == {}


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
