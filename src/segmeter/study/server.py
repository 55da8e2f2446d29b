"""The server: a study as a web application that listens, and files to deploy it."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from segmeter.core.errors import BadInput, SegmeterError
from segmeter.runtime.remote_files import Roots
from segmeter.study import routes
from segmeter.study.database import Database
from segmeter.study.guards import Gate, Limits, Shield
from segmeter.study.plan import Plan
from segmeter.study.records import Refused
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting
from segmeter.study.site import Site, Visit
from segmeter.study.stimuli import Stimuli
from segmeter.study.wording import read_words

if TYPE_CHECKING:
    import uvicorn

_STATIC = Path(__file__).parent / "static"
# What participants read for a refusal; anything else is a fault.
_SHOWN = {
    403: "stale", 404: "missing", 409: "elsewhere", 410: "over", 423: "paused", 429: "busy",
}  # fmt: skip


def default_url(plan: Path) -> str:
    """The database next to a plan: `PLAN.db`."""
    return f"sqlite:///{plan.resolve().with_suffix('')}.db"


def open_study(plan: Plan, url: str, roots: Roots | None = None) -> RunningStudy:
    """Begin a study, or continue it."""
    return RunningStudy(plan, Stimuli(plan, roots), Database(url))


def study_app(
    study: RunningStudy,
    password: str | None = None,
    *,
    weights: Path | None = None,
    limited: bool = True,
    behind: bool = False,
) -> FastAPI:
    """The application of a running study.

    Parameters
    ----------
    password
        Opens the conductor's pages; without one they stay closed.
    weights
        Where the weights of a model in the loop are.
    limited
        Whether rates are limited; `behind` whether a reverse proxy is trusted.
    """
    app = FastAPI(title="segmeter study", docs_url=None, redoc_url=None, openapi_url=None)
    limits = Limits() if limited else None
    secret = study.database.secret()
    tries = None if limits is None else limits.tries
    gate = Gate(secret, password or secrets.token_urlsafe(32), tries)
    loop = Segmenting(study, weights) if study.plan.kind == "interact" else None
    app.state.site = Site(study, read_words(study.plan), gate, limits, loop, secret, behind)
    app.include_router(routes.router)
    app.include_router(routes.conduct)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.add_middleware(Shield, limits=limits)
    for kind in (RequestValidationError, HTTPException, SegmeterError):
        app.add_exception_handler(kind, _failed)
    return app


def _failed(request: Request, error: Exception) -> Response:
    """A refusal: a page for browsers that follow a link or send a form, JSON for scripts."""
    match error:
        case Refused():
            refused = error
        case RequestValidationError():
            where = [".".join(map(str, each["loc"][1:])) for each in error.errors()[:5]]
            refused = Refused(422, f"invalid fields: {', '.join(where)}")
        case HTTPException(status_code=status):
            why = "there is nothing here" if status == 404 else "this cannot be done"
            refused = Refused(status, why)
        case _:
            refused = Refused(500, "this cannot be shown")  # never a trace
    here, status = Visit(request), refused.status
    path = request.scope["path"].removeprefix(here.base)
    if status == 401 and not path.startswith(("/api/", "/images/")):
        return here.redirect("/")
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": str(refused)}, status)
    if path.startswith("/conduct"):
        return here.show("refusal.html", status, why=refused.sentence)
    return here.message(_SHOWN.get(status, "fault"), status)


def serve(app: FastAPI, host: str, port: int, *, root_path: str = "", behind: str = "") -> None:
    """Listen until interrupted; `behind` is the address of a trusted reverse proxy."""
    import uvicorn

    _check_free(host, port)
    uvicorn.Server(settings(app, host, port, root_path=root_path, behind=behind)).run()


def settings(
    app: FastAPI, host: str, port: int, *, root_path: str = "", behind: str = ""
) -> uvicorn.Config:
    """Settings of the HTTP server: trusted proxies, no access log."""
    import uvicorn

    return uvicorn.Config(
        app,
        host=host,
        port=port,
        root_path=root_path,
        proxy_headers=bool(behind),
        forwarded_allow_ips=behind or None,
        log_level="warning",
        access_log=False,  # network addresses are not stored
        server_header=False,
        timeout_graceful_shutdown=5,
        # Longer than participants take: a connection closed under a request would be an error.
        timeout_keep_alive=120,
    )


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            taken = f"{host}:{port} cannot be used ({error.strerror})"
            raise BadInput(f"{taken}; choose another --port or --host") from None


@contextlib.contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """A server in its own thread on a free port; yields its address."""
    import uvicorn

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(settings(app, "127.0.0.1", port))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


FILES = ("Dockerfile", "compose.yaml", "Caddyfile", "segmeter-study.service", "nginx.conf")
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", re.IGNORECASE)


def write_files(plan: Path, domain: str, folder: Path) -> list[Path]:
    """Write the files for a plan and a domain; existing ones are not overwritten."""
    if not _DOMAIN.fullmatch(domain):
        raise BadInput(f"--domain is a name such as study.example.org, not '{domain}'")
    if not re.fullmatch(r"[\w.-]+", plan.name):
        raise BadInput(f"rename the plan '{plan.name}': letters, digits, '.', '-' and '_' only")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FILES:
        path = folder / name
        if path.exists():
            raise BadInput(f"'{path}' exists already; choose another --out")
        text = (files("segmeter.study") / "deploy" / name).read_text("utf-8")
        filled = text.replace("{plan}", plan.name).replace("{domain}", domain)
        path.write_text(filled, encoding="utf-8")
        written.append(path)
    return written
