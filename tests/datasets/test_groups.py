"""Groups files and the join that makes them of MIAP and Open Images."""

from __future__ import annotations

import pytest

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.groups import read_groups, write_groups
from segmeter.datasets.open_images import clothing_groups, person_groups, read_boxes

PERSON, WOMAN, SHIRT = "/m/01g317", "/m/03bt1vf", "/m/shirt"


@pytest.fixture
def file(tmp_path):
    def _write(text):
        path = tmp_path / "groups.csv"
        path.write_text(text)
        return path

    return _write


def test_a_groups_file_is_read_with_all_its_attributes(file):
    groups = read_groups(file("mask,age,tone\np1/1,young,3\np1/2,,4\n\np2/1,older,\n"))
    assert groups.attributes == ("age", "tone")
    names = [("p1/1",), ("p1/2",), ("p2/1",), ("p3/1",), ("x", "p2/1")]
    assert groups.of(names, "age") == ["young", None, "older", None, "older"]
    groups.check(["p1/1", "p1/2", "p2/1", "p3/1"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,group\na,b\n", "has no column 'mask'"),
        ("mask\na\n", "has no groups"),
        ("mask,group\n", "has no groups"),
        ("mask,group\na/1\rb,x\n", "line 2 has 1 cells"),
        ("", "has no column 'mask'"),
        ("mask,group\na/1,x\na/1,y\n", "line 3: mask 'a/1' is there twice"),
        ("mask,group\na/1\n", "line 2 has 1 cells, its header 2"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(file, text, sentence):
    with pytest.raises(BadInput, match=sentence):
        read_groups(file(text))


def test_unknown_masks_and_attributes_are_named(file):
    groups = read_groups(file("mask,group\np1/1,x\np1/77,y\n"))
    with pytest.raises(BadInput, match=r"line 3: no mask 'p1/77' here; did you mean 'p1/7'"):
        groups.check(["p1/1", "p1/7"])
    with pytest.raises(BadInput, match="no column 'age'; it has group"):
        groups.of([("p1/1",)], "age")
    with pytest.raises(NotFound):
        read_groups(groups.path.with_name("gone.csv"))


def test_written_files_are_read_back(tmp_path):
    made = {"p/1": {"age": "Young", "gender": ""}, "p/2": {"age": "", "gender": "x, y"}}
    write_groups(tmp_path / "g.csv", made)
    assert read_groups(tmp_path / "g.csv").masks == made


def people(tmp_path, *lines):
    path = tmp_path / "miap.csv"
    head = "ImageID,LabelName,XMin,XMax,YMin,YMax,GenderPresentation,AgePresentation\n"
    path.write_text(head + "".join(f"{line}\n" for line in lines))
    return read_boxes(path)


def masks(tmp_path, *lines):
    path = tmp_path / "masks.csv"
    head = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax\n"
    path.write_text(head + "".join(f"{line}\n" for line in lines))
    return read_boxes(path, "Box")


def test_a_person_is_joined_within_one_percent_of_the_boxs_sides(tmp_path):
    """The box is 0.4 wide and 0.8 high: sides may differ by 0.004 and by 0.008."""
    found = people(tmp_path, f"i,{PERSON},0.1,0.5,0.1,0.9,Predominantly Feminine,Young")
    near = f"m1.png,i,{WOMAN},b1,0.104,0.5,0.1,0.908"
    far = f"m2.png,i,{WOMAN},b2,0.1041,0.5,0.1,0.9"
    other = f"m3.png,j,{WOMAN},b3,0.1,0.5,0.1,0.9"
    thing = "m4.png,i,/m/dog,b4,0.1,0.5,0.1,0.9"
    groups = person_groups(found, masks(tmp_path, near, far, other, thing))
    assert groups == {"i/m1": {"gender": "Predominantly Feminine", "age": "Young"}}


def test_the_best_of_several_matches_is_joined_and_no_person_twice(tmp_path):
    found = people(
        tmp_path,
        f"i,{PERSON},0.1,0.5,0.1,0.9,Unknown,Older",
        f"i,{PERSON},0.101,0.501,0.1,0.9,Predominantly Masculine,Unknown",
    )
    drawn = masks(
        tmp_path,
        f"m1.png,i,{PERSON},b1,0.101,0.501,0.1,0.9",
        f"m2.png,i,{PERSON},b2,0.1008,0.5008,0.1,0.9",
        f"m3.png,i,{PERSON},b3,0.1005,0.5005,0.1,0.9",
    )
    groups = person_groups(found, drawn)
    assert groups["i/m1"] == {"gender": "Predominantly Masculine", "age": ""}
    assert groups["i/m3"] == {"gender": "", "age": "Older"}
    assert "i/m2" not in groups


def test_clothing_belongs_to_the_smallest_person_around_it(tmp_path):
    found = people(
        tmp_path,
        f"i,{PERSON},0.0,1.0,0.0,1.0,Predominantly Masculine,Middle",
        f"i,{PERSON},0.2,0.6,0.2,0.6,Predominantly Feminine,Young",
    )
    drawn = masks(
        tmp_path,
        f"s1.png,i,{SHIRT},b1,0.3,0.604,0.3,0.5",
        f"s2.png,i,{SHIRT},b2,0.3,0.605,0.3,0.5",
        f"s3.png,k,{SHIRT},b3,0.3,0.5,0.3,0.5",
    )
    groups = clothing_groups(found, drawn, {SHIRT})
    assert {name: line["age"] for name, line in groups.items()} == {
        "i/s1": "Young", "i/s2": "Middle"
    }  # fmt: skip


def test_a_table_without_coordinates_is_refused(tmp_path):
    with pytest.raises(BadInput, match="line 2' has no number under XMin"):
        people(tmp_path, f"i,{PERSON},left,0.5,0.1,0.9,Unknown,Older")
