"""The commands that make groups files and count where images come from."""

from __future__ import annotations

import json

from segmeter.core import catalogue
from segmeter.datasets.groups import read_groups

PERSON = "/m/01g317"


def tables(folder):
    (folder / "miap.csv").write_text(
        "ImageID,LabelName,XMin,XMax,YMin,YMax,GenderPresentation,AgePresentation\n"
        f"i,{PERSON},0.1,0.5,0.1,0.9,Predominantly Feminine,Young\n"
    )
    (folder / "masks.csv").write_text(
        "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax\n"
        f"m1.png,i,{PERSON},b,0.1,0.5,0.1,0.9\ns1.png,i,/m/shirt,b,0.2,0.4,0.2,0.5\n"
    )
    (folder / "clothing.txt").write_text("/m/shirt\n")
    return ["fairness", "people", "--miap", f"{folder}/miap.csv", "--masks", f"{folder}/masks.csv"]


def test_people_and_clothing_become_groups_files(typed, tmp_path):
    command = tables(tmp_path)
    code, out, _ = typed(*command, "-o", f"{tmp_path}/people.csv")
    assert code == 0
    assert "1 mask with groups" in out
    assert read_groups(tmp_path / "people.csv").masks["i/m1"]["age"] == "Young"
    more = ["--clothing", f"{tmp_path}/clothing.txt", "-o", f"{tmp_path}/worn.csv"]
    assert typed(*command, *more)[0] == 0
    assert list(read_groups(tmp_path / "worn.csv").masks) == ["i/s1"]


def test_tables_that_do_not_agree_are_refused(typed, tmp_path):
    command = tables(tmp_path)
    (tmp_path / "masks.csv").write_text(
        "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax\n"
    )
    code, _, complaint = typed(*command, "-o", f"{tmp_path}/people.csv")
    assert code == 2
    assert "are both of the same split?" in complaint
    assert not (tmp_path / "people.csv").exists()


def test_images_are_counted_by_group_of_countries(typed, tmp_path):
    scenes = catalogue.datasets.make("mini").scenes()
    lines = [f"{scene},{'Chad' if k % 2 else 'Peru'}" for k, scene in enumerate(scenes)]
    (tmp_path / "where.csv").write_text("image,country\n" + "\n".join(lines))
    (tmp_path / "table.csv").write_text("country,group\nChad,Africa\nPeru,America\n")
    command = ["fairness", "places", "-d", "mini", "--countries", f"{tmp_path}/where.csv"]
    found = json.loads(typed(*command, "--country-groups", f"{tmp_path}/table.csv", "--json")[1])
    assert [share["group"] for share in found] == ["Africa", "America"]
    assert sum(share["images"] for share in found) == len(scenes)
    assert "Africa" in typed(*command, "--country-groups", f"{tmp_path}/table.csv")[1]
