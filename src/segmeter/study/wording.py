"""Wording: the texts of the pages in the languages of a plan, one TOML file per language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from segmeter.core.errors import BadInput, NotFound
from segmeter.study.plan import Plan

__all__ = ["read_words"]

Words = Mapping[str, str]


def read_words(plan: Plan) -> dict[str, Words]:
    """Texts of every language of the plan; the first language is the default.

    Other languages come from `LANGUAGE.toml` in the plan's folder `words`; such a file may also
    replace single texts of a built-in language.
    """
    return {language: _language(plan, language) for language in plan.languages}


def _language(plan: Plan, language: str) -> Words:
    if not language.replace("-", "").isalnum() or len(language) > 12:
        raise BadInput(f"languages: '{language}' is not a language code such as en or pt-BR")
    shipped = _shipped(language)
    own = _own(plan.folder / plan.words / f"{language}.toml") if plan.words else {}
    if not shipped and not own:
        raise NotFound(
            f"no texts for the language '{language}'; write {language}.toml into a folder "
            "and name the folder as 'words' in the plan"
        )
    base = _shipped("en")
    for name in own:
        if name not in base:
            raise BadInput(f"{language}.toml: unknown text '{name}'")
    missing = [name for name in base if name not in shipped and name not in own]
    if missing:
        raise BadInput(f"{language}.toml has no '{missing[0]}'")
    return {**shipped, **own}


@cache
def _shipped(language: str) -> Words:
    file = files("segmeter.study") / "words" / f"{language}.toml"
    return _texts(file.read_text("utf-8"), language) if file.is_file() else {}


def _own(path: Path) -> Words:
    try:
        return _texts(path.read_text("utf-8"), path.name)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"'{path}' cannot be read: {error}") from None


def _texts(text: str, name: str) -> Words:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"words of '{name}': {error}") from None
    if not all(isinstance(value, str) for value in table.values()):
        raise BadInput(f"words of '{name}' are lines such as start = \"Start\"")
    return table
