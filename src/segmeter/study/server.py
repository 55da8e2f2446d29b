"""The server: a study as a web application, for people and for its conductor."""

from __future__ import annotations

import secrets
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from segmeter.core.errors import SegmeterError
from segmeter.study import conduct_routes, joining_routes, work_routes
from segmeter.study.gate import Gate
from segmeter.study.guards import Limiter, Shield
from segmeter.study.refusals import Refused
from segmeter.study.rendering import Pages
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting
from segmeter.study.site import Site

__all__ = ["create_app"]

_STATIC = Path(__file__).parent / "static"
# A person makes a few requests per second at most, and a batch of images at once.
_PER_SECOND, _BURST = 20.0, 150
# An address may be that of a whole class.
_PER_ADDRESS, _ADDRESS_BURST = 400.0, 4000
# What a refusal says to people; anything else is a fault.
_SAID = {403: "stale", 404: "missing", 409: "over", 410: "over", 423: "paused", 429: "busy"}


def create_app(
    study: RunningStudy,
    *,
    password: str | None = None,
    segmenting: Segmenting | None = None,
    limited: bool = True,
) -> FastAPI:
    """The application of a running study.

    Parameters
    ----------
    password
        Opens the conductor's pages; a random one that nobody knows closes them.
    segmenting
        The models in the loop, for a study of kind `interact`.
    limited
        Whether each client may only make so many requests; load tests take it off.
    """
    app = FastAPI(title="segmeter study", docs_url=None, redoc_url=None, openapi_url=None)
    door = Limiter(0.2, 10) if limited else None
    secret = study.ledger.secret()
    gate = Gate(secret, password or secrets.token_urlsafe(32), door)
    app.state.site = Site(study, Pages(study.plan), gate, door, segmenting, secret)
    for routes in (joining_routes, work_routes, conduct_routes):
        app.include_router(routes.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    if limited:
        sessions, addresses = Limiter(_PER_SECOND, _BURST), Limiter(_PER_ADDRESS, _ADDRESS_BURST)
        app.add_middleware(Shield, sessions=sessions, addresses=addresses)
    else:
        app.add_middleware(Shield, sessions=None)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _missing)
    app.add_exception_handler(SegmeterError, _fault)
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _complaint(request, error)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where = [".".join(map(str, each["loc"][1:])) for each in error.errors()[:5]]
    return _complaint(request, Refused(422, f"not as it should be: {', '.join(where)}"))


def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    why = "there is nothing here" if error.status_code == 404 else "this cannot be done"
    return _complaint(request, Refused(error.status_code, why))


def _fault(request: Request, error: Exception) -> Response:
    return _complaint(request, Refused(500, "this cannot be shown"))


def _complaint(request: Request, refused: Refused) -> Response:
    """A page where somebody follows a link or sends a form, else a short JSON; never a trace."""
    site: Site = request.app.state.site
    status = refused.status
    path = request.scope["path"].removeprefix(request.scope["root_path"])
    if status == 401 and not path.startswith(("/api/", "/images/")):
        return site.redirect(request, "/")
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": str(refused)}, status)
    if path.startswith("/conduct"):
        return site.show("refusal.html", request, status=status, why=refused.sentence)
    return site.message(request, _SAID.get(status, "fault"), site.known(request), status)
