"""Routes for the conductor: progress, clicks as they come in, invitations, pause, export."""

from __future__ import annotations

from fastapi import APIRouter

from segmeter.study.guards import Limiter
from segmeter.study.pages_for import Pages
from segmeter.study.running import RunningStudy

__all__ = ["conduct_routes"]


def conduct_routes(
    study: RunningStudy, pages: Pages, password: str, door: Limiter | None
) -> APIRouter:
    """All that only the conductor reaches."""
    return APIRouter()
