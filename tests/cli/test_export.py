"""Masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.coco_json import CocoJson
from segmeter.engine import run_plan
from segmeter.export.formats import brush_rle
from segmeter.store import Run

nibabel = pytest.importorskip("nibabel")


def played(tmp_path: Path, dataset: Spec) -> Path:
    plan = Plan(
        "noc", (Spec("synthetic-oracle"),), (dataset,), rounds=2, measures=("iou",), limit=1
    )
    run_plan(plan, tmp_path / "run", workers=0)
    return tmp_path / "run"


def test_masks_of_volumes_are_on_their_files_grid(
    typed: Any, tmp_path: Path, real_data: Path
) -> None:
    """A volume stored P-S-R: the oracle's mask is the label map, voxel by voxel."""
    source = real_data / "medical" / "SCT_spinal_cord"
    (tmp_path / "data").mkdir()
    for name in ("t2.nii.gz", "t2_seg-manual.nii.gz"):
        (tmp_path / "data" / name).symlink_to(source / name)
    run = played(tmp_path, Spec("folder", {"path": str(tmp_path / "data")}))
    code, out, _ = typed("export", run, "--out", tmp_path / "masks", "--json")
    assert code == 0
    files = json.loads(out)["masks"]
    label = nibabel.load(source / "t2_seg-manual.nii.gz")
    image = nibabel.load(source / "t2.nii.gz")
    assert files
    for file in files:
        found = nibabel.load(file["file"])
        assert nibabel.aff2axcodes(found.affine) == ("P", "S", "R")
        assert np.allclose(found.affine, image.affine)
        assert np.array_equal(np.asarray(found.dataobj), np.asarray(label.dataobj))
        assert file["voxels"] == np.count_nonzero(label.dataobj)


def test_masks_of_what_ships_inside(typed: Any, tmp_path: Path) -> None:
    run = played(tmp_path, Spec("mini-volumes"))
    code, out, _ = typed("export", run, "--out", tmp_path / "masks")
    assert code == 0
    written = sorted((tmp_path / "masks").rglob("*.nii.gz"))
    assert f"{len(written)} masks written" in out
    scene = catalogue.datasets.make("mini-volumes").load("hippocampus_001")
    for path in written:
        assert path.parent.name in ("anterior hippocampus", "posterior hippocampus")
        (target,) = (t for t in scene.targets if t.id == path.parent.name)
        found = np.asarray(nibabel.load(path).dataobj)
        assert np.array_equal(found, target.mask.dense().transpose(2, 1, 0))


def test_masks_of_images_are_png(typed: Any, tmp_path: Path) -> None:
    from PIL import Image

    run = played(tmp_path, Spec("drawn"))
    code, _, _ = typed("export", run, "--out", tmp_path / "masks", "--all-rounds")
    assert code == 0
    written = sorted((tmp_path / "masks").rglob("*.png"))
    assert written
    assert all(path.parent.name.startswith("round_") for path in written)
    assert set(np.unique(np.asarray(Image.open(written[0])))) <= {0, 255}


def test_without_the_data_the_error_names_what_is_missing(typed: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    code, _, err = typed("export", tmp_path / "data", "--out", tmp_path / "masks")
    assert code == 2
    assert "segmeter:" in err


def mixed(tmp_path: Path) -> Path:
    """Two users and a model whose best round is not its last."""
    plan = Plan(
        "noc",
        (Spec("synthetic-noisy"),),
        (Spec("drawn"),),
        rounds=4,
        limit=3,
        protocols=("corrected",),
    )
    run_plan(plan, tmp_path / "run", workers=0)
    return tmp_path / "run"


def test_masks_of_two_protocols_are_distinguished(typed: Any, tmp_path: Path) -> None:
    for protocols in (("corrected",), ("published", "corrected")):
        plan = Plan(
            "noc", (Spec("disc"),), (Spec("drawn"),), protocols=protocols, rounds=1, limit=1
        )
        run = tmp_path / str(len(protocols))
        run_plan(plan, run, workers=0)
        code, out, _ = typed("export", run, "--format", "coco", "--out", tmp_path / "out")
        assert code == 0
        assert ("use those of published or of corrected" in out) == (len(protocols) == 2)


@pytest.mark.parametrize("which", ["last", "best", "2"])
def test_a_coco_list_is_read_back_by_pycocotools_and_by_us(
    typed: Any, tmp_path: Path, which: str
) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    run = mixed(tmp_path)
    code, out, err = typed("export", run, "--round", which, "--format", "coco", "--out",
                           tmp_path / "out")  # fmt: skip
    assert code == 0, err
    (file,) = (tmp_path / "out" / "drawn").glob("*.json")
    assert str(file) in out
    order = {"best": "iou desc, round", "last": "round desc", "2": "(round <= 2) desc, round desc"}
    wanted = Run.open(run).sql(f"""
        select scene, target, mask, shape, label from rows qualify row_number() over
        (partition by scene, target order by {order[which]}) = 1 order by scene, target
    """).to_pylist()  # fmt: skip
    theirs, ours = coco.COCO(str(file)), CocoJson(
        DatasetCard("back", "", "", ""), file, file.parent / "images")  # fmt: skip
    assert len(theirs.anns) == len(wanted)
    images = {image["file_name"]: image["id"] for image in theirs.dataset["images"]}
    for row in wanted:
        mask = Mask.decoded(row["mask"], row["shape"])
        (held,) = (a for a in theirs.imgToAnns[images[f"{row['scene']}.png"]]
                   if a["target"] == row["target"])  # fmt: skip
        assert np.array_equal(theirs.annToMask(held).astype(bool), mask.dense())
        assert held["area"] == mask.area
        scene = ours.load(row["scene"])
        assert mask in [t.mask for t in scene.targets]
        original = catalogue.datasets.make("drawn").load(row["scene"])
        assert np.array_equal(scene.pixels, original.pixels)


def unpacked(rle: list[int]) -> np.ndarray:
    """The reader's side of Label Studio's brush, by its description."""
    bits = "".join(f"{byte:08b}" for byte in rle)
    at = 0

    def read(count: int) -> int:
        nonlocal at
        at += count
        return int(bits[at - count : at], 2)

    total, word = read(32), read(5) + 1
    sizes = [read(4) + 1 for _ in range(4)]
    out: list[int] = []
    while len(out) < total:
        same = read(1)
        length = read(sizes[read(2)]) + 1
        out += [read(word)] * length if same else [read(word) for _ in range(length)]
    return np.array(out, np.uint8)


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (300, 211)])
def test_a_brush_holds_the_mask_in_four_channels(shape: tuple[int, int]) -> None:
    for bits in (np.zeros(shape, bool), np.ones(shape, bool),
                 np.random.default_rng(1).random(shape) < 0.1):  # fmt: skip
        found = unpacked(brush_rle(bits)).reshape(*shape, 4)
        assert np.array_equal(found, np.repeat(bits[..., None] * np.uint8(255), 4, axis=2))


def test_lists_for_label_studio_and_fiftyone(typed: Any, tmp_path: Path) -> None:
    run = mixed(tmp_path)
    for kind in ("labelstudio", "fiftyone"):
        assert typed("export", run, "--format", kind, "--out", tmp_path / kind)[0] == 0
    (file,) = (tmp_path / "labelstudio" / "drawn").glob("*.json")
    tasks = json.loads(file.read_text())
    result = [r for t in tasks for p in t["predictions"] for r in p["result"]]
    assert {r["value"]["format"] for r in result} == {"rle"}
    for task in tasks:
        assert (file.parent / task["data"]["image"].partition("?d=")[2]).is_file()
    for each in result:
        size = each["original_height"], each["original_width"], 4
        assert unpacked(each["value"]["rle"]).reshape(size).any()
    (labels,) = (tmp_path / "fiftyone" / "drawn").glob("*.json")
    names = {image["file_name"] for image in json.loads(labels.read_text())["images"]}
    assert names == {p.name for p in (labels.parent / "data").iterdir()}


def test_unwritable_files_are_reported(typed: Any, tmp_path: Path) -> None:
    run = mixed(tmp_path)
    for words, said in (
        (("--format", "nifti"), "images are written as png"),
        (("--format", "jpeg"), "jpeg"),
        (("--round", "0"), "--round is last, best, all or a number"),
        (("--round", "99"), "--round 99: sessions of this run have"),
        (("--format", "coco", "--all-rounds"), "one mask per object"),
    ):
        code, _, err = typed("export", run, "--out", tmp_path / "out", *words)
        assert code == 2
        assert said in err, err


NAMES = ["a b", "a_b", "a+b", "a,b", "A B", "Müller & Söhne 12"]


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """A run on images whose names a file system, or a careless export, may take for one."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for k, name in enumerate(NAMES):
        mask = np.zeros((20 + k, 30), np.uint8)
        mask[4:12, 5 : 15 + k] = 255
        for part, ending, values in (
            ("images", "jpg", rng.integers(0, 255, (20 + k, 30, 3)).astype(np.uint8)),
            ("masks", "png", mask),
        ):
            (tmp_path / "data" / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(values).save(tmp_path / "data" / part / f"{name}.{ending}")
    own = Spec("folder", {"path": str(tmp_path / "data")})
    plan = Plan("noc", (Spec("synthetic-oracle"),), (own,), rounds=1, protocols=("corrected",))
    run_plan(plan, tmp_path / "run", workers=0)
    return tmp_path / "run"


@pytest.mark.parametrize("kind", ["png", "coco", "fiftyone", "labelstudio"])
def test_every_scene_has_a_separate_file_and_its_original_name(
    typed: Any, alike: Path, tmp_path: Path, kind: str
) -> None:
    from PIL import Image

    code, out, err = typed("export", alike, "--format", kind, "--out", tmp_path / "out", "--json")
    assert code == 0, err
    written = json.loads(out)["masks"]
    assert sorted(mask["scene"] for mask in written) == sorted(NAMES)
    assert {mask["image"] for mask in written} == {f"{name}.jpg" for name in NAMES}
    pixels = list((tmp_path / "out").rglob("*.png"))
    assert len({p.name.casefold() for p in pixels}) == len(NAMES)
    assert "Müller & Söhne 12.png" in {p.name for p in pixels}
    heights = {Image.open(path).height for path in pixels}
    assert heights == {20 + k for k in range(len(NAMES))}
    if kind in ("coco", "fiftyone"):
        (file,) = (tmp_path / "out").rglob("*.json")
        images = json.loads(file.read_text())["images"]
        assert {i["original_file_name"] for i in images} == {f"{name}.jpg" for name in NAMES}
        for image in images:
            held = next((tmp_path / "out").rglob(image["file_name"]))
            assert Image.open(held).height == image["height"]


def test_without_images_a_list_names_the_original_files(
    typed: Any, alike: Path, tmp_path: Path
) -> None:
    words = ("export", alike, "--format", "coco", "--out", tmp_path / "out", "--no-images")
    code, _, err = typed(*words)
    assert code == 0, err
    (file,) = (tmp_path / "out").rglob("*.json")
    images = json.loads(file.read_text())["images"]
    assert sorted(image["file_name"] for image in images) == sorted(f"{n}.jpg" for n in NAMES)
    assert not list((tmp_path / "out").rglob("*.png"))


def coco_folder(place: Path) -> dict[str, Any]:
    """Two JPEG images with person = 1 and handbag = 27, ids far from 1, and a crowd."""
    from PIL import Image

    (place / "images").mkdir(parents=True)
    (place / "annotations").mkdir()
    images, annotations = [], []
    for k, name in enumerate(("000000184324", "000000532481")):
        pixels = np.random.default_rng(k).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / "images" / f"{name}.jpg")
        images.append({"id": int(name), "file_name": f"{name}.jpg", "height": 40, "width": 50,
                       "license": 3})  # fmt: skip
        boxes = ((27, (5, 5), (25, 20), 0), (1, (10, 25), (30, 45), 0), (1, (0, 0), (9, 9), 1))
        for j, (category, low, high, crowd) in enumerate(boxes):
            mask = Mask.box((40, 50), low, high)
            annotations.append({"id": 1180455 + 10 * k + j, "image_id": int(name),
                "category_id": category, "segmentation": mask.to_coco(), "area": mask.area,
                "bbox": [low[1], low[0], high[1] - low[1], high[0] - low[0]],
                "iscrowd": crowd})  # fmt: skip
    categories = [{"id": 1, "name": "person", "supercategory": "person"},
                  {"id": 27, "name": "handbag", "supercategory": "accessory"}]  # fmt: skip
    made = {"images": images, "annotations": annotations, "categories": categories}
    (place / "annotations" / "instances_default.json").write_text(json.dumps(made))
    return made


@pytest.mark.parametrize("images", [True, False])
def test_a_coco_list_of_coco_data_keeps_its_ids_names_and_categories(
    typed: Any, tmp_path: Path, images: bool
) -> None:
    """So that it can be uploaded to where the data came from, and merged by id."""
    source = coco_folder(tmp_path / "data")
    own = Spec("folder", {"path": str(tmp_path / "data")})
    plan = Plan("noc", (Spec("synthetic-oracle"),), (own,), rounds=1, protocols=("corrected",))
    run_plan(plan, tmp_path / "run", workers=0)
    words = ("--format", "coco", *(() if images else ("--no-images",)))
    code, _, err = typed("export", tmp_path / "run", *words, "--out", tmp_path / "out")
    assert code == 0, err
    (file,) = (tmp_path / "out").rglob("*.json")
    made = json.loads(file.read_text())
    assert made["categories"] == source["categories"]
    for theirs, ours in zip(source["images"], made["images"], strict=True):
        assert {name: ours[name] for name in theirs} == theirs
    separate = [a for a in source["annotations"] if not a["iscrowd"]]
    for theirs, ours in zip(separate, sorted(made["annotations"], key=lambda a: a["id"]),
                            strict=True):  # fmt: skip
        assert {name: ours[name] for name in theirs} == theirs  # the oracle's masks are exact
    copies = {p.name: p.read_bytes() for p in (tmp_path / "out").rglob("*.jpg")}
    originals = {p.name: p.read_bytes() for p in (tmp_path / "data").rglob("*.jpg")}
    assert copies == (originals if images else {})


def test_an_exported_coco_list_is_scored_by_file_name_and_class(typed: Any, tmp_path: Path) -> None:
    """Annotation files with other ids are matched by the names of images and classes."""
    source = coco_folder(tmp_path / "data")
    truth = tmp_path / "data" / "annotations" / "instances_default.json"
    renumbered = {
        "images": [i | {"id": k} for k, i in enumerate(reversed(source["images"]))],
        "categories": [{"id": 1, "name": "handbag"}, {"id": 2, "name": "person"}],
        "annotations": [
            a | {"image_id": 1 - k // 3, "category_id": 2 if a["category_id"] == 1 else 1}
            for k, a in enumerate(source["annotations"])
        ],
    }
    other = tmp_path / "other.json"
    other.write_text(json.dumps(renumbered))
    for file in (truth, other):
        code, out, err = typed("score", file, truth, "--measure", "iou", "--out",
                               tmp_path / file.stem, "--json")  # fmt: skip
        assert code == 0, err
        rows = json.loads(out)["rows"]
        assert [r["value"] for r in rows if r["statistic"] == "iou"] == [100.0]


def test_models_with_equal_short_names_have_separate_lists(
    typed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    models = []
    for name in ("a_net.py", "a/net.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def predict(image, clicks):\n    return image[..., 0] > 9\n")
        models.append(Spec(f"{name}:predict"))
    plan = Plan("noc", tuple(models), (Spec("drawn"),), rounds=1, protocols=("corrected",), limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    code, _, err = typed("export", "run", "--format", "coco", "--out", "out")
    assert code == 0, err
    lists = [json.loads(file.read_text()) for file in (tmp_path / "out").rglob("*.json")]
    assert len(lists) == 2
    assert len({len(one["annotations"]) for one in lists}) == 1


@pytest.mark.parametrize("kind", ["coco", "cvat"])
def test_an_export_into_the_folder_of_the_data_leaves_its_images_alone(
    typed: Any, tmp_path: Path, kind: str
) -> None:
    from PIL import Image

    for part in ("images", "masks"):
        (tmp_path / "data/set" / part).mkdir(parents=True)
    deep = np.arange(600, dtype=np.uint16).reshape(20, 30) * 100  # 16 bits; exports have 8
    Image.fromarray(deep).save(tmp_path / "data/set/images/a.png")
    Image.fromarray((deep > 30000).astype(np.uint8) * 255).save(tmp_path / "data/set/masks/a.png")
    own = Spec("folder", {"path": str(tmp_path / "data/set")})
    plan = Plan("noc", (Spec("synthetic-oracle"),), (own,), rounds=1, protocols=("corrected",))
    run_plan(plan, tmp_path / "run", workers=0)
    original = (tmp_path / "data/set/images/a.png").read_bytes()
    words = ("export", tmp_path / "run", "--format", kind, "--out")
    code, _, err = typed(*words, tmp_path / "data")
    assert (code, "images/a.png' is there already and differs" in err) == (2, True), err
    assert (tmp_path / "data/set/images/a.png").read_bytes() == original
    assert [typed(*words, tmp_path / "out")[0] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("annotated", ["masks", "annotations.json"])
def test_lists_part_images_of_one_name_by_their_folders_and_xml_can_be_read(
    typed: Any, tmp_path: Path, annotated: str
) -> None:
    from xml.etree import ElementTree

    from PIL import Image

    names = ["left/1.png", "right/1.png", "left/x\x01y.png"]
    for name in names:
        for part in ("images", "masks")[: 1 + (annotated == "masks")]:
            file = tmp_path / "data" / part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(255 * np.eye(9, dtype=np.uint8)).save(file)
    if annotated != "masks":
        images = [{"id": k, "file_name": n, "height": 9, "width": 9} for k, n in enumerate(names)]
        drawn = {"category_id": 1, "segmentation": [[1, 1, 6, 1, 6, 6, 1, 6]]}
        listed = [{"id": k, "image_id": k, **drawn} for k in range(len(names))]
        held = {"images": images, "annotations": listed, "categories": [{"id": 1, "name": "o"}]}
        (tmp_path / "data" / annotated).write_text(json.dumps(held))
    own = Spec("folder", {"path": str(tmp_path / "data")})
    plan = Plan("noc", (Spec("disc"),), (own,), rounds=1, protocols=("corrected",))
    run_plan(plan, tmp_path / "run", workers=0)
    for kind in ("coco", "cvat"):
        words = ("--format", kind, "--out", tmp_path / "out", "--no-images")
        assert typed("export", tmp_path / "run", *words)[0] == 0
    (coco,), (cvat,) = ((tmp_path / "out").rglob(f"*.{kind}") for kind in ("json", "xml"))
    found = [image["file_name"] for image in json.loads(coco.read_text())["images"]]
    assert sorted(found) == sorted(names)
    read = [image.get("name") for image in ElementTree.parse(cvat).getroot().iter("image")]
    assert sorted(map(str, read)) == sorted(name.replace("\x01", "_") for name in names)
