"""Transfer of one file over HTTP: resumed after a break, checked, then moved in place."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from segmeter.core.errors import BadInput, BadWeights, NotFound

__all__ = [
    "Progress",
    "check_digest",
    "digest",
    "download",
    "file_name",
    "opened",
    "shown",
    "write_whole",
]

Progress = Callable[[str, int, int], None]
"""Called with what is coming, bytes so far and bytes in all (0: not known)."""

_BLOCK = 1 << 20
_ATTEMPTS = 3
_SECONDS = 60


def download(url: str, target: Path, sha256: str, progress: Progress) -> None:
    """Download the file at an address to `target`.

    Bytes are collected in `target.part`. A part left by an earlier try is continued if the
    digest is known; without one it is discarded, as it might belong to another file.
    """
    if target.is_file() and sha256 and digest(target) == sha256:
        return
    part = target.with_name(f"{target.name}.part")
    if not sha256:
        part.unlink(missing_ok=True)
    for attempt in range(1, _ATTEMPTS + 1):
        whole = _resume(url, part, sha256, progress)
        if whole:
            break
        if attempt == _ATTEMPTS:
            raise NotFound(
                f"'{shown(url)}' broke off {_ATTEMPTS} times; the same command resumes it"
            )
    try:
        check_digest(part, sha256)
    except BadWeights:
        part.unlink()
        raise
    os.replace(part, target)


def check_digest(file: Path, sha256: str) -> None:
    """Refuse a file whose digest is not the published one; without one nothing is checked."""
    found = digest(file) if sha256 else ""
    if found != sha256:
        raise BadWeights(
            f"'{file.name}' is not the published file: its sha256 is {found[:12]}..., "
            f"not {sha256[:12]}...; it was left out"
        )


def digest(file: Path) -> str:
    """The sha256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def opened(url: str, headers: dict[str, str] | None = None) -> Any:
    """The response of a server; every failure is one clear sentence."""
    plain, credentials = _without_credentials(url)
    if urlsplit(plain).scheme not in ("http", "https"):
        raise BadInput(f"'{plain}' is not an address that can be fetched: give http or https")
    request = urllib.request.Request(plain, headers={"User-Agent": "segmeter", **(headers or {})})
    if credentials:
        request.add_header("Authorization", credentials)
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise NotFound(f"'{shown(url)}' cannot be reached ({reason})") from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects over HTTP only, and sends a password to no host but the one named."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        plain, _ = _without_credentials(newurl)
        if urlsplit(plain).scheme not in ("http", "https"):
            raise NotFound(f"'{shown(req.full_url)}' redirects to '{plain}', which is not HTTP")
        following = super().redirect_request(req, fp, code, msg, headers, plain)
        if following is not None and _origin(plain) != _origin(req.full_url):
            following.remove_header("Authorization")
        return following


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def shown(url: str) -> str:
    """An address as it may be printed: without name and password."""
    return _without_credentials(url)[0]


def file_name(url: str) -> str:
    """The last part of an address, as a plain file name."""
    name = Path(unquote(urlsplit(url).path)).name
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise BadInput(f"'{shown(url)}' names no file")
    return name


def _resume(url: str, part: Path, sha256: str, progress: Progress) -> bool:
    """Download what is missing; False when the connection broke before the end."""
    have = part.stat().st_size if part.is_file() else 0
    try:
        answer = opened(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return True  # nothing is left to fetch; the digest decides
        raise NotFound(f"'{shown(url)}' answers {error.code} {error.reason}") from error
    with answer:
        goes_on = answer.status == http.client.PARTIAL_CONTENT
        have = have if goes_on else 0
        left = int(answer.headers.get("Content-Length") or 0)
        total = have + left if left else 0
        if not (total or sha256 or getattr(answer, "chunked", False)):
            raise NotFound(
                f"'{shown(url)}' does not state its size, so that a download that breaks off "
                "could not be noticed; download it yourself and give the file with --from"
            )
        with part.open("ab" if goes_on else "wb", buffering=0) as stream:
            try:
                while block := answer.read(_BLOCK):
                    write_whole(stream, block, part)
                    have += len(block)
                    progress(part.name.removesuffix(".part"), have, total)
            except (http.client.HTTPException, ConnectionError, TimeoutError):
                return False
    return not total or have >= total


def write_whole(stream: FileIO, block: bytes, part: Path) -> None:
    """Write a block to a file without a buffer: one would fail again when it is closed."""
    left = memoryview(block)
    try:
        while left:
            left = left[stream.write(left) :]
    except OSError as error:
        raise BadInput(
            f"'{part}' cannot be written ({error.strerror}); "
            "make room; the same command then resumes"
        ) from error


def _without_credentials(url: str) -> tuple[str, str]:
    """An address without `name:password@`, and the header that stands for them."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, ""
    secret, _, host = parts.netloc.rpartition("@")
    token = base64.b64encode(unquote(secret).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {token}"
