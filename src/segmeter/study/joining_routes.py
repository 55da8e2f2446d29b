"""Routes for joining and leaving: the link, recruiting platforms, consent, withdrawal, health."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote, urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import JSONResponse, Response

from segmeter.study import database as db
from segmeter.study.guards import signed, signed_by
from segmeter.study.plan import Recruiting
from segmeter.study.records import Refused
from segmeter.study.running import OPEN
from segmeter.study.site import Here, Site

router = APIRouter()
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Field = Annotated[str, Form(max_length=100, pattern=r"^[^\x00]*$")]


@router.get("/health")
def health(site: Here) -> Response:
    """For monitors: 200 while the database can be read."""
    return JSONResponse({"state": site.study.state()})


@router.get("/")
def front(request: Request, site: Here) -> Response:
    if not site.study.plan.design.open_to_all:
        return site.message(request, "no_link", site.known(request))
    language = {"language": site.pages.language(request)}
    query = urlencode({**_platform(site, request), **language})
    return site.redirect(request, f"/join/{OPEN}?{query}")


@router.get("/join/{token}")
def consent(request: Request, token: Token, site: Here) -> Response:
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
    token: Token,
    site: Here,
    form: Field = "",
    agreed: Annotated[list[str], Form(max_length=20)] = [],  # noqa: B006  read only
    language: Field = "",
) -> Response:
    if not site.study.may_join(token):
        site.limit_tries(request)  # wrong links only: a class opens its own links at once
    if not signed_by(site.secret, form, "join", token):
        raise Refused(403, "this form is out of date; open your link again")
    if len(agreed) < 1 + len(site.study.plan.consent_boxes):
        raise Refused(422, "taking part needs your consent")
    site.limit_joins(request)
    chosen = site.pages.language(request, language)
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
    site.limit_tries(request)
    if not signed_by(site.secret, form, "withdraw"):
        raise Refused(403, "this form is out of date; load it again")
    who = site.known(request)
    if not site.study.withdraw(code):
        return site.show("withdraw.html", request, who, 404, form=form, code=code, unknown=True)
    answer = site.message(request, "withdraw_done", who)
    site.forget_session(request, answer)
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
    "none": (),
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "mturk": ("workerId", "assignmentId", "hitId"),
    "sona": ("survey_code", "id"),
    "other": (),
}
_LONGEST = 200
_PROLIFIC = "https://app.prolific.com/submissions/complete?cc={code}"


def platform_ids(recruiting: Recruiting, query: Mapping[str, str]) -> dict[str, str]:
    """The platform's parameters of a link; the first one identifies the participant.

    >>> platform_ids(Recruiting(platform="prolific"), {"PROLIFIC_PID": "5f", "x": "y"})
    {'PROLIFIC_PID': '5f'}
    """
    own = (recruiting.id_parameter,) if recruiting.id_parameter else ()
    names = (*own, *_PARAMETERS[recruiting.platform])
    found = {name: query[name] for name in names if query.get(name)}
    return {
        name: value
        for name, value in found.items()
        if len(value) <= _LONGEST and value.isprintable()
    }


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
