"""Click networks as models: the real one replays its trace."""

from __future__ import annotations

import csv
import gzip

import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Model, Request
from segmeter.core.prompts import Box
from segmeter.core.users import Observation
from segmeter.measures.objects import iou
from segmeter.users.error_prompts import centre_click


def trace(golden, target):
    packed = (golden / "traces/eiseg-hrnet18-ocr64_GrabCut.csv.gz").read_bytes()
    rows = csv.DictReader(gzip.decompress(packed).decode().splitlines())
    return [row for row in rows if row["target"] == target]


@pytest.mark.long
def test_the_real_network_replays_its_trace(golden, real_data, real_weights):
    pytest.importorskip("torch").set_num_threads(1)
    scene = catalogue.datasets.make("grabcut", data=real_data).load("106024")
    encoded = catalogue.models.make("eiseg-hrnet18-ocr64", weights=real_weights).encode(scene)
    target, mask, state, prompts = scene.targets[0], Mask.empty(scene.shape), None, ()
    for row in trace(golden, "106024.jpg")[:3]:
        click = centre_click(Observation(scene, target, mask, prompts, "published", encoded))
        assert [*click.point, click.positive] == [int(row[c]) for c in ("y", "x", "positive")]
        prompts += (click,)
        prediction = encoded.predict([Request(prompts, state)])[0]
        state, mask = prediction.state, prediction.mask()
        box = [row[f"box_{side}"] for side in ("top", "bottom", "left", "right")]
        assert [str(n) for n in state.box or ("",) * 4] == box
        assert iou(target.mask, mask, target.ignore) == pytest.approx(float(row["iou"]), abs=1e-4)
        assert abs(mask.area - int(row["area"])) <= 5
    with pytest.raises(BadInput, match="takes clicks and a mask, not a box"):
        encoded.predict([Request((Box((1, 1), (9, 9)),))])


def test_the_real_network_has_a_card(real_weights):
    model = catalogue.models.make("eiseg-hrnet18-ocr64", weights=real_weights)
    assert isinstance(model, Model)
    assert len(model.card.fingerprint) == 32
    assert "differentiable" in model.card.abilities


def test_weights_that_are_not_there_are_named(tmp_path):
    with pytest.raises(NotFound, match="no weights for 'ritm-h18s'"):
        catalogue.models.make("ritm-h18s", weights=tmp_path)
