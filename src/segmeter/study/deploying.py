"""Deploying a study: files for containers with HTTPS, for systemd and for nginx."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from segmeter.core.errors import BadInput

__all__ = ["write_files"]

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
