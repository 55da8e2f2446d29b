"""Files made to do harm, or by people with odd habits: read, or refused in a sentence."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, BadWeights
from segmeter.datasets.coco_json import CocoJson
from segmeter.datasets.folder import Found, open_folder
from segmeter.datasets.image_files import read_values
from segmeter.datasets.label_files import read_results
from segmeter.datasets.mask_files import objects_in, void_in
from segmeter.datasets.pairing import pair
from segmeter.models.fetching.transfer import unpack, unpack_one
from segmeter.report.mask_pages import ShownMap, map_page

Write = Callable[[Path, Any], Path]
SQUARE = np.zeros((12, 16), np.uint8)
SQUARE[3:9, 4:12] = 255


@pytest.fixture
def images(tmp_path: Path, write: Write, photo: Any) -> Path:
    """A folder with one image and its mask."""
    write(tmp_path / "images" / "a.png", photo)
    write(tmp_path / "masks" / "a.png", SQUARE)
    return tmp_path


def _coco(folder: Path, things: list[dict[str, Any]], **image: Any) -> Found:
    record = {"id": 1, "file_name": "a.png", "height": 12, "width": 16, **image}
    things = [{"id": 1, "image_id": 1, "category_id": 1, **thing} for thing in things]
    content = {"images": [record], "annotations": things, "categories": [{"id": 1, "name": "x"}]}
    (folder / "a_coco.json").write_text(json.dumps(content))
    return open_folder(str(folder))


def _peak(call: Callable[[], object]) -> int:
    """Bytes that Python and NumPy asked for at most."""
    tracemalloc.start()
    try:
        call()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


# Files that are none.


@pytest.mark.parametrize("kind", ["pipe", "zero", "nothing", "itself", "folder"])
def test_irregular_files_are_skipped_and_reported(images: Path, kind: str) -> None:
    odd = images / "images" / "b.png"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        ends = {"zero": Path("/dev/zero"), "nothing": images / "gone.png", "itself": odd}
        odd.symlink_to(ends[kind])
    data = open_folder(str(images))
    assert data.scenes() == ["a"]
    assert "left out, the first is 'b.png'" in data.recognised
    assert data.fingerprint()


def test_names_that_are_not_utf8_are_skipped_and_reported(images: Path) -> None:
    odd = os.fsencode(images / "images") + b"/caf\xe9.png"
    Path(os.fsdecode(odd)).write_bytes((images / "images" / "a.png").read_bytes())
    data = open_folder(str(images))
    assert data.scenes() == ["a"]
    assert r"'caf\xe9.png'" in data.recognised
    data.recognised.encode()


def test_folders_whose_names_are_not_utf8_are_named(images: Path) -> None:
    (images / os.fsdecode(b"masks/\xe9")).mkdir()
    (images / os.fsdecode(b"masks/\xe9/a.png")).touch()
    data = open_folder(str(images))
    assert r"'\xe9/'" in data.recognised
    data.recognised.encode()
    odd = images.rename(images.with_name(os.fsdecode(b"caf\xe9")))
    with pytest.raises(BadInput, match="is not UTF-8; rename it"):
        open_folder(str(odd))


def test_gifs_are_reported(images: Path) -> None:
    for name in ("b.gif", "c.GIF"):
        (images / "images" / name).write_bytes(b"GIF89a")
    assert "2 GIFs not read, the first is 'b.gif'" in open_folder(str(images)).recognised


# Sizes that are claimed.


def test_coco_sizes_are_compared_with_the_image_before_anything_is_filled(images: Path) -> None:
    whole = [0, 0, 12000, 0, 12000, 12000, 0, 12000]
    data = _coco(images, [{"segmentation": [whole]}], height=12000, width=12000)

    def read() -> None:
        with pytest.raises(BadInput, match="says the image is 12000 x 12000, but it is 16 x 12"):
            _ = data.load("a").targets

    assert _peak(read) < 1 << 22


def test_run_lengths_are_compared_with_the_image_before_they_are_unpacked(images: Path) -> None:
    claims = {"size": [16384, 16384], "counts": [0, 16384 * 16384]}
    (images / "masks.json").write_text(json.dumps({"a.png": claims}))
    data = open_folder(str(images))

    def read() -> None:
        with pytest.raises(BadInput, match="it is for an image of"):
            _ = data.load("a").targets

    assert _peak(read) < 1 << 22
    thing = {"segmentation": claims, "iscrowd": 0}
    with pytest.raises(BadInput, match="it is for an image of"):
        _ = _coco(images, [thing]).load("a").targets


def _palette(path: Path, indices: Any, bits: int = 8, **info: Any) -> Path:
    image = Image.frombytes("P", indices.shape[::-1], indices.tobytes())
    image.putpalette(list(range(256)) * 3)
    image.save(path, bits=bits, **info)
    return path


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_indices_of_a_colour_table_are_read_at_any_bit_depth(tmp_path: Path, bits: int) -> None:
    indices = (np.arange(35).reshape(5, 7) % (1 << bits)).astype(np.uint8)
    path = _palette(tmp_path / "a.png", indices, bits)
    assert path.read_bytes()[24] == bits
    assert np.array_equal(read_values(path), indices)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(
        ">I", zlib.crc32(kind + content)
    )  # fmt: skip


def test_palette_masks_of_13000_a_side_are_read(tmp_path: Path) -> None:
    side = 13_000
    head = struct.pack(">IIBBBBB", side, side, 1, 3, 0, 0, 0)
    rows = zlib.compress(b"\0" * ((side // 8 + 1) * side), 1)
    parts = [(b"IHDR", head), (b"PLTE", b"\0\0\0\xff\xff\xff"), (b"IDAT", rows), (b"IEND", b"")]
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts))
    assert read_values(path).shape == (side, side)


# Names and ids.


def test_a_coco_name_that_no_file_can_have_leaves_out_that_image_only(images: Path) -> None:
    record = {"height": 12, "width": 16}
    listed = [{"id": n, "file_name": name, **record} for n, name in
              enumerate(["a.png", "b\0.png", "c\ud800.png"])]  # fmt: skip
    things = [{"id": n, "image_id": n, "segmentation": [[1, 1, 9, 1, 9, 9]]} for n in range(3)]
    file = images / "things.json"
    file.write_text(json.dumps({"images": listed, "annotations": things, "categories": []}))
    data = CocoJson(open_folder(str(images)).card, file, images / "images")
    assert data.scenes() == ["a"]
    assert "2 of 3 images are not in" in data.card.missing
    data.card.missing.encode()


def test_objects_of_one_name_go_by_their_files_names(images: Path, write: Write) -> None:
    (images / "masks" / "a.png").unlink()
    for name in ("a_1", "a-1", "a_2"):
        write(images / "masks" / f"{name}.png", SQUARE)
    data = open_folder(str(images))
    scene = data.load("a")
    assert sorted(target.id for target in scene.targets) == ["2", "a-1", "a_1"]
    assert "2 objects of like names are named after their files" in data.recognised
    scene.check()


def test_two_objects_of_one_id_are_refused(images: Path) -> None:
    outline = {"segmentation": [[1, 1, 9, 1, 9, 9]]}
    scene = _coco(images, [outline, outline]).load("a")
    with pytest.raises(BadInput, match="two targets are called '1'"):
        scene.check()


def test_masks_are_paired_in_linear_time(tmp_path: Path) -> None:
    """Counted, not timed: each mask looks at the prefixes of its own name only."""
    for part in ("images", "masks"):
        (tmp_path / part).mkdir()
    for k in range(200):
        (tmp_path / "images" / f"p_{k}.png").touch()
        (tmp_path / "masks" / f"p_{k}_mask.png").touch()
    pairs = pair(tmp_path)
    looked: list[str] = []

    class Counting(dict[str, Path]):
        def __contains__(self, key: object) -> bool:
            looked.append(str(key))
            return super().__contains__(key)

    from segmeter.datasets import pairing

    pairs.images = Counting(pairs.images)
    for path in sorted((tmp_path / "masks").iterdir()):
        pairing._assign(pairs, path)
    assert len(looked) <= 4 * 200
    assert len(pairs.paired) == 200
    assert not pairs.unpaired


@pytest.mark.parametrize("name", ["2024", "true", "1e5", "null", "[1]", '"x"', "a&b", "NaN", "-1"])
def test_a_folder_may_have_a_name_like_json(
    images: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Spec("folder", {"path": name})
    assert Spec.parse(str(spec)) == spec
    (images / name).mkdir()
    for part in ("images", "masks"):
        (images / part).rename(images / name / part)
    monkeypatch.chdir(images)
    assert open_folder(**Spec.parse(str(spec)).options).scenes() == ["a"]


def test_a_path_that_was_read_as_a_number_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadInput, match="option 'path' is text, not 2024"):
        catalogue.datasets.make("folder?path=2024")


# Label maps.


def test_255_is_a_label_like_any_other_where_there_are_16_bits(
    tmp_path: Path, write: Write
) -> None:
    labels = np.arange(4000, dtype=np.uint16).reshape(50, 80).repeat(2, 0).repeat(2, 1)
    path = write(tmp_path / "a.png", labels)
    assert void_in([path]) is None
    assert "255" in {target.id for target in objects_in(path, "labels", None)}
    assert void_in([write(tmp_path / "b.png", np.array([[0, 1, 255]], np.uint8))]) == 255


def test_5000_objects_are_a_label_map(tmp_path: Path, write: Write) -> None:
    labels = np.arange(5000, dtype=np.uint16).reshape(50, 100).repeat(4, 0).repeat(4, 1)
    found = objects_in(write(tmp_path / "a.png", labels), "labels", None)
    assert len(found) == 4999
    assert {target.mask.area for target in found} == {16}
    noise = np.random.default_rng(0).integers(0, 60_000, (200, 300)).astype(np.uint16)
    with pytest.raises(BadInput, match="an image, not a label map"):
        objects_in(write(tmp_path / "b.png", noise), "labels", None)


def test_labels_below_zero_are_refused(tmp_path: Path) -> None:
    """Only signed TIFF can hold them; what they mean differs between tools."""
    labels = np.array([[0, 1], [-1, 2]], np.int32)
    Image.fromarray(labels).save(tmp_path / "a.tif")
    with pytest.raises(BadInput, match="holds the label -1; labels start at 0"):
        objects_in(tmp_path / "a.tif", "labels", None)


# MATLAB, archives, pages.


@pytest.mark.parametrize("name", ["labels", "ucm2", "segs"])
def test_infinity_in_a_mat_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {name: np.full((5, 7), np.inf)})
    with pytest.raises(BadInput, match=r"a\.mat"):
        read_results(path)


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, suffix: str) -> None:
    archive, bomb = tmp_path / f"a{suffix}", b"\0" * (80 << 20)
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            packed.writestr("top/w.pth", bomb)
    else:
        with tarfile.open(archive, "w:gz", compresslevel=1) as stream:
            info = tarfile.TarInfo("top/w.pth")
            info.size = len(bomb)
            stream.addfile(info, io.BytesIO(bomb))
    out = tmp_path / "out"
    out.mkdir()
    for take in (
        lambda: unpack(archive, out, (".pth",)),
        lambda: unpack_one(archive, "w.pth", out / "w.pth"),
    ):
        with pytest.raises(BadWeights, match="16 times its size"):
            take()
    assert not list(out.iterdir())


def test_a_title_that_reads_like_a_mark_stays_a_title() -> None:
    image = cv2.imencode(".png", SQUARE)[1].tobytes()
    shown = ShownMap(image, (12, 16), {"IoU": np.zeros((12, 16))}, (0, 0), 1, (3, 3))
    page = map_page('{{ data }}"><script>{{ title }}', shown, [("{{ names }}", "{% if %}")])
    assert "<title>{{ data }}&#34;&gt;&lt;script&gt;{{ title }} · segmeter</title>" in page
    assert page.count('"shape"') == 1
    assert "<dt>{{ names }}</dt><dd>{% if %}</dd>" in page
