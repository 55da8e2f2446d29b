"""Analyses: what a study says, with the papers' formulas and the corrected ones, as a page."""

from __future__ import annotations

import sqlalchemy as sa

from segmeter.core.sections import Section
from segmeter.report.page import Page, render
from segmeter.study.plan import Plan
from segmeter.study.progress import progress
from segmeter.study.stimuli import Stimuli

__all__ = ["study_page", "study_sections"]


def study_sections(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> list[Section]:
    """All that can be said about a study's answers."""
    if plan.kind == "rate":
        from segmeter.study.analyses.rating import rating_sections

        return rating_sections(connection, plan)
    if plan.kind == "interact":
        from segmeter.study.analyses.interacting import interact_sections

        return interact_sections(connection)
    from segmeter.study.analyses.clicking import click_sections

    return click_sections(connection, plan, stimuli)


def study_page(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> str:
    """The study's results as one HTML file."""
    now = progress(connection)
    facts = [
        f"{now.people} people",
        f"{now.valid} of {now.wanted} answers",
        f"data set {plan.dataset}",
        f"plan {plan.hash}",
    ]
    kinds = {"rate": "ratings of masks", "interact": "people with a model in the loop"}
    subtitle = f"A study with people: {kinds.get(plan.kind, 'where they click')}"
    return render(Page(plan.title, subtitle, facts, study_sections(connection, plan, stimuli)))
