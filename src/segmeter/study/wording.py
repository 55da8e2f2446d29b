"""Wording of a study: texts of the pages, one TOML file per language, and questionnaires."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from segmeter.core.errors import BadInput, NotFound
from segmeter.report import elements
from segmeter.study.plan import Plan, Question

Words = Mapping[str, str]


def read_words(plan: Plan) -> dict[str, Words]:
    """Texts of every language of the plan; the first language is the default.

    Other languages come from `LANGUAGE.toml` in the plan's folder `words`; such a file may also
    replace single texts of a built-in language.
    """
    return {language: _language(plan, language) for language in plan.languages}


@cache
def templates(html: bool) -> Any:
    """The pages, and the viewer of slices that they share with reports; or the text files."""
    places = ("segmeter.study/pages", "segmeter.report/assets")
    return elements.templates(*places, autoescape=html, keep_trailing_newline=not html)


def text_page(name: str, **values: Any) -> str:
    """A text file of the pages, filled in."""
    return str(templates(html=False).get_template(name).render(values))


def _language(plan: Plan, language: str) -> Words:
    if not language.replace("-", "").isalnum() or len(language) > 12:
        raise BadInput(f"languages: '{language}' is not a language code such as en or pt-BR")
    shipped = _shipped(language)
    own = _texts(plan.folder / plan.words / f"{language}.toml") if plan.words else {}
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
    return _texts(files("segmeter.study") / "words" / f"{language}.toml")


def _texts(file: Traversable) -> Words:
    """The texts of a file, none if there is no such file."""
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"words in '{file}': {error}") from None
    if not all(isinstance(value, str) for value in table.values()):
        raise BadInput(f"words in '{file}' are lines such as start = \"Start\"")
    return table


_LONGEST_TEXT = 4000
_TLX = ("mental", "physical", "temporal", "performance", "effort", "frustration")


def questions_of(plan: Plan, when: str) -> list[Question]:
    """The questions of a page, those of instruments last."""
    built_in = [_tlx(plan, name) for name in _TLX] if "nasa-tlx" in plan.questionnaires else []
    return [question for question in (*plan.questions, *built_in) if question.when == when]


def _tlx(plan: Plan, name: str) -> Question:
    """A scale of the unweighted NASA task load index: 21 steps, exported as 0 to 100."""
    words = read_words(plan)
    ends = ("perfect", "failure") if name == "performance" else ("low", "high")
    text, low, high = (
        {language: texts[f"tlx_{key}"] for language, texts in words.items()}
        for key in (name, *ends)
    )
    named = {"name": f"tlx_{name}", "text": text, "low": low, "high": high}
    return Question.model_validate({**named, "when": "after", "kind": "scale", "steps": 21})


def read_answers(
    questions: list[Question], form: Mapping[str, list[str]]
) -> tuple[dict[str, str], list[str]]:
    """Values by question, and the names of questions that lack a valid answer.

    Scales of 21 steps are kept as 0 to 100, several choices as names joined by `;`, and optional
    questions without an answer as an empty text.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for question in questions:
        given = [text.strip() for text in form.get(question.name, []) if text.strip()]
        value = _value(question, given) if given else "" if question.optional else None
        if value is None:
            wrong.append(question.name)
        else:
            found[question.name] = value
    return found, wrong


def _value(question: Question, given: list[str]) -> str | None:
    first = given[0]
    match question.kind:
        case "single":
            return first if first in question.answers else None
        case "multiple":
            known = all(each in question.answers for each in given)
            return ";".join(dict.fromkeys(given)) if known else None
        case "text":
            clean = "".join(c for c in first if c.isprintable() or c in "\n\t")
            return clean if 0 < len(clean) <= _LONGEST_TEXT else None
        case "number":
            try:
                return f"{float(first):.15g}" if abs(float(first)) < 1e9 else None
            except ValueError:
                return None
    if not first.isdecimal() or len(first) > 4 or not 1 <= int(first) <= question.steps:
        return None
    if question.kind == "scale":
        return f"{100 * (int(first) - 1) / (question.steps - 1):g}"
    return first
