"""Simulated people: they open links, agree, look, click and rate through the real server.

For the demonstration, for load and for faults. Where they click is drawn from the click
model; how they rate follows the mask's IoU, with a strictness of each person's own.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from segmeter.clickability.prior import prior
from segmeter.core.errors import SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator
from segmeter.study.running import RunningStudy

__all__ = ["Answering", "SimulatedPerson", "answers_of", "crowd", "draw_clicks"]

Answering = Callable[[dict[str, Any], np.random.Generator], dict[str, Any]]
"""From what a browser learns about a trial to the fields of an answer."""


@dataclass
class SimulatedPerson:
    """Somebody at a browser; every request is timed.

    `persistent` people send again what was not acknowledged, as the page does.
    """

    address: str
    answering: Answering
    rng: np.random.Generator
    token: str = "open"
    device: str = "pc"
    persistent: bool = False
    seconds: list[float] = field(default_factory=list)
    acknowledged: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Reading the certificates takes longer than a whole batch; plain HTTP has none.
        secure = self.address.startswith("https")
        self._http = httpx.Client(
            base_url=self.address, timeout=60, follow_redirects=True, verify=secure
        )
        self._page = ""

    def join(self) -> None:
        """Through consent and device to work."""
        page = self._send("GET", f"/join/{self.token}").text
        fields = {"form": _inside(page, r'name="form" value="(\w+)"'), "agreed": "yes"}
        page = self._send("POST", f"/join/{self.token}", data=fields).text
        self._page = _inside(page, r'data-token="(\w+)"')
        self.post("/api/device", {"device": self.device})

    def batches(self, most: int = 10**6) -> Iterator[dict[str, Any]]:
        """Batches until there are no more, each to be answered before the next."""
        for _ in range(most):
            batch = self.post("/api/batch", None)
            if batch is None:
                return
            yield batch

    def work(self, most: int = 10**6, *, images: bool = True) -> int:
        """Join and answer batch after batch; returns the number of answers."""
        self.join()
        done = 0
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
            for name in sorted({s["image"] for s in trial["screens"] if "image" in s}):
                self._send("GET", f"/images/{trial['id']}/{name}")
        fields = self.answering(trial, self.rng)
        body = {"nonce": secrets.token_hex(8), **fields}
        self.post(f"/api/trials/{trial['id']}", body)
        self.acknowledged.append({"trial": trial["id"], "answer": body})

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
            if answer.status_code >= 400:
                raise SegmeterError(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            return answer


def draw_clicks(mask: Mask, many: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Points from the click model, spread evenly inside the pixels that were drawn."""
    map = prior(mask)
    sums = np.cumsum(map.weights.ravel(), dtype=np.float64)
    places = np.searchsorted(sums, rng.random(many) * sums[-1], side="right")
    y, x = np.unravel_index(np.minimum(places, sums.size - 1), map.weights.shape)
    inside = rng.random((many, 2))
    points = np.stack([y + map.low[0], x + map.low[1]], axis=1) + inside
    return [(float(down), float(across)) for down, across in points]


def answers_of(study: RunningStudy, careless: float = 0.03) -> Answering:
    """How people answer this study; it may look up what a browser never learns.

    A `careless` share of people's clicks falls anywhere.
    """
    return _rating(study) if study.plan.kind == "rate" else _clicking(study, careless)


def _clicking(study: RunningStudy, careless: float) -> Answering:
    def answer(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        width, height = trial["width"], trial["height"]
        y, x = draw_clicks(_mask(study, trial["id"]), 1, rng)[0]
        if rng.random() < careless:
            y, x = rng.random() * height, rng.random() * width
        shift = rng.normal(0, 4, len(trial["screens"]))
        return {
            "x": float(np.clip(x, 0, width - 1e-6)),
            "y": float(np.clip(y, 0, height - 1e-6)),
            "natural_width": width,
            "natural_height": height,
            "shown_width": float(width),
            "shown_height": float(height),
            "pixel_ratio": 1.0,
            "pointer": "mouse",
            "latency_ms": float(rng.lognormal(6.8, 0.4)),
            "screens": [
                {"planned_ms": 1000 * s["seconds"], "true_ms": 1000 * s["seconds"] + float(ms)}
                for s, ms in zip(trial["screens"][:-1], shift[:-1], strict=True)
            ],
            "focus_lost": bool(rng.random() < 0.01),
            "blocked_clicks": 0,
        }

    return answer


def _rating(study: RunningStudy) -> Answering:
    strictness: dict[int, float] = {}

    def answer(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        own = strictness.setdefault(id(rng), float(rng.normal(0, 0.6)))
        row = _task(study, trial["id"])
        ground_truth = study.stimuli.mask(row["scene"], row["target"], "first", "")
        shown = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        iou = ground_truth.overlap(shown) / max(1, (ground_truth | shown).area)
        score = 1 + 9 * iou**1.5 + own + rng.normal(0, 0.8)
        seconds = float(rng.lognormal(3.0, 0.5))
        return {"score": int(np.clip(round(score), 1, 10)), "seconds": seconds}

    return answer


def _mask(study: RunningStudy, trial: str) -> Mask:
    row = _task(study, trial)
    return study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])


def _task(study: RunningStudy, trial: str) -> Any:
    import sqlalchemy as sa

    from segmeter.study import tables as t

    asked = (
        sa.select(t.tasks)
        .join(t.trials, t.trials.c.task == t.tasks.c.id)
        .where(t.trials.c.id == trial)
    )
    with study.ledger.protocol() as connection:
        return connection.execute(asked).mappings().one()


def crowd(
    address: str, study: RunningStudy, seed: int = 0, most_batches: int = 3
) -> Iterator[SimulatedPerson]:
    """People without end, devices in turn."""
    answering = answers_of(study)
    devices = study.plan.devices
    for number in range(10**6):
        rng = generator(seed, "person", number)
        device = devices[number % len(devices)]
        yield SimulatedPerson(address, answering, rng, device=device)


def _inside(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SegmeterError(f"the page is not what was expected: {text[:200]}")
    return found[1]
