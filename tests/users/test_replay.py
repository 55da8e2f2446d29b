"""The replay user: recorded clicks, as they are or scaled."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click
from segmeter.core.scenes import Image, Target
from segmeter.core.seeds import generator
from segmeter.core.users import Observation
from segmeter.datasets.recorded_clicks import COLUMNS
from segmeter.users.replay import RecordedUser, ReplayUser

ROWS = (
    "GrabCut,a,,,first,a,pc,10,20,80,60",
    "GrabCut,a,,sam,fn,a_sam_fn,pc,1,2,80,60",
    "GrabCut,a,,,first,a,mobile,79,59,80,60",
    "TETRIS,b,7,,first,b_______7,pc,5,6,40,30",
)


@pytest.fixture
def clicks(tmp_path: Path) -> str:
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join((",".join(COLUMNS), *ROWS)) + "\n")
    return str(path)


def observation(
    dataset: str,
    scene: str,
    target: str,
    shape: tuple[int, int],
    protocol: ProtocolName = "corrected",
) -> Observation:
    thing = Target(target, Mask.box(shape, (1, 1), (9, 9)))
    seen = Image(dataset, scene, np.zeros((*shape, 3), np.uint8), [thing])
    return Observation(seen, thing, Mask.empty(shape), (), protocol, encoded=None)  # type: ignore[arg-type]


def test_first_clicks_are_repeated_in_the_order_of_the_file(clicks: str) -> None:
    seen = observation("grabcut", "a", "1", (60, 80))
    points = [ReplayUser(clicks, person).next(seen, generator(0)) for person in (1, 2, 3)]
    assert points == [Click((20, 10)), Click((59, 79)), None]


def test_an_object_is_found_by_its_label(clicks: str) -> None:
    assert ReplayUser(clicks).next(
        observation("tetris", "b", "7", (30, 40)), generator(0)
    ) == Click((6, 5))
    assert ReplayUser(clicks).next(observation("tetris", "b", "8", (30, 40)), generator(0)) is None


def test_corrected_scales_to_the_image_and_published_does_not(clicks: str) -> None:
    twice = (120, 160)
    corrected = ReplayUser(clicks).next(observation("grabcut", "a", "1", twice), generator(0))
    assert corrected == Click((40.5, 20.5))
    plain = ReplayUser(clicks).next(
        observation("grabcut", "a", "1", twice, "published"), generator(0)
    )
    assert plain == Click((20, 10))


def test_after_one_click_the_person_is_content(clicks: str) -> None:
    user = catalogue.users.make(f"replay?clicks={clicks}&person=2")
    assert user.name == "replay-2"
    seen = observation("grabcut", "a", "1", (60, 80))
    after = Observation(
        seen.scene, seen.target, seen.mask, (Click((1, 1)),), "corrected", seen.encoded
    )
    assert user.next(after, generator(0)) is None


def test_recorded_prompts_of_any_kind_are_replayed_round_by_round(tmp_path: Path) -> None:
    import segmeter

    table = tmp_path / "prompts.csv"
    table.write_text(
        "scene,target,annotator,round,prompt\n"
        'a,,,1,"{""box"": [[2, 2], [9, 9]]}"\n'
        'a,,,2,"{""click"": [5, 5], ""positive"": true}"\n'
    )
    user = catalogue.users.make(Spec("recorded-prompts", {"file": str(table)}))
    assert user.gives == {"box"}
    assert user.gives_later == {"click"}
    pixels = np.zeros((12, 12, 3), np.uint8)
    target = segmeter.Target("1", Mask.box((12, 12), (2, 2), (10, 10)))
    scene = segmeter.Image("mine", "a", pixels, [target])
    seen = [
        user.next(
            segmeter.Observation(scene, target, target.mask, (), "corrected", None, None, k), None
        )
        for k in (1, 2, 3)
    ]
    assert seen == [(Box((2, 2), (9, 9)),), (Click((5, 5), True),), None]


def test_a_file_that_changed_is_read_again(clicks: str, tmp_path: Path) -> None:
    table = tmp_path / "prompts.csv"
    seen = observation("grabcut", "a", "1", (60, 80))
    for place in (7, 9):
        row = f"GrabCut,a,,,first,a,pc,{place},{place},80,60"
        Path(clicks).write_text(f"{','.join(COLUMNS)}\n{row}\n")
        click = f'"{{""click"": [{place}, {place}], ""positive"": true}}"'
        table.write_text(f"scene,round,prompt\na,1,{click}\n")
        for path in (clicks, table):
            os.utime(path, (place, place))
        users = (ReplayUser(clicks), RecordedUser(str(table)))
        first, second = (each.next(seen, generator(0)) for each in users)
        assert first == Click((place, place), True)
        assert second == (first,)


def test_prompts_without_an_annotator_are_replayed_for_all(tmp_path: Path) -> None:
    table = tmp_path / "prompts.csv"
    table.write_text(
        "scene,annotator,round,prompt\n"
        'a,,1,"{""click"": [5, 5], ""positive"": true}"\n'
        'b,,1,"{""click"": [1, 1], ""positive"": true}"\n'
        'b,anna,1,"{""click"": [7, 7], ""positive"": true}"\n'
        'b,ben,1,"{""box"": [[2, 2], [9, 9]]}"\n'
    )
    options = {"file": str(table), "annotator": "anna"}
    user = catalogue.users.make(Spec("recorded-prompts", options))
    assert user.gives == {"click"}  # what ben drew is not hers
    seen = [observation("mine", name, "1", (12, 12)) for name in ("a", "b")]
    assert [user.next(one, generator(0)) for one in seen] == [
        (Click((5, 5), True),),
        (Click((7, 7), True),),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a,1,nonsense", "line 2: prompt 'nonsense' cannot be read"),
        ('a,0,"{""box"": [[2, 2], [9, 9]]}"', "rounds count from 1, not 0"),
    ],
)
def test_a_wrong_line_of_recorded_prompts_is_named(
    tmp_path: Path, line: str, sentence: str
) -> None:
    from segmeter.datasets.recorded_clicks import read_prompts

    (tmp_path / "a.csv").write_text(f"scene,round,prompt\n{line}\n")
    with pytest.raises(BadInput, match=sentence):
        read_prompts(tmp_path / "a.csv")
