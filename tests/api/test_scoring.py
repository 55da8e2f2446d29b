"""Scores of folders of masks equal those of other programs; methods are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import SegmeterError

from .conftest import Typed

cv2 = pytest.importorskip("cv2")
SPACING = (3.0, 1.0, 0.8)


def blobs(seed: int, shape: tuple[int, ...], count: int = 3) -> Any:
    draws, labels = np.random.default_rng(seed), np.zeros(shape, np.uint8)
    grid = np.ogrid[tuple(slice(n) for n in shape)]
    for label in range(1, count + 1):
        centre = [draws.uniform(0.25, 0.75) * n for n in shape]
        radii = [draws.uniform(0.12, 0.22) * n for n in shape]
        away = sum(((g - c) / r) ** 2 for g, c, r in zip(grid, centre, radii, strict=True))
        labels[(away <= 1) & (labels == 0)] = label
    return labels


def corrupted(labels: Any, by: int) -> Any:
    """A prediction made from the ground truth: moved, and one object lost."""
    moved = np.roll(labels, by, axis=-1)
    moved[moved == 3] = 0
    return moved


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import nibabel

    place = tmp_path_factory.mktemp("volumes")
    affine = np.diag((*SPACING[::-1], 1.0))
    for seed in range(6):
        labels = blobs(seed, (16, 30, 34))
        for name, array in (("truth", labels), ("near", corrupted(labels, 1)),
                            ("far", corrupted(labels, 4))):  # fmt: skip
            (place / name).mkdir(exist_ok=True)
            file = nibabel.Nifti1Image(np.transpose(array), affine)
            nibabel.save(file, place / name / f"case_{seed}.nii.gz")
    return place


@pytest.mark.parametrize(("scans", "limits"), [(4, False), (5, True)])
def test_volumes_have_intervals_from_five_on(
    volumes: Path, tmp_path: Path, scans: int, limits: bool
) -> None:
    """As in the benchmark of volumes."""
    (tmp_path / "truth").mkdir()
    for file in sorted((volumes / "truth").iterdir())[:scans]:
        (tmp_path / "truth" / file.name).symlink_to(file)
    run = segmeter.score(
        volumes / "near", tmp_path / "truth", out=tmp_path / "run", measures=["dice", "hd95"]
    )
    rows = run.summary()
    assert {row.statistic for row in rows} >= {"dice", "hd95", "pq"}
    assert {row.low == row.low for row in rows} == {limits}


def test_dice_nsd_and_hd95_of_volumes_equal_deepminds_and_monais(
    volumes: Path, tmp_path: Path
) -> None:
    surface = pytest.importorskip("surface_distance")
    run = segmeter.score(volumes / "near", volumes / "truth", out=tmp_path / "run")
    rows = run.sql("select * from rows order by scene, target").to_pylist()
    assert len(rows) == 18
    for row in rows:
        labels = blobs(int(row["scene"][-1]), (16, 30, 34))
        truth = labels == int(row["target"])
        found = corrupted(labels, 1) == int(row["target"])
        dice = 2 * (truth & found).sum() / (truth.sum() + found.sum())
        assert row["dice"] == pytest.approx(dice)
        if not found.any():
            continue
        distances = surface.compute_surface_distances(truth, found, SPACING)
        nsd = surface.compute_surface_dice_at_tolerance(distances, 2.0)
        assert row["nsd"] == pytest.approx(nsd)
        assert row["hd95"] == pytest.approx(surface.compute_robust_hausdorff(distances, 95))


def test_hd95_in_monais_convention_equals_monai(volumes: Path, tmp_path: Path) -> None:
    metrics = pytest.importorskip("monai.metrics")
    torch = pytest.importorskip("torch")
    run = segmeter.score(
        volumes / "near", volumes / "truth", measures=["hd95"], out=tmp_path / "run",
        options={"convention": "monai"},
    )  # fmt: skip
    for row in run.sql("select * from rows where target <> '3' order by all").to_pylist():
        labels = blobs(int(row["scene"][-1]), (16, 30, 34))
        pair = [
            torch.from_numpy((one == int(row["target"])).astype(np.float32))[None, None]
            for one in (corrupted(labels, 1), labels)
        ]
        theirs = metrics.compute_hausdorff_distance(
            *pair, include_background=True, percentile=95, spacing=SPACING
        )
        assert row["hd95"] == pytest.approx(float(theirs), rel=1e-5)


def test_methods_are_compared_reported_and_broken_down(volumes: Path, tmp_path: Path) -> None:
    run = segmeter.score(
        [volumes / "near", volumes / "far"], volumes / "truth", out=tmp_path / "run"
    )
    found = {(row.model, row.statistic): row for row in run.summary()}
    assert found["near", "dice"].low < found["near", "dice"].value < found["near", "dice"].high
    (dice,) = [d for d in run.compare() if d.statistic == "dice"]
    assert (dice.first, dice.second) == ("near", "far")
    assert dice.value > 0
    assert "near" in run.report(tmp_path / "page.html").read_text()
    assert [d.difference for d in run.compare(by="organ")] == [
        d.difference for d in run.compare(by="class")
    ]


def test_pq_and_matching_of_instances_equal_an_independent_count(tmp_path: Path) -> None:
    from skimage.metrics import contingency_table

    for name in ("truth", "found"):
        (tmp_path / name).mkdir()
    truth, found = blobs(1, (60, 70), 6), corrupted(blobs(1, (60, 70), 6), 2)
    found[found == 2] = 90  # another number of the same object
    for name, array in (("truth", truth), ("found", found)):
        cv2.imwrite(str(tmp_path / name / "a.png"), array)
    run = segmeter.score(
        tmp_path / "found", tmp_path / "truth", instances=True, out=tmp_path / "run"
    )
    table = contingency_table(truth, found).toarray()
    union = table.sum(1)[:, None] + table.sum(0)[None] - table
    with np.errstate(invalid="ignore"):
        iou = np.nan_to_num(table / union)[1:, 1:]
    hits = iou[iou > 0.5]
    objects, predictions = len(np.unique(truth)) - 1, len(np.unique(found)) - 1
    values = {row.statistic: row.value for row in run.summary()}
    assert values["pq"] == pytest.approx(100 * hits.sum() / ((objects + predictions) / 2))
    assert values["sq"] == pytest.approx(100 * hits.mean())
    inner, sizes = table[1:, 1:], (table.sum(1)[1:, None], table.sum(0)[None, 1:])
    near = (2 * inner > sizes[1]) | (2 * inner > sizes[0])
    assert values["missed"] == (~near.any(1))[table.sum(1)[1:] > 0].sum() > 0
    rows = run.sql("select target, iou from rows order by target").to_pylist()
    best = {str(k + 1): row.max() for k, row in enumerate(iou)}
    for row in rows:  # matched one to one: a poor partner may be taken by another object
        if best[row["target"]] > 0.5:
            assert row["iou"] == pytest.approx(best[row["target"]])
        else:
            assert row["iou"] <= best[row["target"]]


def test_pq_by_folder_equals_panopticas_golden_values(golden: Path, tmp_path: Path) -> None:
    wanted = {}
    for case in json.loads((golden / "interaction/instances.json").read_text()):
        both = {
            name: np.repeat(case[name][::2], case[name][1::2]).reshape(case["shape"])
            for name in ("ground_truth", "prediction")
        }
        if not both["ground_truth"].any():  # no object, no row
            continue
        wanted[case["name"]] = case["expected"]["panoptica_bipartite"]
        for name, labels in both.items():
            (tmp_path / name).mkdir(exist_ok=True)
            np.save(tmp_path / name / f"{case['name']}.npy", labels.astype(np.int32))
    run = segmeter.score(
        tmp_path / "prediction", tmp_path / "ground_truth", measures=["iou"], instances=True,
        out=tmp_path / "run",
    )  # fmt: skip
    rows = run.sql("select distinct scene, pq, sq, rq from rows").to_pylist()
    assert {row["scene"] for row in rows} == wanted.keys()
    assert len(wanted) >= 25
    for row in rows:
        for name in ("pq", "sq", "rq"):
            assert row[name] == pytest.approx(wanted[row["scene"]][name], abs=1e-9), row


def test_a_missing_prediction_is_named_and_the_others_are_scored(
    tmp_path: Path, typed: Typed
) -> None:
    for name, files in (("truth", "ab"), ("found", "a")):
        (tmp_path / name).mkdir()
        for file in files:
            cv2.imwrite(str(tmp_path / name / f"{file}.png"), np.eye(9, dtype=np.uint8))
    with pytest.warns(UserWarning, match="1 job failed"):
        run = segmeter.score(tmp_path / "found", tmp_path / "truth", out=tmp_path / "run")
    (error,) = run.errors()
    assert "has no prediction of 'b'" in error["error"]
    assert {row.statistic: row.value for row in run.summary()}["iou"] == 100
    for how in ((), ("--json",)):
        code, _, err = typed("score", tmp_path / "found", tmp_path / "truth", "-o",
                             tmp_path / "again", *how)  # fmt: skip
        assert code == 1, err


def test_predictions_of_another_size_are_refused(tmp_path: Path) -> None:
    for name, size in (("truth", 9), ("found", 8)):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "a.png"), np.ones((size, 9), np.uint8))
    with pytest.raises(SegmeterError, match="resample the prediction"):
        segmeter.score(tmp_path / "found", tmp_path / "truth", out=tmp_path / "run")


def test_coco_results_are_scored_against_coco_annotations(tmp_path: Path) -> None:
    import json

    from segmeter.core.masks import Mask
    from segmeter.measures.objects import iou

    shape = (40, 50)
    cat, dog = Mask.box(shape, (5, 5), (25, 20)), Mask.box(shape, (10, 25), (30, 45))
    near, wide = Mask.box(shape, (5, 5), (25, 18)), Mask.box(shape, (8, 22), (34, 48))

    def written(mask: Mask, **more: Any) -> dict[str, Any]:
        return {"image_id": 7, "segmentation": mask.to_coco(), **more}

    truth = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 40, "width": 50}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            written(mask, id=k, category_id=k, area=mask.area, bbox=[0, 0, 1, 1], iscrowd=0)
            for k, mask in ((1, cat), (2, dog))
        ],
    }
    results = [
        written(wide, category_id=2, score=0.4),
        written(near, category_id=1, score=0.9),
        written(dog, category_id=1, score=0.3),  # right place, wrong class
    ]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps(results))
    run = segmeter.score(tmp_path / "results.json", tmp_path / "truth.json", out=tmp_path / "run")
    rows = {r["label"]: r for r in run.sql("select * from rows").to_pylist()}
    assert rows["cat"]["iou"] == pytest.approx(iou(cat, near))
    assert rows["dog"]["iou"] == pytest.approx(iou(dog, wide))
    assert run.report().exists()
    (tmp_path / "results.json").write_text('{"image_id": "x"}')
    with pytest.raises(SegmeterError, match="is not a COCO results file"):
        segmeter.score(tmp_path / "results.json", tmp_path / "truth.json", out=tmp_path / "other")


def test_a_coco_file_is_not_scored_against_a_folder_of_masks(tmp_path: Path) -> None:
    """Every job failed for itself, with the same sentence."""
    (tmp_path / "truth").mkdir()
    cv2.imwrite(str(tmp_path / "truth" / "a.png"), np.full((8, 8), 255, np.uint8))
    (tmp_path / "masks.json").write_text("[]")
    with pytest.raises(SegmeterError, match=r"masks.json' is a COCO file but '.*truth' a folder"):
        segmeter.score(tmp_path / "masks.json", tmp_path / "truth", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_of_volumes_beyond_32_bits_stay_apart(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    labels = np.ones((6, 6, 6), np.int64)
    labels[3:] = 2**32 + 1
    for name in ("truth", "network"):
        (tmp_path / name).mkdir()
        file = nibabel.Nifti1Image(labels, np.eye(4), dtype=np.int64)
        nibabel.save(file, tmp_path / name / "case.nii.gz")
    run = segmeter.score(tmp_path / "network", tmp_path / "truth", out=tmp_path / "run")
    assert [row["target"] for row in run.rows()] == ["1", str(2**32 + 1)]


def test_folders_of_one_name_are_distinguished_by_their_parents(tmp_path: Path) -> None:
    for above in ("truth", "net"):
        (tmp_path / above / "masks").mkdir(parents=True)
        cv2.imwrite(str(tmp_path / above / "masks" / "a.png"), blobs(1, (40, 50)))
    run = segmeter.score(
        tmp_path / "net/masks", tmp_path / "truth/masks", measures=["iou"], out=tmp_path / "run"
    )
    assert {(row.model, row.dataset) for row in run.summary()} == {("net/masks", "masks")}
