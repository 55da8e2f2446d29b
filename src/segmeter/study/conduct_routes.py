"""Routes for the conductor: progress, clicks as they come in, invitations, pause, export."""

from __future__ import annotations

import io
import tempfile
import time
import zipfile
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from segmeter.study.exports import export
from segmeter.study.guards import Limiter, same_text, signed, signed_by
from segmeter.study.pages_for import Pages
from segmeter.study.progress import heat_picture, heat_targets, is_shown, progress
from segmeter.study.refusals import Refused
from segmeter.study.running import RunningStudy

__all__ = ["conduct_routes"]

COOKIE = "segmeter_conductor"
_HALF_A_DAY = 12 * 3600


class Gate:
    """Lets in who knows the password, for half a day."""

    def __init__(self, study: RunningStudy, password: str, door: Limiter | None) -> None:
        self._secret = study.ledger.secret()
        self._password = password
        self._door = door

    def open(self, request: Request, password: str) -> str:
        """A new pass for the right password."""
        host = request.client.host if request.client else ""
        if self._door is not None and not self._door.allows(f"conductor {host}"):
            raise Refused(429, "too many attempts; wait a little")
        if not same_text(password, self._password):
            raise Refused(403, "that is not the password")
        until = str(int(time.time()) + _HALF_A_DAY)
        return f"{until}.{signed(self._secret, 'conductor', self._password, until)}"

    def holds(self, request: Request) -> bool:
        until, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if len(until) > 20 or not until.isdecimal() or int(until) < time.time():
            return False
        return signed_by(self._secret, signature, "conductor", self._password, until)

    def check(self, request: Request, form: str | None = None) -> None:
        """Refuse whoever has no pass; changes also need the form's token."""
        if not self.holds(request):
            raise Refused(403, "log in first")
        if form is not None and not same_text(form, self.form(request)):
            raise Refused(403, "this form is out of date; load the page again")

    def form(self, request: Request) -> str:
        return signed(self._secret, "form", request.cookies.get(COOKIE, ""))


Field = Annotated[str, Form(max_length=200)]


def conduct_routes(
    study: RunningStudy, pages: Pages, password: str, door: Limiter | None
) -> APIRouter:
    """All that only the conductor reaches."""
    router, gate = APIRouter(prefix="/conduct"), Gate(study, password, door)
    _add_looking(router, study, pages, gate)
    _add_doing(router, study, pages, gate)
    return router


def _add_looking(router: APIRouter, study: RunningStudy, pages: Pages, gate: Gate) -> None:
    """What the conductor sees and takes away."""

    @router.get("")
    def overview(request: Request) -> Response:
        language = pages.language(request)
        if not gate.holds(request):
            return pages.show("login.html", request, language)
        with study.ledger.reading() as connection:
            now = progress(connection)
            heat = heat_targets(connection) if study.plan.clicks else []
        form = gate.form(request)
        return pages.show(
            "conduct.html", request, language, now=now, heat=heat, form=form, links=[]
        )

    @router.get("/heat")
    def heat(
        request: Request,
        scene: Annotated[str, Query(max_length=500)],
        target: Annotated[str, Query(max_length=500)],
    ) -> Response:
        gate.check(request)
        with study.ledger.reading() as connection:
            if not is_shown(connection, scene, target):
                raise Refused(404, "there is no such target")
            raw = heat_picture(connection, study.stimuli, scene, target)
        return Response(raw, media_type="image/jpeg" if raw[:2] == b"\xff\xd8" else "image/png")

    @router.get("/export")
    def take(request: Request) -> Response:
        gate.check(request)
        packed = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, study.ledger.reading() as connection:
            files = export(connection, study.plan, study.stimuli, FilePath(folder))
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("plan.toml", study.plan.text)
                for file in files:
                    archive.write(file, file.name)
        headers = {"content-disposition": 'attachment; filename="study.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)


def _add_doing(router: APIRouter, study: RunningStudy, pages: Pages, gate: Gate) -> None:
    """What the conductor does."""

    def home(request: Request) -> RedirectResponse:
        return RedirectResponse(request.scope["root_path"] + "/conduct", 303)

    @router.post("/login")
    def login(request: Request, password: Field = "") -> Response:
        answer = home(request)
        answer.set_cookie(
            COOKIE,
            gate.open(request, password),
            max_age=_HALF_A_DAY,
            path=request.scope["root_path"] + "/conduct",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    @router.post("/state")
    def state(request: Request, form: Field = "", state: Field = "") -> Response:
        gate.check(request, form)
        study.set_state(state)
        return home(request)

    @router.post("/invite")
    def invite(
        request: Request,
        form: Field = "",
        count: Annotated[int, Form(ge=1, le=1000)] = 1,
        role: Field = "person",
        label: Field = "",
    ) -> Response:
        gate.check(request, form)
        if role not in ("person", "tester"):
            raise Refused(422, "an invitation is for a person or a tester")
        base = str(request.base_url).rstrip("/")
        links = [f"{base}/join/{token}" for token in study.invite(count, role, label)]
        with study.ledger.reading() as connection:
            now = progress(connection)
        language = pages.language(request)
        more: dict[str, Any] = {"now": now, "heat": [], "form": form, "links": links}
        return pages.show("conduct.html", request, language, **more)
