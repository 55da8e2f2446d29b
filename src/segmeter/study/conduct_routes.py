"""Routes to conduct a study: progress, participants, invitations, pause, withdrawal, export."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response

from segmeter.core.errors import BadInput
from segmeter.study.exports import csv_text, participant_columns, participant_rows, write_archive
from segmeter.study.progress import heat_image, heat_targets, is_shown, progress
from segmeter.study.records import Refused
from segmeter.study.site import Here, Site, image_response

router = APIRouter(prefix="/conduct")
_CLEAN = r"^[^\x00]*$"
Field = Annotated[str, Form(max_length=200, pattern=_CLEAN)]
Named = Annotated[str, Query(max_length=500, pattern=_CLEAN)]


@router.get("")
def overview(request: Request, site: Here, links: Named = "") -> Response:
    if not site.gate.holds(request):
        return site.show("login.html", request, wrong="")
    with site.study.database.snapshot() as connection:
        now = progress(connection)
        heat = heat_targets(connection) if site.study.plan.clicks else []
        people = participant_rows(connection, site.study.plan, site.study.stimuli)
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


@router.post("/login")
def login(request: Request, site: Here, password: Field = "") -> Response:
    try:
        opened = site.gate.open(request, password)
    except Refused as refused:
        return site.show("login.html", request, status=refused.status, wrong=refused.sentence)
    answer = site.redirect(request, "/conduct")
    site.gate.keep(request, answer, opened)
    return answer


@router.post("/state")
def state(request: Request, site: Here, form: Field = "", state: Field = "") -> Response:
    site.gate.check(request, form)
    site.study.set_state(state)
    return site.redirect(request, "/conduct")


@router.post("/invite")
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
    base = str(request.base_url).rstrip("/")
    made = [f"{base}/join/{token}" for token in site.study.invite(count, role, label)]
    key = secrets.token_urlsafe(12)
    site.new_links[key] = made
    return site.redirect(request, f"/conduct?links={key}")


@router.post("/withdraw")
def withdraw(request: Request, site: Here, form: Field = "", code: Field = "") -> Response:
    site.gate.check(request, form)
    if not site.study.withdraw(code):
        raise Refused(404, f"no participant has the code '{code}'")
    return site.redirect(request, "/conduct")


@router.get("/heat")
def heat(request: Request, scene: Named, target: Named, site: Here) -> Response:
    site.gate.check(request)
    with site.study.database.snapshot() as connection:
        if not is_shown(connection, scene, target):
            raise Refused(404, "there is no such target")
        return image_response(heat_image(connection, site.study.stimuli, scene, target))


@router.get("/participants.csv")
def participants(request: Request, site: Here) -> Response:
    """The list of participants with their identifiers at the recruiting platform."""
    site.gate.check(request)
    with site.study.database.snapshot() as connection:
        rows = participant_rows(connection, site.study.plan, site.study.stimuli)
    text = csv_text(participant_columns(site.study.plan, identifiers=True), rows)
    return _download(text.encode(), "text/csv", "participants.csv")


@router.get("/export")
def take(request: Request, site: Here) -> Response:
    site.gate.check(request)
    return _download(_packed(site), "application/zip", "study.zip")


def _packed(site: Site) -> bytes:
    """The archive that `segmeter study archive` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.zip"
        try:
            write_archive(site.study, path)
        except BadInput as error:
            raise Refused(409, str(error)) from None
        return path.read_bytes()


def _download(raw: bytes, kind: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(raw, media_type=kind, headers=headers)
