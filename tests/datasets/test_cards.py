"""Every registered dataset has a card that tells what a user must know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import required
from segmeter.core.errors import NotFound
from segmeter.core.scenes import Dataset
from segmeter.datasets.volumes.volume_folder import INTRABENCH
from segmeter.datasets.zeroshot.suite import SUITE

NAMES = [entry.name for entry in catalogue.datasets if not required(entry)]
WITHIN = {"mini", "mini-volumes", "mini-video", "drawn"}
VOLUMES = set(INTRABENCH)
ELSEWHERE = {
    "sbd",
    "pascal-voc",
    "tetris",
    "open-images",
    "saco",
    *(kind.name for kind in SUITE),
    *VOLUMES,
} - {"bbbc038"}


def assert_complete(data: Dataset) -> None:
    card = data.card
    assert card.name
    assert card.summary
    assert card.licence
    assert card.citation
    assert card.notes
    assert card.targets is not None
    assert len(data.fingerprint()) >= 16
    assert "\n" not in card.missing


@pytest.mark.parametrize("name", sorted(WITHIN))
def test_everything_built_in_has_a_complete_card(name):
    data = catalogue.datasets.make(name)
    assert_complete(data)
    assert data.card.missing == ""


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHIN))
def test_the_error_for_a_missing_data_set_names_source_and_folder(name, tmp_path, monkeypatch):
    monkeypatch.delenv("SEGMETER_DATA", raising=False)
    for options in ({"data": tmp_path}, {"data": tmp_path / "gone"}, {}):
        with pytest.raises(NotFound, match=r"https?://") as caught:
            catalogue.datasets.make(name, **options)
        assert f"'{name}'" in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHIN - ELSEWHERE))
def test_real_sets_have_whole_cards(name, real_data):
    data = catalogue.datasets.make(name, data=real_data)
    assert_complete(data)
    assert data.card.homepage.startswith("http")


@pytest.mark.parametrize(
    ("name", "scenes", "targets", "missing"),
    [
        ("grabcut", 50, 50, ""),
        ("berkeley", 100, 100, ""),
        ("davis", 50, 345, "295 of 345 objects are not in"),
        ("coco-mval", 80, 800, "720 of 800 objects are not in"),
        ("coco", 15, 130, ""),
        ("lvis", 9, 39, ""),
        ("bsds500", 60, 0, "140 of 200 images are not in"),
        ("bsds500?split=train", 13, 0, "187 of 200 partitions are not in"),
        ("bsds500?split=val", 17, 0, "83 of 100 partitions are not in"),
    ],
)
def test_available_and_missing_images_are_counted(name, scenes, targets, missing, real_data):
    """The numbers of the data folder's own pages."""
    data = catalogue.datasets.make(name, data=real_data)
    assert len(data.scenes()) == scenes
    assert data.card.targets == targets
    assert missing in data.card.missing
    assert bool(missing) == bool(data.card.missing)


@pytest.mark.parametrize(("name", "folder"), [("davis", "DAVIS"), ("coco-mval", "COCO_MVal")])
def test_a_subset_of_the_images_next_to_all_masks_is_run(name, folder, real_data, tmp_path):
    """Ten images beside all masks available: ten scenes, the others named on the card."""
    source, part = real_data / folder, tmp_path / folder
    (part / "img").mkdir(parents=True)
    (part / "gt").symlink_to(source / "gt")
    images = sorted((source / "img").iterdir())
    for path in images[:10]:
        (part / "img" / path.name).symlink_to(path)
    data = catalogue.datasets.make(name, data=tmp_path)
    assert data.scenes() == [path.stem for path in images[:10]]
    for scene in data.scenes():
        data.load(scene).check()
    alone = len(images) - 10
    assert f"{alone} of {data.card.targets} images are not in" in data.card.missing
    assert f"the first is '{images[10].stem}'" in data.card.missing


def test_the_whole_davis_needs_nothing_more(tmp_path, write, photo):
    """345 frames by number; palette masks with several labels and the stray index 255."""
    from PIL import Image

    labels = np.zeros((12, 16), np.uint8)
    labels[2:4], labels[5:7], labels[9] = 1, 3, 255
    mask = Image.fromarray(labels, mode="P")
    mask.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, *[224] * 756])
    for frame in range(345):
        write(tmp_path / "DAVIS" / "img" / f"{frame:05}.jpg", photo)
        (tmp_path / "DAVIS" / "gt").mkdir(exist_ok=True)
        mask.save(tmp_path / "DAVIS" / "gt" / f"{frame:05}.png")
    data = catalogue.datasets.make("davis", data=tmp_path)
    assert len(data.scenes()) == data.card.targets == 345
    assert data.card.missing == ""
    assert data.load("00195").targets[0].mask.area == 5 * 16


def test_a_root_that_is_the_set_itself_will_do(real_data: Path):
    for name, folder in (("davis", "DAVIS"), ("grabcut", "GrabCut")):
        assert catalogue.datasets.make(name, data=real_data / folder).scenes()


def test_listing_and_opening_loads_nothing_heavy():
    """`segmeter list` and the scenes of a set need no library that decodes or computes."""
    code = (
        "import sys; from segmeter.core import catalogue;"
        "names = [entry.name for entry in catalogue.datasets];"
        "catalogue.datasets.make('mini').scenes();"
        "heavy = {'cv2', 'scipy', 'skimage', 'matplotlib', 'torch', 'PIL', 'pandas'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
