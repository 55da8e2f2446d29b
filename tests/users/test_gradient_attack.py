"""The best and the worst click by gradient."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import Image, Target  # noqa: E402
from segmeter.core.users import Observation  # noqa: E402
from segmeter.measures.objects import iou  # noqa: E402
from segmeter.models.clicknets._encoded import ClickNetEncodedScene, Settings  # noqa: E402
from segmeter.models.clicknets._networks import RitmNetwork  # noqa: E402
from segmeter.models.clicknets._zoom import Zoom  # noqa: E402
from segmeter.models.clicknets.containers import RITM  # noqa: E402
from segmeter.users import adversary  # noqa: E402
from segmeter.users.adversary import Adam, disc_sum, follow, valid_pixels  # noqa: E402


@pytest.mark.parametrize("number", range(6))
def test_golden_location_loss(golden, number):
    case = json.loads((golden / "clicks/maps.json").read_text())["location"][number]
    size = case["h"], case["w"]
    point = torch.tensor(case["click"], dtype=torch.float64)
    for kind in ("fn", "fp"):
        loss = case["loss_positive" if kind == "fn" else "loss_negative"]
        if loss is None:
            continue
        far = np.array(case[f"distance_to_{kind}"], np.float64).reshape(size)
        mean = disc_sum(point, torch.from_numpy(far), case["radius"]) / (size[0] * size[1])
        assert float(mean) == pytest.approx(loss, rel=1e-6)
        target, before = (np.array(case[k]).reshape(size) for k in ("target", "previous"))
        wrong = (target == 1) & (before <= 0.5) if kind == "fn" else (target != 1) & (before > 0.5)
        own = cv2.distanceTransform((~wrong).astype(np.uint8), cv2.DIST_L2, 0)
        np.testing.assert_allclose(own, far, atol=1e-5)


def test_the_gradient_of_the_location_loss_agrees_with_finite_differences():
    far = torch.rand(30, 26, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    point = torch.tensor([12.31, 9.77], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: disc_sum(p, far), (point,), eps=1e-7, atol=1e-5)


def test_adam_is_torchs_adam():
    own = Adam(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5]]))
    theirs = torch.tensor([[1.0, 2.0]], requires_grad=True)
    optimiser = torch.optim.Adam([theirs], lr=0.5)
    for _ in range(5):
        own.step(2 * own.points)
        optimiser.zero_grad()
        theirs.square().sum().backward()
        optimiser.step()
    torch.testing.assert_close(own.points, theirs.detach())


@pytest.fixture(scope="module")
def encoded():
    """A small random click network on a drawn disc."""
    torch.set_num_threads(1)
    torch.manual_seed(5)
    network = RitmNetwork(RITM["ritm-h18s"]).eval()
    with torch.no_grad():
        network.maps_transform[3].scale.fill_(4.0)
        network.feature_extractor.cls_head.weight.mul_(40)
    rows, columns = np.mgrid[:72, :96]
    inside = (rows - 34) ** 2 + (columns - 50) ** 2 < 22**2
    image = np.where(inside[..., None], (200, 80, 40), (40, 90, 60)).astype(np.uint8)
    scene = Image("drawn", "disc", image, (Target("disc", Mask.of(inside)),))
    made = ClickNetEncodedScene(network, scene, Settings(Zoom(80, 1)))
    made.scene = scene
    return made


def observation(encoded, protocol, prompts=(), last=None):
    mask = last.mask() if last is not None else Mask.empty(encoded.scene.shape)
    return Observation(
        encoded.scene, encoded.scene.targets[0], mask, prompts, protocol, encoded, last
    )


def test_the_soft_answer_has_the_slope_of_finite_differences(encoded):
    requests = [
        Request((Click((30, 48)),)),
        Request((Click((20, 60)), Click((40, 40), positive=False))),
    ]
    soft = encoded.movable_clicks(requests)
    points = soft.start().requires_grad_(True)
    weights = [torch.linspace(0, 1, int(np.prod(s))).view(s) for s in soft.sizes]

    def total(p):
        return torch.stack([(g * w).sum() for g, w in zip(soft.logits(p), weights, strict=True)])

    (slope,) = torch.autograd.grad(total(points).sum(), points)
    for i in range(2):
        for axis in range(2):
            step = torch.zeros_like(points)
            step[i, axis] = 0.02
            with torch.no_grad():
                change = (total(points + step) - total(points - step))[i] / 0.04
            assert float(slope[i, axis]) == pytest.approx(float(change), rel=0.15, abs=2.0)


def test_corrected_keeps_to_valid_pixels_and_never_loses_to_the_centre(encoded):
    first = encoded.predict([Request((Click((34, 50)),))])[0]
    later = observation(encoded, "corrected", (Click((34, 50)),), first)
    observations = [
        observation(encoded, "corrected"),
        observation(encoded, "corrected"),
        later,
        later,
    ]
    attempts = follow(observations, ["best", "worst"] * 2, steps=2)
    for one, where, sign in zip(attempts, observations, (1, -1, 1, -1), strict=True):
        assert sign * (one.chosen.iou - one.trials[0].iou) >= 0
        assert valid_pixels(where, one.positive)[one.click.point]
        target = where.target
        asked = Request((*where.prompts, one.click), first.state if where.prompts else None)
        shown = encoded.predict([asked])[0].mask()
        assert iou(target.mask, shown) == pytest.approx(one.chosen.iou, abs=1e-6)


def test_published_takes_every_step_and_stays_fractional(encoded):
    (best, worst) = follow([observation(encoded, "published")] * 2, ["best", "worst"], steps=3)
    assert len(best.trials) == len(worst.trials) == 4
    assert best.trials[0].accepted
    assert worst.chosen.iou <= worst.trials[0].iou
    assert best.chosen.iou >= best.trials[0].iou
    assert any(c != round(c) for trial in best.trials[1:] for c in trial.point)


def test_sessions_too_large_for_memory_are_followed_alone_to_the_same_clicks(encoded, monkeypatch):
    observations = [observation(encoded, "corrected"), observation(encoded, "published")]
    together = follow(observations, ["best", "worst"], steps=2)
    monkeypatch.setitem(adversary.PIXELS_AT_ONCE, "cpu", 1)
    movable = []
    movable_clicks = encoded.movable_clicks
    monkeypatch.setattr(
        encoded,
        "movable_clicks",
        lambda requests: (movable.append(len(requests)), movable_clicks(requests))[1],
    )
    halves = follow(observations, ["best", "worst"], steps=2)
    assert movable == [2, 1, 1]
    for one, other in zip(together, halves, strict=True):
        assert one.chosen.iou == pytest.approx(other.chosen.iou, abs=1e-3)
        for a, b in zip(one.trials, other.trials, strict=True):
            assert a.point == pytest.approx(b.point, abs=0.05)
            assert a.iou == pytest.approx(b.iou, abs=1e-3)


def test_a_model_without_slope_is_refused(encoded):
    plain = catalogue.models.make("disc").encode(encoded.scene)
    target = encoded.scene.targets[0]
    now = Observation(encoded.scene, target, Mask.empty(target.mask.shape), (), "corrected", plain)
    with pytest.raises(BadInput, match="no gradient"):
        follow([now], ["best"])
