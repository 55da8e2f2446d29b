"""Analyses: the results of a study as a page, by the papers' formulas and corrected ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from segmeter.core.sections import Note, Section
from segmeter.core.wording import counted
from segmeter.report.page import Page, render
from segmeter.study.analyses.clicking import click_sections
from segmeter.study.analyses.interacting import interact_sections
from segmeter.study.analyses.rating import rating_sections
from segmeter.study.exports import trial_rows
from segmeter.study.interactions import Simulated, interactions
from segmeter.study.plan import Plan
from segmeter.study.records import progress
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import screen_people

__all__ = ["study_page"]


def study_page(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli, simulated: Sequence[Simulated] = ()
) -> str:
    """The results as one HTML file; `simulated` users join those of kind `interact`."""
    now = progress(connection)
    facts = [
        f"{now['people']} participants",
        f"{now['valid']} of {now['wanted']} answers",
        f"dataset {plan.data.dataset}",
        f"plan {plan.hash}",
        f"seed {plan.seed}",
    ]
    if plan.kind == "rate":
        about, sections = "ratings of masks", rating_sections(connection, plan)
    elif plan.kind == "interact":
        about = "segmenting with a model in the loop"
        sections = interact_sections(interactions(connection, plan), simulated, stimuli)
    else:
        about, sections = "where they click", click_sections(connection, plan, stimuli)
    sections.append(_exclusions(connection, plan))
    return render(Page(plan.title, f"A study with people: {about}", facts, sections))


def _exclusions(connection: sa.Connection, plan: Plan) -> Section:
    """Which answers and participants the rules left out."""
    rows = [row for row in trial_rows(connection, plan) if row["answered"] is not None]
    flags = Counter(flag for row in rows for flag in row["flag_bad"])
    screened = screen_people(plan, rows)
    people = Counter(flag for found in screened.values() for flag in found.flags)
    excluded = sum(found.excluded for found in screened.values())
    answers = ", ".join(f"{name} {many}" for name, many in flags.most_common()) or "none"
    listed = ", ".join(f"{name} {many}" for name, many in people.most_common()) or "none"
    text = (
        f"Excluded by rules that do not use the condition: {excluded} of "
        f"{counted(len(screened), 'participant')}. Flags of participants: {listed}. Flags of "
        f"{counted(len(rows), 'answer')}: {answers}."
    )
    return Section("Exclusions", "", [Note(text)])
