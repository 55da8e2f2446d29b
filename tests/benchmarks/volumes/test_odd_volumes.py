"""Volumes that are odd and still volumes: each is read and played, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.benchmarks.volumes import Volumes
from segmeter.benchmarks.volumes.work import work
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan

nibabel = pytest.importorskip("nibabel")

USERS = (
    "alternating-points-per-slice?n=3",
    "box-propagation",
    "point-propagation",
    "box-interpolation?n=3",
    "scribble-refinement?start=point-interpolation&n=5",
    "volume-centre-click",
    "cvpr25-clicks",
    "lasso",
)
Array = np.ndarray[Any, Any]


def volume(shape: tuple[int, ...] = (12, 14, 6)) -> tuple[Array, Array]:
    """Grey noise with a brighter block, labelled 1."""
    voxels = np.random.default_rng(0).normal(100, 20, shape)
    block = tuple(slice(n // 4, max(n // 4 + 1, n * 3 // 4)) for n in shape)
    labels = np.zeros(shape, np.uint8)
    labels[block] = 1
    voxels[block] += 80
    return voxels, labels


def turned() -> Array:
    """An oblique affine, 1 x 1 x 3 mm."""
    c, s = np.cos(0.4), np.sin(0.4)
    affine = np.eye(4)
    affine[:3, :3] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.diag([1, 1, 3])
    return affine


def no_form(image: Any) -> None:
    image.set_sform(None, 0)
    image.set_qform(None, 0)


def scaled(image: Any) -> None:
    image.header.set_slope_inter(2.5, -1024)


def save(
    folder: Path,
    voxels: Array,
    labels: Array,
    ending: str = ".nii.gz",
    affine: Array | None = None,
    both: Callable[[Any], None] | None = None,
    image_only: Callable[[Any], None] | None = None,
) -> Any:
    given = np.diag([1.0, 1.0, 3.0, 1.0]) if affine is None else affine
    for kind, values in (("imagesTr", voxels), ("labelsTr", labels)):
        (folder / kind).mkdir()
        image = nibabel.Nifti1Image(values, given)
        for edit in (both, image_only if kind == "imagesTr" else None):
            if edit is not None:
                edit(image)
        nibabel.save(image, folder / kind / f"a{ending}")
    return catalogue.datasets.make(Spec("volumes", {"path": str(folder)}))


GREY, LABEL = volume()
APART = np.where(LABEL > 0, 70_000, 0).astype(np.int32)
APART[6, 6, 3] = 7
READ: dict[str, tuple[tuple[Array, Array], dict[str, Any], dict[str, int]]] = {
    "int8": (((GREY / 2).astype(np.int8), LABEL), {}, {"label-1": 126}),
    "uint16": (((GREY * 100).astype(np.uint16), LABEL), {}, {"label-1": 126}),
    "float64": ((GREY, LABEL.astype(np.float64)), {}, {"label-1": 126}),
    "big-endian": ((GREY.astype(">i2"), LABEL), {}, {"label-1": 126}),
    "slope": ((GREY.astype(np.int16), LABEL), {"image_only": scaled, "ending": ".nii"}, {}),
    "no-form": ((GREY.astype(np.int16), LABEL), {"both": no_form}, {"label-1": 126}),
    "oblique": ((GREY.astype(np.int16), LABEL), {"affine": turned()}, {"label-1": 126}),
    "one channel": ((GREY[..., None].astype(np.float32), LABEL), {}, {"label-1": 126}),
    "labels apart": ((GREY.astype(np.int16), APART), {}, {"label-7": 1, "label-70000": 125}),
    "constant": ((np.full_like(GREY, 5, np.int16), LABEL), {}, {"label-1": 126}),
    "all of it": ((GREY.astype(np.int16), np.ones_like(LABEL)), {}, {"label-1": LABEL.size}),
    "one slice": (volume((12, 14, 1)), {}, {"label-1": 42}),
    "one column": (volume((1, 14, 6)), {}, {"label-1": 21}),
    "tiny": (volume((3, 3, 3)), {}, {"label-1": 8}),
    "one voxel": (volume((1, 1, 1)), {}, {"label-1": 1}),
}


@pytest.mark.parametrize("name", READ)
def test_an_unusual_volume_is_read_and_run_with_every_kind_of_prompter(
    name: str, tmp_path: Path
) -> None:
    arrays, told, targets = READ[name]
    dataset = save(tmp_path, *arrays, **told)
    scene = dataset.load("a")
    if targets:
        assert {t.id: t.mask.area for t in scene.targets} == targets
    users = tuple(Spec.parse(user) for user in USERS)
    asked = Plan(
        "volumes", (Spec("disc"),), (Spec("x"),), users=users, rounds=2, options={"draws": 1}
    )
    plan = Volumes().plan(asked)
    rows = work(catalogue.models.make("disc?radius=3"), scene, plan)
    assert len(rows) == len(scene.targets) * len(USERS) * 2 * 2
    assert all(0 <= row["dice"] <= 1 and 0 <= row["nsd"] <= 1 for row in rows)


def test_scaled_values_are_those_of_the_header(tmp_path: Path) -> None:
    dataset = save(tmp_path, GREY.astype(np.int16), LABEL, ending=".nii", image_only=scaled)
    voxels = dataset.load("a").voxels
    stored = np.asarray(nibabel.load(tmp_path / "imagesTr" / "a.nii").dataobj)
    assert np.allclose(voxels, stored.transpose(2, 1, 0), atol=1e-3)


COLOUR = np.zeros(GREY.shape, [("R", "u1"), ("G", "u1"), ("B", "u1")])
REFUSED: dict[str, tuple[Array, Array, str]] = {
    "colour": (COLOUR, LABEL, "not plain numbers"),
    "complex": (GREY.astype(np.complex64), LABEL, "not plain numbers"),
    "two channels": (np.stack([GREY, GREY], -1), LABEL, "choose one with channel=0"),
    "infinite": (np.where(LABEL > 0, np.inf, GREY), LABEL, "NaN or infinite voxels, the first at"),
    "fractions": (GREY, LABEL * 0.5, "values are not whole numbers"),
    "another grid": (GREY, LABEL[:-1], "does not fit the 12 x 14 x 6"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_volumes_and_label_maps_are_refused_in_a_sentence(
    name: str, tmp_path: Path
) -> None:
    voxels, labels, said = REFUSED[name]
    dataset = save(tmp_path, voxels, labels)
    with pytest.raises(BadInput, match=said):
        whole(dataset)


def whole(dataset: Any) -> tuple[Any, Any]:
    """Voxels and targets, which are read late."""
    scene = dataset.load("a")
    return scene.voxels, scene.targets
