"""Routes for joining and leaving a study: the link, consent, withdrawal."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import Response

from segmeter.study.guards import signed, signed_by
from segmeter.study.refusals import Refused
from segmeter.study.running import OPEN
from segmeter.study.site import Here

__all__ = ["router"]

router = APIRouter()
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


@router.get("/")
def front(request: Request, site: Here) -> Response:
    if not site.study.plan.open_to_all:
        return site.message(request, "no_link", site.known(request))
    return site.redirect(request, f"/join/{OPEN}?language={site.pages.language(request)}")


@router.get("/join/{token}")
def consent(request: Request, token: Token, site: Here) -> Response:
    open = site.study.may_join(token)
    if site.known(request) is not None and (token == OPEN or not open):
        return site.redirect(request, "/work")
    if not open:
        return site.message(request, "used_link", status=403)
    form = signed(site.secret, "join", token)
    return site.show("consent.html", request, token=token, form=form)


@router.post("/join/{token}")
def join(
    request: Request,
    token: Token,
    site: Here,
    form: Annotated[str, Form(max_length=100)] = "",
    agreed: Annotated[str, Form(max_length=10)] = "",
    language: Annotated[str, Form(max_length=12)] = "",
) -> Response:
    if not site.study.may_join(token):
        site.knock(request)  # only wrong links: a class opens its own at once
    if not signed_by(site.secret, form, "join", token):
        raise Refused(403, "this form is out of date; open your link again")
    if agreed != "yes":
        raise Refused(422, "taking part needs your consent")
    session = site.study.join(token, site.pages.language(request, language))
    answer = site.redirect(request, "/work")
    site.keep_session(request, answer, session)
    return answer


@router.get("/withdraw")
def ask_code(request: Request, site: Here) -> Response:
    """The form; whoever has joined in this browser finds their own code filled in."""
    who = site.known(request)
    form, code = signed(site.secret, "withdraw"), who["id"] if who else ""
    return site.show("withdraw.html", request, who, form=form, code=code, unknown=False)


@router.post("/withdraw")
def withdraw(
    request: Request,
    site: Here,
    form: Annotated[str, Form(max_length=100)] = "",
    code: Annotated[str, Form(max_length=64)] = "",
) -> Response:
    site.knock(request)
    if not signed_by(site.secret, form, "withdraw"):
        raise Refused(403, "this form is out of date; load it again")
    who = site.known(request)
    if not site.study.withdraw(code.strip()):
        return site.show("withdraw.html", request, who, 404, form=form, code=code, unknown=True)
    answer = site.message(request, "withdraw_done", who)
    site.forget_session(request, answer)
    return answer
