"""Folders of volumes in the layouts that people have."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.folder import open_folder
from segmeter.datasets.volumes.volume_folder import INTRABENCH, VolumeFolder


def areas(data, scene):
    return {t.id: t.mask.area for t in data.load(scene).targets}


def test_an_nnunet_folder_has_a_target_per_class(decathlon):
    data = VolumeFolder(str(decathlon))
    assert list(data.scenes()) == ["a", "b"]
    assert areas(data, "a") == {"liver": 18, "left_right": 12}
    scene = data.load("a")
    assert scene.modality == "CT"
    assert scene.header.shape == (8, 7, 6)
    assert scene.voxels[5, 4, 2] == 2 * 56 + 4 * 8 + 5
    assert "2 named classes; channels: CT" in data.recognised


def test_a_label_stored_in_another_orientation_is_the_same_label(decathlon, nifti, scan):
    _, labels = scan
    flipped = np.diag([-1.0, 1, 1, 1])
    flipped[0, 3] = 5
    nifti(decathlon / "labelsTr" / "b.nii.gz", labels[::-1], flipped)
    data = VolumeFolder(str(decathlon))
    one, other = (data.load(case).targets for case in "ab")
    assert [t.mask for t in one] == [t.mask for t in other]


def test_the_decathlons_layout(real_data):
    data = catalogue.datasets.make("folder", path=str(real_data / "medical" / "MSD_Hippocampus"))
    assert len(data.scenes()) == 10
    scene = data.load("hippocampus_001")
    assert scene.header.shape == (35, 51, 35)
    assert "voxels" not in vars(scene)
    assert [t.id for t in scene.targets] == ["label-1", "label-2"]
    assert data.card.name == "MSD_Hippocampus"


@pytest.mark.parametrize(
    ("folder", "scenes", "shape", "targets"),
    [
        ("SCT_spinal_cord", ["t1w", "t2"], (77, 76, 42), 1),
        ("MSD_Spleen_crop", ["ct"], (26, 166, 164), 1),
        ("TotalSegmentator_example", ["example_ct_sm"], (30, 101, 122), 41),
        ("TotalSegmentator_CT512", ["ct"], (20, 512, 512), 31),
        ("MSD_Spleen", ["spleen_8"], (8, 128, 128), 1),
    ],
)
def test_real_pairs_next_to_each_other(folder, scenes, shape, targets, real_data):
    data = open_folder(str(real_data / "medical" / folder))
    assert list(data.scenes()) == scenes
    scene = data.load(scenes[0])
    assert scene.header.shape == shape
    assert len(scene.targets) == targets
    scene.check()


@pytest.mark.parametrize("word", ["groundtruth", "ground_truth", "ground-truth", "gt", "label"])
def test_a_label_map_is_found_by_the_words_people_use(tmp_path, nifti, scan, word):
    values, labels = scan
    nifti(tmp_path / "p1.nii.gz", values)
    nifti(tmp_path / f"p1_{word}.nii.gz", labels)
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["p1"]
    assert data.load("p1").targets


def test_a_volume_with_other_axes_is_turned(real_data):
    """`t2` is stored P-S-R: its cord runs along z after reading."""
    scene = open_folder(str(real_data / "medical" / "SCT_spinal_cord")).load("t2")
    assert scene.header.shape == (55, 60, 52)
    (cord,) = scene.targets
    extent = np.subtract(cord.mask.high, cord.mask.low)
    assert extent[0] > 2 * max(extent[1:])


def test_a_totalsegmentator_folder_has_a_file_per_structure(tmp_path, nifti, scan):
    values, labels = scan
    for case in ("s0001", "s0002"):
        nifti(tmp_path / case / "ct.nii.gz", values)
        nifti(tmp_path / case / "segmentations" / "liver.nii.gz", (labels == 1).astype(np.uint8))
        nifti(tmp_path / case / "segmentations" / "spleen.nii.gz", labels * 0)
    nifti(tmp_path / "s0003" / "ct.nii.gz", values)
    (tmp_path / "s0003" / "segmentations").mkdir()
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["s0001", "s0002"]
    assert areas(data, "s0001") == {"liver": 18}
    assert data.load("s0001").modality == "CT"
    assert "1 image left out (without labels), the first is 's0003'" in data.card.missing


def test_a_table_of_pairs(tmp_path, nifti, scan):
    values, labels = scan
    nifti(tmp_path / "x" / "one.nii", values)
    nifti(tmp_path / "y" / "other.nii.gz", labels)
    table = tmp_path / "pairs.csv"
    table.write_text("image,label,case\nx/one.nii,y/other.nii.gz,first\n")
    data = VolumeFolder(str(table))
    assert areas(data, "first") == {"label-1": 18, "label-2": 12}
    for header, said in (("scan,mask", "no column 'image'"), ("image,mask", "no column 'label'")):
        table.write_text(f"{header}\na,b\n")
        with pytest.raises(BadInput, match=said):
            VolumeFolder(str(table))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"image,label\nx/one.nii\n", "line 2 has 1 cells"),
        (b"image,label\nx/one.nii,\n", "line 2: image or label is empty"),
        (b"image,label\nx/\xe9.nii,y.nii\n", "CSV and UTF-8"),
    ],
)
def test_a_broken_table_of_pairs_is_named(tmp_path, raw, said):
    (tmp_path / "pairs.csv").write_bytes(raw)
    with pytest.raises(BadInput, match=said):
        VolumeFolder(str(tmp_path / "pairs.csv"))


def test_channels_in_a_plain_folder_are_not_mixed_up(tmp_path, nifti, scan):
    values, labels = scan
    for channel in range(2):
        nifti(tmp_path / "images" / f"a_{channel:04}.nii.gz", values + 1000 * channel)
    nifti(tmp_path / "labels" / "a.nii.gz", labels)
    with pytest.raises(BadInput, match="has 2 channels; choose one with channel=0"):
        VolumeFolder(str(tmp_path)).load("a").check()
    first = VolumeFolder(str(tmp_path), channel=0).load("a")
    assert int(first.pixels.max()) == int(values.max())


def test_two_images_of_one_name_are_refused(tmp_path, nifti, scan):
    values, labels = scan
    nifti(tmp_path / "images" / "a.nii", values)
    nifti(tmp_path / "images" / "a.nii.gz", values)
    nifti(tmp_path / "labels" / "a.nii.gz", labels)
    with pytest.raises(BadInput, match="are both 'a'; rename one"):
        VolumeFolder(str(tmp_path))


def test_images_and_labels_in_two_folders(tmp_path, nifti, scan):
    values, labels = scan
    nifti(tmp_path / "images" / "p1.nii.gz", values)
    nifti(tmp_path / "images" / "p2.nii.gz", values)
    nifti(tmp_path / "labels" / "p1_seg.nii.gz", labels)
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["p1"]
    assert "the first is 'p2'" in data.card.missing


def test_several_channels_need_a_choice(tmp_path, nifti, scan):
    values, labels = scan
    for channel in range(2):
        nifti(tmp_path / "imagesTr" / f"a_{channel:04}.nii.gz", values + 1000 * channel)
    nifti(tmp_path / "imagesTr" / "b.nii.gz", np.stack([values, values + 1000], axis=3))
    for case in "ab":
        nifti(tmp_path / "labelsTr" / f"{case}.nii.gz", labels)
    data = VolumeFolder(str(tmp_path))
    for case in "ab":
        with pytest.raises(BadInput, match=r"has 2 channels; choose one with channel=0"):
            _ = data.load(case).header
        scene = VolumeFolder(str(tmp_path), channel=1).load(case)
        assert scene.voxels[0, 0, 0] == 1000
        assert scene.header.channels == 2
        with pytest.raises(BadInput, match="no channel 2"):
            _ = VolumeFolder(str(tmp_path), channel=2).load(case).voxels


def test_a_window_keeps_the_values_in_it(decathlon):
    voxels = VolumeFolder(str(decathlon), window="10,20").load("a").voxels
    assert (voxels.min(), voxels.max()) == (10, 20)
    for window in ("wide", 400, "1,2,3"):
        with pytest.raises(BadInput, match=f"window={window} is not a window"):
            VolumeFolder(str(decathlon), window=window)


def test_instances_are_values_or_components(tmp_path, nifti, scan):
    values, labels = scan
    touching = np.zeros_like(labels)
    touching[0, 0, 0] = touching[1, 1, 1] = touching[3, 3, 3] = touching[3, 4, 4] = 1
    touching[5, 6, 5:8] = 1
    nifti(tmp_path / "imagesTr" / "a.nii.gz", values)
    nifti(tmp_path / "labelsTr" / "a.nii.gz", touching)

    def counted(**options):
        return [t.mask.area for t in VolumeFolder(str(tmp_path), **options).load("a").targets]

    assert counted() == [7]
    assert counted(kind="instance") == [7]
    assert sorted(counted(components=26)) == [2, 2, 3]
    assert sorted(counted(components=18)) == [1, 1, 2, 3]
    assert sorted(counted(components=6, smallest=2)) == [3]
    nifti(tmp_path / "labelsTr" / "a.nii.gz", labels)
    assert counted(kind="instance", components=26) == [18, 12]
    with pytest.raises(BadInput, match="none of 6, 18 and 26"):
        counted(components=8)


def test_adrenal_tumours_that_nearly_touch_are_one(tmp_path, nifti):
    labels = np.zeros((12, 12, 12), np.uint8)
    labels[1:4, 1:5, 1:5] = 1
    labels[5:6, 1:5, 1:5] = 1  # one voxel away
    labels[9:11, 9:11, 9:11] = 1  # 8 voxels: too small
    folder = tmp_path / "Dataset913_Adrenal"
    nifti(folder / "imagesTr" / "a_0000.nii.gz", labels.astype(np.int16))
    nifti(folder / "labelsTr" / "a.nii.gz", labels)
    data = catalogue.datasets.make("adrenal-acc", data=tmp_path)
    assert areas(data, "a") == {"adrenal tumour-1": 64}


@pytest.mark.parametrize("name", INTRABENCH)
def test_every_set_of_intrabench_is_read_from_its_folder(name, tmp_path, nifti, scan):
    values, labels = scan
    published = INTRABENCH[name]
    with pytest.raises(NotFound, match="https"):
        catalogue.datasets.make(name, data=tmp_path)
    folder = tmp_path / f"Dataset{published['number']:03d}_Made"
    nifti(folder / "imagesTr" / "a_0000.nii.gz", values)
    nifti(folder / "labelsTr" / "a.nii.gz", labels)
    data = catalogue.datasets.make(name, data=tmp_path)
    assert "Preparation: " in data.card.notes
    assert len(data.load("a").targets) == 2
    assert data.load("a").modality == published["modality"]


def test_mini_volumes_ship_with_the_package(real_data):
    data = catalogue.datasets.make("mini-volumes")
    found = [t for scene in data.scenes() for t in data.load(scene).targets]
    assert len(found) == data.card.targets == 6
    original = open_folder(str(real_data / "medical" / "MSD_Hippocampus"))
    for scene in data.scenes():
        mine, theirs = data.load(scene), original.load(scene)
        assert np.array_equal(mine.voxels, theirs.voxels)
        assert [t.mask for t in mine.targets] == [t.mask for t in theirs.targets]
        assert mine.header == theirs.header


def test_mini_volumes_are_small_and_licensed():
    from segmeter.datasets.volumes import volume_folder

    folder = volume_folder._DATA.parent
    assert volume_folder._DATA.stat().st_size < 300_000
    assert "CC BY-SA 4.0" in (folder / "mini_volumes.LICENCE.txt").read_text()


@pytest.mark.parametrize(
    ("image", "label", "case"),
    [
        ("images/case_{:04}.nii.gz", "labels/case_{:04}.nii.gz", "case_{:04}"),
        ("case_{:04}.nii.gz", "case_{:04}_seg.nii.gz", "case_{:04}"),
        (
            "images/FLARE22_Tr_{:04}_0000.nii.gz",
            "labels/FLARE22_Tr_{:04}.nii.gz",
            "FLARE22_Tr_{:04}",
        ),
        ("image/Case_{:05}_0000.nii.gz", "mask/Case_{:05}.nii.gz", "Case_{:05}"),
        ("img/img{:04}.nii.gz", "label/label{:04}.nii.gz", "img{:04}"),
        ("volume-{}.nii", "segmentation-{}.nii", "volume-{}"),
        ("ct_train_{}_image.nii.gz", "ct_train_{}_label.nii.gz", "ct_train_{}_image"),
    ],
    ids=["folders", "side-by-side", "flare22", "abdomenct-1k", "btcv", "lits", "mmwhs"],
)
def test_names_of_released_datasets_are_paired(image, label, case, tmp_path, nifti, scan):
    values, labels = scan
    for number in (1, 2):
        nifti(tmp_path / image.format(number), values + 1000 * number)
        nifti(tmp_path / label.format(number), (labels == number).astype(np.uint8) * number)
    data = VolumeFolder(str(tmp_path))
    assert list(data.scenes()) == [case.format(1), case.format(2)]
    for number in (1, 2):
        scene = data.load(case.format(number))
        assert int(scene.voxels.min()) == 1000 * number
        assert [t.id for t in scene.targets] == [f"label-{number}"]


def test_an_unlabelled_image_does_not_take_the_label_map_of_a_missing_one(tmp_path, nifti, scan):
    values, labels = scan
    for number in (1, 2):
        nifti(tmp_path / "images" / f"case_{number:04}.nii.gz", values)
    for number in (1, 3):
        nifti(tmp_path / "labels" / f"case_{number:04}.nii.gz", labels)
    data = VolumeFolder(str(tmp_path))
    assert list(data.scenes()) == ["case_0001"]
    assert "the first is 'case_0002'" in data.card.missing
    assert "the first is 'case_0003'" in data.card.missing


def test_unlabelled_cases_with_numbers_of_four_digits_are_counted_one_by_one(tmp_path, nifti, scan):
    """As in AMOS, whose names end as nnU-Net's channels do."""
    values, labels = scan
    for number in (1, 507, 508):
        nifti(tmp_path / "imagesTr" / f"amos_{number:04}.nii.gz", values)
    nifti(tmp_path / "labelsTr" / "amos_0001.nii.gz", labels)
    data = VolumeFolder(str(tmp_path))
    assert list(data.scenes()) == ["amos_0001"]
    assert data.recognised.startswith("1 volume, decathlon folder")
    assert "2 images left out (without labels), the first is 'amos_0507'" in data.card.missing


@pytest.mark.parametrize(
    ("label", "names", "chosen", "modality"),
    [
        ("B-0-000-seg", ["B-0-000-t1c", "B-0-000-t1n", "B-0-000-t2f"], "t2f", "MR"),
        ("SEG", ["CT", "CTres", "SUV"], "SUV", "PT"),
    ],
    ids=["brats", "autopet"],
)
def test_the_images_of_a_patients_folder_are_channels(
    label, names, chosen, modality, tmp_path, nifti, scan
):
    values, labels = scan
    finer = np.diag([0.5, 0.5, 0.5, 1])
    for place, name in enumerate(names):  # the first has a grid of its own
        nifti(tmp_path / "P1" / f"{name}.nii.gz", values + 1000 * place, None if place else finer)
    nifti(tmp_path / "P1" / f"{label}.nii.gz", labels)
    with pytest.raises(BadInput, match=rf"has 3 channels \(.*{chosen}\); choose one"):
        _ = VolumeFolder(str(tmp_path)).load("P1").header
    scene = VolumeFolder(str(tmp_path), channel=chosen).load("P1")
    assert (int(scene.voxels.min()), scene.spacing_mm, scene.modality) == (
        2000,
        (1, 1, 1),
        modality,
    )
    scene.check()
    with pytest.raises(BadInput, match=rf"voxels lie up to .* The image is '{names[0]}.nii.gz'"):
        VolumeFolder(str(tmp_path), channel=0).load("P1").check()
