"""Files to run a study on a server: parsed, and their commands run behind a reverse proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.study.people import SimulatedPerson
from segmeter.study.server import FILES, write_files

from ..forking import Interpreter

yaml = pytest.importorskip("yaml", reason="needs PyYAML")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    written = write_files(Path("plan.toml"), "study.example.org", tmp_path / "deploy")
    assert [path.name for path in written] == list(FILES)
    return {path.name: path.read_text() for path in written}


def instruction(dockerfile: str, name: str) -> list[str]:
    """The words of an instruction in its exec form."""
    found = re.search(rf"^{name} (?:CMD )?(\[.*\])$", dockerfile, re.MULTILINE)
    assert found, dockerfile
    return list(json.loads(found[1]))


def test_the_compose_file_joins_caddy_and_the_study(files: dict[str, str], tmp_path: Path) -> None:
    compose = yaml.safe_load(files["compose.yaml"])
    study, caddy = compose["services"]["study"], compose["services"]["caddy"]
    assert set(compose) == {"services", "volumes"}
    assert "ports" not in study  # only Caddy can reach it, so that its headers can be trusted
    assert study["expose"] == ["8000"]
    assert caddy["ports"] == ["80:80", "443:443"]
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in caddy["volumes"]
    assert {name.split(":")[0] for name in caddy["volumes"]} & set(compose["volumes"])
    blocks = re.fullmatch(r"#.*\n(\S+) \{\n\treverse_proxy (\S+)\n\}\n", files["Caddyfile"])
    assert blocks is not None
    assert blocks.groups() == ("study.example.org", "study:8000")
    assert "EXPOSE 8000" in files["Dockerfile"]
    named = [study["build"], *(v.split(":")[0] for v in study["volumes"] + caddy["volumes"])]
    paths = {name for name in named if name.startswith(".")}
    assert paths == {".", "..", "./Caddyfile"}
    assert all((tmp_path / "deploy" / path).exists() for path in paths)
    for text in files.values():
        assert "{plan}" not in text
        assert "{domain}" not in text


def test_the_dockerfile_is_made_of_known_instructions(files: dict[str, str]) -> None:
    text = re.sub(r"\\\n\s*", "", files["Dockerfile"])
    lines = [line.split(maxsplit=1) for line in text.splitlines() if not line.startswith("#")]
    names = [name for name, _ in lines]
    assert names == ["FROM", "RUN", "COPY", "RUN", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"]
    copied = next(rest for name, rest in lines if name == "COPY").split()[0]
    guide = (Path(__file__).parents[2] / "docs" / "study.md").read_text()
    assert f"deploy/{copied}" in guide  # the only file that a reader has to add
    assert f"file:///tmp/{copied}" in text


def test_systemd_accepts_the_unit(files: dict[str, str], tmp_path: Path) -> None:
    """Checked by systemd itself, with a command that exists here."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd here")
    unit = tmp_path / "segmeter-study.service"
    text = files["segmeter-study.service"]
    unit.write_text(text.replace("/srv/study/venv/bin/segmeter", sys.executable))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Restart=always", "Restart=perhaps"))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, check=False)
    assert "restart" in done.stderr  # it does read the file


class Proxy(BaseHTTPRequestHandler):
    """A reverse proxy as documented: `Host` with its port, the path stripped."""

    protocol_version = "HTTP/1.1"
    prefix, upstream = "", ("", 0)

    def forward(self) -> None:
        if not self.path.startswith(f"{self.prefix}/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        sent = {**self.headers, "X-Forwarded-Proto": "http", "X-Forwarded-For": "203.0.113.9"}
        connection = http.client.HTTPConnection(*self.upstream, timeout=None)
        connection.request(self.command, self.path.removeprefix(self.prefix), body, sent)
        answer = connection.getresponse()
        raw = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        connection.close()

    do_GET = do_POST = forward

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def proxied() -> Iterator[Callable[[str, int], str]]:
    """Starts a proxy on a free port for a path and the server's port; returns its address."""
    started: list[ThreadingHTTPServer] = []

    def start(prefix: str, port: int) -> str:
        handler = type("Own", (Proxy,), {"prefix": prefix, "upstream": ("127.0.0.1", port)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}{prefix}"

    yield start
    for server in started:
        server.shutdown()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def serving(
    python: Interpreter, command: Sequence[str], files: dict[str, str], folder: Path
) -> Iterator[int]:
    """The server of a plan as a real process, healthy by the Dockerfile's check; its port."""
    (folder / "plan.toml").write_text('kind = "clicks"\n[design]\nopen_to_all = true\n')
    port = free_port()
    words = [str(port) if word == "8000" else word for word in command]
    check = instruction(files["Dockerfile"], "HEALTHCHECK")
    check[-1] = check[-1].replace("8000", str(port))
    healthy = [sys.executable, *check[1:]]
    assert subprocess.run(healthy, capture_output=True, check=False).returncode  # not yet
    server = python.start("-m", "segmeter", *words, folder=folder)
    try:
        while not accepts(port):
            assert server.poll() is None
            time.sleep(0.02)
        subprocess.run(healthy, capture_output=True, check=True)
        yield port
    finally:
        if server.poll() is None:
            os.kill(server.pid, signal.SIGTERM)
        done = server.wait()
        # Stopped in order, then the signal itself.
        assert done.returncode in (0, -15), done.stderr


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def take_part(address: str, prefix: str = "") -> None:
    """A participant at a proxy: consent, a batch, an image."""
    person = SimulatedPerson(address, lambda trial, rng: {}, np.random.default_rng(0))
    assert person._send("GET", "/health").json() == {"state": "open"}
    # A browser names the page's origin with the proxy's port; a POST from elsewhere is refused.
    person._http.headers["origin"] = re.match(r"https?://[^/]+", address)[0]  # type: ignore[index]  # it matches
    assert person.join()
    secure = address.startswith("https")
    cookies = {(cookie.path, cookie.secure) for cookie in person._http.cookies.jar}
    assert cookies == {(prefix or "/", secure)}
    trial = next(person.batches())["trials"][0]
    assert person._send("GET", f"/images/{trial['id']}/image").status_code == 200


@pytest.mark.parametrize("name", ["Dockerfile", "segmeter-study.service"])
def test_the_commands_serve_a_study_behind_a_proxy_on_any_port_and_path(
    name: str,
    files: dict[str, str],
    tmp_path: Path,
    proxied: Callable[[str, int], str],
    python: Interpreter,
) -> None:
    if name == "Dockerfile":
        command, prefix = instruction(files[name], "ENTRYPOINT")[1:], ""
    else:
        line = re.search(r"^ExecStart=\S+ (.*)$", files[name], re.MULTILINE)
        assert line is not None
        command, prefix = [*shlex.split(line[1]), "--root-path", "/study"], "/study"
    with serving(python, command, files, tmp_path) as port:
        take_part(proxied(prefix, port), prefix)


def caddy(program: str, files: dict[str, str], folder: Path, own: int, port: int) -> list[str]:
    """The Caddyfile with this port; Caddy makes a certificate for an IP address by itself."""
    text = files["Caddyfile"].replace("study.example.org", f"127.0.0.1:{own}")
    alone = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(alone + text.replace("study:8000", f"127.0.0.1:{port}"))
    return [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


def nginx(program: str, files: dict[str, str], folder: Path, own: int, port: int) -> list[str]:
    """nginx.conf with this port and a certificate made for it."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(folder / "study.pem")]
    subprocess.run([*made, "-keyout", str(folder / "study.key")], capture_output=True, check=True)
    text = files["nginx.conf"].replace("/etc/ssl", str(folder))
    text = text.replace("listen 443", f"listen 127.0.0.1:{own}").replace(":8000", f":{port}")
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places_here = " ".join(f"{name}_temp_path {folder / name};" for name in places)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/pid;\nevents {{}}\nhttp {{ {places_here}\n{text}\n}}\n"
    )
    log = str(folder / "log")
    return [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", log]


@pytest.mark.parametrize(
    ("configure", "certificate"),
    [(caddy, "caddy/pki/authorities/local/root.crt"), (nginx, "study.pem")],
)
def test_caddy_and_nginx_serve_a_study_over_https(
    configure: Callable[..., list[str]],
    certificate: str,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    python: Interpreter,
) -> None:
    """Real programs with the written configuration; certificates are verified."""
    program = shutil.which(configure.__name__)
    if program is None:
        pytest.skip(f"no {configure.__name__} here")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # where Caddy keeps its certificates
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / certificate))
    line = re.search(r"^ExecStart=\S+ (.*)$", files["segmeter-study.service"], re.MULTILINE)
    assert line is not None
    with serving(python, shlex.split(line[1]), files, tmp_path) as port:
        own = free_port()
        command = configure(program, files, tmp_path, own, port)
        proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not answers(own, tmp_path / certificate):
                assert proxy.poll() is None
                time.sleep(0.1)
            take_part(f"https://127.0.0.1:{own}")
        finally:
            proxy.terminate()
            proxy.wait()


def answers(port: int, certificate: Path) -> bool:
    """Whether a proxy shakes hands with a certificate that can be verified."""
    with contextlib.suppress(OSError):
        context = ssl.create_default_context(cafile=str(certificate))
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            return True
    return False
