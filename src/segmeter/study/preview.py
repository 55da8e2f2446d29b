"""A plan for readers: the screens of participants, what it lacks, a preregistration."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

import segmeter
from segmeter.core.sections import Block, Column, Gallery, Illustration, Note, Section, Table
from segmeter.report.page import Page, render
from segmeter.study.drawing import VIEWS, text_screen
from segmeter.study.modes import Mode
from segmeter.study.plan import CONSENT_SECTIONS, Plan
from segmeter.study.stimuli import Stimuli
from segmeter.study.tasks import Task, cells_of, tasks_of

__all__ = ["plan_warnings", "preregistration", "preview_page"]


_EXAMPLES = 3


def preview_page(plan: Plan, stimuli: Stimuli) -> str:
    """The plan as a page: the design, and the screens of a few targets."""
    tasks = tasks_of(plan, stimuli)
    wanted = sum(count for _, _, count in cells_of(plan, tasks))
    facts = [
        f"kind {plan.kind}",
        f"data set {plan.data.dataset}",
        f"{len({(task.scene, task.target) for task in tasks})} targets",
        f"{wanted} answers wanted",
        f"plan {plan.hash}",
    ]
    sections = [_design(plan, tasks, wanted), *_shows(plan, stimuli, tasks)]
    return render(Page(plan.title, "What participants will see", facts, sections))


def _design(plan: Plan, tasks: list[Task], wanted: int) -> Section:
    columns = (Column("condition"), Column("targets", digits=0), Column("screens"))
    rows = []
    for name in plan.conditions:
        count = sum(task.condition == name and task.role == "main" for task in tasks)
        rows.append(
            (name, count, _screens(plan.mode_of(name)) if plan.kind != "rate" else "five views")
        )
    batches = -(-wanted // plan.design.batch)
    note = Note(f"{wanted} answers are about {batches} batches of {plan.design.batch}.")
    warnings = [Note(text, "warning") for text in plan_warnings(plan)]
    return Section("Design", "", [Table("design", columns, rows), note, *warnings])


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


def _screens(mode: Mode) -> str:
    timed = [f"{screen.show} {screen.seconds:g} s" for screen in mode.screens if screen.seconds]
    return ", ".join([*timed, "answer"])


def _shows(plan: Plan, stimuli: Stimuli, tasks: list[Task]) -> Iterator[Section]:
    for name in plan.conditions:
        some = [task for task in tasks if task.condition == name and task.role == "main"]
        blocks: list[Block] = [_gallery(plan, stimuli, task) for task in some[:_EXAMPLES]]
        yield Section(name, "", blocks)


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


_ANSWER_RULES = {
    "late": "a timed screen missed its planned duration by more than {late_ms:g} ms",
    "left_page": "the page lost the focus during the trial",
    "too_fast": "faster than its timed screens, than {least_latency_ms:g} ms after them, or (for "
    "ratings) than {least_seconds:g} s, by the server's clock",
    "clock": "the browser reports more time than passed on the server",
    "unseen": "an image of the trial was never requested",
    "wrong_device": "the pointer contradicts the declared device",
    "shown_again": "the page was reloaded, so that the target was shown twice",
    "no_click": "a mask was accepted without a click",
}
_PERSON_RULES = {
    "flagged": "more than {flagged_share:.0%} of the answers have a flag or miss the target",
    "checks": "fewer than {checks:.0%} of at least 2 trials with a known answer are right",
    "straight_lining": "at least {straight_share:.0%} of at least 10 ratings are the same score",
    "speeding": "the median time per answer is below {speed_share:.0%} of the study's median",
    "disagrees": "the correlation with other raters on the same masks is below "
    "{least_agreement:g} and more than 2.5 standard errors below the median of all raters",
}
_TESTS = {
    "rate": """- Outcome: score from 1 to 10.
- Primary analysis: linear mixed-effects model of all ratings that count (REML),
  `score ~ model + (1 | rater) + (1 | rater:model) + (1 | target) + (1 | target:model)`;
  two-sided t-tests of all pairwise differences, degrees of freedom by containment, Holm's
  correction, alpha = 0.05.
- Secondary: Wilcoxon signed-rank test on target means; 95 % intervals resampling images and raters.
- Agreement: Krippendorff's alpha (ordinal, bootstrap over images), ICC(2,1).""",
    "clicks": """- Outcomes: distance of the click to the centre click in diagonals of the target;
  energy distance, PL1 and WD between the clicks of two display modes on the same target.
- Primary analysis: mean energy distance of each mode to the reference mode with a 95 % bootstrap
  interval over images.
- Secondary: differences between devices; mean distance to the centre by mode.""",
    "interact": """- Outcomes: clicks until the mask is accepted, final IoU, seconds.
- Primary analysis: means by model with 95 % bootstrap intervals over images and over
  participants; paired differences to simulated users on the same objects (Wilcoxon).""",
}


def preregistration(plan: Plan, stimuli: Stimuli) -> str:
    """The text, in Markdown; hypotheses are left to the authors."""
    tasks = tasks_of(plan, stimuli)
    main = [task for task in tasks if task.role == "main"]
    wanted = sum(count for _, _, count in cells_of(plan, tasks))
    targets = len({(task.scene, task.target) for task in main})
    return f"""# Preregistration: {plan.title}

Generated by segmeter {segmeter.__version__} from the plan `{plan.hash}`.

## Hypotheses

(State them here, with their direction.)

## Design

- Kind: {plan.kind}; data set {plan.data.dataset}, {targets} targets.
- Conditions: {", ".join(plan.conditions)}.
- {_assignment(plan)}
- Devices: {", ".join(plan.design.devices)}. Batches of {plan.design.batch} trials; \
{plan.design.batches_per_person or "any number of"} batches per participant. No participant \
sees an image {"in a mask of the same model" if plan.kind == "rate" else ""} twice.
- Order: random, from the seed {plan.seed} and the participant's number.
{_extras(plan)}

## Sample size

Data collection ends when all {len(main)} tasks have their answers, {wanted} valid answers in all,
about {-(-wanted // plan.design.batch)} batches. {_quotas(plan)}

## Exclusion of answers

Rules are applied by software, blind to the condition. Nothing is deleted.

{_rules(_ANSWER_RULES, plan.validity.exclude, plan)}
{_batch_rules(plan)}

## Exclusion of participants

{_rules(_PERSON_RULES, plan.validity.exclude_people, plan)}

## Analysis

{_TESTS["clicks" if plan.clicks else plan.kind]}
"""


def _assignment(plan: Plan) -> str:
    how = {
        "random": "at random, weighted by the answers that each condition still lacks",
        "blocked": "in randomly permuted blocks that hold each condition once",
        "latin-square": "by the rows of a balanced Latin square",
    }[plan.design.assignment]
    if plan.kind == "rate":
        return "Within participants: every rater rates masks of all conditions, in random order."
    if plan.fixed:
        return f"Between participants: each is assigned to one condition, {how}."
    return f"Within participants; conditions of a batch are ordered {how}."


def _extras(plan: Plan) -> str:
    lines = []
    if plan.has_practice:
        many = len(plan.rating.training) or len(plan.design.practice)
        lines.append(
            f"- Practice: {many} trials with feedback; {plan.rating.pass_mark:.0%} must be right, "
            f"after {plan.validity.practice_tries} failed rounds a participant is screened out."
        )
    checks = len(plan.rating.gold) or len(plan.design.checks)
    if checks:
        lines.append(f"- Checks: {checks} trials with a known answer, one in each batch.")
    if plan.questions or plan.questionnaires:
        names = [*(q.name for q in plan.questions), *plan.questionnaires]
        lines.append(f"- Questionnaires: {', '.join(names)}.")
    return "\n".join(lines)


def _quotas(plan: Plan) -> str:
    found = [f"{q.people} for {q.question} = {q.answer}" for q in plan.design.quotas]
    return f"Quotas of participants: {', '.join(found)}." if found else ""


def _rules(known: dict[str, str], used: tuple[str, ...], plan: Plan) -> str:
    values = {**plan.validity.model_dump(), "least_seconds": plan.least_seconds}
    return "\n".join(f"- `{name}`: {known[name].format(**values)}" for name in used)


def _batch_rules(plan: Plan) -> str:
    lines = []
    if plan.clicks:
        lines.append(
            f"- A click counts on its target or within {plan.validity.radius:.1%} of the image's "
            f"diagonal; a batch counts if {plan.batch_minimum} clicks are on their targets."
        )
    if plan.rating.gold or plan.design.checks:
        lines.append(
            f"- A batch counts if {plan.validity.checks:.0%} of its checks are right, also when it "
            "was not handed in."
        )
    return "\n".join(lines)
