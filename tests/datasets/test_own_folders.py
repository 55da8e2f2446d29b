"""Folders as teams really have them: they are read as they are meant, or named in a sentence."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from segmeter.core.errors import BadInput
from segmeter.datasets.folder import open_folder

SHAPE = (60, 80)


def disc(y: int = 30, x: int = 40, radius: int = 15) -> npt.NDArray[np.bool_]:
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return np.asarray((rows - y) ** 2 + (columns - x) ** 2 < radius * radius)


def pattern() -> Image.Image:
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return Image.fromarray(np.dstack([columns * 3, rows * 4, rows + columns]).astype(np.uint8))


def saved(image: Image.Image, path: Path, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **how)


def folder(root: Path, mask: Image.Image, name: str = "a.png", **how: Any) -> Path:
    saved(pattern(), root / "images" / "a.jpg")
    saved(mask, root / "masks" / name, **how)
    return root


def only_mask(path: Path) -> npt.NDArray[np.bool_]:
    data = open_folder(str(path))
    (target,) = data.load(data.scenes()[0]).targets
    return target.mask.dense()


def differs(path: Path) -> float:
    """The share of the disc by which the only mask differs from it."""
    return float((only_mask(path) ^ disc()).sum() / disc().sum())


@pytest.mark.parametrize("high", [1, 255, 65535])
def test_binary_masks_of_any_depth(tmp_path: Path, high: int) -> None:
    kind = np.uint16 if high > 255 else np.uint8
    assert differs(folder(tmp_path, Image.fromarray((disc() * high).astype(kind)))) == 0


def test_masks_of_one_bit(tmp_path: Path) -> None:
    assert differs(folder(tmp_path, Image.fromarray(disc()))) == 0


def test_a_mask_in_the_transparency_alone(tmp_path: Path) -> None:
    white = np.full((*SHAPE, 3), 200, np.uint8)
    mask = Image.fromarray(np.dstack([white, disc().astype(np.uint8) * 255]))
    assert differs(folder(tmp_path, mask)) == 0
    assert "transparency" in open_folder(str(tmp_path)).recognised


def test_a_cut_out_image_is_a_mask(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*SHAPE, 3), dtype=np.uint8)
    big = np.kron(noise, np.ones((3, 3, 1), np.uint8))[: SHAPE[0], : SHAPE[1]]
    whole = noise if np.unique(noise.reshape(-1, 3), axis=0).shape[0] > 4096 else big
    mask = Image.fromarray(np.dstack([whole, disc().astype(np.uint8) * 255]))
    assert differs(folder(tmp_path, mask)) == 0


def test_colours_on_a_transparent_ground_stay_objects(tmp_path: Path) -> None:
    labels = np.zeros((*SHAPE, 4), np.uint8)
    labels[disc(20, 20, 8)] = (255, 0, 0, 255)
    labels[disc(40, 60, 8)] = (0, 255, 0, 255)
    data = open_folder(str(folder(tmp_path, Image.fromarray(labels))))
    assert len(data.load("a").targets) == 2


@pytest.mark.parametrize("colour", [(255, 255, 255), (255, 0, 0)])
def test_one_object_in_a_jpeg_is_cut_at_half(tmp_path: Path, colour: tuple[int, ...]) -> None:
    mask = np.where(disc()[..., None], colour, 0).astype(np.uint8)
    assert differs(folder(tmp_path, Image.fromarray(mask), "a.jpg", quality=60)) < 0.05


@pytest.mark.parametrize("colours", [((255, 0, 0), (0, 0, 255)), ((1, 1, 1), (2, 2, 2))])
def test_labels_in_a_jpeg_are_refused(tmp_path: Path, colours: Any) -> None:
    labels = np.zeros((*SHAPE, 3), np.uint8)
    for colour, x in zip(colours, (20, 60), strict=True):
        labels[disc(30, x, 12)] = colour
    with pytest.raises(BadInput, match="save the masks as PNG"):
        open_folder(str(folder(tmp_path, Image.fromarray(labels), "a.jpg", quality=50)))


def test_names_are_paired_however_systems_spell_them(tmp_path: Path) -> None:
    mask = Image.fromarray(disc())
    for name in ("Möwe", "IMG_1", "图片 2"):
        spelt = unicodedata.normalize("NFD", name).lower()
        saved(pattern(), tmp_path / "images" / f"{name}.jpg")
        saved(mask, tmp_path / "masks" / f"{spelt}.png")
    assert sorted(open_folder(str(tmp_path)).scenes()) == ["IMG_1", "Möwe", "图片 2"]


def test_names_that_differ_in_capitals_only_are_not_mixed_up(tmp_path: Path) -> None:
    for name, shape in (("a", disc()), ("A", disc(20, 20))):
        saved(pattern(), tmp_path / "images" / f"{name}.jpg")
        saved(Image.fromarray(shape), tmp_path / "masks" / f"{name}.png")
    data = open_folder(str(tmp_path))
    (upper,) = data.load("A").targets
    assert (upper.mask.dense() == disc(20, 20)).all()


def test_the_mask_with_the_same_spelling_is_used(tmp_path: Path) -> None:
    folder(tmp_path, Image.fromarray(disc()))
    saved(Image.fromarray(disc(20, 20)), tmp_path / "masks" / "A.png")
    assert differs(tmp_path) == 0
    assert "1 mask without an image, the first is 'A.png'" in open_folder(str(tmp_path)).recognised


def test_images_in_folders_have_masks_in_folders(tmp_path: Path) -> None:
    for part in ("dogs", "cats"):
        saved(pattern(), tmp_path / "images" / part / "1.jpg")
        saved(Image.fromarray(disc()), tmp_path / "masks" / part / "1.png")
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["cats/1", "dogs/1"]
    data.load("dogs/1").check()


def test_data_one_folder_deeper_is_named(tmp_path: Path) -> None:
    for part in ("train", "val"):
        folder(tmp_path / part, Image.fromarray(disc()))
    with pytest.raises(BadInput, match="'train' and 'val' in it can be read"):
        open_folder(str(tmp_path))


def test_other_tools_files_are_called_by_their_names(tmp_path: Path) -> None:
    saved(pattern(), tmp_path / "labelme" / "a.jpg")
    (tmp_path / "labelme" / "a.json").write_text('{"shapes": []}')
    with pytest.raises(BadInput, match="LabelMe's"):
        open_folder(str(tmp_path / "labelme"))
    saved(pattern(), tmp_path / "yolo" / "images" / "a.jpg")
    (tmp_path / "yolo" / "labels").mkdir()
    (tmp_path / "yolo" / "labels" / "a.txt").write_text("0 0.1 0.1 0.5 0.1 0.5 0.5")
    with pytest.raises(BadInput, match="YOLO's"):
        open_folder(str(tmp_path / "yolo"))


def test_a_mask_that_was_not_turned_with_its_image_is_named(tmp_path: Path) -> None:
    turned = pattern()
    exif = turned.getexif()
    exif[0x112] = 6
    saved(turned, tmp_path / "images" / "a.jpg", exif=exif)
    saved(Image.fromarray(disc()), tmp_path / "masks" / "a.png")
    with pytest.raises(BadInput, match="turn the mask as the image's EXIF turns it"):
        open_folder(str(tmp_path)).load("a").check()


def coco(root: Path, *, image: dict[str, Any] | None = None, **thing: Any) -> Path:
    """A COCO file with one image, and one object unless told otherwise."""
    saved(pattern(), root / "images" / "a.jpg")
    size = {"height": SHAPE[0], "width": SHAPE[1]}
    images = [{"id": 1, "file_name": "a.jpg", **size} if image is None else image]
    outline = [[10, 10, 40, 10, 40, 40, 10, 40]]
    first = {"id": 1, "image_id": images[0]["id"], "category_id": 1, "segmentation": outline}
    content = {"images": images, "annotations": [{**first, **thing}], "categories": []}
    (root / "annotations.json").write_text(json.dumps(content))
    return root


def test_ids_of_coco_may_be_of_any_size_or_text(tmp_path: Path) -> None:
    size = {"height": SHAPE[0], "width": SHAPE[1]}
    for number, id in enumerate((10**25, "photo-1")):
        path = coco(tmp_path / str(number), image={"id": id, "file_name": "a.jpg", **size}, id=id)
        (target,) = open_folder(str(path)).load("a").targets
        assert target.id == str(id)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ({"segmentation": None}, "its outline cannot be read: there is none"),
        ({"segmentation": [[1, 2, 3]]}, "a polygon is a list of numbers"),
        ({"image_id": 99}, "an object belongs to image 99, which is not listed"),
        ({"image": {"id": 1, "file_name": "a.jpg"}}, "a record has no 'height'"),
    ],
)
def test_errors_in_a_coco_file_are_reported_in_words(
    tmp_path: Path, thing: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as error:
        open_folder(str(coco(tmp_path, **thing))).load("a").check()
    assert said in str(error.value)
    assert "Error" not in str(error.value)


def test_two_images_of_one_id_are_refused(tmp_path: Path) -> None:
    path = coco(tmp_path) / "annotations.json"
    content = json.loads(path.read_text())
    content["images"].append({**content["images"][0], "file_name": "b.jpg"})
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match="two images have the id 1"):
        open_folder(str(tmp_path))


def test_images_in_folders_of_any_depth_are_paired(tmp_path: Path) -> None:
    mask = Image.fromarray(disc().astype(np.uint8))
    decomposed = unicodedata.normalize("NFD", "süd")
    for name in ("a", f"{decomposed}/a", "nord/1/a", "nord/1/b", "neu/c"):
        saved(pattern(), tmp_path / "images" / f"{name}.png")
    for name in ("a", "süd/a", "nord/1/a", "nord/1/b/dog_1", "alt/d"):
        saved(mask, tmp_path / "masks" / f"{name}.png")
    (tmp_path / "images" / "again").symlink_to(tmp_path / "images")
    data = open_folder(str(tmp_path))
    paired = ["a", "nord/1/a", "nord/1/b", f"{decomposed}/a"]
    assert list(data.scenes()) == paired
    assert [[t.id for t in data.load(name).targets] for name in paired] == [
        ["object"], ["object"], ["dog_1"], ["object"]
    ]  # fmt: skip
    assert "1 image without a mask left out, the first is 'neu/c'" in data.recognised
    assert "1 mask without an image, the first is 'alt/'" in data.recognised
