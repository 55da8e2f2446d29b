"""Simulated people: they join, look, click, rate and segment through the real server.

For the demonstration, for load tests and for the tests of screening. Clicks are drawn from the
click model; scores follow the IoU of a mask with a strictness of each rater.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa

from segmeter.clickability.maps import prior
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator
from segmeter.measures.clickability_maps import draws
from segmeter.measures.objects import iou
from segmeter.study import database as db
from segmeter.study.plan import read_plan
from segmeter.study.running import RunningStudy
from segmeter.study.server import default_url, listening, open_study, study_app

Answering = Callable[[dict[str, Any], np.random.Generator], dict[str, Any]]
"""From the browser's data on a trial to the fields of an answer."""
_AT_ONCE = 4
_MOST_PEOPLE = 2000
_CARELESS = 0.03  # share of clicks that fall anywhere
_GOOD = 0.9  # IoU of a mask that is accepted
_BATCHES = 3  # per person
_ENDED, _BUSY = 423, 429


@dataclass
class SimulatedPerson:
    """A simulated participant at a browser; every request is timed.

    `persistent` people send again what was not acknowledged, as the page does. `clicking` chooses
    the clicks with a model in the loop.
    """

    address: str
    answering: Answering
    rng: np.random.Generator
    token: str = "open"
    device: str = "pc"
    persistent: bool = False
    clicking: Callable[[dict[str, Any], list[Any], np.random.Generator], Any] | None = None
    seconds: list[float] = field(default_factory=list)
    acknowledged: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Reading the certificates takes longer than a whole batch; plain HTTP has none.
        secure = self.address.startswith("https")
        self._http = httpx.Client(
            base_url=self.address, timeout=None, follow_redirects=True, verify=secure
        )
        self._page = ""

    def join(self) -> bool:
        """Through consent and device to the work page; False if the study has ended."""
        answer = self._send("GET", f"/join/{self.token}")
        if answer.status_code == _ENDED:
            return False
        page = answer.text
        fields = {"form": _inside(page, r'name="form" value="(\w+)"'), "agreed": "yes"}
        page = self._send("POST", f"/join/{self.token}", data=fields).text
        self._page = _inside(page, r'data-token="(\w+)"')
        self.post("/api/device", {"device": self.device})
        return True

    def batches(self, most: int = 10**6) -> Iterator[dict[str, Any]]:
        """Batches until there are no more, each to be answered before the next."""
        for _ in range(most):
            batch = self.post("/api/batch", None)
            if batch is None:
                return
            yield batch

    def work(self, most: int = 10**6, *, images: bool = True) -> int:
        """Join and answer batch after batch; returns the number of answers."""
        done = 0
        if not self.join():
            return done
        for batch in self.batches(most):
            for trial in batch["trials"]:
                if not trial["answered"]:
                    self.answer(trial, images)
                    done += 1
            if not batch["trials"][0]["screens"]:
                self.post(f"/api/batches/{batch['batch']}/finish", None)
        self._http.close()
        return done

    def answer(self, trial: dict[str, Any], images: bool = True) -> None:
        if images:
            names = {s["image"] for s in trial["screens"] if "image" in s} or {"view-masked"}
            for name in sorted(names):
                self._send("GET", f"/images/{trial['id']}/{name}")
        if self.clicking is not None:
            self._segment(trial)
        fields = self.answering(trial, self.rng)
        body = {"nonce": secrets.token_hex(8), **fields}
        self.post(f"/api/trials/{trial['id']}", body)
        self.acknowledged.append({"trial": trial["id"], "answer": body})

    def _segment(self, trial: dict[str, Any]) -> None:
        assert self.clicking is not None
        masks: list[Any] = []
        while (click := self.clicking(trial, masks, self.rng)) is not None:
            y, x, positive, z = click
            step = {"number": len(masks) + 1, "x": x, "y": y, "slice": z, "positive": positive}
            step |= {"user_ms": float(self.rng.lognormal(7.2, 0.4)), "pointer": "mouse"}
            masks.append(self.post(f"/api/trials/{trial['id']}/steps", step))

    def post(self, path: str, body: Any) -> Any:
        headers = {"x-segmeter-token": self._page}
        return self._send("POST", path, json=body, headers=headers).json()

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        while True:
            start = time.perf_counter()
            try:
                answer = self._http.request(method, path, **more)
            except httpx.TransportError:
                if not self.persistent:
                    raise
                time.sleep(0.05)
                continue
            self.seconds.append(time.perf_counter() - start)
            if answer.status_code == _BUSY and self.persistent:
                time.sleep(0.5)
                continue
            if answer.status_code >= 400 and answer.status_code != _ENDED:
                raise SegmeterError(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            return answer


def draw_clicks(mask: Mask, many: int, rng: np.random.Generator) -> list[list[float]]:
    """Points `[y, x]` from the click model, uniform inside the pixels that were drawn."""
    map = prior(mask)
    points = draws(map.weights, (many,), rng) + map.low + rng.random((many, 2))
    return list(points.tolist())


def _screens(trial: dict[str, Any], rng: np.random.Generator) -> list[dict[str, float]]:
    shift = rng.normal(0, 4, len(trial["screens"]))
    return [
        {"planned_ms": 1000 * s["seconds"], "true_ms": 1000 * s["seconds"] + float(ms)}
        for s, ms in zip(trial["screens"][:-1], shift[:-1], strict=True)
    ]


def _clicking(study: RunningStudy) -> Answering:
    def answer(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        width, height = trial["width"], trial["height"]
        row = _task(study, trial["id"])
        mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        y, x = draw_clicks(mask, 1, rng)[0]
        if rng.random() < _CARELESS:
            y, x = rng.random() * height, rng.random() * width
        return {
            "x": float(np.clip(x, 0, width - 1e-6)),
            "y": float(np.clip(y, 0, height - 1e-6)),
            "natural_width": width,
            "natural_height": height,
            "shown_width": float(width),
            "shown_height": float(height),
            "pixel_ratio": 1.0,
            "pointer": "touch" if row["device"] == "mobile" else "mouse",
            "latency_ms": float(rng.lognormal(6.8, 0.4)),
            "screens": _screens(trial, rng),
            "focus_lost": bool(rng.random() < 0.01),
            "blocked_clicks": 0,
        }

    return answer


def _rating(study: RunningStudy) -> Answering:
    def answer(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        row = _task(study, trial["id"])
        own = generator("strictness", row["number"]).normal(0, 0.6)
        ground_truth = study.stimuli.mask(row["scene"], row["target"], "first", "")
        shown = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        score = 1 + 9 * iou(ground_truth, shown) ** 1.5 + own + rng.normal(0, 0.8)
        score = int(np.clip(round(score), 1, 10))
        seconds = float(rng.lognormal(3.0, 0.5))
        return {"score": score, "seconds": seconds, "pointer": "mouse", "focus_lost": False}

    return answer


def _accepting(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    review = float(rng.lognormal(6.5, 0.3))
    screens = _screens(trial, rng)
    return {"accepted": True, "review_ms": review, "screens": screens, "focus_lost": False}


def _segmenting(study: RunningStudy) -> Any:
    """Clicks with a model in the loop: in the largest error, until the mask is good."""

    def click(trial: dict[str, Any], masks: list[Any], rng: np.random.Generator) -> Any:
        row = _task(study, trial["id"])
        shown = study.stimuli.shown(row["scene"])
        target = next(each for each in shown.scene.targets if each.id == row["target"])
        wanted = shown.fitted(target.mask)
        seen = _decoded(masks[-1]["mask"] if masks else None, wanted.shape)
        if iou(wanted, seen) >= _GOOD or len(masks) >= study.plan.design.rounds:
            return None
        errors = [
            (z, positive, error.slice(z) if shown.depth else error)
            for positive, error in ((True, wanted - seen), (False, seen - wanted))
            for z in (range(error.low[0], error.high[0]) if shown.depth else (0,))
        ]
        z, positive, error = max(errors, key=lambda each: each[2].area)
        y, x = draw_clicks(error, 1, rng)[0]
        height, width = shown.size
        return min(max(y, 0.0), height - 1e-6), min(max(x, 0.0), width - 1e-6), positive, z

    return click


def _decoded(given: dict[str, Any] | None, shape: tuple[int, ...]) -> Mask:
    """The mask as a browser draws it."""
    if given is None:
        return Mask.empty(shape)
    bits = np.zeros(given["size"], dtype=bool)
    runs = np.repeat(np.arange(len(given["runs"])) % 2 == 1, given["runs"])
    bits.ravel()[: len(runs)] = runs
    return Mask.of(bits, tuple(given["low"]), shape)


def _task(study: RunningStudy, trial: str) -> Any:
    """The task of a trial, and the device and number of its participant."""
    asked = sa.select(db.tasks, db.people.c.device, db.people.c.number).select_from(db.ALL)
    with study.database.snapshot() as connection:
        return connection.execute(asked.where(db.trials.c.id == trial)).mappings().one()


def fill_with_people(study: RunningStudy, weights: Path | None = None) -> tuple[int, int]:
    """Send people until every cell is full; returns people and answers.

    Simulated people do not wait for screens to pass: a plan for them leaves the flags `clock` and
    `too_fast` out of `validity.exclude`.
    """
    people = answers = 0
    kinds = {"rate": _rating(study), "interact": _accepting}  # they look up what no browser learns
    answering = kinds.get(study.plan.kind) or _clicking(study)
    devices = study.plan.design.devices
    clicking = _segmenting(study) if study.plan.kind == "interact" else None
    app = study_app(study, weights=weights, limited=False)
    with listening(app) as address, ThreadPoolExecutor(_AT_ONCE) as pool:

        def work(number: int) -> int:
            rng, device = generator(0, "person", number), devices[number % len(devices)]
            person = SimulatedPerson(address, answering, rng, device=device, clicking=clicking)
            return person.work(_BATCHES)

        while not _full(study):
            if people >= _MOST_PEOPLE:
                raise BadInput("2000 people did not fill the study; its rules exclude too many")
            answers += sum(pool.map(work, range(people, people + 2 * _AT_ONCE)))
            people += 2 * _AT_ONCE
    return people, answers


def _full(study: RunningStudy) -> bool:
    c = db.cells.c
    with study.database.snapshot() as connection:
        return not db.count(connection, c.valid < c.wanted, c.device != "tester")


def _inside(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SegmeterError(f"the page is not what was expected: {text[:200]}")
    return found[1]


def run_demo(
    folder: Path,
    name: str,
    say: Callable[[str], None],
    weights: Path | None = None,
    **values: object,
) -> RunningStudy:
    """Begin a demonstration in a folder and fill it with simulated people through a real server.

    `values` replace those of the plan `demo-NAME.toml`.
    """
    path = folder / f"{name}.toml"
    text = (files("segmeter.study") / "plans" / f"demo-{name}.toml").read_text("utf-8")
    for key, value in values.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {json.dumps(value)}", text)
    path.write_text(text, encoding="utf-8")
    study = open_study(read_plan(path), default_url(path))
    start = time.perf_counter()
    people, answers = fill_with_people(study, weights=weights)
    seconds = time.perf_counter() - start
    say(f"{name}: {people} simulated people gave {answers} answers in {seconds:.0f} s")
    return study
