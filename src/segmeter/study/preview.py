"""Preview of a plan: the screens of participants, what it lacks, a preregistration."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

import segmeter
from segmeter.core.grouping import grouped_pairs
from segmeter.core.sections import Column, Gallery, Illustration, Note, Section, Table
from segmeter.report.page import Page, render
from segmeter.study.assignment import Task, cells_of, tasks_of
from segmeter.study.drawing import VIEWS, text_screen
from segmeter.study.plan import CONSENT_SECTIONS, Plan
from segmeter.study.stimuli import Stimuli
from segmeter.study.wording import text_page

_EXAMPLES = 3


def preview_page(plan: Plan, stimuli: Stimuli) -> str:
    """The plan as a page: the design, and the screens of a few targets."""
    tasks = tasks_of(plan, stimuli)
    wanted = sum(count for _, _, count in cells_of(plan, tasks))
    facts = [
        f"kind {plan.kind}",
        f"dataset {plan.data.dataset}",
        f"{len({(task.scene, task.target) for task in tasks})} targets",
        f"{wanted} answers wanted",
        f"plan {plan.hash}",
    ]
    main = grouped_pairs((task.condition, task) for task in tasks if task.role == "main")
    columns = (Column("condition"), Column("targets", digits=0), Column("screens"))
    rows, shows = [], []
    for name in plan.conditions:
        some = main.get(name, [])
        timed = [f"{s.show} {s.seconds:g} s" for s in plan.mode_of(name).screens if s.seconds]
        screens = "five views" if plan.kind == "rate" else ", ".join([*timed, "answer"])
        rows.append((name, len(some), screens))
        shows.append(Section(name, "", [_gallery(plan, stimuli, t) for t in some[:_EXAMPLES]]))
    batches = -(-wanted // plan.design.batch)
    note = Note(f"{wanted} answers are about {batches} batches of {plan.design.batch}.")
    warnings = [Note(text, "warning") for text in plan_warnings(plan)]
    design = Section("Design", "", [Table("design", columns, rows), note, *warnings])
    return render(Page(plan.title, "What participants will see", facts, [design, *shows]))


def plan_warnings(plan: Plan) -> Iterator[str]:
    """Warnings about a plan; a study can begin all the same."""
    if "consent" not in plan.texts:
        yield "`[texts]` has no `consent`: the consent page does not say what the study is about."
    if "contact" not in plan.texts:
        yield "`[texts]` has no `contact`: participants do not learn who runs the study."
    for name in CONSENT_SECTIONS:
        if name in plan.texts:
            yield f"`[texts] {name}` replaces a built-in section of the consent; is it complete?"
    for name, versions in (*plan.texts.items(), *plan.descriptions.items()):
        lacking = [each for each in plan.languages if each not in versions]
        if lacking and "" not in versions:
            yield f"`{name}` has no text in {', '.join(lacking)}: another language is shown."
    recruiting = plan.recruiting
    if recruiting.platform != "none" and not recruiting.completion_code:
        yield f"`[recruiting]`: {recruiting.platform} needs a `completion_code`."
    if plan.kind == "rate" and not plan.rating.gold:
        yield "`[[rating.gold]]` is empty: careless raters are found by speed and agreement only."


def _gallery(plan: Plan, stimuli: Stimuli, task: Task) -> Gallery:
    parts = (task.scene, task.target, task.part, task.source)
    if plan.kind == "rate":
        shown = [(view.removeprefix("view-").replace("-", " "), view) for view in VIEWS]
        images = [_image(stimuli.image(*parts, view), title) for title, view in shown]
        return Gallery(images, f"{task.scene}/{task.target}")
    images = []
    for number, screen in enumerate(plan.mode_of(task.condition).screens, 1):
        seconds = "until the answer" if screen.seconds is None else f"{screen.seconds:g} s"
        caption = f"{number}. {screen.show}, {seconds}"
        if screen.show == "text":
            label = stimuli.label(task.scene, task.target, plan.languages[0])
            images.append(Illustration(text_screen(label), f"{caption}: **{label}**"))
        else:
            images.append(_image(stimuli.image(*parts, screen.show), caption))
    return Gallery(images, f"{task.scene}/{task.target}")


def _image(raw: bytes, caption: str) -> Illustration:
    pixels = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR)
    return Illustration(np.asarray(pixels, dtype=np.uint8)[..., ::-1], caption)


def preregistration(plan: Plan, stimuli: Stimuli) -> str:
    """Design, sample size, exclusion rules and tests in Markdown; hypotheses are the authors'."""
    tasks = tasks_of(plan, stimuli)
    main = [task for task in tasks if task.role == "main"]
    return text_page(
        "preregistration.md",
        plan=plan,
        version=segmeter.__version__,
        tasks=len(main),
        targets=len({(task.scene, task.target) for task in main}),
        wanted=sum(count for _, _, count in cells_of(plan, tasks)),
    )
