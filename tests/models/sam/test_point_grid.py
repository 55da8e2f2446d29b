"""A SAM's candidates: the same as asking click by click, on a processor and on a device."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import ModelCard, Request  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import Image, Scene  # noqa: E402
from segmeter.datasets.image_files import read_rgb  # noqa: E402
from segmeter.models.automatic.candidates import Logits  # noqa: E402
from segmeter.models.automatic.generator import generate  # noqa: E402
from segmeter.models.automatic.options import Options  # noqa: E402
from segmeter.models.sam._click_decoding import DeviceEnlargement  # noqa: E402
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402
from segmeter.models.sam._resizing import Padded, Squeezed  # noqa: E402

SHAPE = (30, 40)
POINTS = np.array([[10.0, 12.0], [3.5, 30.25], [25.0, 7.0]])


class SmallNetwork:
    """The real decoder with random weights on a 4 x 4 grid."""

    def __init__(self, second: bool) -> None:
        torch.manual_seed(3)
        self.second, self.device = second, torch.device("cpu")
        self.prompts = PromptEncoder(64, 4).eval().requires_grad_(False)
        self.decoder = MaskDecoder(fine=second).eval().requires_grad_(False)
        if not second:  # unbounded scores of random weights may all be negative
            self.decoder.iou_prediction_head.layers[2].bias += 1.0

    def frame(self, shape: tuple[int, int]) -> Any:
        return Squeezed(shape, 64) if self.second else Padded(shape, 64)

    def encode(self, pixels: Any) -> Embedding:
        fine = (torch.randn(1, 64, 8, 8), torch.randn(1, 32, 16, 16)) if self.second else None
        return Embedding(torch.randn(1, 16, 256), fine)


class SmallSam:
    def __init__(self, second: bool) -> None:
        self.network = SmallNetwork(second)
        self.embedding = self.network.encode(None)

    def encode(self, scene: Scene) -> SamEncodedScene:
        return SamEncodedScene(self.network, self.network.frame(SHAPE), self.embedding, Policy())


def encode(second: bool) -> SamEncodedScene:
    return SmallSam(second).encode(Image("small", "one", np.zeros((*SHAPE, 3), np.uint8), []))


@pytest.mark.parametrize("second", [False, True])
def test_a_grid_gives_the_three_masks_of_each_click(second: bool) -> None:
    encoded = encode(second)
    together = encoded.candidates(POINTS, 0.0)
    alone: Any = encoded.predict([Request((Click((y, x)),)) for y, x in POINTS])
    assert together.places.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    wanted = np.concatenate([p.scores[1:] for p in alone])
    assert np.abs(together.scores - wanted).max() < 1e-5
    maps = torch.cat([p.logits[1:] for p in alone]).numpy()
    assert isinstance(together, Logits)
    assert np.abs(together.maps - maps).max() < 1e-4


@pytest.mark.parametrize("second", [False, True])
def test_only_masks_above_the_score_are_kept(second: bool) -> None:
    encoded = encode(second)
    every = encoded.candidates(POINTS, 0.0)
    floor = float(np.sort(every.scores)[-4])
    best = encoded.candidates(POINTS, floor)
    passed = np.flatnonzero(every.scores > np.float32(floor))
    assert best.scores.tolist() == every.scores[passed].tolist()
    assert best.places.tolist() == every.places[passed].tolist()
    assert best.masks() == every.take(passed).masks()
    assert len(encoded.candidates(POINTS, 1e9).masks()) == 0


@pytest.mark.parametrize("second", [False, True])
def test_masks_on_a_device_are_measured_as_on_the_host(second: bool) -> None:
    encoded = encode(second)
    host = encoded.candidates(POINTS, 0.0)
    assert isinstance(host, Logits)
    maps, to = torch.from_numpy(host.maps), DeviceEnlargement(encoded.frame)
    there = replace(host, maps=maps, to=to)
    kept = np.array([5, 0, 7])
    for one, other in ((host, there), (host.take(kept), there.take(kept))):
        mine, theirs = one.measure(0.1), other.measure(0.1)
        for name in ("loose", "area", "strict", "boxes"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        assert one.masks() == other.masks()
        assert np.abs(one.values() - other.values()).max() < 1e-5
        cleaned = [c.cleaned(3).measure(0.1).area.tolist() for c in (one, other)]
        assert cleaned[0] == cleaned[1]
    empty = there.take(np.array([], dtype=np.intp))
    assert len(empty.measure(1.0).area) == 0
    assert empty.values().shape == (0, *SHAPE)


@pytest.mark.parametrize("second", [False, True])
def test_refining_predicts_each_candidate_from_its_logits(second: bool) -> None:
    encoded = encode(second)
    first = encoded.candidates(POINTS, 0.0)
    again = encoded.refined(POINTS, first)
    assert isinstance(first, Logits)
    state = torch.from_numpy(first.maps[4:5]).clamp(-32, 32)
    (alone,) = encoded.predict([Request((Click(tuple(POINTS[1])),), state)])
    shown = alone.shown if second else 0
    assert again.places.tolist() == first.places.tolist()
    assert again.scores[4] == pytest.approx(alone.scores[shown], abs=1e-5)


def test_sam_2s_variants_run_through() -> None:
    scene = Image("small", "one", np.zeros((*SHAPE, 3), np.uint8), [])
    options = Options(
        points=3, score=0.0, stability=0.0, box_nms=1.0, refine=True, clean="logits", smallest=2
    )
    assert len(generate(SmallSam(second=True), scene, options)) == 27


def test_sam_hq_gives_the_refined_masks_of_each_click() -> None:
    torch.manual_seed(4)
    network = SmallNetwork(second=False)
    network.decoder = MaskDecoder(quality=16).eval().requires_grad_(False)
    embedding = Embedding(torch.randn(1, 16, 256), quality=torch.randn(1, 32, 16, 16))
    encoded = SamEncodedScene(network, network.frame(SHAPE), embedding, Policy())
    together = encoded.candidates(POINTS, 0.0)
    alone: Any = encoded.predict([Request((Click((y, x)),)) for y, x in POINTS])
    wanted = np.concatenate([p.scores[1:] for p in alone])
    assert np.abs(together.scores - wanted).max() < 1e-5
    assert together.masks() == [p.mask(k) for p in alone for k in (1, 2, 3)]


def test_later_sams_have_the_defaults_of_their_generator() -> None:
    class Later(SmallSam):
        card = ModelCard("later", "a later SAM", frozenset({"click"}), family="sam2")

    options = catalogue.methods.make("automatic", model=Later(second=True)).options
    assert (options.score, options.clean) == (0.8, "logits")
    told = catalogue.methods.make("automatic", model=Later(second=True), score=0.5).options
    assert told.score == 0.5


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_mobile_sam_makes_the_masks_of_the_original_program(
    golden: Path, real_data: Path, real_weights: Path
) -> None:
    """Some of its records, from their points alone; a whole image takes a minute."""
    file = golden / "zeroshot" / "real" / "automatic_mobile-sam.json.gz"
    case = json.loads(gzip.decompress(file.read_bytes()))["c1"]
    records = case["records"][:: len(case["records"]) // 8]
    pixels = read_rgb(real_data / case["picture"])
    height, width = pixels.shape[:2]
    points = np.array([record["point_coords"][0] for record in records]) / [width, height]
    method = catalogue.methods.make("automatic?model=mobile-sam", weights=real_weights)
    options = Options(grids=(points,), score=0.0, stability=0.0, box_nms=1.0)
    found = generate(method.model, Image("coco", "one", pixels, []), options)
    for wanted in records:
        score = wanted["predicted_iou"]
        # Of the three masks of its point the one with its score.
        mine = [m for m in found if m.record()["point_coords"] == wanted["point_coords"]]
        one = min(mine, key=lambda m: abs(m.score - score))
        theirs = Mask.from_coco(wanted["segmentation"])
        shared = one.mask.overlap(theirs)
        assert shared >= 0.999 * (one.mask.area + theirs.area - shared)
        assert one.score == pytest.approx(score, abs=1e-4)
        if theirs:
            # A pixel at the threshold falls on either side, from processor to processor.
            near = pytest.approx(wanted["stability_score"], abs=1e-4 + 1 / theirs.area)
            assert one.stability == near
            assert one.record()["bbox"] == pytest.approx(wanted["bbox"], abs=1)


@pytest.mark.parametrize("second", [False, True])
def test_the_single_output_is_the_mask_of_an_unambiguous_prompt(second: bool) -> None:
    encoded = encode(second)
    clicks = torch.tensor(POINTS, dtype=torch.float32)
    both = torch.stack([clicks, torch.zeros_like(clicks)], dim=1)
    sparse = encoded.encode_points(both, torch.tensor([1, -1]).expand(len(clicks), 2))
    logits, scores = encoded.decode(sparse, encoded.network.prompts.no_mask())
    single = encoded.single_candidates(POINTS, 0.0)
    np.testing.assert_allclose(single.maps, logits[:, 0], atol=1e-4)
    np.testing.assert_allclose(single.scores, scores[:, 0], atol=1e-5)
    assert single.places.tolist() == [0, 1, 2]
