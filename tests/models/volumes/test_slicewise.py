"""Models for pictures on volumes: which slices are looked at, and what is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Player, play
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, MaskPrediction, ModelCard
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Words
from segmeter.core.scenes import Header, Target, Volume
from segmeter.core.sessions import Session
from segmeter.datasets.volumes.grids import Grid
from segmeter.models.drawn import Disc
from segmeter.models.volumes.slice_capabilities import SliceAsk
from segmeter.models.volumes.slicewise import SliceMemory, Slicewise, on_volumes

SHAPE = (6, 20, 30)


def volume(id="1", seed=0):
    rng = np.random.default_rng(seed)
    voxels = rng.normal(100, 20, SHAPE).astype(np.float32)
    return Volume("made", id, voxels, (), header=Header("volume", SHAPE, (5.0, 1.0, 1.0)))


@dataclass
class Bright:
    """Shows pixels brighter than 128 near a click, and what it showed before."""

    looked: list = field(default_factory=list)
    card = ModelCard("bright", "", frozenset({"click"}))

    def look(self, scene):
        self.looked.append(scene.pixels.copy())
        return BrightView(scene.pixels[:, :, 0])


@dataclass
class BrightView:
    pixels: np.ndarray
    nbytes: int = 1 << 20

    def answer(self, asks):
        return [self._one(ask) for ask in asks]

    def _one(self, ask):
        shown = np.zeros(self.pixels.shape, bool) if ask.memory is None else ask.memory.copy()
        for click in ask.prompts:
            y, x = (int(c) for c in click.point)
            place = np.s_[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4]
            shown[place] = click.positive & (self.pixels[place] > 128)
        return MaskPrediction(Mask.of(shown), memory=shown)


def test_only_slices_with_a_prompt_are_looked_at_and_only_once():
    inner = Bright()
    model = Slicewise(inner)
    view = model.look(volume())
    assert inner.looked == []
    view.answer([Ask((Click((2, 5, 5)),)), Ask((Click((2, 9, 9)), Click((4, 3, 3))))])
    assert len(inner.looked) == model.store.looks == 2
    view.answer([Ask((Click((4, 1, 1)),))])
    model.look(volume()).answer([Ask((Click((2, 5, 5)),))])  # another target, the same content
    assert model.store.looks == 2


class Watching(Bright):
    """Keeps whether the pixels it was shown lie in memory as any array does."""

    def look(self, scene):
        self.plain = scene.pixels.flags.c_contiguous and scene.pixels.flags.writeable
        return super().look(scene)


class Together(Watching):
    """Looks at several slices at once, as SAM does."""

    def look_together(self, pictures):
        return [self.look(picture) for picture in pictures]


def test_slices_are_copied_to_three_channels_only_for_models_that_look_one_by_one():
    asks = [Ask((Click((2, 5, 5)), Click((4, 3, 3))))]
    alone, several = Watching(), Together()
    one, other = (Slicewise(m).look(volume()).answer(asks)[0].mask() for m in (alone, several))
    assert one == other
    assert alone.plain
    assert not several.plain


def test_a_slice_of_another_patient_is_never_answered_on_this_ones_embedding():
    """What IntRaBench did at the time of the paper (its mistake 1)."""
    model = Slicewise(Bright())
    asks = [Ask((Click((3, 10, 15)),))]
    one, other = (model.look(volume(str(s), s)).answer(asks)[0].mask() for s in (1, 2))
    fresh = Slicewise(Bright()).look(volume("2", 2)).answer(asks)[0].mask()
    assert other == fresh
    assert one != other


def test_slices_are_dropped_when_the_budget_is_full_and_answers_stay():
    inner = Bright()
    model = Slicewise(inner, memory_mb=2)
    view = model.look(volume())
    everywhere = Ask(tuple(Click((z, 10, 15)) for z in range(6)))
    first = view.answer([everywhere])[0].mask()
    assert len(model.store) == 2
    assert model.store.used_bytes <= 2 << 20
    assert view.answer([everywhere])[0].mask() == first
    assert model.store.looks > 6


def test_prompts_lie_in_the_slices_they_cross():
    view = Slicewise(Disc(radius=2)).look(volume())
    box = view.answer([Ask((Box((1, 2, 3), (3, 5, 7)),))])[0].mask()
    assert box == Mask.box(SHAPE, (1, 2, 3), (4, 6, 8))
    hint = Mask.box(SHAPE, (2, 4, 4), (4, 8, 8))
    assert view.answer([Ask((MaskHint(hint),))])[0].mask() == hint
    stroke = Scribble(((0, 5, 5), (1, 5, 5), (1, 5, 6)))
    found = view.answer([Ask((stroke,))])[0].mask()
    assert [bool(found.slice(z)) for z in range(3)] == [True, True, False]
    assert not view.answer([Ask(())])[0].mask()


def test_words_and_slices_that_are_not_there_are_refused():
    view = Slicewise(Disc()).look(volume())
    with pytest.raises(BadInput, match="words does not lie in slices"):
        view.answer([Ask((Words("liver"),))])
    with pytest.raises(BadInput, match="has no slice 6: it has 6"):
        view.answer([Ask((Click((6, 1, 1)),))])


def test_a_slice_that_is_not_prompted_keeps_its_mask():
    view = Slicewise(Bright()).look(volume()).in_reading("sound", "without")
    first = Click((1, 10, 15))
    before = view.answer([Ask((first,))])[0]
    after = view.answer([Ask((first, Click((3, 10, 15))), before.memory)])[0]
    assert after.mask().slice(1) == before.mask().slice(1)
    assert after.mask().slice(3)
    assert set(after.answers) == {3}
    assert len(after.memory.heard.asked) == 2


def test_with_previous_prompts_every_slice_is_predicted_again():
    view = Slicewise(Bright()).look(volume())
    first = Click((1, 10, 15))
    before = view.answer([Ask((first,))])[0]
    after = view.answer([Ask((first, Click((3, 10, 15))), before.memory)])[0]
    assert set(after.answers) == {1, 3}


def test_published_remembers_only_the_slices_of_the_last_answer():
    """Mistake 10 of IntRaBench; sound keeps the newest memory of every slice."""
    made = volume()
    spot = Click((1, 4, 4)), Click((3, 10, 15)), Click((1, 15, 20))
    shown = {}
    for reading in ("published", "sound"):
        view = Slicewise(Bright()).look(made).in_reading(reading, "without")
        memory = None
        for count in range(1, 4):
            prediction = view.answer([Ask(spot[:count], memory)])[0]
            memory = prediction.memory
        shown[reading] = prediction.mask().slice(1)
    assert shown["published"].area < shown["sound"].area
    assert shown["published"] - shown["sound"] == Mask.empty(SHAPE[1:])


def test_published_lists_the_newest_round_first_and_sound_the_oldest():
    """As IntRaBench's code merges prompts with earlier ones (its golden runs say so)."""
    spots = Click((1, 4, 4)), Click((1, 10, 15)), Click((1, 15, 20))
    for reading, order in (("published", spots[::-1]), ("sound", spots)):
        view = Slicewise(Bright()).look(volume()).in_reading(reading)
        memory = None
        for count in range(1, 4):
            memory = view.answer([Ask(spots[:count], memory)])[0].memory
        assert memory.heard.passed == order
        forgotten = view.answer([Ask(spots[:1], memory)])[0]
        assert forgotten.heard.passed == spots[:1]


def test_slices_can_be_asked_one_by_one():
    view = Slicewise(Bright()).look(volume())
    asks = [SliceAsk(4, (Click((10, 15)),)), SliceAsk(2, (Click((5, 5)),))]
    found = view.answer_slices(asks)
    whole = view.answer([Ask((Click((4, 10, 15)), Click((2, 5, 5))))])[0].mask()
    assert [p.mask() for p in found] == [whole.slice(4), whole.slice(2)]


def test_memory_of_another_kind_is_no_memory():
    assert SliceMemory().heard.asked == ()
    view = Slicewise(Disc()).look(volume())
    assert view.answer([Ask((Click((1, 1, 1)),), memory="something else")])[0].mask()


def test_a_model_of_volumes_is_left_as_it_is():
    wrapped = on_volumes(Disc())
    assert "volume" in wrapped.card.abilities
    assert on_volumes(wrapped) is wrapped
    made = catalogue.models.make("slicewise?model=disc")
    assert made.card.name == "disc"


@pytest.mark.parametrize("world", list(permutations(range(3))))
def test_masks_come_back_equal_on_the_files_grid_in_every_orientation(world):
    """The same volume stored in each of the 48 orientations, segmented and put back."""
    upright = volume()
    answers = Slicewise(Bright()).look(upright).answer([Ask((Click((2, 10, 15)),))])
    expected = answers[0].mask().dense()
    for flips in product((False, True), repeat=3):
        affine = np.eye(4)
        affine[:3, :3] = 0
        for axis, (w, f) in enumerate(zip(world, flips, strict=True)):
            affine[w, axis] = -1.0 if f else 1.0
        grid = Grid([SHAPE[2 - w] for w in world], affine)
        stored = grid.to_file(upright.voxels)
        scene = Volume("made", "turned", grid.to_scene(stored), (), header=upright.header)
        again = Slicewise(Bright()).look(scene).answer([Ask((Click((2, 10, 15)),))])[0]
        assert np.array_equal(grid.to_file(again.mask().dense()), grid.to_file(expected))


def test_the_slicewise_model_keeps_what_the_instrument_relies_on():
    from segmeter.models.conformance import check

    assert check(Slicewise(Disc(radius=4))) == []


def test_memory_stays_a_small_multiple_of_the_volume():
    """A CT of 512 x 512 x 600 is 0.3 GB of int16; a whole run of it took 0.7 GB."""
    import tracemalloc

    shape = (24, 512, 512)
    voxels = np.random.default_rng(0).integers(-1000, 400, shape).astype(np.int16)
    made = Volume("made", "ct", voxels, (), header=Header("volume", shape, (1.0, 1.0, 1.0)))
    tracemalloc.start()
    view = Slicewise(Disc(), memory_mb=16).look(made)
    for reading in ("published", "sound"):
        box = Box((0, 100, 100), (23, 400, 400))
        view.in_reading(reading).answer([Ask((box,))])[0].mask()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * voxels.nbytes


def test_a_session_answers_in_its_own_protocol():
    made = volume()
    spots = Click((1, 4, 4)), Click((3, 10, 15)), Click((1, 15, 20))
    view = Slicewise(Bright()).look(made).in_reading("sound", "without")
    shown = {}
    for reading in ("published", "sound"):
        session = Session(made, view, reading=reading)
        for spot in spots:
            session.step(spot)
        shown[reading] = session.mask.slice(1)
    assert shown["published"].area < shown["sound"].area


def test_players_of_both_protocols_may_play_together():
    made, target = volume(), Target("a", Mask.box(SHAPE, (1, 2, 2), (5, 18, 28)))
    view = Slicewise(Bright()).look(made).in_reading("sound", "without")
    players = [Player(target, OneByOne(), r) for r in ("published", "sound")]
    together = play(made, view, players, 4, lambda target, mask: {})
    for player, record in zip(players, together, strict=True):
        (alone,) = play(made, view.in_reading(player.reading), [player], 4, lambda *_: {})
        assert [r.mask for r in record.rounds] == [r.mask for r in alone.rounds]
    assert together[0].rounds[-1].mask != together[1].rounds[-1].mask


@dataclass
class OneByOne:
    """Clicks at four places, back and forth between two slices."""

    name: str = "one-by-one"

    def next(self, observation, rng):
        spots = (1, 4, 4), (3, 10, 15), (1, 5, 5), (1, 15, 20)
        return Click(spots[len(observation.prompts)], positive=len(observation.prompts) != 2)
