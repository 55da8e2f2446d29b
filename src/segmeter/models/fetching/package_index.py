"""The user's package index: where a package's source archive lies.

pip is asked which index it would use; it is not asked to download, because for a source
archive it would run the package's build to learn its metadata.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
from html.parser import HTMLParser
from urllib.parse import urljoin

from segmeter.core.errors import NotFound
from segmeter.models.fetching.transfer import file_name, opened, shown

__all__ = ["index_url", "source_archive"]

_LIMIT = 1 << 24


def source_archive(package: str, version: str) -> str:
    """The address of a package's source archive on the user's index."""
    page = f"{index_url().rstrip('/')}/{_normal(package)}/"
    try:
        with opened(page, {"Accept": "text/html"}) as answer:
            text, base = answer.read(_LIMIT).decode("utf-8", "replace"), answer.url
    except urllib.error.HTTPError as error:
        raise NotFound(f"'{shown(page)}' answers {error.code} {error.reason}") from error
    links = _Links()
    links.feed(text)
    for link in links.found:
        address: str = urljoin(base, link).partition("#")[0]
        name = file_name(address).removesuffix(".tar.gz")
        if address.endswith(".tar.gz") and _normal(name) == f"{_normal(package)}-{version}":
            return address
    raise NotFound(f"'{shown(page)}' lists no source archive of {package} {version}")


def index_url() -> str:
    """The index pip would use: from the environment, its configuration, or built in."""
    own = os.environ.get("PIP_INDEX_URL") or _pip("config", "get", "global.index-url").strip()
    if own:
        return own
    help_text = " ".join(_pip("download", "--help").split())
    built_in = re.search(r"--index-url <url> .*?\(default (https?://\S+?)\)", help_text)
    if built_in is None:
        raise NotFound("pip names no package index here; set PIP_INDEX_URL")
    return built_in[1]


def _pip(*arguments: str) -> str:
    """What pip prints, or nothing where it fails or is not installed."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def _normal(name: str) -> str:
    """A package's name as indexes compare it, `-` for every run of `-_`."""
    return re.sub(r"[-_]+", "-", name).lower()


class _Links(HTMLParser):
    """The addresses of all links on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]
