"""The demo: the click benchmark on built-in images, or prompters on built-in volumes."""

from __future__ import annotations

import importlib.util
import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from segmeter.api.loading import Tell, silent
from segmeter.api.runs import Run
from segmeter.core.errors import NotFound, SegmeterError, check_choice

_NETWORKS = ("sam2-hiera-tiny", "mobile-sam")
_CLASSICAL = ("grabcut", "random-walker")
_VOLUME_USERS = ("box-per-slice", "box-interpolation?n=3", "boxes-from-3d-box")
# Data and request of each demo, for two minutes on two cores.
_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "images": ("mini", {"protocols": "corrected", "limit": 9}),
    "volumes": ("mini-volumes", {"benchmark": "volumes", "users": _VOLUME_USERS,
                                 "protocols": "corrected", "limit": 1}),
    "video": ("mini-video", {"benchmark": "video", "rounds": 3, "protocols": "corrected"}),
}  # fmt: skip
_VOLUME_NETWORKS = ("litemedsam", "mobile-sam")
_SOON = 6  # seconds that a source of weights has to answer


def demo(
    what: str = "images",
    out: str | Path | None = None,
    weights: str | Path | None = None,
    *,
    progress: Any = None,
    tell: Tell = silent,
) -> Run:
    """Run the demo of `"images"`, `"volumes"` or `"video"`, which need no download.

    Uses networks whose weights are available, else downloads MobileSAM's (40 MB) if a source
    responds at once, else classical segmenters. SEGMETER_OFFLINE=1 downloads nothing.
    """
    from segmeter.evaluation import evaluate

    check_choice("demo", what, _REQUESTS)
    names, why = _models(what, weights, tell)
    tell(f"running {names[0]} and {names[1]} on the built-in {what}: {why}")
    data, request = _REQUESTS[what]
    return evaluate(
        names, data, out=out or _folder_for(names), weights=weights, workers=None,
        progress=progress, failures="keep", **request,
    )  # fmt: skip


def available_model(weights: str | Path | None = None) -> str:
    """MobileSAM if it can be loaded here, else a synthetic model."""
    return "mobile-sam" if _available("mobile-sam", weights) else "disc"


def _models(what: str, weights: str | Path | None, tell: Tell) -> tuple[list[str], str]:
    """Two models to show, and why these: networks whose weights are available, else others."""
    networks = _VOLUME_NETWORKS if what == "volumes" else _NETWORKS
    found = [name for name in networks if _available(name, weights)]
    have = "networks whose weights are " + (f"in {weights}" if weights else "available")
    if what == "video":
        if "mobile-sam" in found:
            return ["hand-over?model=mobile-sam", "flow"], "a network and optical flow"
        return ["hand-over?model=grabcut", "flow"], "a classical method and optical flow"
    if what == "volumes":
        if found:
            return [*found, "random-walker"][:2], have
        return ["random-walker", "disc"], "a classical method, and a baseline that fills the box"
    if found:
        return [*found, *_CLASSICAL][:2], have
    why = _download(tell)
    if not why:
        return ["mobile-sam", _CLASSICAL[0]], "MobileSAM (just downloaded) and a classical method"
    return list(_CLASSICAL), (
        f"classical methods, because {why} ('segmeter fetch mobile-sam' downloads a network)"
    )


def _folder_for(models: list[str]) -> Path:
    """`runs/demo`, or the next that holds the same demo or nothing: weights may have come since."""
    from segmeter.store import RunFolder

    for name in itertools.chain(["demo"], (f"demo-{k}" for k in itertools.count(2))):
        folder = RunFolder(Path("runs") / name)
        if not folder.begun or [str(spec) for spec in folder.plan.segmenters] == models:
            break
    return Path("runs") / name


def _download(tell: Tell) -> str:
    """Download MobileSAM's weights if a source responds at once; empty, or why not."""
    if not _networks_installed():
        return "torch and transformers are not installed"
    if os.environ.get("SEGMETER_OFFLINE"):
        return "no weights are available and SEGMETER_OFFLINE is set"
    from segmeter.models.fetching import fetch, offers

    tell("looking for MobileSAM's weights (40 MB) to download")
    responded, ended = threading.Event(), threading.Event()
    faults: list[str] = []

    def bring() -> None:
        try:
            fetch(offers()["mobile-sam"], None, None, lambda *_: responded.set())
        except SegmeterError as error:
            faults.append(str(error))
        ended.set()
        responded.set()

    # A daemon thread: if nothing responds, the demo continues, and the thread ends with it.
    threading.Thread(target=bring, daemon=True).start()
    if not responded.wait(_SOON):
        return f"no source of weights answered within {_SOON} s"
    ended.wait()
    return "no source of weights could be reached" if faults else ""


def _available(name: str, weights: str | Path | None) -> bool:
    """Whether a network can be loaded here: torch is installed and its weights are found."""
    from segmeter.models.weights import find

    with suppress(NotFound):
        return _networks_installed() and bool(find(name, Path(weights) if weights else None))
    return False


def _networks_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
