"""A SAM's view: which mask is shown, what is fed back, where points go, how masks come out.

The networks here are the real decoder with random weights on a 4 x 4 grid.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput, NotFound  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Text  # noqa: E402
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy, fed_back, stability  # noqa: E402
from segmeter.models.sam._resizing import Padded, Squeezed  # noqa: E402
from segmeter.models.weights import pick_device, pick_dtype  # noqa: E402

SHAPE = (30, 40)
Choice = Literal["published", "corrected"]
Masks = Literal["published", "corrected", "zeroshot"]


class SmallNetwork:
    def __init__(self, second: bool) -> None:
        torch.manual_seed(3)
        self.second = second
        self.device = torch.device("cpu")
        self.prompts = PromptEncoder(64, 4).eval().requires_grad_(False)
        self.decoder = MaskDecoder(fine=self.second).eval().requires_grad_(False)

    def frame(self, shape: tuple[int, int]) -> Any:
        return Squeezed(shape, 64) if self.second else Padded(shape, 64)

    def encode(self, pixels: Any) -> Embedding:
        fine = (torch.randn(1, 64, 8, 8), torch.randn(1, 32, 16, 16)) if self.second else None
        return Embedding(torch.randn(1, 16, 256), fine)


def encode(
    second: bool, masks: Masks = "published", points: Choice = "published"
) -> SamEncodedScene:
    network = SmallNetwork(second)
    embedding = network.encode(torch.zeros(1, 3, 64, 64))
    return SamEncodedScene(network, network.frame(SHAPE), embedding, Policy(masks, points))


ONE = (Click((10, 12)),)
TWO = (*ONE, Click((3, 30), positive=False))


@pytest.mark.parametrize("second", [False, True])
def test_there_are_four_candidates_by_token_number(second: bool) -> None:
    prediction = encode(second).predict([Request(ONE)])[0]
    assert prediction.scores.shape == (4,)
    assert {prediction.mask(i).shape for i in range(4)} == {SHAPE}
    assert prediction.mask() == prediction.mask(prediction.shown)


def test_the_first_sam_shows_the_best_of_three_at_every_click() -> None:
    for prompts in (ONE, TWO):
        prediction = encode(second=False).predict([Request(prompts)])[0]
        assert prediction.shown == 1 + int(prediction.scores[1:].argmax())


def test_the_second_sam_falls_back_when_its_single_mask_is_unstable() -> None:
    encoded = encode(second=True)
    logits = torch.full((2, 4, 16, 16), 1.0)
    logits[1, 0, :8] = 0.0  # half of the second ask's mask sits on the threshold
    scores = torch.tensor([[0.9, 0.1, 0.8, 0.3]] * 2)
    assert encoded.choose(logits, scores, [True, True]).tolist() == [0, 2]


def test_stability_is_the_share_a_stricter_threshold_keeps() -> None:
    logits = torch.full((3, 10, 10), -1.0)
    logits[0, :5] = 1.0
    logits[1, :5] = 1.0
    logits[1, 0] = 0.01
    assert stability(logits).tolist() == pytest.approx([1.0, 0.8, 1.0])


@pytest.mark.parametrize("second", [False, True])
def test_the_corrected_policy_is_the_same_for_all(second: bool) -> None:
    encoded = encode(second, masks="corrected")
    first, later, box = encoded.predict(
        [Request(ONE), Request(TWO), Request((Box((2, 2), (9, 9)),))]
    )
    assert first.shown == 1 + int(first.scores[1:].argmax())
    assert later.shown == box.shown == 0


def test_the_zeroshot_policy_offers_three_masks_where_each_family_does() -> None:
    """The first SAM: a lone click or box, nothing fed back. The second: a lone click."""
    box, best = (Box((2, 2), (9, 9)),), "best of three"
    for second, wanted in ((False, [best, 0, best, 0, 0]), (True, [best, 0, 0, best, 0])):
        encoded = encode(second, masks="zeroshot")
        state = encoded.predict([Request(ONE)])[0].state
        requests = [
            Request(ONE),
            Request(TWO),
            Request(box),
            Request(ONE, state),
            Request(box, state),
        ]
        logits = torch.full((1, 4, 16, 16), 9.0)  # stable, so that no fall-back interferes
        scores = torch.tensor([[0.9, 0.1, 0.8, 0.3]])
        shown = [
            int(encoded.choose(logits, scores, [encoded.is_ambiguous(request)]))
            for request in requests
        ]
        assert shown == [2 if rule == best else 0 for rule in wanted]


def test_the_zeroshot_policy_feeds_every_rounds_logits_back() -> None:
    encoded = encode(second=False, masks="zeroshot")
    assert all(encoded.keeps_state(p, "published") for p in (ONE, TWO))


def test_published_drops_the_memory_while_each_sign_was_clicked_at_most_once() -> None:
    encoded = encode(second=False)
    three = (*TWO, Click((5, 5)))
    kept = [encoded.keeps_state(p, "published") for p in (ONE, TWO, three)]
    assert kept == [False, False, True]
    assert all(encoded.keeps_state(p, "corrected") for p in (ONE, TWO, three))


@pytest.mark.parametrize("second", [False, True])
def test_the_second_sam_clamps_what_is_fed_back_and_the_first_does_not(second: bool) -> None:
    encoded = encode(second)
    encoded.decode = lambda *given: tuple(
        1e4 * out for out in SamEncodedScene.decode(encoded, *given)
    )
    prediction = encoded.predict([Request(ONE)])[0]
    assert (float(prediction.state.abs().max()) <= 32) == second
    shown = torch.tensor([prediction.shown])
    assert torch.equal(
        prediction.state, fed_back(encoded.policy, second, prediction.logits[None], shown)
    )


def test_state_changes_the_prediction_of_its_request_only() -> None:
    encoded = encode(second=False)
    state = encoded.predict([Request(ONE)])[0].state
    alone = encoded.predict([Request(TWO)])[0]
    beside, mask_fed_back = encoded.predict([Request(TWO), Request(TWO, state)])
    assert torch.allclose(beside.logits, alone.logits, atol=1e-5)
    assert not torch.allclose(mask_fed_back.logits, alone.logits, atol=1e-3)


def test_points_have_the_positions_of_the_wrapper_or_of_pixel_centres() -> None:
    """A 30 x 40 image in a square of 64: one pixel is 32/15 high and 1.6 wide."""
    points = torch.tensor([[[3.0, 10.0]]])
    labels = torch.tensor([[1]])
    for rule, place in (
        ("published", (10 * 1.6, 3 * 32 / 15)),
        ("corrected", (10.5 * 1.6 - 0.5, 3.5 * 32 / 15 - 0.5)),
    ):
        encoded = encode(second=True, points=rule)
        expected = encoded.network.prompts.points(torch.tensor([[place]]), labels)
        assert torch.allclose(encoded.encode_points(points, labels), expected, atol=1e-4)


def test_the_first_sam_pads_only_without_a_box_and_the_second_always() -> None:
    box = Box((2, 3), (9, 11))
    assert encode(second=False).tokens((*ONE, box))[1] == [1, 2, 3]
    assert encode(second=True).tokens((*ONE, box))[1] == [1, 2, 3, -1]
    assert encode(second=False).tokens(TWO)[1] == [1, 0, -1]


def test_a_later_box_replaces_an_earlier_one() -> None:
    points, _ = encode(second=False).tokens((Box((0, 0), (5, 5)), Box((1, 2), (8, 9))))
    assert points == [(1, 2), (8, 9)]


def test_a_stroke_is_passed_on_as_a_few_evenly_spaced_points() -> None:
    stroke = Scribble(tuple((5, x) for x in range(29)), positive=False)
    points, labels = encode(second=False).tokens((stroke,))
    assert points == [(5, x) for x in range(0, 29, 4)] + [(0.0, 0.0)]
    assert labels == [0] * 8 + [-1]


def test_a_mask_hint_counts_until_there_is_a_memory() -> None:
    encoded = encode(second=False)
    hint = MaskHint(Mask.box(SHAPE, (5, 5), (20, 20)))
    state = torch.ones(1, 16, 16)
    assert torch.equal(encoded.mask_prompt(Request((hint, *ONE), state)), state)
    fresh = encoded.mask_prompt(Request((*ONE, hint), state))
    assert fresh.shape == (1, 16, 16)
    assert float(fresh[0, 4, 4]) == 10.0
    assert float(fresh[0, -1, -1]) == -10.0


def test_text_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadInput, match="take no text"):
        encode(second=True).predict([Request((Text("cup"),))])


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.booleans())
def test_requests_of_any_number_are_answered_in_order(lengths: list[int], second: bool) -> None:
    encoded = encode(second)
    requests = [Request(tuple(Click((i, 2 * k)) for k in range(n))) for i, n in enumerate(lengths)]
    together = encoded.predict(requests)
    for request, prediction in zip(requests, together, strict=True):
        alone = encoded.predict([request])[0]
        assert torch.allclose(prediction.logits, alone.logits, atol=1e-5)


@pytest.mark.parametrize("frame", [Padded((33, 50), 64), Squeezed((33, 50), 64)])
def test_a_mask_survives_the_way_into_the_frame_and_back(frame: Any) -> None:
    ground_truth = Mask.box((33, 50), (8, 10), (24, 40))
    low = frame.shrink(torch.from_numpy(ground_truth.dense())[None, None].float(), 16)
    back = Mask.of((frame.leave(low * 2 - 1)[0, 0] > 0).numpy())
    assert ground_truth.overlap(back) / (ground_truth | back).area > 0.85


def test_the_padded_frame_keeps_the_aspect_and_fills_with_zero() -> None:
    frame = Padded((30, 40), 64)
    out = frame.enter(np.full((30, 40, 3), 255, np.uint8), torch.device("cpu"))
    assert out.shape == (1, 3, 64, 64)
    assert frame.inside == (48, 64)
    assert float(out[..., 48:, :].abs().max()) == 0.0
    assert float(out[..., :48, :].min()) > 1.0


def test_rendering_in_pieces_gives_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode(second=True)
    predictions = encoded.predict([Request(ONE), Request(TWO), Request((Box((2, 2), (9, 9)),))])
    whole = encoded.render(predictions)
    monkeypatch.setattr("segmeter.models.sam._encoded.RENDERED_PIXELS", 1)
    assert encoded.render(predictions) == whole == [p.mask() for p in predictions]


def test_half_precision_answers_nearly_the_same() -> None:
    encoded = encode(second=True)
    exact = encoded.predict([Request(TWO)])[0].logits
    network = encoded.network
    network.prompts.to(torch.bfloat16)
    network.decoder.to(torch.bfloat16)
    half = Embedding(
        encoded.embedding.cells.bfloat16(), tuple(f.bfloat16() for f in encoded.embedding.fine)
    )
    rough = (
        SamEncodedScene(network, encoded.frame, half, encoded.policy)
        .predict([Request(TWO)])[0]
        .logits
    )
    assert rough.dtype == torch.float32
    assert float((rough - exact).abs().max()) < 0.1 * float(exact.abs().max())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: pick_device("toaster"), "no device 'toaster'"),
        (lambda: pick_dtype("int4"), "no dtype 'int4'"),
        (
            lambda: catalogue.models.make("mobile-sam?masks=best"),
            "published, corrected or zeroshot",
        ),
    ],
)
def test_an_option_out_of_range_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        call()


def test_the_error_of_edgetam_names_the_missing_package() -> None:
    with pytest.raises(NotFound, match=r"segmeter fetch edgetam|timm"):
        catalogue.models.make("edgetam", weights="nowhere-at-all")


@pytest.mark.parametrize(
    ("model", "kind", "needed"),
    [("sam3-tracker", "sam3_tracker", "5.0"), ("edgetam", "edgetam", "4.57")],
)
def test_a_version_of_transformers_without_the_model_is_named_when_it_is_made(
    model: str, kind: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: "4.56.2")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    save_file = pytest.importorskip("safetensors.torch").save_file
    save_file({"vision_encoder.x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(NotFound, match=rf"needs transformers {needed} or later, and 4\.56\.2 is"):
        catalogue.models.make(model, weights=str(tmp_path))
