"""Serving: a study from a plan file to a listening server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from segmeter.core.errors import BadInput
from segmeter.runtime.roots import Roots
from segmeter.study.ledger import Ledger
from segmeter.study.plan import Plan
from segmeter.study.running import RunningStudy
from segmeter.study.stimuli import Stimuli

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

__all__ = ["Place", "listening", "open_study", "serve", "settings", "study_app"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study's database and log lie."""

    url: str
    log: Path

    @classmethod
    def beside(cls, plan: Path, url: str | None = None) -> Place:
        """By default `PLAN.db` and `PLAN.events.jsonl` beside the plan."""
        stem = plan.resolve().with_suffix("")
        return cls(url or f"sqlite:///{stem}.db", stem.with_name(f"{stem.name}.events.jsonl"))


def open_study(plan: Plan, place: Place, roots: Roots | None = None) -> RunningStudy:
    """A study that goes on where it stood."""
    return RunningStudy(plan, Stimuli(plan, roots), Ledger(place.url, place.log))


def study_app(
    study: RunningStudy,
    password: str | None = None,
    *,
    weights: Path | None = None,
    limited: bool = True,
) -> FastAPI:
    """The application, with models in the loop where the plan has some."""
    from segmeter.study.segmenting import Segmenting
    from segmeter.study.server import create_app

    loop = Segmenting(study, weights) if study.plan.kind == "interact" else None
    return create_app(study, password=password, segmenting=loop, limited=limited)


def serve(app: FastAPI, host: str, port: int, *, root_path: str = "", behind: str = "") -> None:
    """Listen until interrupted; `behind` is the address of a trusted reverse proxy."""
    import uvicorn

    _check_free(host, port)
    uvicorn.Server(settings(app, host, port, root_path=root_path, behind=behind)).run()


def settings(
    app: FastAPI, host: str, port: int, *, root_path: str = "", behind: str = ""
) -> uvicorn.Config:
    """How the server runs: whom it believes, and what it keeps to itself."""
    import uvicorn

    return uvicorn.Config(
        app,
        host=host,
        port=port,
        root_path=root_path,
        proxy_headers=bool(behind),
        forwarded_allow_ips=behind or None,
        log_level="warning",
        access_log=False,  # addresses of people are nobody's business
        server_header=False,
        timeout_graceful_shutdown=5,
        # Longer than people think: a connection closed under a request would be an error.
        timeout_keep_alive=120,
    )


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            taken = f"{host}:{port} cannot be used ({error.strerror})"
            raise BadInput(f"{taken}; take another --port or --host") from None


@contextlib.contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """A server in a thread of its own, on a free port; gives its address."""
    import uvicorn

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = uvicorn.Config(
        app, port=port, log_level="warning", access_log=False, timeout_keep_alive=120
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
