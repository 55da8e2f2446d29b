"""Routes of a study: joining and leaving, participants at work, and the conductor's pages."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Body, Depends, Form, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from segmeter.core.errors import BadInput
from segmeter.study import database as db
from segmeter.study.drawing import VIEWS, encoded, heat_map
from segmeter.study.exports import archive, csv_text, participant_columns, participant_rows
from segmeter.study.guards import address_of, signed, signed_by
from segmeter.study.messages import ANSWERS, DeviceChoice, Step
from segmeter.study.plan import Mode, Recruiting
from segmeter.study.records import Refused, Row, clicks_on, heat_targets, progress
from segmeter.study.running import OPEN, RunningStudy
from segmeter.study.site import Here, Site, image_response
from segmeter.study.wording import read_answers

router, conduct = APIRouter(), APIRouter(prefix="/conduct")
_CLEAN = r"^[^\x00]*$"
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Field = Annotated[str, Form(max_length=200, pattern=_CLEAN)]
Named = Annotated[str, Query(max_length=500, pattern=_CLEAN)]


async def _form(request: Request) -> dict[str, list[str]]:
    """All fields of a form; a name may come several times."""
    found: dict[str, list[str]] = {}
    for name, value in (await request.form(max_fields=200)).multi_items():
        if isinstance(value, str):
            found.setdefault(name, []).append(value)
    return found


Fields = Annotated[dict[str, list[str]], Depends(_form)]

# Joining and leaving


@router.get("/health")
def health(site: Here) -> Response:
    """For monitors: 200 while the database can be read."""
    return JSONResponse({"state": site.study.state()})


@router.get("/")
def front(request: Request, site: Here) -> Response:
    if not site.study.plan.design.open_to_all:
        return site.message(request, "no_link", site.known(request))
    query = urlencode({**_platform(site, request), "language": site.language(request)})
    return site.redirect(request, f"/join/{OPEN}?{query}")


@router.get("/join/{token}")
def consent(request: Request, token: Name, site: Here) -> Response:
    open = site.study.may_join(token)
    if site.known(request) is not None and (token == OPEN or not open):
        return site.redirect(request, "/work")
    if not open:
        return site.message(request, "used_link", status=403)
    closed = _closed(site, request, token)
    if closed is not None:
        return closed
    form = signed(site.secret, "join", token)
    query = urlencode(_platform(site, request))
    return site.show("consent.html", request, token=token, form=form, query=query)


@router.post("/join/{token}")
def join(
    request: Request,
    token: Name,
    site: Here,
    form: Field = "",
    agreed: Annotated[list[str], Form(max_length=20)] = [],  # noqa: B006  read only
    language: Field = "",
) -> Response:
    if not site.study.may_join(token):
        site.limit(request, "tries")  # wrong links only: a class opens its own links at once
    if not signed_by(site.secret, form, "join", token):
        raise Refused(403, "this form is out of date; open your link again")
    if len(agreed) < 1 + len(site.study.plan.consent_boxes):
        raise Refused(422, "taking part needs your consent")
    site.limit(request, "joins")
    chosen = site.language(request, language)
    session = site.study.join(token, chosen, _platform(site, request))
    answer = site.redirect(request, "/work")
    site.keep_session(request, answer, session)
    return answer


@router.get("/withdraw")
def ask_code(request: Request, site: Here) -> Response:
    """The form; the participant of this browser finds their own code filled in."""
    who = site.known(request)
    form, code = signed(site.secret, "withdraw"), who["id"] if who else ""
    return site.show("withdraw.html", request, who, form=form, code=code, unknown=False)


@router.post("/withdraw")
def withdraw(request: Request, site: Here, form: Field = "", code: Field = "") -> Response:
    site.limit(request, "tries")
    if not signed_by(site.secret, form, "withdraw"):
        raise Refused(403, "this form is out of date; load it again")
    who = site.known(request)
    if not site.study.withdraw(code):
        return site.show("withdraw.html", request, who, 404, form=form, code=code, unknown=True)
    answer = site.message(request, "withdraw_done", who)
    site.keep_session(request, answer, "")
    return answer


def _platform(site: Site, request: Request) -> dict[str, str]:
    return platform_ids(site.study.plan.recruiting, request.query_params)


def _closed(site: Site, request: Request, token: str) -> Response | None:
    """A page for those who come too late, before they consent."""
    state = site.study.state()
    if state == "paused":
        return site.message(request, "paused", status=423)
    c = db.cells.c
    lacking = sa.select(c.task).where(c.valid < c.wanted).limit(1)
    if token == OPEN:
        lacking = lacking.where(c.device != "tester")
    with site.study.database.snapshot() as connection:
        complete = connection.execute(lacking).first() is None
    if state != "closed" and not complete:
        return None
    back = return_link(site.study.plan.recruiting, "quota_full", "")
    return site.message(request, "closed", status=423, back=back)


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
    code = {
        "completed": recruiting.completion_code,
        "screened_out": recruiting.screen_out_code,
        "quota_full": recruiting.quota_full_code,
    }[outcome]
    template = recruiting.return_url
    if not template and recruiting.platform == "prolific":
        template = _PROLIFIC
    if not template or ("{code}" in template and not code):
        return code, ""
    address = template.replace("{code}", quote(code, safe=""))
    for name, value in json.loads(stored or "{}").items():
        address = address.replace(f"{{{name}}}", quote(value, safe=""))
    return code, address if address.startswith(("https://", "http://")) else ""


# At work


@router.get("/work")
def work(request: Request, site: Here) -> Response:
    """The page for what a participant does next."""
    who = site.person(request)
    language = request.query_params.get("language", "")
    if language in site.words:
        site.study.choose_language(who, language)
        return site.redirect(request, "/work")
    if who["state"]:
        back = return_link(site.study.plan.recruiting, who["state"], who["platform"])
        return site.message(request, who["state"], who, back=back)
    if who["finished"] is not None:
        return site.redirect(request, "/end")
    state = site.study.state()
    if state != "open":
        return site.message(request, state, who)
    if site.study.open_questions(who, "before"):
        return _questions(site, request, who, "before")
    if who["device"] is None or "device" in request.query_params:
        return site.show("device.html", request, who, page_token=site.token(request, "page"))
    return _work_page(site, request, who)


@router.post("/questions/{when}")
def respond(request: Request, when: Name, site: Here, fields: Fields) -> Response:
    who = site.person(request)
    site.check_token(request, "questions", next(iter(fields.get("form", [])), ""))
    values, wrong = read_answers(site.study.open_questions(who, when), fields)
    if wrong:
        return _questions(site, request, who, when, fields, wrong)
    site.study.respond(who, values)
    return site.redirect(request, "/work" if when == "before" else "/end")


@router.get("/end")
def end(request: Request, site: Here) -> Response:
    """The last page: questions, then thanks, the completion code and the debriefing."""
    who = site.person(request)
    if who["finished"] is None:
        return site.redirect(request, "/work")
    if site.study.open_questions(who, "after"):
        return _questions(site, request, who, "after")
    code, address = return_link(site.study.plan.recruiting, "completed", who["platform"])
    return site.show("end.html", request, who, person=who["id"], code=code, address=address)


@router.get("/guidelines")
def guidelines(request: Request, site: Here) -> Response:
    return site.show("guidelines.html", request, site.person(request))


@router.get("/static/slices.js")
def viewer() -> Response:
    """The viewer of slices, which studies share with reports."""
    script = (files("segmeter.report") / "assets" / "slices.js").read_bytes()
    return Response(script, media_type="text/javascript")


@router.get("/images/{trial}/{name}")
def image(request: Request, trial: Name, name: Name, site: Here) -> Response:
    """A screen of a trial by its number, the plain image, or a view for rating."""
    task = site.study.trial(site.person(request), trial)
    show = _shown(site.study, task, name)
    if show is None:
        raise Refused(404, "there is no such image")
    parts = (task["scene"], task["target"], task["part"], task["source"])
    raw = site.study.stimuli.image(*parts, show)
    site.study.note_fetched(trial, name)
    return image_response(raw, **{"cache-control": "private, max-age=3600"})


@router.post("/api/device")
def device(request: Request, choice: DeviceChoice, site: Here) -> Response:
    site.study.choose_device(site.trusted(request), choice.device)
    return JSONResponse({})


@router.post("/api/offer")
def offer(request: Request, site: Here) -> Response:
    """The next work; nothing is reserved."""
    return JSONResponse(site.study.offer(site.trusted(request), address_of(request)))


@router.post("/api/batch")
def batch(request: Request, site: Here) -> Response:
    """Reserve a batch, or give the open one again."""
    given = site.study.batch(site.trusted(request), address_of(request))
    if site.segmenting is not None and given is not None:
        site.segmenting.prepare(given["batch"])
    return JSONResponse(given)


@router.post("/api/batches/{batch}/finish")
def finish(request: Request, batch: Name, site: Here) -> Response:
    return JSONResponse(site.study.finish(site.trusted(request), batch))


@router.post("/api/batches/{batch}/leave")
def leave(request: Request, batch: Name, site: Here) -> Response:
    site.study.leave(site.trusted(request), batch)
    return JSONResponse({})


@router.post("/api/end")
def end_study(request: Request, site: Here) -> Response:
    site.study.end(site.trusted(request))
    return JSONResponse({})


@router.post("/api/trials/{trial}")
def answer(
    request: Request, trial: Name, given: Annotated[dict[str, Any], Body()], site: Here
) -> Response:
    who = site.trusted(request)
    try:
        message = ANSWERS[site.study.plan.kind].model_validate(given)
    except ValidationError as error:
        faults = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(faults) from None
    return JSONResponse(site.study.answer(who, trial, message))


@router.post("/api/trials/{trial}/steps")
def step(request: Request, trial: Name, ask: Step, site: Here) -> Response:
    who = site.trusted(request)
    if site.segmenting is None:
        raise Refused(404, "this study has no model in the loop")
    return JSONResponse(site.segmenting.step(who, trial, ask))


def _work_page(site: Site, request: Request, who: Row) -> Response:
    plan, touch = site.study.plan, who["device"] == "mobile"
    modes = [plan.mode_of(who["condition"])] if who["condition"] else list(plan.modes)
    seconds = plan.design.batch * max(2.0 + mode.seconds for mode in modes)  # 2 s for a click
    return site.show(
        {"rate": "rate.html", "interact": "interact.html"}.get(plan.kind, "clicks.html"),
        request,
        who,
        page_token=site.token(request, "page"),
        person=who["id"],
        steps=_course(site, modes, site.language(request, who["language"]), touch),
        minutes=max(1, math.ceil(seconds / 60)),
        touch=touch,
        volumes=site.study.stimuli.volumes,
    )


def _course(site: Site, modes: list[Mode], language: str, touch: bool) -> list[str]:
    """The course of a trial, screen by screen; in short if modes are mixed."""
    words = site.words[language]
    ask = words["step_ask_touch" if touch else "step_ask"]
    if len(modes) > 1:
        return [words["step_mixed"], ask]
    steps = []
    for screen in modes[0].screens[:-1]:
        # A second round shows errors instead of objects.
        error = site.study.plan.kind == "clicks-round2" and screen.show not in ("image", "text")
        seconds = f"{screen.seconds:g}".replace(".", words["decimal_mark"])
        steps.append(
            words["step_error" if error else f"step_{screen.show}"].format(seconds=seconds)
        )
    return [*steps, ask]


def _questions(
    site: Site,
    request: Request,
    who: Row,
    when: str,
    given: dict[str, list[str]] | None = None,
    wrong: list[str] | None = None,
) -> Response:
    form = site.token(request, "questions")
    more = {"when": when, "form": form, "given": given or {}, "wrong": wrong or []}
    questions = site.study.open_questions(who, when)
    status = 422 if wrong else 200
    return site.show("questions.html", request, who, status, questions=questions, **more)


def _shown(study: RunningStudy, trial: Row, name: str) -> str | None:
    """The image of a name in this trial; None if there is none."""
    if study.plan.kind == "rate":
        return name if name in VIEWS else None
    if name not in study.image_names(trial):
        return None
    screens = study.plan.mode_of(trial["condition"]).screens
    return screens[int(name)].show if name.isdecimal() else name


# Conducting


@conduct.get("")
def overview(request: Request, site: Here, links: Named = "") -> Response:
    if not site.gate.holds(request):
        return site.show("login.html", request, wrong="")
    with site.study.database.snapshot() as connection:
        now = progress(connection)
        heat = heat_targets(connection) if site.study.plan.clicks else []
        people = participant_rows(connection, site.study.plan)
    return site.show(
        "conduct.html",
        request,
        now=now,
        heat=heat,
        people=people,
        form=site.gate.form(request),
        links=site.new_links.pop(links, []),
        proxied="x-forwarded-for" in request.headers and not site.behind,
    )


@conduct.post("/login")
def login(request: Request, site: Here, password: Field = "") -> Response:
    try:
        opened = site.gate.open(request, password)
    except Refused as refused:
        return site.show("login.html", request, status=refused.status, wrong=refused.sentence)
    answer = site.redirect(request, "/conduct")
    site.gate.keep(request, answer, opened)
    return answer


@conduct.post("/state")
def state(request: Request, site: Here, form: Field = "", state: Field = "") -> Response:
    site.gate.check(request, form)
    site.study.set_state(state)
    return site.redirect(request, "/conduct")


@conduct.post("/invite")
def invite(
    request: Request,
    site: Here,
    form: Field = "",
    count: Annotated[int, Form(ge=1, le=1000)] = 1,
    role: Field = "person",
    label: Field = "",
) -> Response:
    """Make links; they are shown once, on the page that follows."""
    site.gate.check(request, form)
    if role not in ("person", "tester"):
        raise Refused(422, "an invitation is for a person or a tester")
    base, key = str(request.base_url).rstrip("/"), secrets.token_urlsafe(12)
    tokens = site.study.invite(count, role, label)
    site.new_links[key] = [f"{base}/join/{token}" for token in tokens]
    return site.redirect(request, f"/conduct?links={key}")


@conduct.post("/withdraw")
def withdraw_person(request: Request, site: Here, form: Field = "", code: Field = "") -> Response:
    site.gate.check(request, form)
    if not site.study.withdraw(code):
        raise Refused(404, f"no participant has the code '{code}'")
    return site.redirect(request, "/conduct")


@conduct.get("/heat")
def heat(request: Request, scene: Named, target: Named, site: Here) -> Response:
    site.gate.check(request)
    with site.study.database.snapshot() as connection:
        if not db.count(connection, db.tasks.c.scene == scene, db.tasks.c.target == target):
            raise Refused(404, "there is no such target")
        clicks = clicks_on(connection, scene, target)
    shown = site.study.stimuli.shown(scene)
    drawn = heat_map(shown.pixels, shown.targets[target].mask, clicks)
    return image_response(encoded(drawn, image=True))


@conduct.get("/participants.csv")
def participants(request: Request, site: Here) -> Response:
    """The list of participants with their identifiers at the recruiting platform."""
    site.gate.check(request)
    with site.study.database.snapshot() as connection:
        rows = participant_rows(connection, site.study.plan)
    text = csv_text(participant_columns(identifiers=True), rows)
    return _download(text.encode(), "text/csv", "participants.csv")


@conduct.get("/export")
def take(request: Request, site: Here) -> Response:
    """The archive that `segmeter study archive` writes."""
    site.gate.check(request)
    try:
        return _download(archive(site.study), "application/zip", "study.zip")
    except BadInput as error:
        raise Refused(409, str(error)) from None


def _download(raw: bytes, kind: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(raw, media_type=kind, headers=headers)
