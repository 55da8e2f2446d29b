"""Questionnaires before and after the tasks: the plan's questions and built-in instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segmeter.study.plan import Plan, Question

_LONGEST_TEXT = 4000
_TLX = {
    "mental": (
        "How mentally demanding was the task?",
        "Wie anspruchsvoll war die Aufgabe geistig?",
    ),
    "physical": (
        "How physically demanding was the task?",
        "Wie anspruchsvoll war die Aufgabe körperlich?",
    ),
    "temporal": (
        "How hurried or rushed was the pace of the task?",
        "Wie groß war der Zeitdruck bei der Aufgabe?",
    ),
    "performance": (
        "How successful were you in accomplishing what you were asked to do?",
        "Wie gut ist Ihnen die Aufgabe gelungen?",
    ),
    "effort": (
        "How hard did you have to work to accomplish your level of performance?",
        "Wie sehr mussten Sie sich dafür anstrengen?",
    ),
    "frustration": (
        "How insecure, discouraged, irritated, stressed, and annoyed were you?",
        "Wie verunsichert, entmutigt, gereizt, gestresst oder verärgert waren Sie?",
    ),
}


def _tlx(name: str, english: str, german: str) -> Question:
    perfect = name == "performance"
    low = {"en": "Perfect", "de": "Vollkommen"} if perfect else {"en": "Very low", "de": "Gering"}
    high = {"en": "Failure", "de": "Gar nicht"} if perfect else {"en": "Very high", "de": "Hoch"}
    text = {"en": english, "de": german}
    given: dict[str, Any] = {"name": f"tlx_{name}", "text": text, "low": low, "high": high}
    return Question.model_validate({**given, "when": "after", "kind": "scale", "steps": 21})


_INSTRUMENTS = {"nasa-tlx": tuple(_tlx(name, *texts) for name, texts in _TLX.items())}
"""The unweighted NASA task load index: six scales of 21 steps, exported as 0 to 100."""


def questions_of(plan: Plan, when: str) -> list[Question]:
    """The questions of a page, those of instruments last."""
    built_in = [q for name in plan.questionnaires for q in _INSTRUMENTS[name]]
    return [question for question in (*plan.questions, *built_in) if question.when == when]


def read_answers(
    questions: list[Question], form: Mapping[str, list[str]]
) -> tuple[dict[str, str], list[str]]:
    """Values by question, and the names of questions that lack a valid answer.

    Scales of 21 steps are kept as 0 to 100, several choices as names joined by `;`.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for question in questions:
        given = [text.strip() for text in form.get(question.name, []) if text.strip()]
        if not given:
            if not question.optional:
                wrong.append(question.name)
            continue
        value = _value(question, given)
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
                return f"{float(first):g}" if abs(float(first)) < 1e9 else None
            except ValueError:
                return None
    if not first.isdecimal() or len(first) > 4 or not 1 <= int(first) <= question.steps:
        return None
    if question.kind == "scale":
        return f"{100 * (int(first) - 1) / (question.steps - 1):g}"
    return first
