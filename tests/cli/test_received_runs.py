"""A run may come from a stranger: no command runs, contacts or discloses what it names."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
import typer.main
from PIL import Image

import segmeter
from segmeter.cli.app import commands
from segmeter.models.synthetic import Disc
from segmeter.report.browsing import BrowseServer

Typed = Callable[..., tuple[int, str, str]]

# How each command meets a received run; one that reads no run is given its folder all the same.
WORDS: dict[str, list[str]] = {
    "browse": ["RUN"],
    "clicks fit": ["--clicks", "RUN/plan.json", "-d", "RUN", "-o", "OUT"],
    "check": ["RUN"],
    "cite": ["RUN"],
    "clicks response": ["-m", "disc", "-d", "RUN", "-o", "OUT"],
    "compare": ["RUN"],
    "clicks costs": ["RUN/plan.json", "-o", "OUT/cost.toml"],
    "demo": ["--out", "RUN"],
    "doctor": [],
    "export": ["RUN", "--format", "coco", "--out", "OUT"],
    "fairness people": ["--miap", "RUN", "--masks", "RUN", "-o", "OUT"],
    "fairness places": ["-d", "RUN", "--countries", "RUN", "--country-groups", "RUN"],
    "fetch": ["RUN"],
    "figure": ["RUN", "-o", "OUT/figure.svg"],
    "leaderboard": ["RUN", "-o", "OUT/leaderboard.html"],
    "clicks simulate": ["-d", "RUN", "-o", "OUT/clicks.csv"],
    "list": ["models", "RUN"],
    "models masks": ["RUN", "-m", "disc", "-o", "OUT"],
    "measures compute": ["RUN", "RUN"],
    "models parity": ["disc", "disc?radius=4", "--run", "RUN", "-o", "OUT/parity.html"],
    "models serve": ["--model", "RUN"],
    "merge": ["OUT/merged", "RUN", "RUN"],
    "measures meta": ["-d", "RUN", "--limit", "2"],
    "report": ["RUN", "-o", "OUT/report.html"],
    "run noc": ["-m", "disc?radius=4", "--add", "-o", "RUN", "--workers", "0"],
    "runs": ["RUN", "--statistic", "noc@90"],
    "score": ["RUN", "--measure", "dice"],
    "clicks compare": ["--clicks", "RUN/plan.json", "-d", "RUN"],
    "study check": ["RUN/plan.json"],
    "study costs": ["RUN/plan.json"],
    "study demo": ["-o", "RUN", "--only", "--no-open", "--per-cell", "1"],
    "study export": ["RUN/plan.json"],
    "study invite": ["RUN/plan.json"],
    "study new": ["RUN/plan.json"],
    "study archive": ["RUN/plan.json"],
    "study backup": ["RUN/plan.json"],
    "study deploy": ["RUN/plan.json", "--domain", "example.org"],
    "study participants": ["RUN/plan.json"],
    "study power": ["RUN/plan.json", "--effect", "0.1"],
    "study preregister": ["RUN/plan.json"],
    "study restore": ["RUN/plan.json", "--db", "OUT/study.db"],
    "study report": ["RUN/plan.json"],
    "study serve": ["RUN/plan.json"],
    "study withdraw": ["RUN/plan.json", "code"],
    "table": ["RUN", "--format", "html"],
    "clicks train": ["--clicks", "RUN/plan.json", "-d", "RUN", "-o", "OUT"],
    "card annotation": ["RUN", "-o", "OUT"],
    "card dataset": ["RUN", "-o", "OUT"],
    "card model": ["disc", "-o", "OUT", "--run", "RUN"],
    "models embed": ["-m", "colours", "-d", "RUN", "-o", "OUT/masks.npz"],
    "train decoder": ["-m", "disc", "-d", "RUN", "-o", "OUT"],
}
# Commands of which a hostile run must get no further than a sentence: they would execute it.
REFUSE = {"run noc"}
ROUTES = ("benchmark", "segmenters", "datasets", "users", "measures", "address", "folder")
# Commands that read runs meet each route alone; the others meet all of them in one run.
READ_RUNS = {"browse", "check", "cite", "compare", "export", "figure", "leaderboard", "merge"}
READ_RUNS |= {"models parity", "report", "run", "runs", "score", "table"}
EVIL = "\x1b]0;evil\x07$a_$b^ \\input{/etc/passwd}"
COLOUR = (201, 33, 147)  # of the private image
TRAP = """
from pathlib import Path
Path({mark!r}).write_text("ran")
class Anything:
    def __init__(self, **options): ...
"""


def command_names() -> list[str]:
    """Every command of the application, those inside of groups with the group's name."""
    waiting: list[tuple[str, Any]] = [("", typer.main.get_command(commands()))]
    found = []
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", {})
        waiting += [(f"{path} {name}".strip(), held) for name, held in inner.items()]
        found += [] if inner else [path]
    # Benchmarks differ in their options; one stands for all.
    return sorted(name for name in found if name == "run noc" or not name.startswith("run "))


def test_no_command_is_left_out() -> None:
    assert command_names() == sorted(WORDS)


class Listener:
    """A server of the stranger's that counts who contacts it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listener.asked.append(self.path)
                self.send_error(404)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/images"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a name that terminals and LaTeX would obey, on a folder of private images."""
    top = tmp_path_factory.mktemp("sent")
    for part, values in (("images", COLOUR), ("masks", 255)):
        (top / "private" / part).mkdir(parents=True)
        pixels = np.full((24, 32, 3), COLOUR, np.uint8)
        if part == "masks":
            pixels = np.zeros((24, 32), np.uint8)
            pixels[6:18, 8:24] = values
        Image.fromarray(pixels).save(top / "private" / part / "one.png")

    class Evil(Disc):
        @property
        def card(self) -> Any:
            return replace(super().card, name=EVIL, citation=EVIL)

    segmeter.evaluate([Evil(), "synthetic-noisy"], top / "private", out=top / "run", rounds=2)
    return top / "run"


@pytest.fixture
def hostile(sent: Path, tmp_path: Path, listener: Listener) -> Callable[[str], tuple[Path, Path]]:
    """A copy of the run that names something in one of its fields; and the mark of the trap."""

    def make(route: str) -> tuple[Path, Path]:
        run, mark, file = tmp_path / "received", tmp_path / "mark", tmp_path / "trap.py"
        shutil.copytree(sent, run)
        file.write_text(TRAP.format(mark=str(mark)))
        plan = json.loads((run / "plan.json").read_text())
        name = f"{file}:Anything"
        address = {"name": "folder", "options": {"path": listener.address}}
        made = {"name": name, "options": {}}
        for each in ROUTES if route == "all" else (route,):
            match each:
                case "benchmark":
                    plan["benchmark"] = name
                case "segmenters" | "datasets" | "users":
                    plan[each].append(made)
                case "measures":
                    plan["measures"].append(name)
                case "address":
                    plan["datasets"].append(address)
                case "folder":
                    plan["fingerprints"] = {}
        (run / "plan.json").write_text(json.dumps(plan))
        return run, mark

    return make


def serve_once(server: BrowseServer) -> None:
    """Every page that `browse` serves, instead of waiting for a browser."""
    page = server.pages["/"]({})
    for link in re.findall(r'href="/session\?([^"]+)"', page):
        page += server.pages["/session"](dict(parse_qsl(unescape(link))))
    Path("out", "served.html").write_text(page)


def images_in(text: str) -> Iterator[Image.Image]:
    for held in re.findall(r"data:image/\w+;base64,([A-Za-z0-9+/=]+)", text):
        yield Image.open(io.BytesIO(base64.b64decode(held)))


def shows_private(image: Image.Image) -> bool:
    near = np.abs(np.asarray(image.convert("RGB")).astype(int) - COLOUR).max(axis=2) < 12
    return bool(near.mean() > 0.2)


@pytest.mark.parametrize(
    ("command", "route"),
    [(each, route) for each in WORDS for route in (ROUTES if each in READ_RUNS else ("all",))],
)
def test_a_received_run_makes_no_command_do_what_it_names(
    command: str,
    route: str,
    hostile: Callable[[str], tuple[Path, Path]],
    listener: Listener,
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BrowseServer, "serve_forever", serve_once)
    monkeypatch.setenv("SEGMETER_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    run, mark = hostile(route)
    out = tmp_path / "out"
    out.mkdir()
    words = [w.replace("RUN", str(run)).replace("OUT", str(out)) for w in WORDS[command]]
    code, said, complaint = typed(*command.split(), *words)
    assert not mark.exists(), "a Python file was run that only the run names"
    assert listener.asked == [], "an address was contacted that only the run names"
    assert code != 70, complaint
    if command in REFUSE:
        assert code == 2
        assert "--trust" in complaint
    written = [p for p in out.rglob("*") if p.is_file()]
    texts = [said, complaint, *(p.read_text("utf-8", "replace") for p in written)]
    if route in ("folder", "all"):
        images = [
            Image.open(p) for p in written if p.suffix == ".png" and p.parent.name == "images"
        ]
        shown = [*images, *(image for text in texts for image in images_in(text))]
        assert not any(map(shows_private, shown)), "images of a folder that only the run names"
    assert "\x1b" not in said + complaint
    assert "\x07" not in said + complaint
    if command == "cite":
        assert "\\input" not in said


def test_its_images_are_shown_where_the_fingerprint_is_that_of_the_folder(
    sent: Path, typed: Typed, tmp_path: Path
) -> None:
    """The other side of the test above: an honest run shows its images."""
    assert typed("report", sent, "-o", tmp_path / "report.html")[0] == 0
    assert any(map(shows_private, images_in((tmp_path / "report.html").read_text())))


def test_trust_adds_to_a_run_that_names_a_python_file(
    hostile: Callable[[str], tuple[Path, Path]], typed: Typed
) -> None:
    run, mark = hostile("users")
    typed("run", "noc", "-m", "disc?radius=4", "--add", "-o", run, "--workers", "0", "--trust")
    assert mark.exists()
