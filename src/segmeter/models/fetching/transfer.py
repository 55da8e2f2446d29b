"""Transfer of one file over HTTP: resumed after a break, checked, then moved in place.

The user's package index: the place of a package's source archive. pip lists the index it would use;
it does not download, because for a source archive it would run the package's build to learn its
metadata.
"""

from __future__ import annotations

import base64
import hashlib
import html
import http.client
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from segmeter.core.errors import BadInput, BadWeights, NotFound

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
            f"not {sha256[:12]}...; it was discarded"
        )


def digest(file: Path) -> str:
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
        if following is not None and urlsplit(plain)[:2] != urlsplit(req.full_url)[:2]:
            following.remove_header("Authorization")
        return following


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
        raise NotFound(f"'{shown(url)}' returns {error.code} {error.reason}") from error
    with answer:
        resumed = answer.status == http.client.PARTIAL_CONTENT
        have = have if resumed else 0
        left = int(answer.headers.get("Content-Length") or 0)
        total = have + left if left else 0
        if not (total or sha256 or getattr(answer, "chunked", False)):
            raise NotFound(
                f"'{shown(url)}' does not state its size, so that a download that breaks off "
                "could not be noticed; download it yourself and give the file with --from"
            )
        with part.open("ab" if resumed else "wb", buffering=0) as stream:
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
    """An address without `name:password@`, and the header that replaces them."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, ""
    secret, _, host = parts.netloc.rpartition("@")
    token = base64.b64encode(unquote(secret).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {token}"


_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".whl")
_MOST_RATIO, _LEAST_LIMIT = 16, 1 << 26
# What the libraries raise for damaged, encrypted or made-up archives.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
            ValueError, TypeError, RuntimeError, NotImplementedError, struct.error, IndexError,
            OverflowError)  # fmt: skip

Member = tuple[str, int, Any]
"""Path inside the archive, size in bytes, content."""


def is_archive(path: Path) -> bool:
    """Whether a path is an existing archive (by its name: a `.pt` is a zip, too)."""
    return path.is_file() and path.name.lower().endswith(_SUFFIXES)


def unpack_one(archive: Path, member: str, target: Path) -> None:
    """Extract one file, named by its path inside the archive's top folder."""
    with _members(archive) as members:
        for path, size, content in members:
            inside = PurePosixPath(path).parts[1:]
            if "/".join(inside) == member or path == member:
                _copy(content, size, target)
                return
    raise NotFound(f"'{archive.name}' holds no '{member}'")


def unpack(archive: Path, folder: Path, suffixes: tuple[str, ...]) -> None:
    """Take every file with one of these suffixes out, side by side into one folder."""
    taken: set[str] = set()
    with _members(archive) as members:
        for path, size, content in members:
            name = PurePosixPath(path.replace("\\", "/")).name
            if not name.endswith(suffixes) or name.startswith("."):
                continue
            if name in taken:
                raise BadInput(
                    f"'{archive.name}' holds '{name}' twice; unpack it yourself and give the "
                    "folder of this model"
                )
            taken.add(name)
            _copy(content, size, folder / name)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    """The plain files of an archive; links, devices and folders are passed over."""
    try:
        if archive.name.lower().endswith((".zip", ".whl")):
            with zipfile.ZipFile(archive) as packed:
                held = (i for i in packed.infolist() if not i.is_dir())
                yield _limited(((i.filename, i.file_size, packed.open(i)) for i in held), archive)
        else:
            with tarfile.open(archive, "r|*") as stream:
                files = (i for i in stream if i.isfile())
                yield _limited(((i.name, i.size, stream.extractfile(i)) for i in files), archive)
    except _DAMAGED as error:
        raise BadWeights(f"'{archive}' is damaged or cut short ({error})") from error


def _limited(members: Iterator[Member], archive: Path) -> Iterator[Member]:
    """Members, until they announce more than a valid archive of this size can hold."""
    left = _MOST_RATIO * archive.stat().st_size + _LEAST_LIMIT
    for path, size, content in members:
        left -= size
        if size < 0 or left < 0:
            raise BadWeights(
                f"'{archive}' unpacks to more than {_MOST_RATIO} times its size, "
                "far more than weights do"
            )
        yield path, size, content


def _copy(content: Any, size: int, target: Path) -> None:
    """Write a member, no more than it announced, and only where there is room for it."""
    if size > shutil.disk_usage(target.parent).free:
        raise BadInput(f"'{target.name}' needs {size >> 20} MiB, more than '{target.parent}' has")
    part = target.with_name(f"{target.name}.part")
    left = size
    with part.open("wb", buffering=0) as out:
        while left and (block := content.read(min(left, _BLOCK))):
            write_whole(out, block, part)
            left -= len(block)
    if left:
        part.unlink()
        raise BadWeights(f"'{target.name}' is cut short in its archive")
    os.replace(part, target)


_LIMIT = 1 << 24


def source_archive(package: str, version: str) -> str:
    page = f"{index_url().rstrip('/')}/{_normal(package)}/"
    try:
        with opened(page, {"Accept": "text/html"}) as answer:
            text, base = answer.read(_LIMIT).decode("utf-8", "replace"), answer.url
    except urllib.error.HTTPError as error:
        raise NotFound(f"'{shown(page)}' returns {error.code} {error.reason}") from error
    for link in re.findall(r"""<a\s[^>]*?href=["']([^"']+)["']""", text, re.IGNORECASE):
        address: str = urljoin(base, html.unescape(link)).partition("#")[0]
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
    """Output of pip; empty if it fails or is not installed."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def _normal(name: str) -> str:
    """A package's name as indexes compare it, `-` for every run of `-_`."""
    return re.sub(r"[-_]+", "-", name).lower()
