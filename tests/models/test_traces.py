"""Replaying the reference sessions click by click on real weights and real images.

Golden values: `golden/traces`, the authors' own loop. The clicks are theirs, so each round
stands for itself: IoU within 0.002 and which mask was shown must agree everywhere, the mask
bit by bit in nearly every round (rounding moves a pixel on the threshold now and then).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.models import Request, keeps_state, render
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Target

SESSIONS = [
    # It falls back to one of three at the first click; nothing is fed to the second, a negative.
    ("sam2-hiera-tiny", "GrabCut", "189080"),
    ("mobile-sam", "GrabCut", "llama"),
]


@pytest.fixture(scope="module")
def looked(real_weights: Path) -> dict[str, Any]:
    """Models already loaded in this module."""
    return {}


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
@pytest.mark.parametrize(("name", "data", "scene_id"), SESSIONS)
def test_a_replayed_session_follows_the_trace(
    golden: Path,
    real_data: Path,
    real_weights: Path,
    looked: dict[str, Any],
    name: str,
    data: str,
    scene_id: str,
) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    if name not in looked:
        looked[name] = catalogue.models.make(name, weights=str(real_weights))
    trace = rows(golden / "traces" / f"{name}_{data}.csv.gz", scene_id)
    assert len(trace) == 20
    scene = catalogue.datasets.make(data.lower(), data=str(real_data)).load(scene_id)
    encoded = looked[name].encode(scene)
    prompts: tuple[Prompt, ...] = ()
    state = None
    equal = 0
    for row in trace[:10]:
        prompts += (Click((int(row["y"]), int(row["x"])), row["positive"] == "1"),)
        mask_fed_back = state is not None and keeps_state(encoded, prompts, "published")
        assert mask_fed_back == (row["fed"] == "1")
        prediction = encoded.predict([Request(prompts, state if mask_fed_back else None)])[0]
        state = prediction.state
        mask = render(encoded, [prediction])[0]
        assert prediction.shown == int(row["chosen"])
        assert prediction.scores[prediction.shown] == pytest.approx(float(row["score"]), abs=1e-4)
        assert iou(scene.targets[0], mask.dense()) == pytest.approx(float(row["iou"]), abs=0.002)
        equal += f"{zlib.crc32(np.packbits(mask.dense()).tobytes()):08x}" == row["crc32"]
    assert equal >= 9


def rows(file: Path, scene_id: str) -> list[dict[str, str]]:
    with gzip.open(file, "rt") as stream:
        return [r for r in csv.DictReader(stream) if Path(r["target"]).stem == scene_id]


def iou(target: Target, prediction: Any) -> float:
    judged = np.ones(prediction.shape, dtype=bool)
    if target.ignore is not None:
        judged &= ~target.ignore.dense()
    ground_truth = target.mask.dense() & judged
    prediction = prediction & judged
    return float((ground_truth & prediction).sum() / (ground_truth | prediction).sum())
