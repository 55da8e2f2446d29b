"""Models for images on volumes: which slices are looked at, and what is remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.capabilities import ForgetsPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Text
from segmeter.core.scenes import SceneHeader, Target, Volume
from segmeter.core.sessions import Session
from segmeter.datasets.volumes.stored import Grid
from segmeter.datasets.volumes.volume_folder import VolumeFolder
from segmeter.models.synthetic import Disc
from segmeter.models.volumes.slices import CT_WINDOW, EncodesTogether, turned
from segmeter.models.volumes.slicewise import SliceState, Slicewise, on_volumes

SHAPE = (6, 20, 30)


def volume(id="1", seed=0):
    rng = np.random.default_rng(seed)
    voxels = rng.normal(100, 20, SHAPE).astype(np.float32)
    return Volume("made", id, voxels, (), header=SceneHeader("volume", SHAPE, (5.0, 1.0, 1.0)))


@dataclass
class Bright:
    """Shows pixels brighter than 128 near a click, and what it showed before."""

    looked: list = field(default_factory=list)
    card = ModelCard("bright", "", frozenset({"click"}))

    def encode(self, scene):
        self.looked.append(scene.pixels.copy())
        return BrightEncodedScene(scene.pixels[:, :, 0])


@dataclass
class BrightEncodedScene:
    pixels: np.ndarray
    nbytes: int = 1 << 20

    def predict(self, requests):
        return [self._one(request) for request in requests]

    def _one(self, request):
        shown = np.zeros(self.pixels.shape, bool) if request.state is None else request.state.copy()
        for click in request.prompts:
            y, x = (int(c) for c in click.point)
            place = np.s_[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4]
            shown[place] = click.positive & (self.pixels[place] > 128)
        return MaskPrediction(Mask.of(shown), state=shown)


def test_only_slices_with_a_prompt_are_encoded_and_only_once():
    inner = Bright()
    model = Slicewise(inner)
    encoded = model.encode(volume())
    assert inner.looked == []
    encoded.predict([Request((Click((2, 5, 5)),)), Request((Click((2, 9, 9)), Click((4, 3, 3))))])
    assert len(inner.looked) == model.store.encodings == 2
    encoded.predict([Request((Click((4, 1, 1)),))])
    model.encode(volume()).predict(
        [Request((Click((2, 5, 5)),))]
    )  # another target, the same content
    assert model.store.encodings == 2


class Watching(Bright):
    """Keeps whether the pixels it was shown lie in memory as any array does."""

    def encode(self, scene):
        self.plain = scene.pixels.flags.c_contiguous and scene.pixels.flags.writeable
        return super().encode(scene)


@capable(EncodesTogether)
class Together(Watching):
    """Looks at several slices at once, as SAM does."""

    def encode_together(self, images):
        return [self.encode(image) for image in images]


def test_slices_are_copied_to_three_channels_only_for_models_that_encode_one_by_one():
    requests = [Request((Click((2, 5, 5)), Click((4, 3, 3))))]
    alone, several = Watching(), Together()
    one, other = (
        Slicewise(m).encode(volume()).predict(requests)[0].mask() for m in (alone, several)
    )
    assert one == other
    assert alone.plain
    assert not several.plain


def test_a_slice_of_another_patient_is_never_answered_on_this_ones_embedding():
    """What IntRaBench did at the time of the paper (its mistake 1)."""
    model = Slicewise(Bright())
    requests = [Request((Click((3, 10, 15)),))]
    one, other = (model.encode(volume(str(s), s)).predict(requests)[0].mask() for s in (1, 2))
    fresh = Slicewise(Bright()).encode(volume("2", 2)).predict(requests)[0].mask()
    assert other == fresh
    assert one != other


def test_slices_are_dropped_when_the_budget_is_full_and_answers_stay():
    inner = Bright()
    model = Slicewise(inner, memory_mb=2)
    encoded = model.encode(volume())
    everywhere = Request(tuple(Click((z, 10, 15)) for z in range(6)))
    first = encoded.predict([everywhere])[0].mask()
    assert len(model.store) == 2
    assert model.store.used_bytes <= 2 << 20
    assert encoded.predict([everywhere])[0].mask() == first
    assert model.store.encodings > 6


def test_prompts_are_in_the_slices_they_cross():
    encoded = Slicewise(Disc(radius=2)).encode(volume())
    box = encoded.predict([Request((Box((1, 2, 3), (3, 5, 7)),))])[0].mask()
    assert box == Mask.box(SHAPE, (1, 2, 3), (4, 6, 8))
    hint = Mask.box(SHAPE, (2, 4, 4), (4, 8, 8))
    assert encoded.predict([Request((MaskHint(hint),))])[0].mask() == hint
    stroke = Scribble(((0, 5, 5), (1, 5, 5), (1, 5, 6)))
    found = encoded.predict([Request((stroke,))])[0].mask()
    assert [bool(found.slice(z)) for z in range(3)] == [True, True, False]
    assert not encoded.predict([Request(())])[0].mask()


def test_words_and_slices_that_are_not_there_are_refused():
    encoded = Slicewise(Disc()).encode(volume())
    with pytest.raises(BadInput, match="a text does not lie in slices"):
        encoded.predict([Request((Text("liver"),))])
    with pytest.raises(BadInput, match="has no slice 6: it has 6"):
        encoded.predict([Request((Click((6, 1, 1)),))])


def test_a_slice_that_is_not_prompted_keeps_its_mask():
    encoded = Slicewise(Bright()).encode(volume())
    before = encoded.predict([Request((Click((1, 10, 15)),))])[0]
    after = encoded.predict([Request((Click((3, 10, 15)),), before.state)])[0]
    assert after.mask().slice(1) == before.mask().slice(1)
    assert after.mask().slice(3)
    assert set(after.answers) == {3}


def test_with_previous_prompts_every_slice_is_predicted_again():
    encoded = Slicewise(Bright()).encode(volume())
    first = Click((1, 10, 15))
    before = encoded.predict([Request((first,))])[0]
    after = encoded.predict([Request((first, Click((3, 10, 15))), before.state)])[0]
    assert set(after.answers) == {1, 3}


def test_published_keeps_only_the_slices_of_the_last_prediction():
    """Mistake 10 of IntRaBench; corrected keeps the newest memory of every slice."""
    made = volume()
    spot = Click((1, 4, 4)), Click((3, 10, 15)), Click((1, 15, 20))
    shown = {}
    for protocol in ("published", "corrected"):
        encoded = Slicewise(Bright()).encode(made).in_protocol(protocol)
        state = None
        for click in spot:
            prediction = encoded.predict([Request((click,), state)])[0]
            state = prediction.state
        shown[protocol] = prediction.mask().slice(1)
    assert shown["published"].area < shown["corrected"].area
    assert shown["published"] - shown["corrected"] == Mask.empty(SHAPE[1:])


def test_published_lists_the_newest_round_first_and_corrected_the_oldest():
    """As IntRaBench's code merges prompts with earlier ones (its golden runs say so)."""
    spots = Click((1, 4, 4)), Click((1, 10, 15)), Click((1, 15, 20))
    for protocol, order in (("published", spots[::-1]), ("corrected", spots)):
        encoded = Slicewise(Bright()).encode(volume()).in_protocol(protocol)
        state = None
        for count in range(1, 4):
            state = encoded.predict([Request(spots[:count], state)])[0].state
        assert state.history.passed == order
        forgotten = encoded.predict([Request(spots[:1], state)])[0]
        assert forgotten.history.passed == spots[:1]


def test_slices_can_be_predicted_one_by_one():
    encoded = Slicewise(Bright()).encode(volume())
    clicks = Click((4, 10, 15)), Click((2, 5, 5))
    found = encoded.predict([Request((click,)) for click in clicks])
    whole = encoded.predict([Request(clicks)])[0].mask()
    assert [p.slices for p in found] == [{4: whole.slice(4)}, {2: whole.slice(2)}]


def test_memory_of_another_kind_is_no_memory():
    assert SliceState().history.asked == ()
    encoded = Slicewise(Disc()).encode(volume())
    assert encoded.predict([Request((Click((1, 1, 1)),), state="something else")])[0].mask()


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
    answers = Slicewise(Bright()).encode(upright).predict([Request((Click((2, 10, 15)),))])
    expected = answers[0].mask().dense()
    for flips in product((False, True), repeat=3):
        affine = np.eye(4)
        affine[:3, :3] = 0
        for axis, (w, f) in enumerate(zip(world, flips, strict=True)):
            affine[w, axis] = -1.0 if f else 1.0
        grid = Grid([SHAPE[2 - w] for w in world], affine)
        stored = grid.to_file(upright.voxels)
        scene = Volume("made", "turned", grid.to_scene(stored), (), header=upright.header)
        again = Slicewise(Bright()).encode(scene).predict([Request((Click((2, 10, 15)),))])[0]
        assert np.array_equal(grid.to_file(again.mask().dense()), grid.to_file(expected))


def test_the_slicewise_model_keeps_what_the_instrument_relies_on():
    from segmeter.models.conformance import check

    assert check(Slicewise(Disc(radius=4))) == []


def test_memory_stays_a_small_multiple_of_the_volume():
    """A CT of 512 x 512 x 600 is 0.3 GB of int16; a whole run of it took 0.7 GB."""
    import tracemalloc

    shape = (24, 512, 512)
    voxels = np.random.default_rng(0).integers(-1000, 400, shape).astype(np.int16)
    made = Volume("made", "ct", voxels, (), header=SceneHeader("volume", shape, (1.0, 1.0, 1.0)))
    tracemalloc.start()
    encoded = Slicewise(Disc(), memory_mb=16).encode(made)
    for protocol in ("published", "corrected"):
        box = Box((0, 100, 100), (23, 400, 400))
        encoded.in_protocol(protocol).predict([Request((box,))])[0].mask()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * voxels.nbytes


def test_a_session_predicts_in_its_protocol():
    made = volume()
    spots = Click((1, 4, 4)), Click((3, 10, 15)), Click((1, 15, 20))
    encoded = Slicewise(Bright()).encode(made)
    shown = {}
    for protocol in ("published", "corrected"):
        session = Session(made, encoded, protocol=protocol, forgets=True)
        for spot in spots:
            session.step(spot)
        shown[protocol] = session.mask.slice(1)
    assert shown["published"].area < shown["corrected"].area


def test_sessions_of_both_protocols_may_run_together():
    made, target = volume(), Target("a", Mask.box(SHAPE, (1, 2, 2), (5, 18, 28)))
    encoded = Slicewise(Bright()).encode(made)
    simulated_sessions = [
        SimulatedSession(target, OneByOne(), r) for r in ("published", "corrected")
    ]
    together = simulate(made, encoded, simulated_sessions, 4, lambda target, mask: {})
    for simulated, record in zip(simulated_sessions, together, strict=True):
        (alone,) = simulate(
            made, encoded.in_protocol(simulated.protocol), [simulated], 4, lambda *_: {}
        )
        assert [r.mask for r in record.rounds] == [r.mask for r in alone.rounds]
    assert together[0].rounds[-1].mask != together[1].rounds[-1].mask


@dataclass
@capable(ForgetsPrompts)
class OneByOne:
    """Clicks at four places, back and forth between two slices; each click is said once."""

    name: str = "one-by-one"
    forgets_prompts: bool = True

    def next(self, observation, rng):
        spots = (1, 4, 4), (3, 10, 15), (1, 5, 5), (1, 15, 20)
        return Click(spots[len(observation.prompts)], positive=len(observation.prompts) != 2)


def test_networks_see_slices_as_radiologists_do_and_answer_along_the_scene_axes():
    """Front at the top, the patient's right on the left; `published` turns them as the paper."""
    voxels = np.random.default_rng(0).random(SHAPE).astype(np.float32)
    voxels[2, 14:20, 1:8] = 1000  # at the front (large y), on the left (small x)
    scene = Volume("made", "1", voxels, (), header=SceneHeader("volume", SHAPE, (5.0, 1.0, 1.0)))
    inner = Bright()
    encoded = Slicewise(inner).encode(scene)
    expected = Mask.of(voxels > 500)
    for protocol, rows in (("corrected", range(6)), ("published", range(14, 20))):
        seen = encoded.in_protocol(protocol)
        assert seen.predict([Request((Click((2, 17, 4)),))])[0].mask() == expected
        bright = np.argwhere(inner.looked[-1][:, :, 0] > 128)
        assert set(bright[:, 0]) == set(rows)
        assert bool(bright[:, 1].min() > 15) is (protocol == "corrected")
        (alone,) = seen.predict([Request((Click((2, 17, 4)),))])
        assert alone.slices == {2: expected.slice(2)}


@pytest.mark.parametrize(
    "prompt",
    [
        Click((3, 4), False),
        Box((1, 2), (7, 9)),
        Scribble(((1, 2), (3, 4))),
        MaskHint(Mask.box((20, 30), (2, 3), (5, 9))),
    ],
)
def test_turning_a_prompt_twice_gives_it_back(prompt):
    once = turned(prompt, (20, 30))
    assert once != prompt
    assert turned(once, (20, 30)) == prompt


def petct(tmp_path, names, channel, suffix=""):
    """A CT and a PET as channels of one case of an nnU-Net folder."""
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(0)
    ct = rng.integers(-1000, 300, (12, 14, 4)).astype(np.int16)
    pet = rng.gamma(1.0, 1.0, (12, 14, 4)).astype(np.float32)
    images = {"CT": ct, "PET": pet, "Portal venous CT": ct, "zscore": ct, "image": pet}
    for folder in ("imagesTr", "labelsTr"):
        (tmp_path / folder).mkdir(exist_ok=True)
    for number, name in enumerate(names):
        image = nibabel.Nifti1Image(images[name], np.eye(4))
        nibabel.save(image, tmp_path / "imagesTr" / f"a_{number:04}.nii.gz")
    labels = nibabel.Nifti1Image((ct > 100).astype(np.uint8), np.eye(4))
    nibabel.save(labels, tmp_path / "labelsTr" / "a.nii.gz")
    content = {"channel_names": dict(enumerate(names)), "labels": {"liver": 1}}
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    return VolumeFolder(str(tmp_path), channel=channel).load("a")


@pytest.mark.parametrize(
    ("names", "channel", "in_ct_window"),
    [
        (["CT"], 0, True),
        (["Portal venous CT"], 0, True),
        (["zscore"], 0, True),
        (["image"], 0, False),
        (["CT", "PET"], 0, True),
        (["CT", "PET"], 1, False),
    ],
)
def test_ct_is_windowed_for_any_channel_name_and_pet_never(tmp_path, names, channel, in_ct_window):
    inner = Bright()
    encoded = Slicewise(inner).encode(petct(tmp_path, names, channel)).in_protocol("corrected")
    assert (encoded.window == CT_WINDOW) is in_ct_window
    encoded.predict([Request((Click((2, 5, 5)),))])
    assert len(np.unique(inner.looked[-1])) > 20


def test_the_oracle_shows_its_target_on_volumes():
    scene = catalogue.datasets.make("mini-volumes").load("hippocampus_001")
    user = catalogue.users.make("box-per-slice")
    for protocol in ("corrected", "published"):
        encoded = (
            Slicewise(catalogue.models.make("synthetic-oracle")).encode(scene).in_protocol(protocol)
        )
        simulated_sessions = [SimulatedSession(target, user, protocol) for target in scene.targets]
        records = simulate(scene, encoded, simulated_sessions, 1, lambda target, mask: {})
        assert [r.rounds[-1].mask == r.simulated.target.mask for r in records] == [True, True]


def test_grabcut_is_never_empty_where_a_box_was_drawn():
    """Colours inside and outside a tight box are alike in MR; then the cut takes all away."""
    scene = catalogue.datasets.make("mini-volumes").load("hippocampus_001")
    target = scene.targets[0].mask
    encoded = Slicewise(catalogue.models.make("grabcut")).encode(scene)
    for z in range(target.low[0], target.high[0]):
        flat = target.slice(z)
        box = Box((z, *flat.low), (z, *(c - 1 for c in flat.high)))
        assert encoded.predict([Request((box,))])[0].mask().area > 0
