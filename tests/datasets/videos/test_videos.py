"""Videos are read in the layouts of DAVIS, SA-V, MOSE, your own, and from video files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import SceneHeader
from segmeter.core.videos import FrameMasks, Video
from segmeter.datasets.folder import open_folder
from segmeter.datasets.videos.video_folder import MOST_FRAMES, VideoFile, VideoFolder

SIZE = (24, 32)


def put(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), values)


def frames(folder: Path, many: int = 6) -> None:
    for t in range(many):
        put(folder / f"{t:05d}.jpg", np.full((*SIZE, 3), 20 * t, np.uint8))


def labels(*values: int) -> Any:
    made = np.zeros(SIZE, np.uint8)
    for k, value in enumerate(values):
        made[4:20, 10 * k : 10 * k + 8] = value
    return made


def davis(root: Path, size: str = "480p", many: int = 6) -> Path:
    frames(root / "JPEGImages" / size / "swan", many)
    for t in range(many):
        put(root / "Annotations" / size / "swan" / f"{t:05d}.png", labels(255))
    return root


def claiming(path: Path, frames: int) -> None:
    """A video file of two frames whose header claims more."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, SIZE[::-1])
    for _ in range(2):
        writer.write(np.zeros((*SIZE, 3), np.uint8))
    writer.release()
    raw = bytearray(path.read_bytes())
    for name, offset in ((b"avih", 24), (b"strh", 40)):
        place = raw.index(name) + offset
        raw[place : place + 4] = frames.to_bytes(4, "little")
    path.write_bytes(raw)


def video(root: Path, name: str = "swan", **options: Any) -> Video:
    return VideoFolder(str(root), **options).load(name)


def test_davis_2016_has_one_object(tmp_path: Path) -> None:
    data = open_folder(str(davis(tmp_path / "DAVIS")))
    assert (data.card.name, list(data.scenes()), data.recognised) == ("DAVIS", ["swan"], "1 video")
    scene = data.load("swan")
    scene.check()
    (target,) = scene.targets
    assert (scene.shape, target.id, target.mask.area) == ((6, *SIZE), "1", 6 * 128)
    assert isinstance(scene, Video)
    assert abs(int(scene.frame(3).mean()) - 60) <= 1


def test_davis_2017_has_an_object_per_value(tmp_path: Path) -> None:
    root = davis(tmp_path)
    for t in range(6):
        seen = labels(1, 2) if t < 4 else labels(1)
        put(root / "Annotations" / "480p" / "swan" / f"{t:05d}.png", seen)
    one, two = video(root).targets
    assert isinstance(two.mask, FrameMasks)
    assert (one.id, two.id, two.mask.present, two.mask.known) == (
        *("1", "2"), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5),
    )  # fmt: skip


def test_youtube_vos_has_masks_in_some_frames(tmp_path: Path) -> None:
    frames(tmp_path / "JPEGImages" / "a", 11)
    for t in (0, 5, 10):
        put(tmp_path / "Annotations" / "a" / f"{t:05d}.png", labels(1))
    (target,) = video(tmp_path, "a").targets
    assert isinstance(target.mask, FrameMasks)
    assert target.mask.known == (0, 5, 10)


def test_sa_v_has_a_folder_per_object(tmp_path: Path) -> None:
    frames(tmp_path / "JPEGImages_24fps" / "sav_1", 9)
    for name in ("000", "001"):
        for t in (0, 4, 8):
            place = tmp_path / "Annotations_6fps" / "sav_1" / name / f"{t:05d}.png"
            put(place, labels(255) if name == "000" or t else labels())
    one, two = video(tmp_path, "sav_1").targets
    assert isinstance(two.mask, FrameMasks)
    assert (one.id, two.id, two.mask.present, two.mask.known) == ("000", "001", (4, 8), (0, 4, 8))


def test_frames_and_masks_of_your_own(tmp_path: Path) -> None:
    frames(tmp_path / "clip" / "frames", 3)
    for t in range(3):
        put(tmp_path / "clip" / "masks" / f"{t:05d}.png", labels(255))
    assert list(open_folder(str(tmp_path / "clip")).scenes()) == ["clip"]
    assert list(open_folder(str(tmp_path)).scenes()) == ["clip"]


def test_a_folder_of_images_and_masks_is_no_video(tmp_path: Path) -> None:
    put(tmp_path / "images" / "a.jpg", np.zeros((*SIZE, 3), np.uint8))
    put(tmp_path / "masks" / "a.png", labels(255))
    assert open_folder(str(tmp_path)).load("a").header.kind == "image"


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, SIZE[::-1])
    for t in range(40):
        writer.write(np.full((*SIZE, 3), 5 * t, np.uint8))
    writer.release()
    for t in range(40):
        put(tmp_path / "clip" / f"{t:05d}.png", labels(255))
    return path


def test_a_video_file_is_decoded_forward_and_backward(film: Path) -> None:
    scene = VideoFolder(str(film)).load("clip")
    assert (scene.shape, scene.header.frame_rate, len(scene.targets)) == ((40, *SIZE), 10.0, 1)
    for t in (0, 1, 39, 38, 3, 17):
        assert abs(int(scene.frame(t).mean()) - 5 * t) <= 2


def test_a_video_file_that_breaks_off_is_refused(film: Path) -> None:
    film.write_bytes(film.read_bytes()[:200])
    with pytest.raises(BadInput, match=r"clip.avi' (cannot be decoded|claims|breaks off)"):
        VideoFile(film).frame(30)


def test_a_truncated_frame_is_refused_and_the_others_read(tmp_path: Path) -> None:
    root = davis(tmp_path)
    file = root / "JPEGImages" / "480p" / "swan" / "00002.jpg"
    file.write_bytes(file.read_bytes()[:-40])
    scene = video(root)
    assert scene.frame(1).shape == (*SIZE, 3)
    with pytest.raises(BadInput, match=r"00002.jpg' is not a whole image"):
        scene.frame(2)
    assert scene.frame(3).shape == (*SIZE, 3)


def test_frames_of_different_sizes_are_refused(tmp_path: Path) -> None:
    root = davis(tmp_path)
    put(root / "JPEGImages" / "480p" / "swan" / "00004.jpg", np.zeros((12, 16, 3), np.uint8))
    with pytest.raises(BadInput, match="swan: frame 4 is 16 x 12 but the video is 32 x 24"):
        video(root).frame(4)


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    root = davis(tmp_path)
    put(root / "Annotations" / "480p" / "swan" / "00004.png", np.zeros((12, 16), np.uint8))
    with pytest.raises(BadInput, match=r"mask '00004.png' is 16 x 12 but the frames are 32 x 24"):
        video(root).targets  # noqa: B018


def test_a_missing_mask_is_refused_unless_masks_are_sparse(tmp_path: Path) -> None:
    root = davis(tmp_path)
    (root / "Annotations" / "480p" / "swan" / "00003.png").unlink()
    with pytest.raises(BadInput, match="frame '00003' has no mask, and 5 of 6 frames have one"):
        video(root).targets  # noqa: B018
    mask = video(root, sparse=True).targets[0].mask
    assert isinstance(mask, FrameMasks)
    assert mask.known == (0, 1, 2, 4, 5)


def test_a_mask_without_a_frame_is_refused(tmp_path: Path) -> None:
    root = davis(tmp_path)
    put(root / "Annotations" / "480p" / "swan" / "00009.png", labels(255))
    with pytest.raises(BadInput, match=r"mask '00009.png' has no frame"):
        video(root).targets  # noqa: B018


def test_a_million_frames_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = davis(tmp_path)
    many = [tmp_path / f"{t}.jpg" for t in range(MOST_FRAMES + 1)]
    monkeypatch.setattr("segmeter.datasets.videos.video_folder.images_in", lambda place: many)
    with pytest.raises(BadInput, match=f"{MOST_FRAMES + 1} frames; a video has 1 to"):
        video(root)


def test_a_long_video_holds_few_frames_and_no_dense_masks() -> None:
    """A 4K video of 2 000 frames would be 50 GB."""
    read: list[int] = []

    def frame(t: int) -> Any:
        read.append(t)
        return np.zeros((2160, 3840, 3), np.uint8)

    square = Mask.box((2160, 3840), (0, 0), (2000, 2000)).encoded()
    masks = FrameMasks((2000, 2160, 3840), dict.fromkeys(range(2000), square))
    scene = Video("d", "long", frame, [], header=SceneHeader("video", masks.shape))
    for t in range(12):
        scene.frame(t)
    assert sorted(set(read))[:12] == list(range(12))
    assert scene._decoding.cache_info().currsize <= 5  # type: ignore[attr-defined]
    assert masks.area == 2000 * 2000 * 2000
    assert len(masks.encoded()) < 2000 * (len(square) + 1)
    with pytest.raises(BadInput, match="does not fit in memory"):
        masks.bits  # noqa: B018
    with pytest.raises(BadInput, match="read one by one"):
        scene.pixels  # noqa: B018


def test_the_mini_video_ships_inside() -> None:
    scene = catalogue.datasets.make("mini-video").load("blackswan")
    scene.check()
    assert scene.shape == (12, 240, 427)
    place = Path(catalogue.datasets.entry("mini-video").source.replace(".", "/"))
    assert place.name == "video_folder"


def test_a_digest_changes_with_a_mask(tmp_path: Path) -> None:
    before = VideoFolder(str(davis(tmp_path / "a"))).fingerprint()
    other = tmp_path / "b" / "a"
    shutil.copytree(tmp_path / "a", other)
    assert VideoFolder(str(other)).fingerprint() == before
    put(other / "Annotations" / "480p" / "swan" / "00000.png", labels(255, 255))
    assert VideoFolder(str(other)).fingerprint() != before
