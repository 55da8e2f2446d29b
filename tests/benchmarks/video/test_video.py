"""The benchmark on videos: modes, users, statistics, report, resuming."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import segmeter
from segmeter.benchmarks.video import VideoBenchmark
from segmeter.benchmarks.video.statistics import at_seconds, davis_area
from segmeter.benchmarks.video.work import work as simulate_video
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import SceneHeader, Target
from segmeter.core.videos import FrameMasks, Video
from segmeter.engine import run_plan
from segmeter.models.synthetic import Disc
from segmeter.models.videos.frame_trackers import HandOver
from segmeter.store import Run

from ...cli.conftest import type_here
from ...forking import Interpreter

RUN = ("--tracker", "flow?model=disc", "--tracker", "hand-over?model=disc", "--workers", "0",
       "--rounds", "3")  # fmt: skip
QUERY = """select * exclude (seconds_encode, seconds_predict, seconds_user)
from rows order by all"""


def planned(*users: str, **more: Any) -> Plan:
    specs = tuple(Spec.parse(user) for user in users)
    asked = Plan("video", (Spec("flow"),), (Spec("mini-video"),), users=specs, rounds=3, **more)
    return VideoBenchmark().plan(asked)


def mini() -> Any:
    return catalogue.datasets.make("mini-video").load("blackswan")


def rows_of(*users: str, protocol: str = "corrected") -> list[dict[str, Any]]:
    tracker = HandOver(Disc(radius=20), "box")
    return simulate_video(tracker, mini(), planned(*users, protocols=(protocol,)))


def test_semi_prompts_the_first_frame_once() -> None:
    mask, box, clicks = rows_of(
        "first-frame?prompt=mask", "first-frame?prompt=box", "first-frame?clicks=5"
    )
    assert (mask["frame"], mask["masks_drawn"], mask["kinds"]) == (0, 1, "mask")
    assert (box["boxes"], clicks["clicks"]) == (1, 5)
    assert FrameMasks.decoded(mask["mask"], (12, 240, 427)).slice(0) == (
        mini().targets[0].mask.slice(0)
    )


def test_offline_prompts_the_frame_of_lowest_iou() -> None:
    rows = rows_of("worst-frame")
    assert [row["clicks"] for row in rows] == [3, 6, 9]
    assert rows[0]["frame"] == 0
    for before, after in itertools.pairwise(rows):
        j = [float(v) for v in before["frame_j"].split()]
        assert after["frame"] == int(np.argmin(j))
    assert [row["frames_watched"] for row in rows] == [12, 24, 36]


def test_online_propagates_forward_and_keeps_earlier_frames() -> None:
    rows = rows_of("first-bad-frame")
    for before, after in itertools.pairwise(rows):
        j, t = [float(v) for v in before["frame_j"].split()], after["frame"]
        assert t == next(k for k in range(before["frame"] + 1, 12) if j[k] < 0.75)
        masks = [row["mask"].split(" ") for row in (before, after)]
        assert masks[0][:t] == masks[1][:t]
    assert [row["frames_watched"] for row in rows] == [12, 12, 12]


def test_davis_uses_each_frame_once_unless_published() -> None:
    corrected = rows_of("scribble-robot")
    assert len({row["frame"] for row in corrected}) == 3
    sizes = [mini().targets[0].mask.slice(t).area for t in range(12)]
    assert corrected[0]["frame"] == int(np.argmax(sizes))
    assert corrected[0]["strokes"] >= 1
    assert len(round_from_json(corrected[0]["prompt"])) == corrected[0]["strokes"]


def test_davis_starts_where_any_of_its_objects_is_largest() -> None:
    shape = (4, 60, 90)
    comb = np.zeros(shape[1:], bool)  # small, with a long outline
    comb[5:15:2, 5:25:2] = True
    one = FrameMasks.of_frames(dict.fromkeys(range(4), Mask.of(comb)), shape)
    two = {t: Mask.box(shape[1:], (20, 40), (40, 60 + 10 * t)) for t in (1, 2)}
    targets = [Target("1", one), Target("2", FrameMasks.of_frames(two, shape))]
    grey = np.zeros((*shape[1:], 3), np.uint8)
    scene = Video("drawn", "two", lambda t: grey, targets, header=SceneHeader("video", shape))
    plan = planned("scribble-robot", protocols=("corrected",))
    rows = simulate_video(HandOver(Disc(radius=5), "box"), scene, plan)
    assert [row["frame"] for row in rows[:2]] == [2, 2]


def test_a_persons_scribble_comes_first(tmp_path: Path) -> None:
    stroke = {"path": [[0.5, 0.4], [0.55, 0.5]], "object_id": 1}
    file = tmp_path / "blackswan.json"
    file.write_text(json.dumps({"scribbles": [[], [], [stroke]]}))
    rows = rows_of(f"replayed-scribbles?path={tmp_path}")
    assert (rows[0]["frame"], rows[0]["strokes"]) == (2, 1)
    assert rows[1]["frame"] != 2


def test_users_stop_when_nothing_is_wrong() -> None:
    rows = simulate_video(
        catalogue.models.make("hand-over?model=synthetic-oracle"),
        mini(),
        planned("first-bad-frame"),
    )
    corrected = [row for row in rows if row["protocol"] == "corrected"]
    assert [row["stopped"] for row in corrected] == [False, True, True]
    assert [row["jf"] for row in corrected] == [corrected[0]["jf"]] * 3


def test_protocols_judge_other_frames() -> None:
    (published,), (corrected,) = (
        rows_of("first-frame?clicks=3", protocol=p) for p in ("published", "corrected")
    )
    assert published["mask"] == corrected["mask"]
    j = np.array([float(v) for v in corrected["frame_j"].split()])
    assert published["j"] == pytest.approx(j[1:-1].mean(), abs=1e-4)
    assert corrected["j"] == pytest.approx(j[1:].mean(), abs=1e-4)


def test_time_curves_start_at_nothing() -> None:
    quality, seconds = np.array([[0.4, 0.8]]), np.array([[20.0, 100.0]])
    assert at_seconds(quality, seconds)[0] == pytest.approx(0.6)
    assert at_seconds(quality, seconds / 10)[0] == pytest.approx(0.8)
    expected = (0.5 * 20 * 0.4 + 80 * 0.6 + 100 * 0.8) / 200
    assert davis_area(quality, seconds, np.array([200.0]))[0] == pytest.approx(expected)


def test_settings_are_checked() -> None:
    with pytest.raises(BadInput, match="mode"):
        VideoBenchmark().plan(Plan("video", (), (), options={"modes": "sideways"}))
    with pytest.raises(BadInput, match="trackers need videos"):
        simulate_video(Disc(), catalogue.datasets.make("mini").load("moon"), planned())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("video") / "run"
    done = type_here("run", "video", *RUN, "-d", "mini-video", "-o", place)
    assert done.returncode == 0, done.stderr
    return place


def test_its_numbers_have_names_and_directions(place: Path) -> None:
    run = Run.open(place)
    rows = {(r.user, r.protocol, r.statistic) for r in run.summary()}
    for name in ("jf", "j-decay", "area", "jf@60s", "jf@8", "flicker", "seconds", "ms-frame"):
        assert ("scribble-robot", "corrected", name) in rows
    found = {d.statistic for d in run.benchmark.differences(run)}
    assert found == {"jf", "jf-mean"}


def test_its_report_shows_the_video(place: Path, tmp_path: Path) -> None:
    from segmeter.report.writing import sections_of, write_sections

    write_sections(opened := Run.open(place), sections_of(opened), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("data-play") >= 2
    assert "Hardest moments" in page
    assert "first-frame, mask" in page
    assert "(not tested: 1 video, 6 needed)." in page
    assert "resampling videos. Milliseconds" not in page, "one video has no intervals"
    assert len(page) < 6_000_000


def test_a_session_from_a_mask_names_its_prompt(tmp_path: Path) -> None:
    asked = ("--tracker", "flow", "--user", "first-frame?prompt=mask", "-d", "mini-video")
    done = type_here("run", "video", *asked, "--workers", 0, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    page = segmeter.open_run(tmp_path / "run").report().read_text()
    assert "1 mask" in page
    assert "no prompt" not in page


def videos(root: Path, *names: str) -> Path:
    """Copies of a small video in the layout of DAVIS."""
    from ...datasets.videos.test_videos import davis

    davis(root)
    for folder in ("JPEGImages", "Annotations"):
        for name in names:
            shutil.copytree(root / folder / "480p" / "swan", root / folder / "480p" / name)
    return root


def test_bad_videos_fail_alone_with_a_sentence_each(tmp_path: Path) -> None:
    from ...datasets.videos.test_videos import claiming, put

    root = videos(tmp_path / "DAVIS", "maskless", "sizes", "torn")
    frames, masks = (root / folder / "480p" for folder in ("JPEGImages", "Annotations"))
    torn = frames / "torn" / "00002.jpg"
    torn.write_bytes(torn.read_bytes()[:-40])
    put(frames / "sizes" / "00004.jpg", np.zeros((12, 16, 3), np.uint8))
    (masks / "maskless" / "00003.png").unlink()
    claiming(root / "claims.avi", 1_000_000)
    line = ("run", "video", *RUN[2:], "-d", root, "-o", tmp_path / "run", "--modes", "semi")
    assert type_here(*line).returncode == 1
    run = Run.open(tmp_path / "run")
    assert {row["scene"] for row in run.sql("select scene from rows").to_pylist()} == {"swan"}
    found = {row["scene"]: row["error"] for row in run.sql("select * from errors").to_pylist()}
    for scene, sentence in {
        "claims": "claims 1000000 frames of 32 x 24; a video has 1 to 200000 frames",
        "maskless": "frame '00003' has no mask, and 5 of 6 frames have one",
        "sizes": "frame 4 is 16 x 12 but the video is 32 x 24; all frames need one size",
        "torn": "00002.jpg' is not a whole image",
    }.items():
        assert sentence in found.pop(scene)
    assert not found


def test_a_killed_run_resumes_to_equal_rows_with_other_workers(
    python: Interpreter, tmp_path: Path
) -> None:
    data, out = videos(tmp_path / "DAVIS", "b", "c"), tmp_path / "run"
    line = ("run", "video", "--tracker", "flow?model=disc", "--user", "worst-frame", "-d", data)
    assert type_here(*line, "-o", tmp_path / "whole", "--workers", "0").returncode == 0
    killed = python.start("-m", "segmeter", *line, "-o", out, "--workers", "0")
    while not list(out.rglob("*.parquet")) and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    assert type_here(*line, "-o", out, "--workers", "2").returncode == 0
    whole, resumed = (Run.open(p).sql(QUERY).to_pylist() for p in (tmp_path / "whole", out))
    assert len(whole) == 3 * 2 * 8
    assert resumed == whole


def test_its_sessions_are_shown_in_browse(place: Path) -> None:
    from segmeter.report.browsing import Sessions

    sessions = Sessions(Run.open(place))
    many, rows = sessions.found({"user": "worst-frame"})
    assert many == 2 * 2
    page = sessions.session(rows[0])
    assert "data-play" in page
    assert page.count('<li data-round="') == 3
    assert "J&amp;F" in sessions.page({})


def test_masks_of_another_program_are_scored(golden: Path, real_data: Path) -> None:
    data = f"videos?path={real_data / 'davis2016'}&sequences=car-shadow"
    scene = catalogue.datasets.make(data).load("car-shadow")
    tracker = catalogue.models.make(f"recorded-masks?path={golden / 'video' / 'osvos'}")
    plan = planned("first-frame?prompt=mask", protocols=("published",))
    (row,) = simulate_video(tracker, scene, plan)
    expected = json.loads((golden / "video" / "jf.json").read_text())["sequences"]["car-shadow"]
    assert row["j"] == pytest.approx(expected["J"][0], abs=1e-9)
    assert row["f"] == pytest.approx(expected["F"][0], abs=1e-9)


def test_masks_are_exported(tmp_path: Path) -> None:
    from segmeter.export.masks import export_masks

    run_plan(planned("worst-frame", protocols=("corrected",)), tmp_path / "run", workers=0)
    run = Run.open(tmp_path / "run")
    row = run.job_rows("flow", "mini-video", "blackswan")[-1]
    masks = FrameMasks.decoded(row["mask"], (12, 240, 427))
    (written,) = export_masks(run, tmp_path / "davis")
    assert (written.path.name, written.voxels) == ("blackswan", masks.area)
    for t in (0, 7):
        values = np.asarray(Image.open(written.path / f"{t:05d}.png"))
        assert (values == masks.slice(t).dense()).all()
    (listed,) = export_masks(run, tmp_path / "list", "coco-vid")
    content = json.loads(listed.path.read_text())
    assert content["videos"][0]["length"] == len(content["annotations"][0]["segmentations"]) == 12
    for kind in ("gif", "mp4"):
        made = export_masks(run, tmp_path / kind, kind)[0].path
        assert made.stat().st_size > 10_000
    with pytest.raises(BadInput, match="videos are written as davis"):
        export_masks(run, tmp_path, "nifti")


def test_check_reads_every_frame(tmp_path: Path) -> None:
    from ...datasets.videos.test_videos import davis

    root = davis(tmp_path / "DAVIS")
    done = type_here("check", root)
    assert done.returncode == 0, done.stderr
    assert "swan: 6 frames of 32 x 24; object 1 in 6 of 6 annotated frames" in done.stdout
    torn = root / "JPEGImages" / "480p" / "swan" / "00004.jpg"
    torn.write_bytes(torn.read_bytes()[:-40])
    done = type_here("check", root)
    assert done.returncode == 1
    assert "00004.jpg' is not a whole image" in done.stdout
