"""MobileSAM on slices: where IntRaBench's code cuts logits, what it feeds back, and sizes."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import SceneHeader, Volume  # noqa: E402
from segmeter.models.volumes.slicewise import Slicewise  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("encoded_once")]


@pytest.fixture(scope="module")
def model(real_weights):
    torch.set_num_threads(1)
    return catalogue.models.make("mobile-sam", weights=str(real_weights), device="cpu")


def volume(height, width):
    """One bright block on noise; values whose window is the same in both protocols."""
    voxels = np.random.default_rng(2).integers(0, 60, (1, height, width)).astype(np.uint8)
    voxels[0, 10:30, 12:36] += 150
    header = SceneHeader("volume", voxels.shape, (1.0, 1.0, 1.0))
    return Volume("made", f"{height}x{width}", voxels, (), header=header)


def test_m13_m14_published_cuts_logits_at_a_half_and_feeds_back_their_sigmoid(model):
    encoded = Slicewise(model).encode(volume(40, 60))
    (whole,) = encoded.in_protocol("corrected").predict([Request((Click((0, 20, 24)),))])
    corrected = whole.answers[0]
    assert torch.equal(corrected.state, shown(corrected))
    published = corrected.encoded.with_policy(model.slice_policy("published"))
    (found,) = published.predict([Request((Click((20, 24)),))])
    assert torch.equal(found.state, shown(found).sigmoid())
    between = torch.full_like(shown(found), 0.3)
    assert not published.masks_of(between)[0]
    assert corrected.encoded.masks_of(between)[0].area == 40 * 60


def shown(prediction):
    return torch.as_tensor(prediction.logits[prediction.shown : prediction.shown + 1])


def test_m2_a_slice_of_another_shape_is_not_cut_as_the_first_one_was(model):
    """At the time of the paper the first image's size was kept for all."""
    requests = [Request((Click((0, 20, 24)),))]
    alone = Slicewise(model).encode(volume(60, 40)).predict(requests)[0].mask()
    both = Slicewise(model)
    both.encode(volume(40, 60)).predict(requests)
    assert both.encode(volume(60, 40)).predict(requests)[0].mask() == alone
    assert alone.shape == (1, 60, 40)
