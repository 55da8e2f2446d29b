"""Clicking groups and single samples as users: golden draws, exact tenths, shared maps."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.clickability import map_sources
from segmeter.clickability.maps import ClickabilityMap, ClickRegion, prior, prior_on
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Image, Scene, Target
from segmeter.core.seeds import generator
from segmeter.core.users import Observation
from segmeter.models.synthetic import Disc
from segmeter.users.error_prompts import CentreClick, RandomFirstClick, centre_click, together
from segmeter.users.humanlike_clicks import ClickingGroup, MapSample

PROTOCOLS: tuple[ProtocolName, ...] = ("published", "corrected")
DISC = Mask.of(np.hypot(*(np.mgrid[:60, :80] - np.array([[[28]], [[40]]]))) < 22)
SPOILT = Mask.box((60, 80), (3, 20), (57, 45))
SCENE = Image("test", "scene", np.zeros((60, 80, 3), np.uint8), [Target("disc", DISC)])


def observation(
    mask: Mask | None = None,
    prompts: tuple[Prompt, ...] = (),
    protocol: ProtocolName = "corrected",
    scene: Scene = SCENE,
) -> Observation:
    prediction = Mask.empty(scene.shape) if mask is None else mask
    return Observation(scene, scene.targets[0], prediction, prompts, protocol, encoded=None)  # type: ignore[arg-type]


class Given:
    """A source that gives one map, whatever is asked."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.asked = 0

    def __call__(self, region: ClickRegion) -> ClickabilityMap:
        self.asked += 1
        return ClickabilityMap.of(self.values)


def test_golden_draws_of_all_groups_and_rounds(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original's clicks with seed 42: three rounds on an unchanged mask."""
    cases = json.loads((golden / "clicks" / "groups.json").read_text())["maps"]
    played = 0
    for case in cases:
        shape = (case["h"], case["w"])
        source = Given(np.array(case["map"], dtype=np.float32).reshape(shape))
        monkeypatch.setattr(
            "segmeter.users.humanlike_clicks.source",
            lambda *_, s=source: map_sources.FirstRounds(s),
        )
        ground_truth = np.array(case["target"]).reshape(shape)
        ignore = Mask.of(ground_truth == -1) if (ground_truth == -1).any() else None
        target = Target("1", Mask.of(ground_truth == 1), ignore)
        scene = Image("test", case["name"], np.zeros((*shape, 3), np.uint8), [target])
        prediction = Mask.of(np.array(case["prediction"]).reshape(shape) > 0)
        for group in case["groups"]:
            prompts: tuple[Prompt, ...] = ()
            for y, x, positive in group["clicks_seed42"]:
                seen = observation(prediction, prompts, "published", scene)
                click = ClickingGroup(group["group"]).next(seen, generator(0))
                assert click == Click((y, x), positive), (case["name"], group["group"])
                prompts = (*prompts, click)
                played += 1
    assert played == 13 * 10 * 3


def test_corrected_groups_part_the_mass_into_exact_tenths() -> None:
    """Many draws of each group stay within the values of their own tenth of the map."""
    map = prior(DISC).on(DISC)
    values = np.sort(map.weights[map.weights > 0].astype(np.float64))
    sums = np.cumsum(values) / values.sum()
    dense = map.dense()
    for group in (1, 5, 10):
        # One pixel of slack on either side: sums differ in their last digits.
        low = values[max(np.searchsorted(sums, (group - 1) / 10) - 1, 0)]
        high = values[min(np.searchsorted(sums, group / 10) + 1, values.size - 1)]
        for i in range(50):
            click = ClickingGroup(group).next(observation(), generator("draw", i))
            assert isinstance(click, Click)
            weight = dense[int(click.point[0]), int(click.point[1])]
            assert low <= weight <= high


def test_likely_groups_click_nearer_to_the_centre() -> None:
    centre = centre_click(observation())
    assert centre is not None
    away = []
    for group in (1, 10):
        clicks = [ClickingGroup(group).next(observation(), generator(group, i)) for i in range(40)]
        away.append(
            np.mean([np.hypot(*np.subtract(c.point, centre.point)) for c in clicks if c])  # type: ignore[union-attr]
        )
    assert away[0] > 2 * away[1]


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_the_side_to_mend_is_the_centre_clicks_choice(protocol: ProtocolName) -> None:
    prediction = Mask.box((60, 80), (0, 0), (60, 80))
    click = ClickingGroup(3).next(observation(prediction, (), protocol), generator(0))
    assert isinstance(click, Click)
    assert not click.positive
    assert not DISC[[int(c) for c in click.point]]


def test_with_nothing_wrong_corrected_stops_and_published_clicks_the_corner() -> None:
    for user in (ClickingGroup(4), MapSample(2)):
        assert user.next(observation(DISC), generator(0)) is None
        assert user.next(observation(DISC, (), "published"), generator(0)) == Click((0, 0), False)


def test_no_user_clicks_a_pixel_twice() -> None:
    tiny = Target("t", Mask.box((9, 9), (4, 4), (5, 6)))
    scene = Image("test", "tiny", np.zeros((9, 9, 3), np.uint8), [tiny])
    first = ClickingGroup(0).next(observation(scene=scene), generator(0))
    assert isinstance(first, Click)
    second = ClickingGroup(0).next(observation(None, (first,), "corrected", scene), generator(1))
    assert isinstance(second, Click)
    assert {first.point, second.point} == {(4, 4), (4, 5)}
    assert (
        ClickingGroup(0).next(observation(None, (first, second), "corrected", scene), generator(2))
        is None
    )


def test_the_first_map_is_made_once_for_all_groups_and_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = Given(np.ones((60, 80), dtype=np.float32))
    kept = map_sources.FirstRounds(inner)
    monkeypatch.setattr("segmeter.users.humanlike_clicks.source", lambda *_: kept)
    for _ in ("one model", "another"):
        simulated_sessions = [
            SimulatedSession(SCENE.targets[0], ClickingGroup(g), "corrected") for g in range(1, 11)
        ]
        simulate(SCENE, Disc(radius=5).encode(SCENE), simulated_sessions, 1, lambda *_: {})
    assert inner.asked == 1


def test_a_changed_mask_is_clicked_by_its_own_map() -> None:
    for low in ((5, 5), (30, 40)):  # data of one name, labelled again within one process
        target = Target("1", Mask.box((60, 80), low, (low[0] + 9, low[1] + 9)))
        scene = Image("test", "again", np.zeros((60, 80, 3), np.uint8), [target])
        click = ClickingGroup(0).next(observation(scene=scene), generator(0))
        assert isinstance(click, Click)
        assert target.mask[np.array(click.point, dtype=int)]


def test_weights_that_changed_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, made = tmp_path / "net.safetensors", []
    monkeypatch.setattr(map_sources, "_made", lambda *_: Given(np.ones((60, 80), np.float32)))
    for seconds in (1, 1, 2):
        weights.write_bytes(b"")
        os.utime(weights, (seconds, seconds))
        made.append(map_sources.source("network", weights))
    assert made[0] is made[1] is not made[2]


def test_both_protocols_share_the_first_map_of_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Mask] = []

    def counted(error_region: Mask, **options: Any) -> ClickabilityMap:
        made.append(error_region)
        return prior_on(error_region, **options)

    monkeypatch.setattr(map_sources, "prior_on", counted)
    map_sources._source.cache_clear()
    simulated_sessions = [
        SimulatedSession(SCENE.targets[0], ClickingGroup(g), protocol)
        for protocol in PROTOCOLS
        for g in range(1, 11)
    ]
    simulate(SCENE, Disc(radius=5).encode(SCENE), simulated_sessions, 3, lambda *_: {})
    assert made == [DISC]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_users_of_all_kinds_click_together_as_each_would_alone(
    protocol: ProtocolName, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one thread and on several."""
    monkeypatch.setattr("segmeter.kernels._count", count)
    users: list[Any] = [
        CentreClick(),
        ClickingGroup(2),
        ClickingGroup(7, map="uniform"),
        ClickingGroup(8, map="uniform"),
        RandomFirstClick(),
        ClickingGroup(9),
        MapSample(3),
    ]
    for prediction, prompts in ((None, ()), (SPOILT, (Click((28, 40)),))):
        seen = observation(prediction, prompts, protocol)
        draws = partial(generator, "draw")
        alone = [user.next(seen, generator("draw", i)) for i, user in enumerate(users)]
        assert together(users, [seen] * len(users), draws) == alone


def test_second_draws_differ_in_corrected_only() -> None:
    simulated_sessions = [
        SimulatedSession(SCENE.targets[0], ClickingGroup(5, draw=d), protocol)
        for protocol in ("published", "corrected")
        for d in (1, 2)
    ]
    one, two, three, four = simulate(
        SCENE, Disc(radius=5).encode(SCENE), simulated_sessions, 4, lambda *_: {}
    )
    assert [r.prompts for r in one.rounds] == [r.prompts for r in two.rounds]
    assert [r.prompts for r in three.rounds] != [r.prompts for r in four.rounds]


def test_samples_click_once_and_continue_the_images_random_stream() -> None:
    clicks = [MapSample(d).next(observation(protocol="published"), generator(0)) for d in (1, 2, 3)]
    assert len(set(clicks)) == 3
    later = MapSample(1, before=2).next(observation(protocol="published"), generator(0))
    assert later == clicks[2]
    assert clicks[0] is not None
    assert MapSample(1).next(observation(prompts=(clicks[0],)), generator(0)) is None


@pytest.mark.parametrize("name", ["uniform", "distance", "prior"])
def test_other_maps_by_option(name: str) -> None:
    user = catalogue.users.make(f"clicking-group?group=2&map={name}")
    click = user.next(observation(), generator(0))
    assert DISC[[int(c) for c in click.point]]


def test_wrong_options_are_refused() -> None:
    with pytest.raises(BadInput, match="no clicking group 11"):
        ClickingGroup(11)
    with pytest.raises(BadInput, match="draws count from 1"):
        ClickingGroup(1, draw=0)
    with pytest.raises(BadInput, match="did you mean 'uniform'"):
        ClickingGroup(1, map="uniforn")
    with pytest.raises(NotFound, match="needs weights"):
        ClickingGroup(1, map="network")
    with pytest.raises(NotFound, match="no weights at"):
        MapSample(1, map="saliency", checkpoint="nowhere.safetensors")
