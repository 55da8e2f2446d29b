"""Open Images' masks, named so that the groups of MIAP's join fit them."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.open_images import person_groups, read_boxes

TABLE = "test-annotations-object-segmentation.csv"
HEAD = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax\n"


@pytest.fixture
def root(tmp_path, write, photo):
    folder = tmp_path / "open-images"
    write(folder / "images" / "i1.jpg", photo)
    small = np.zeros((6, 8), np.uint8)
    small[1:4, 2:6] = 255
    write(folder / "masks" / "0" / "i1_p_b1.png", small)
    lines = "i1_p_b1.png,i1,/m/01g317,b1,0.25,0.75,0.17,0.67\ngone.png,i1,/m/x,b2,0,1,0,1\n"
    (folder / TABLE).write_text(HEAD + lines)
    return tmp_path


def test_masks_are_brought_to_their_images_size_and_named_as_the_join_names_them(root):
    data = catalogue.datasets.make("open-images", data=root)
    (target,) = data.load("i1").targets
    assert target.mask.shape == (12, 16)
    assert target.mask.area == 4 * 12
    assert target.label == "/m/01g317"
    people = root / "miap.csv"
    people.write_text(
        "ImageID,LabelName,XMin,XMax,YMin,YMax,GenderPresentation,AgePresentation\n"
        "i1,/m/01g317,0.25,0.75,0.17,0.67,Unknown,Older\n"
    )
    masks = read_boxes(root / "open-images" / TABLE, "Box")
    assert list(person_groups(read_boxes(people), masks)) == [f"i1/{target.id}"]


def test_a_table_of_another_kind_and_a_folder_without_images_are_refused(root):
    table = root / "open-images" / TABLE
    table.write_text("MaskPath,Image\na.png,i1\n")
    with pytest.raises(BadInput, match="no column 'ImageID'"):
        catalogue.datasets.make("open-images", data=root)
    table.write_text(HEAD + "a.png,i9,/m/x,b,0,1,0,1\n")
    with pytest.raises(NotFound, match="none of its images"):
        catalogue.datasets.make("open-images", data=root)
