"""The server: a study as a web application, for people and for its conductor."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from segmeter.core.errors import SegmeterError
from segmeter.study.conduct_routes import conduct_routes
from segmeter.study.guards import Limiter, Shield
from segmeter.study.pages_for import Pages
from segmeter.study.people_routes import people_routes
from segmeter.study.refusals import Refused
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting

__all__ = ["create_app"]

_STATIC = Path(__file__).parent / "static"
# A person makes a few requests per second at most, and a batch of pictures at once.
_PER_SECOND, _BURST = 20.0, 150
# An address may be that of a whole class.
_PER_ADDRESS, _ADDRESS_BURST = 400.0, 4000


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
    pages = Pages(study.plan)
    door = Limiter(0.2, 10) if limited else None
    app.include_router(people_routes(study, pages, segmenting, door))
    secret = password or secrets.token_urlsafe(32)
    app.include_router(conduct_routes(study, pages, secret, door))
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    if limited:
        sessions, addresses = Limiter(_PER_SECOND, _BURST), Limiter(_PER_ADDRESS, _ADDRESS_BURST)
        app.add_middleware(Shield, sessions=sessions, addresses=addresses)
    else:
        app.add_middleware(Shield, sessions=None)
    for kind, answer in _complaints(pages).items():
        app.add_exception_handler(kind, answer)
    return app


def _complaints(pages: Pages) -> dict[Any, Callable[[Request, Any], Response]]:
    """Errors as short answers: sentences of ours, never a trace."""
    from fastapi.exceptions import RequestValidationError

    def refused(request: Request, error: Refused) -> Response:
        if error.status == 401 and not request.url.path.startswith("/api"):
            return RedirectResponse(request.scope["root_path"] + "/", 303)
        return JSONResponse({"error": str(error)}, error.status)

    def invalid(request: Request, error: RequestValidationError) -> Response:
        where = [".".join(map(str, each["loc"][1:])) for each in error.errors()[:5]]
        return JSONResponse({"error": f"not as it should be: {', '.join(where)}"}, 422)

    def missing(request: Request, error: HTTPException) -> Response:
        why = "there is nothing here" if error.status_code == 404 else "this cannot be done"
        return PlainTextResponse(why, error.status_code)

    def ours(request: Request, error: SegmeterError) -> Response:
        return JSONResponse({"error": "this cannot be shown"}, 500)

    return {
        Refused: refused,
        RequestValidationError: invalid,
        HTTPException: missing,
        SegmeterError: ours,
    }
