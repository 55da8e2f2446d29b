"""What tests of studies share: a plan, a server, a person, a browser."""

from __future__ import annotations

import importlib.util
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient

from segmeter.study.plan import Validity, read_plan
from segmeter.study.records import revalidate
from segmeter.study.running import RunningStudy
from segmeter.study.server import default_url, open_study, study_app
from segmeter.study.server import listening as listening_server

ROOT = Path(__file__).resolve().parents[2]
QUICK = """
kind = "clicks"
title = "Where do you click?"
seed = 3
[data]
dataset = "mini"
[design]
open_to_all = true
modes = ["Quick"]
devices = ["pc", "mobile"]
[[mode]]
name = "Quick"
screens = [
  { show = "image", seconds = 0.1 },
  { show = "cutout", seconds = 0.1 },
  { show = "image" },
]
"""


def loaded(name: str, path: Path) -> ModuleType:
    """A module that lies in no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def _one_loop() -> Iterator[None]:
    """Requests of all test clients share a thread and its event loop; each would start its own."""
    with start_blocking_portal() as portal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "portal", portal)
        yield


@pytest.fixture(scope="session")
def loaded_script() -> Callable[[str], ModuleType]:
    """Loads a script of perf/ by its name."""
    return lambda name: loaded(f"perf_{name}", ROOT / "perf" / f"{name}.py")


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., RunningStudy]:
    """Begins (or goes on with) a study in a folder of its own."""

    def begun(text: str = QUICK, url: str | None = None) -> RunningStudy:
        path = tmp_path / "plan.toml"
        path.write_text(text, encoding="utf-8")
        return open_study(read_plan(path), url or default_url(path))

    return begun


class Visitor:
    """Somebody with a browser that has no screen: speaks the page's own language."""

    def __init__(self, study: RunningStudy, app: Any = None) -> None:
        self.study = study
        self.http = TestClient(app or study_app(study, "password", limited=False))
        self.token = ""

    def join(self, token: str = "open", device: str = "pc", language: str = "en") -> Visitor:
        page = self.http.get(f"/join/{token}")
        form = found(r'name="form" value="(\w+)"', page.text)
        fields = {"form": form, "agreed": "yes", "language": language}
        page = self.http.post(f"/join/{token}", data=fields)
        assert page.status_code == 200, page.text
        self.token = found(r'data-token="(\w+)"', page.text)
        assert self.post("/api/device", {"device": device}).status_code == 200
        return self

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self.http.post(path, json=body, headers={"x-segmeter-token": self.token}, **more)

    def batch(self) -> Any:
        answer = self.post("/api/batch")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def person(self) -> str:
        row = self.study.person(self.http.cookies["segmeter_session"])
        assert row is not None
        return str(row["id"])

    def see(self, trial: dict[str, Any]) -> None:
        """As if all images of the trial had been fetched."""
        for name in {s.get("image", "") for s in trial["screens"]} | {"view-masked"}:
            self.study.note_fetched(trial["id"], name)

    def answer(self, trial: dict[str, Any], **more: Any) -> Any:
        self.see(trial)
        return self.post(f"/api/trials/{trial['id']}", click(trial, **more))


def click(trial: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A well-formed click in the middle of the image."""
    timed = [1000.0 * screen["seconds"] for screen in trial["screens"][:-1]]
    return {
        "nonce": secrets.token_hex(8),
        "x": trial["width"] / 2,
        "y": trial["height"] / 2,
        "natural_width": trial["width"],
        "natural_height": trial["height"],
        "shown_width": 400.0,
        "shown_height": 300.0,
        "pixel_ratio": 1.0,
        "pointer": "mouse",
        "latency_ms": 700.0,
        "screens": [{"planned_ms": ms, "true_ms": ms} for ms in timed],
        "focus_lost": False,
        "blocked_clicks": 0,
        **more,
    }


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text[:500]
    return match[1]


@pytest.fixture
def revalidated() -> Callable[[RunningStudy, Validity], int]:
    """Applies other rules to all finished batches, as a server with a changed plan does."""

    def apply(study: RunningStudy, rules: Validity) -> int:
        plan = study.plan.model_copy(update={"validity": rules})
        with study.database.writing() as connection:
            return revalidate(connection, plan, study.stimuli)

    return apply


@pytest.fixture
def visit() -> Callable[..., Visitor]:
    return Visitor


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """For limits on rates no time passes, however slow the machine is."""
    monkeypatch.setattr("segmeter.study.guards.monotonic", lambda: 0.0)


@pytest.fixture
def a_click() -> Callable[..., dict[str, Any]]:
    return click


@pytest.fixture
def listening() -> Callable[[Any], Any]:
    return listening_server


@pytest.fixture(scope="session")
def browser_module() -> ModuleType:
    return loaded("tests_report_browser", ROOT / "tests" / "report" / "browser.py")


@pytest.fixture(scope="session")
def chromium(browser_module: ModuleType) -> Iterator[Any]:
    """A running browser; its tab goes from page to page."""
    path = browser_module.find()
    if path is None:
        pytest.skip("needs a Chromium browser")
    with browser_module.browser(path) as tab:
        yield tab


@pytest.fixture
def postgres() -> Iterator[str]:
    """A real PostgreSQL, begun for the test in a folder of its own."""
    module = loaded("perf_postgres", ROOT / "perf" / "postgres.py")
    programs = module.binaries()
    if programs is None:
        pytest.skip("no PostgreSQL here")
    with module.temporary(programs) as address:
        yield address
