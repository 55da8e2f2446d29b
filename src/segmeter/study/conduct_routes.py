"""Routes for the conductor: progress, clicks as they come in, invitations, pause, export."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response

from segmeter.core.errors import BadInput
from segmeter.study.exports import export
from segmeter.study.progress import heat_image, heat_targets, is_shown, progress
from segmeter.study.refusals import Refused
from segmeter.study.running import RunningStudy
from segmeter.study.site import Here, Site, image

__all__ = ["router"]

router = APIRouter(prefix="/conduct")
Field = Annotated[str, Form(max_length=200)]
Named = Annotated[str, Query(max_length=500)]


@router.get("")
def overview(request: Request, site: Here) -> Response:
    if not site.gate.holds(request):
        return site.show("login.html", request, wrong="")
    return _overview(site, request, [])


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
    site.gate.check(request, form)
    if role not in ("person", "tester"):
        raise Refused(422, "an invitation is for a person or a tester")
    base = str(request.base_url).rstrip("/")
    links = [f"{base}/join/{token}" for token in site.study.invite(count, role, label)]
    return _overview(site, request, links)


@router.get("/heat")
def heat(request: Request, scene: Named, target: Named, site: Here) -> Response:
    site.gate.check(request)
    with site.study.ledger.protocol() as connection:
        if not is_shown(connection, scene, target):
            raise Refused(404, "there is no such target")
        return image(heat_image(connection, site.study.stimuli, scene, target))


@router.get("/export")
def take(request: Request, site: Here) -> Response:
    site.gate.check(request)
    try:
        packed = _packed(site.study)
    except BadInput as error:
        raise Refused(409, str(error)) from None
    headers = {"content-disposition": 'attachment; filename="study.zip"'}
    return Response(packed, media_type="application/zip", headers=headers)


def _overview(site: Site, request: Request, links: list[str]) -> Response:
    with site.study.ledger.protocol() as connection:
        now = progress(connection)
        heat = heat_targets(connection) if site.study.plan.clicks else []
    form = site.gate.form(request)
    return site.show("conduct.html", request, now=now, heat=heat, form=form, links=links)


def _packed(study: RunningStudy) -> bytes:
    """Everything that `segmeter study export` writes, and the plan, as one archive."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, study.ledger.protocol() as connection:
        files = export(connection, study.plan, study.stimuli, Path(folder))
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("plan.toml", study.plan.text)
            for file in files:
                archive.write(file, file.name)
    return packed.getvalue()
