"""J, F, recall and decay are those of the DAVIS evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from segmeter.benchmarks.video.work import FrameJudge, judged_frames, summary
from segmeter.core.masks import Mask
from segmeter.core.videos import FrameMasks
from segmeter.datasets.videos.video_folder import Files, read_sequence

NAMES = ("j", "j_recall", "j_decay", "f", "f_recall", "f_decay")


@pytest.mark.parametrize("name", ["blackswan", "car-shadow", "dog", "drift-straight", "libby"])
def test_golden_j_and_f_of_osvos(golden: Path, real_data: Path, name: str) -> None:
    davis = real_data / "davis2016"
    frames = davis / "JPEGImages" / "480p" / name
    truth = read_sequence("d", name, Files(frames, davis / "Annotations" / "480p" / name))
    osvos = read_sequence("o", name, Files(frames, golden / "video" / "osvos" / name))
    target, prediction = (video.targets[0].mask for video in (truth, osvos))
    assert isinstance(target, FrameMasks)
    assert isinstance(prediction, FrameMasks)
    judged = judged_frames(target, "published", 0)
    kept = np.isin(target.known, judged)
    found = summary(FrameJudge(target).scores(prediction)[kept])
    expected = json.loads((golden / "video" / "jf.json").read_text())["sequences"][name]
    assert len(judged) == expected["frames"]
    for key, value in zip(NAMES, expected["J"] + expected["F"], strict=True):
        assert found[key] == pytest.approx(value, abs=1e-9)


def test_a_frame_without_the_object_counts_as_davis_counts_it() -> None:
    square = Mask.box((9, 9), (2, 2), (7, 7))
    target = FrameMasks.of_frames({0: square}, (3, 9, 9))
    prediction = FrameMasks.of_frames({0: square, 2: square}, (3, 9, 9))
    assert FrameJudge(target).scores(prediction)[:, 0].tolist() == [1.0, 1.0, 0.0]


def test_frames_that_are_judged() -> None:
    target = FrameMasks((6, 4, 4), {}, known=[0, 2, 4, 5])
    assert judged_frames(target, "published", 0) == [2, 4]
    assert judged_frames(target, "corrected", 2) == [4, 5]
    assert judged_frames(target, "corrected", None) == [0, 2, 4, 5]
