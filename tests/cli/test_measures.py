"""`segmeter measures compute`, `measures meta` and `run seism` as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.io import savemat

from segmeter.api.meta import meta_measures
from segmeter.core.masks import Mask
from segmeter.measures.boundaries import boundary_counts
from segmeter.measures.hierarchies import partition_at
from segmeter.measures.partitions import scores
from segmeter.models.partitioners import quadtree_levels

from .conftest import Done
from .conftest import type_here as segmeter

IDS = (
    "dhd",
    "sdhd",
    "vd",
    "sc",
    "ssc",
    "bgm",
    "bce",
    "gce",
    "lce",
    "voi",
    "nvoi",
    "pri",
    "fr",
    "fop",
)


def sentence(done: Done) -> str:
    """What was said on bad input: one line, no trace, nothing printed."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    said = done.stderr.strip()
    assert "\n" not in said
    return said


def test_measure_prints_every_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    maps = [rng.integers(0, 4, (12, 15)) for _ in range(3)]
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, labels in zip(paths, maps, strict=True):
        np.save(path, labels)
    done = segmeter("measures", "compute", *paths, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = scores(maps[1:], maps[0])
    for name in IDS:
        assert found[name] == pytest.approx(wanted[name], abs=1e-12), name
    counts = boundary_counts(maps[1:], maps[0])
    assert [found[key] for key in ("fb", "cntR", "sumR", "cntP", "sumP")] == [
        counts.f,
        counts.matched_ground_truth, counts.ground_truth,
        counts.matched_prediction, counts.prediction,
    ]  # fmt: skip
    assert {"pb", "rb", "fb-contour", "cntP-contour"} <= set(found)
    table = segmeter("measures", "compute", *paths, "--no-boundaries").stdout
    assert "against 2 ground truths" in table
    assert max(map(len, table.splitlines())) <= 80


def test_every_kind_of_file_gives_the_same_values(tmp_path: Path) -> None:
    """One partition as an image, an array, BSDS500's layout and run lengths."""
    rng = np.random.default_rng(2)
    prediction, ground_truth = rng.integers(0, 3, (2, 9, 7))
    cv2.imwrite(str(tmp_path / "a.png"), prediction.astype(np.uint8))
    np.save(tmp_path / "a.npy", prediction.astype(np.uint16))
    savemat(tmp_path / "a.mat", {"groundTruth": [[{"Segmentation": prediction.astype(np.uint16)}]]})
    written(tmp_path / "a.json", [Mask.of(prediction == 1), Mask.of(prediction == 2)])
    np.save(tmp_path / "ground_truth.npy", ground_truth)
    wanted = scores(ground_truth, prediction)
    for kind in ("png", "npy", "mat", "json"):
        done = segmeter(
            "measures",
            "compute",
            tmp_path / f"a.{kind}",
            tmp_path / "ground_truth.npy",
            "--json",
            "--no-boundaries",
        )
        found = json.loads(done.stdout)
        assert found == pytest.approx(wanted, abs=1e-12), kind


def test_undefined_values_are_null(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.zeros((2, 3), int))
    found = json.loads(
        segmeter("measures", "compute", tmp_path / "a.npy", tmp_path / "b.npy", "--json").stdout
    )
    assert found["pr"] is None
    assert found["fr"] == 0


def test_a_contour_map_is_cut_at_the_given_threshold(tmp_path: Path) -> None:
    levels = quadtree_levels(40, 40) / 2000
    savemat(tmp_path / "a.mat", {"ucm2": levels})
    np.save(tmp_path / "b.npy", partition_at(levels.astype(np.float32), 0.9))
    done = segmeter(
        "measures", "compute", tmp_path / "a.mat", tmp_path / "b.npy", "--threshold", 0.9, "--json"
    )
    assert json.loads(done.stdout)["ssc"] == 1
    assert "--threshold" in sentence(
        segmeter("measures", "compute", tmp_path / "a.mat", tmp_path / "b.npy")
    )


def test_a_strength_equal_to_the_threshold_is_joined(tmp_path: Path) -> None:
    """Double precision stays double: in single precision 0.2 would be above 0.2."""
    levels = np.zeros((3, 7))
    levels[1, 2], levels[1, 4] = 0.2, 0.21
    savemat(tmp_path / "a.mat", {"ucm2": levels})
    np.save(tmp_path / "b.npy", np.array([[0, 0, 1]]))
    files = "measures", "compute", tmp_path / "a.mat", tmp_path / "b.npy", "--threshold", 0.2
    assert json.loads(segmeter(*files, "--json").stdout)["ssc"] == 1


def test_wrong_files_are_named_in_one_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.zeros((2, 3), int))
    np.save(tmp_path / "wide.npy", np.zeros((3, 2), int))
    np.save(tmp_path / "float.npy", np.zeros((2, 3)))
    savemat(tmp_path / "other.mat", {"points": np.zeros((2, 3))})
    good = tmp_path / "good.npy"
    assert "3 x 2 but" in sentence(segmeter("measures", "compute", good, tmp_path / "wide.npy"))
    assert "whole numbers" in sentence(
        segmeter("measures", "compute", tmp_path / "float.npy", good)
    )
    assert "no file" in sentence(
        segmeter("measures", "compute", good, good, tmp_path / "absent.png")
    )
    assert "holds none of groundTruth" in sentence(
        segmeter("measures", "compute", good, tmp_path / "other.mat")
    )


def test_a_label_map_of_two_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    """A header that claims it, and a file that has the size (but no disk behind it)."""
    huge = np.lib.format.open_memmap(tmp_path / "huge.npy", "w+", np.uint8, (46341, 46341))
    del huge
    assert (tmp_path / "huge.npy").stat().st_size > 2 << 30
    np.save(tmp_path / "good.npy", np.zeros((2, 3), int))
    said = sentence(segmeter("measures", "compute", tmp_path / "huge.npy", tmp_path / "good.npy"))
    assert "2147488281" in said
    assert "at most 178956970 are read" in said


def test_an_object_is_measured_with_void_left_out(tmp_path: Path) -> None:
    ground_truth = np.zeros((20, 30), np.uint8)
    ground_truth[5:15, 5:15], ground_truth[5:15, 15:20] = 1, 9
    prediction = np.zeros((20, 30), np.uint8)
    prediction[5:15, 5:25] = 255
    np.save(tmp_path / "ground_truth.npy", ground_truth)
    np.save(tmp_path / "prediction.npy", prediction)
    files = (
        "measures",
        "compute",
        "--as",
        "object",
        tmp_path / "prediction.npy",
        tmp_path / "ground_truth.npy",
    )
    found = json.loads(segmeter(*files, "--void", 9, "--json").stdout)
    assert list(found) == [
        "iou", "dice", "precision", "recall", "boundary-iou", "fb-object", "fb-morphological",
    ]  # fmt: skip
    assert found["iou"] == pytest.approx(100 / 150)
    assert found["precision"] == pytest.approx(100 / 150)
    assert found["recall"] == 1
    whole = json.loads(segmeter(*files, "--no-boundaries", "--json").stdout)
    assert whole["iou"] == pytest.approx(150 / 200)
    assert "one ground truth" in sentence(segmeter(*files, tmp_path / "ground_truth.npy"))
    assert "did you mean 'object'?" in sentence(
        segmeter("measures", "compute", "--as", "objet", *files[3:])
    )


def test_a_void_label_that_removes_the_object_is_reported(tmp_path: Path) -> None:
    """A mask of 0 and 255, and PASCAL's void of 255."""
    np.save(tmp_path / "mask.npy", np.array([[0, 255, 255]]))
    files = "measures", "compute", "--as", "object", tmp_path / "mask.npy", tmp_path / "mask.npy"
    done = segmeter(*files, "--void", 255, "--no-boundaries", "--json")
    assert done.returncode == 0
    assert "has no label but 255" in done.stderr
    assert segmeter(*files, "--no-boundaries", "--json").stderr == ""


def written(path: Path, masks: list[Mask], classes: str = "") -> None:
    """Run lengths in a file, with a class a mask where classes are given."""
    entries = [
        {"segmentation": mask.to_coco(), "category": name} if classes else mask.to_coco()
        for mask, name in zip(masks, classes or [""] * len(masks), strict=True)
    ]
    path.write_text(json.dumps(entries))


def test_proposals_are_judged_image_by_image(tmp_path: Path) -> None:
    for folder in ("offered", "drawn"):
        (tmp_path / folder).mkdir()
    square, half = Mask.box((40, 40), (0, 0), (20, 20)), Mask.box((40, 40), (0, 0), (20, 10))
    written(tmp_path / "drawn" / "a.json", [square, half], "AB")
    written(tmp_path / "offered" / "a.json", [half])
    written(tmp_path / "drawn" / "b.json", [square], "A")
    written(tmp_path / "offered" / "b.json", [half, square])
    files = "measures", "compute", "--as", "proposals", tmp_path / "offered", tmp_path / "drawn"
    figure = tmp_path / "curves.svg"
    done = segmeter(*files, "--json", "--figure", figure)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["objects"] == 3
    assert found["mean_number"][0] == 1.5
    assert found["iou"]["instance"][0] == pytest.approx((0.5 + 1 + 1) / 3)
    assert found["iou"]["recall"]["0.5"][0] == pytest.approx(2 / 3)
    assert found["iou"]["by_class"]["A"][0] == pytest.approx((200 + 400) / 800)
    assert found["fb-morphological"]["median"][-1] == 1
    assert figure.stat().st_size > 1000
    table = segmeter(*files).stdout
    assert "3 objects" in table
    assert max(map(len, table.splitlines())) <= 80


def test_a_missing_file_of_two_folders_is_named(tmp_path: Path) -> None:
    offered, drawn = tmp_path / "offered", tmp_path / "drawn"
    files = "measures", "compute", "--as", "proposals", offered, drawn
    assert f"no file or folder '{offered}'" in sentence(segmeter(*files))
    offered.mkdir()
    drawn.mkdir()
    assert f"no mask directly in '{drawn}'" in sentence(segmeter(*files))
    square = Mask.box((4, 4), (0, 0), (2, 2))
    written(offered / "a.json", [square])
    written(drawn / "a.json", [square])
    written(offered / "b.json", [square])
    assert "no ground truth for" in sentence(segmeter(*files))
    written(drawn / "b.json", [square])
    written(drawn / "c.json", [square])
    assert "c.json" in sentence(segmeter(*files))


def test_meta_prints_a_row_a_measure_and_protocol(real_data: Path, tmp_path: Path) -> None:
    done = segmeter(
        "measures", "meta", "--data", real_data, "--limit", 3, "--measure", "ssc",
        "--measure", "fop",
        "--figure", tmp_path / "spread.svg", "--report", tmp_path / "page.html", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    returned = meta_measures("bsds500", ["ssc", "fop"], data=real_data, limit=3).facts()
    assert json.loads(done.stdout) == json.loads(json.dumps(returned))
    rows = json.loads(done.stdout)["rows"]
    assert [(row["measure"], row["protocol"]) for row in rows] == [
        ("ssc", "published"), ("ssc", "corrected"), ("fop", "published"), ("fop", "corrected"),
    ]  # fmt: skip
    assert all(0 <= row["sihd"]["value"] <= 1 and row["sabd"] is None for row in rows)
    assert (tmp_path / "spread.svg").is_file()
    assert "objects and parts" in (tmp_path / "page.html").read_text()


def test_meta_reports_unknown_values(real_data: Path) -> None:
    said = sentence(segmeter("measures", "meta", "--data", real_data, "--measure", "fopp"))
    assert "did you mean 'fop'?" in said
    assert "has no human partitions" in sentence(segmeter("measures", "meta", "--dataset", "drawn"))
    assert ".svg" in sentence(
        segmeter("measures", "meta", "--data", real_data, "--figure", "a.doc")
    )
    assert ".html" in sentence(
        segmeter("measures", "meta", "--data", real_data, "--report", "no/a.html")
    )


def test_one_command_runs_a_method_and_one_writes_its_report(
    real_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = segmeter(
        "run", "seism", "--method", "quadtree", "--dataset", "bsds500", "--data", real_data,
        "--limit", 2, "--workers", 0, "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fop-ods" in done.stdout
    assert segmeter("report", out).returncode == 0
    page = next(out.glob("*.html")).read_text()
    assert "people" in page
    assert "F_op" in page


def test_an_empty_folder_of_results_is_refused_before_anything_is_written(
    real_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    done = segmeter(
        "run", "seism", "--method", tmp_path / "mine", "--dataset", "bsds500", "--data", real_data,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 2
    # What the dataset lacks may be said before.
    assert "holds no results" in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()
