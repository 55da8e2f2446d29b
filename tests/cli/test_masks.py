"""The command `masks`: files, numbers, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.core.scenes import Scene
from segmeter.models.automatic.generator import AutomaticMask

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    y, x = np.mgrid[:48, :64]
    pixels = np.stack([4 * x, 5 * y, 2 * (x + y)], axis=-1).astype(np.uint8)
    file = tmp_path / "photo.png"
    cv2.imwrite(str(file), pixels)
    return file


def test_masks_come_as_coco_as_overlay_and_as_pages(typed: Typed, photo: Path) -> None:
    out = photo.parent / "found"
    code, said, complaint = typed(
        "models",
        "masks",
        str(photo),
        "-m",
        "disc?radius=8",
        "--points",
        "3",
        "-o",
        str(out),
        "--json",
    )
    assert (code, complaint) == (0, "")
    facts = json.loads(said)
    coco = json.loads((out / "masks.json").read_text())
    assert facts["masks"] == len(coco["annotations"]) == 9
    assert coco["images"] == [{"id": 1, "file_name": "photo.png", "height": 48, "width": 64}]
    for one in coco["annotations"]:
        mask = Mask.from_coco(one["segmentation"])
        assert mask.area == one["area"]
        assert one["bbox"] == [mask.low[1], mask.low[0], *mask.bits.shape[::-1]]
    drawn = cv2.imread(str(out / "photo.png"))
    assert drawn is not None
    assert drawn.shape == (48, 64, 3)
    assert not np.array_equal(drawn, cv2.imread(str(photo)))
    for page in ("index.html", "photo.html"):
        text = (out / page).read_text()
        assert "{{" not in text
        assert "://" not in text  # nothing is loaded from elsewhere
    assert 'href="photo.html"' in (out / "index.html").read_text()


def test_no_mask_is_reported_and_not_a_failure(typed: Typed, photo: Path) -> None:
    out = photo.parent / "none"
    code, said, _ = typed(
        "models",
        "masks",
        str(photo),
        "-m",
        "disc",
        "--points",
        "2",
        "-o",
        str(out),
        "--option",
        "score=2",
    )
    assert code == 0
    assert said.startswith("0 masks in 1 image,")
    assert json.loads((out / "masks.json").read_text())["annotations"] == []
    drawn, given = (cv2.imread(str(p)) for p in (out / "photo.png", photo))
    assert np.array_equal(drawn, given)


def test_a_folder_gives_each_image_its_files(typed: Typed, photo: Path) -> None:
    folder = photo.parent / "many"
    folder.mkdir()
    for name in ("one.png", "one.bmp", "index.png"):
        cv2.imwrite(str(folder / name), cv2.imread(str(photo)))
    out = photo.parent / "out"
    code, _, _ = typed(
        "models", "masks", str(folder), "-m", "disc", "--points", "1", "-o", str(out)
    )
    assert code == 0
    names = {p.name for p in out.glob("*.html")}
    assert names == {"index.html", "index-2.html", "one.html", "one-2.html"}
    assert len(json.loads((out / "masks.json").read_text())["images"]) == 3


def test_published_and_corrected_name_themselves_and_differ(typed: Typed, photo: Path) -> None:
    for protocol, short in (("published", 1), ("corrected", 0)):
        out = photo.parent / protocol
        typed(
            "models", "masks", str(photo), "-m", "disc?radius=6", "--points", "1", "-o", str(out),
            "--protocol", protocol,
        )  # fmt: skip
        coco = json.loads((out / "masks.json").read_text())
        assert protocol in coco["info"]["description"]
        (one,) = coco["annotations"]
        mask = Mask.from_coco(one["segmentation"])
        assert one["bbox"][2:] == [n - short for n in mask.bits.shape[::-1]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--points", "0"], "points is a whole number from 1 on"),
        (["--points", "2", "--crops", "2", "--option", "fewer=2"], "a grid of no points"),
        (["--option", "overlaps=3"], "no option 'overlaps'"),
        (["--protocol", "both"], "no protocol 'both'; it is published or corrected"),
        (["--option", "score=much"], "option 'score' is a number, not 'much'"),
    ],
)
def test_bad_settings_are_one_sentence_and_nothing_is_written(
    typed: Typed, photo: Path, words: list[str], sentence: str
) -> None:
    out = photo.parent / "out"
    code, said, complaint = typed(
        "models", "masks", str(photo), "-m", "disc", "-o", str(out), *words
    )
    assert (code, said) == (2, "")
    (line,) = complaint.strip().splitlines()
    assert sentence in line
    assert not out.exists()


def test_unreadable_images_are_one_sentence_each(typed: Typed, photo: Path) -> None:
    out, folder = photo.parent / "out", photo.parent / "empty"
    folder.mkdir()
    broken, text = photo.parent / "broken.png", photo.parent / "text.jpg"
    broken.write_bytes(photo.read_bytes()[:-20])
    text.write_text("no image")
    for path, sentence in (
        (broken, "is not a whole image"),
        (text, "is not a whole image"),
        (folder, "holds no images"),
        (photo.parent / "missing.png", "no file"),
    ):
        code, said, complaint = typed("models", "masks", str(path), "-m", "disc", "-o", str(out))
        assert (code, said) == (2, "")
        (line,) = complaint.strip().splitlines()
        assert sentence in line
        assert not out.exists()


def test_the_folder_of_the_images_is_not_written_to(typed: Typed, photo: Path) -> None:
    """An overlay has its image's name, and would replace a PNG."""
    before = photo.read_bytes()
    for out in (photo.parent, photo.parent / "x" / ".."):
        code, said, complaint = typed("models", "masks", photo, "-m", "disc", "-o", out)
        assert (code, said) == (2, "")
        assert "is the folder of the images; choose another" in complaint
    assert [path.name for path in photo.parent.iterdir()] == ["photo.png"]
    assert photo.read_bytes() == before


def test_a_image_that_cannot_be_cut_does_not_stop_the_others(typed: Typed, photo: Path) -> None:
    small = photo.parent / "small.png"
    cv2.imwrite(str(small), np.zeros((3, 3, 3), np.uint8))
    out = photo.parent / "out"
    command = (
        "models",
        "masks",
        str(small),
        str(photo),
        "-m",
        "disc",
        "-o",
        str(out),
        "--points",
        "8",
    )
    code, said, complaint = typed(*command, "--crops", "3", "--json")
    assert code == 1
    assert "too small for 3 layers of crops" in complaint
    assert json.loads(said)["images"] == 1
    code, _, complaint = typed(*command, "--crops", "1", "--option", "overlap=2")
    assert code == 1
    assert complaint.count("larger than the image") == 2


def test_results_so_far_are_kept_after_an_interruption(
    typed: Typed, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from segmeter.models.automatic.generator import Automatic

    real, calls = Automatic.masks, []

    def stopped(self: Automatic, scene: Scene) -> list[AutomaticMask]:
        calls.append(scene.id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, scene)

    monkeypatch.setattr(Automatic, "masks", stopped)
    second = photo.parent / "second.png"
    second.write_bytes(photo.read_bytes())
    out = photo.parent / "out"
    code, _, _ = typed(
        "models", "masks", str(photo), str(second), "-m", "disc", "--points", "2", "-o", str(out)
    )
    assert code == 130
    assert len(json.loads((out / "masks.json").read_text())["images"]) == 1
