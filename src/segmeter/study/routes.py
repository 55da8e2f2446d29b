"""Routes of a study: joining and leaving, participants at work, and the conductor's pages."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Body, Depends, Form, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.study import database as db
from segmeter.study.drawing import VIEWS, encoded, heat_map
from segmeter.study.exports import archive, csv_text, participant_columns, participant_rows
from segmeter.study.guards import address_of, signed, signed_by
from segmeter.study.messages import ANSWERS, DeviceChoice, Step
from segmeter.study.plan import Mode, Recruiting
from segmeter.study.records import Refused, Row, clicks_on, heat_targets, progress
from segmeter.study.running import OPEN
from segmeter.study.site import Here, Visit, image_response
from segmeter.study.wording import read_answers

router, conduct = APIRouter(), APIRouter(prefix="/conduct")
_CLEAN = r"^[^\x00]*$"
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Field = Annotated[str, Form(max_length=200, pattern=_CLEAN)]
Named = Annotated[str, Query(max_length=500, pattern=_CLEAN)]


async def _form(request: Request) -> dict[str, list[str]]:
    """All fields of a form; a name may come several times."""
    form = await request.form(max_fields=200)
    return grouped_pairs(
        (name, value) for name, value in form.multi_items() if isinstance(value, str)
    )


Fields = Annotated[dict[str, list[str]], Depends(_form)]

# Joining and leaving


@router.get("/health")
def health(here: Here) -> Response:
    """For monitors: 200 while the database can be read."""
    return JSONResponse({"state": here.study.state()})


@router.get("/")
def front(here: Here) -> Response:
    if not here.plan.design.open_to_all:
        return here.message("no_link")
    query = urlencode({**_platform(here), "language": here.language()})
    return here.redirect(f"/join/{OPEN}?{query}")


@router.get("/join/{token}")
def consent(here: Here, token: Name) -> Response:
    open = here.study.may_join(token)
    if here.known is not None and (token == OPEN or not open):
        return here.redirect("/work")
    if not open:
        return here.message("used_link", status=403)
    closed = _closed(here, token)
    if closed is not None:
        return closed
    form = signed(here.site.secret, "join", token)
    query = urlencode(_platform(here))
    return here.show("consent.html", token=token, form=form, query=query)


@router.post("/join/{token}")
def join(
    here: Here,
    token: Name,
    form: Field = "",
    agreed: Annotated[list[str], Form(max_length=20)] = [],  # noqa: B006  read only
    language: Field = "",
) -> Response:
    if not here.study.may_join(token):
        here.limit("tries")  # wrong links only: a class opens its own links at once
    if not signed_by(here.site.secret, form, "join", token):
        raise Refused(403, "this form is out of date; open your link again")
    if len(agreed) < 1 + len(here.plan.consent_boxes):
        raise Refused(422, "taking part needs your consent")
    here.limit("joins")
    session = here.study.join(token, here.language(language), _platform(here))
    answer = here.redirect("/work")
    here.keep_session(answer, session)
    return answer


@router.get("/withdraw")
def ask_code(here: Here) -> Response:
    """The form; the participant of this browser finds their own code filled in."""
    who = here.known
    form, code = signed(here.site.secret, "withdraw"), who["id"] if who else ""
    return here.show("withdraw.html", form=form, code=code, unknown=False)


@router.post("/withdraw")
def withdraw(here: Here, form: Field = "", code: Field = "") -> Response:
    here.limit("tries")
    if not signed_by(here.site.secret, form, "withdraw"):
        raise Refused(403, "this form is out of date; load it again")
    answer = here.message("withdraw_done")  # in their language, which is deleted too
    if not here.study.withdraw(code):
        return here.show("withdraw.html", 404, form=form, code=code, unknown=True)
    here.keep_session(answer, "")
    return answer


def _platform(here: Visit) -> dict[str, str]:
    return platform_ids(here.plan.recruiting, here.request.query_params)


def _closed(here: Visit, token: str) -> Response | None:
    """A page for those who come too late, before they consent."""
    state = here.study.state()
    if state == "paused":
        return here.message("paused", status=423)
    c = db.cells.c
    lacking = [c.valid < c.wanted, *([c.device != "tester"] if token == OPEN else [])]
    with here.study.database.snapshot() as connection:
        if state != "closed" and db.count(connection, *lacking):
            return None
    back = return_link(here.plan.recruiting, "quota_full", "")
    return here.message("closed", status=423, back=back)


_PARAMETERS = {
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "mturk": ("workerId", "assignmentId", "hitId"),
    "sona": ("survey_code", "id"),
}
_LONGEST = 200
_PROLIFIC = "https://app.prolific.com/submissions/complete?cc={code}"


def platform_ids(recruiting: Recruiting, query: Mapping[str, str]) -> dict[str, str]:
    """The platform's parameters of a link; the first one identifies the participant.

    >>> platform_ids(Recruiting(platform="prolific"), {"PROLIFIC_PID": "5f", "x": "y"})
    {'PROLIFIC_PID': '5f'}
    """
    found = {}
    for name in (recruiting.id_parameter, *_PARAMETERS.get(recruiting.platform, ())):
        value = query.get(name, "")
        if name and 0 < len(value) <= _LONGEST and value.isprintable():
            found[name] = value
    return found


def return_link(recruiting: Recruiting, outcome: str, stored: str) -> tuple[str, str]:
    """`(code, address)` for an outcome: `completed`, `screened_out` or `quota_full`.

    `{code}` and the platform's parameters are filled into `return_url`; Prolific's address is
    built in. Either may be empty.

    >>> return_link(Recruiting(platform="prolific", completion_code="C1"), "completed", "{}")[1]
    'https://app.prolific.com/submissions/complete?cc=C1'
    """
    named = {"completed": "completion", "screened_out": "screen_out", "quota_full": "quota_full"}
    code: str = getattr(recruiting, f"{named[outcome]}_code")
    built_in = _PROLIFIC if recruiting.platform == "prolific" else ""
    template = recruiting.return_url or built_in
    if not template or ("{code}" in template and not code):
        return code, ""
    address = template.replace("{code}", quote(code, safe=""))
    for name, value in json.loads(stored or "{}").items():
        address = address.replace(f"{{{name}}}", quote(value, safe=""))
    return code, address if address.startswith(("https://", "http://")) else ""


# At work


@router.get("/work")
def work(here: Here) -> Response:
    """The page for what a participant does next."""
    who = here.person
    language = here.request.query_params.get("language", "")
    if language in here.site.words:
        here.study.choose_language(who, language)
        return here.redirect("/work")
    if who["state"]:
        back = return_link(here.plan.recruiting, who["state"], who["platform"])
        return here.message(who["state"], back=back)
    if who["finished"] is not None:
        return here.redirect("/end")
    state = here.study.state()
    if state != "open":
        return here.message(state)
    if here.study.open_questions(who, "before"):
        return _questions(here, "before")
    if who["device"] is None or "device" in here.request.query_params:
        return here.show("device.html", page_token=here.token("page"))
    return _work_page(here, who)


@router.post("/questions/{when}")
def respond(here: Here, when: Name, fields: Fields) -> Response:
    who = here.person
    here.check_token("questions", next(iter(fields.get("form", [])), ""))
    values, wrong = read_answers(here.study.open_questions(who, when), fields)
    if wrong:
        return _questions(here, when, fields, wrong)
    here.study.respond(who, values)
    return here.redirect("/work" if when == "before" else "/end")


@router.get("/end")
def end(here: Here) -> Response:
    """The last page: questions, then thanks, the completion code and the debriefing."""
    who = here.person
    if who["finished"] is None:
        return here.redirect("/work")
    if here.study.open_questions(who, "after"):
        return _questions(here, "after")
    code, address = return_link(here.plan.recruiting, "completed", who["platform"])
    return here.show("end.html", person=who["id"], code=code, address=address)


@router.get("/guidelines")
def guidelines(here: Here) -> Response:
    return here.show("guidelines.html", person=here.person["id"])


@router.get("/static/slices.js")
def viewer() -> Response:
    """The viewer of slices, which studies share with reports."""
    script = (files("segmeter.report") / "assets" / "slices.js").read_bytes()
    return Response(script, media_type="text/javascript")


@router.get("/images/{trial}/{name}")
def image(here: Here, trial: Name, name: Name) -> Response:
    """A screen of a trial by its number, the plain image, or a view for rating."""
    task = here.study.trial(here.person, trial)
    rating = here.plan.kind == "rate"
    if name not in (VIEWS if rating else here.study.image_names(task)):
        raise Refused(404, "there is no such image")
    screens = here.plan.mode_of(task["condition"]).screens
    show = screens[int(name)].show if name.isdecimal() else name
    parts = (task["scene"], task["target"], task["part"], task["source"])
    raw = here.study.stimuli.image(*parts, show)
    here.study.note_fetched(trial, name)
    return image_response(raw, **{"cache-control": "private, max-age=3600"})


@router.post("/api/device")
def device(here: Here, choice: DeviceChoice) -> Response:
    here.study.choose_device(here.trusted, choice.device)
    return JSONResponse({})


@router.post("/api/offer")
def offer(here: Here) -> Response:
    """The next work; nothing is reserved."""
    return JSONResponse(here.study.offer(here.trusted, address_of(here.request)))


@router.post("/api/batch")
def batch(here: Here) -> Response:
    """Reserve a batch, or give the open one again."""
    given = here.study.batch(here.trusted, address_of(here.request))
    if here.site.segmenting is not None and given is not None:
        here.site.segmenting.prepare(given["batch"])
    return JSONResponse(given)


@router.post("/api/batches/{batch}/finish")
def finish(here: Here, batch: Name) -> Response:
    return JSONResponse(here.study.finish(here.trusted, batch))


@router.post("/api/batches/{batch}/leave")
def leave(here: Here, batch: Name) -> Response:
    here.study.leave(here.trusted, batch)
    return JSONResponse({})


@router.post("/api/end")
def end_study(here: Here) -> Response:
    here.study.end(here.trusted)
    return JSONResponse({})


@router.post("/api/trials/{trial}")
def answer(here: Here, trial: Name, given: Annotated[dict[str, Any], Body()]) -> Response:
    who = here.trusted
    try:
        message = ANSWERS[here.plan.kind].model_validate(given)
    except ValidationError as error:
        faults = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(faults) from None
    return JSONResponse(here.study.answer(who, trial, message))


@router.post("/api/trials/{trial}/steps")
def step(here: Here, trial: Name, ask: Step) -> Response:
    who = here.trusted
    if here.site.segmenting is None:
        raise Refused(404, "this study has no model in the loop")
    return JSONResponse(here.site.segmenting.step(who, trial, ask))


def _work_page(here: Visit, who: Row) -> Response:
    plan, touch = here.plan, who["device"] == "mobile"
    modes = [plan.mode_of(who["condition"])] if who["condition"] else list(plan.modes)
    seconds = plan.design.batch * max(2.0 + mode.seconds for mode in modes)  # 2 s for a click
    return here.show(
        {"rate": "rate.html", "interact": "interact.html"}.get(plan.kind, "clicks.html"),
        page_token=here.token("page"),
        person=who["id"],
        steps=_course(here, modes, touch),
        minutes=max(1, math.ceil(seconds / 60)),
        touch=touch,
        volumes=here.study.stimuli.volumes,
    )


def _course(here: Visit, modes: list[Mode], touch: bool) -> list[str]:
    """The course of a trial, screen by screen; in short if modes are mixed."""
    words = here.site.words[here.language()]
    ask = words["step_ask_touch" if touch else "step_ask"]
    if len(modes) > 1:
        return [words["step_mixed"], ask]
    steps = []
    for screen in modes[0].screens[:-1]:
        # A second round shows errors instead of objects.
        error = here.plan.kind == "clicks-round2" and screen.show not in ("image", "text")
        seconds = f"{screen.seconds:g}".replace(".", words["decimal_mark"])
        steps.append(
            words["step_error" if error else f"step_{screen.show}"].format(seconds=seconds)
        )
    return [*steps, ask]


def _questions(
    here: Visit,
    when: str,
    given: dict[str, list[str]] | None = None,
    wrong: list[str] | None = None,
) -> Response:
    form = here.token("questions")
    more = {"when": when, "form": form, "given": given or {}, "wrong": wrong or []}
    questions = here.study.open_questions(here.person, when)
    status = 422 if wrong else 200
    return here.show("questions.html", status, questions=questions, **more)


# Conducting


@conduct.get("")
def overview(here: Here, links: Named = "") -> Response:
    if not here.site.gate.holds(here.request):
        return here.show("login.html", wrong="")
    with here.study.database.snapshot() as connection:
        now = progress(connection)
        heat = heat_targets(connection) if here.plan.clicks else []
        people = participant_rows(connection, here.plan)
    return here.show(
        "conduct.html",
        now=now,
        heat=heat,
        people=people,
        form=here.site.gate.form(here.request),
        links=here.site.new_links.pop(links, []),
        proxied="x-forwarded-for" in here.request.headers and not here.site.behind,
    )


@conduct.post("/login")
def login(here: Here, password: Field = "") -> Response:
    try:
        opened = here.site.gate.open(here.request, password)
    except Refused as refused:
        return here.show("login.html", refused.status, wrong=refused.sentence)
    answer = here.redirect("/conduct")
    here.site.gate.keep(here.request, answer, opened)
    return answer


@conduct.post("/state")
def state(here: Here, form: Field = "", state: Field = "") -> Response:
    here.site.gate.check(here.request, form)
    here.study.set_state(state)
    return here.redirect("/conduct")


@conduct.post("/invite")
def invite(
    here: Here,
    form: Field = "",
    count: Annotated[int, Form(ge=1, le=1000)] = 1,
    role: Field = "person",
    label: Field = "",
) -> Response:
    """Make links; they are shown once, on the page that follows."""
    here.site.gate.check(here.request, form)
    if role not in ("person", "tester"):
        raise Refused(422, "an invitation is for a person or a tester")
    base, key = str(here.request.base_url).rstrip("/"), secrets.token_urlsafe(12)
    tokens = here.study.invite(count, role, label)
    here.site.new_links[key] = [f"{base}/join/{token}" for token in tokens]
    return here.redirect(f"/conduct?links={key}")


@conduct.post("/withdraw")
def withdraw_person(here: Here, form: Field = "", code: Field = "") -> Response:
    here.site.gate.check(here.request, form)
    if not here.study.withdraw(code):
        raise Refused(404, f"no participant has the code '{code}'")
    return here.redirect("/conduct")


@conduct.get("/heat")
def heat(here: Here, scene: Named, target: Named) -> Response:
    here.site.gate.check(here.request)
    with here.study.database.snapshot() as connection:
        if not db.count(connection, db.tasks.c.scene == scene, db.tasks.c.target == target):
            raise Refused(404, "there is no such target")
        clicks = clicks_on(connection, scene, target)
    shown = here.study.stimuli.shown(scene)
    drawn = heat_map(shown.pixels, shown.targets[target].mask, clicks)
    return image_response(encoded(drawn, image=True))


@conduct.get("/participants.csv")
def participants(here: Here) -> Response:
    """The list of participants with their identifiers at the recruiting platform."""
    here.site.gate.check(here.request)
    with here.study.database.snapshot() as connection:
        rows = participant_rows(connection, here.plan)
    text = csv_text(participant_columns(identifiers=True), rows)
    return _download(text.encode(), "text/csv", "participants.csv")


@conduct.get("/export")
def take(here: Here) -> Response:
    """The archive that `segmeter study archive` writes."""
    here.site.gate.check(here.request)
    try:
        return _download(archive(here.study), "application/zip", "study.zip")
    except BadInput as error:
        raise Refused(409, str(error)) from None


def _download(raw: bytes, kind: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(raw, media_type=kind, headers=headers)
