"""Objects of other libraries as models: transformers and MONAI, ultralytics by its interface."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadInput  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click, Scribble  # noqa: E402
from segmeter.core.scenes import Image, SceneHeader, Target, Volume  # noqa: E402
from segmeter.models.adapters import as_model  # noqa: E402
from segmeter.models.conformance import check  # noqa: E402


def scene(height: int = 40, width: int = 60) -> Image:
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image(
        "drawn", "noise", pixels, [Target("a", Mask.box((height, width), (5, 5), (20, 30)))]
    )


class StandIn:
    """`ultralytics.SAM` as of version 8.4: BGR arrays, nested points, one mask per object."""

    def __init__(self) -> None:
        self.predictor: Any = None
        self.encoded: list[Any] = []

    def predict(self, source: Any, **given: Any) -> list[Any]:
        self.predictor = Predictor(self)
        self.predictor.set_image(source)
        return self.predictor(**{k: given[k] for k in ("points", "labels")})


class Predictor:
    def __init__(self, sam: StandIn) -> None:
        self.sam, self.args = sam, SimpleNamespace(conf=0.25)

    def set_image(self, bgr: Any) -> None:
        self.image = bgr
        self.sam.encoded.append(bgr)

    def __call__(self, points: Any = None, labels: Any = None, bboxes: Any = None) -> list[Any]:
        mask = np.zeros((1, *self.image.shape[:2]), bool)
        if bboxes:
            x0, y0, x1, y1 = (int(c) for c in bboxes[0])
            mask[0, y0 : y1 + 1, x0 : x1 + 1] = True
        for (x, y), label in zip((points or [[]])[0], (labels or [[]])[0], strict=True):
            mask[0, int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3] = bool(label)
        score = 0.9 if self.args.conf == 0 else 0.1
        found = SimpleNamespace(data=torch.from_numpy(mask)) if score > self.args.conf else None
        boxes = SimpleNamespace(conf=torch.tensor([score]))
        return [SimpleNamespace(masks=found, boxes=boxes)]


StandIn.__module__ = "ultralytics.models.sam.model"


def test_ultralytics_is_given_bgr_once_per_image_and_one_object_of_many_points() -> None:
    sam, given = StandIn(), scene()
    model = as_model(sam)
    assert "ultralytics" in model.card.summary
    encoded = model.encode(given)
    clicks = (Click((10, 20), True), Click((30, 50), False))
    found = encoded.predict([Request(clicks), Request((Box((5, 6), (9, 12)),))])
    assert found[0].mask().area == 25
    assert found[0].mask().dense()[10, 20]
    assert found[1].mask() == Mask.box((40, 60), (5, 6), (10, 13))
    assert found[0].scores[0] == pytest.approx(0.9)  # conf=0: nothing is left out
    assert np.array_equal(sam.encoded[-1], given.pixels[..., ::-1])
    assert len(sam.encoded) == 2  # the call that makes the predictor, and the image
    with pytest.raises(BadInput, match="takes clicks and boxes, not a scribble"):
        encoded.predict([Request((Scribble(((1, 1), (2, 2)), True),))])
    assert check(model, scene()) == []


def small(name: str) -> Any:
    from .sam import test_decoder

    return getattr(test_decoder, name)()


class Processor:
    """What `Sam2Processor` does, which needs torchvision: squeeze, scale, enlarge."""

    def __call__(self, images: Any, return_tensors: str) -> dict[str, Any]:
        pixels = torch.from_numpy(images).permute(2, 0, 1)[None].float() / 255
        size = (64, 64)
        return {"pixel_values": torch.nn.functional.interpolate(pixels, size, mode="bilinear")}

    def post_process_masks(self, masks: Any, original_sizes: Any, threshold: float = 0.0) -> Any:
        size = tuple(original_sizes[0])
        return [torch.nn.functional.interpolate(masks[0], size, mode="bilinear") > threshold]


def by_hand(model: Any, given: Image, points: Any) -> tuple[Any, float]:
    pixels = Processor()(given.pixels, "pt")["pixel_values"]
    height, width = given.shape
    scaled = torch.tensor([[[[x * 64 / width, y * 64 / height] for x, y in points]]])
    with torch.no_grad():
        found = model(pixel_values=pixels, input_points=scaled,
                      input_labels=torch.ones(1, 1, len(points), dtype=torch.int64))  # fmt: skip
    best = int(found.iou_scores.argmax())
    mask = Processor().post_process_masks(found.pred_masks, [[height, width]])[0][0, best]
    return mask.numpy(), float(found.iou_scores.max())


def test_sam_2_of_transformers_predicts_as_it_does_by_itself() -> None:
    pytest.importorskip("transformers")
    hub, given = small("small_sam2"), scene()
    model = as_model((hub, Processor()))
    (found,) = model.encode(given).predict([Request((Click((10, 20), True),))])
    mask, score = by_hand(hub, given, [(20.0, 10.0)])
    assert np.array_equal(found.mask().dense(), mask)
    assert found.scores[0] == pytest.approx(score, abs=1e-6)
    assert check(model, scene()) == []


def test_sam_of_transformers_is_given_with_its_real_processor() -> None:
    transformers = pytest.importorskip("transformers")
    images = transformers.SamImageProcessor(
        size={"longest_edge": 64}, pad_size={"height": 64, "width": 64},
        mask_size={"longest_edge": 16}, mask_pad_size={"height": 16, "width": 16},
    )  # fmt: skip
    hub, processor, given = small("small_sam"), transformers.SamProcessor(images), scene()
    model = as_model((hub, processor))
    request = Request((Click((10, 20), True), Click((30, 50), False)))
    (found,) = model.encode(given).predict([request])
    inputs = processor(given.pixels, input_points=[[[20.0, 10.0], [50.0, 30.0]]],
                       input_labels=[[1, 0]], return_tensors="pt")  # fmt: skip
    with torch.no_grad():
        theirs = hub(**inputs)
    masks = processor.post_process_masks(
        theirs.pred_masks, inputs["original_sizes"], inputs["reshaped_input_sizes"]
    )[0]
    best = int(theirs.iou_scores.argmax())
    assert np.array_equal(found.mask().dense(), masks[0, best].numpy())
    again = model.encode(given).predict([Request(request.prompts, found.state)])
    assert again[0].mask().shape == given.shape


def test_a_model_of_transformers_without_a_known_processor_needs_one() -> None:
    class Odd:
        def get_image_embeddings(self) -> None: ...

    Odd.__module__ = "transformers.models.odd"
    with pytest.raises(BadInput, match=r"give 'Odd' with its processor"):
        as_model(Odd())


BUNDLE = {
    "network_def": {
        "_target_": "UNet", "spatial_dims": 3, "in_channels": 3, "out_channels": 1,
        "channels": [4, 8], "strides": [2],
    },
    "inferer": {"_target_": "SimpleInferer"},
    "preprocessing": {"_target_": "Compose", "transforms": [
        {"_target_": "LoadImaged", "keys": "image"},
        {"_target_": "monai.apps.deepgrow.transforms.AddGuidanceFromPointsd",
         "ref_image": "image", "depth_first": False, "spatial_dims": 3},
        {"_target_": "EnsureChannelFirstd", "keys": "image"},
        {"_target_": "NormalizeIntensityd", "keys": "image"},
        {"_target_": "monai.apps.deepgrow.transforms.AddGuidanceSignald", "image": "image"},
    ]},
    "postprocessing": {"_target_": "Compose", "transforms": [
        {"_target_": "Activationsd", "keys": "pred", "sigmoid": True},
        {"_target_": "AsDiscreted", "keys": "pred", "threshold": 0.5},
        {"_target_": "SaveImaged", "keys": "pred", "output_dir": "never"},
    ]},
}  # fmt: skip


def volume() -> Volume:
    voxels = np.random.default_rng(3).normal(size=(16, 16, 32)).astype(np.float32)
    header = SceneHeader("volume", voxels.shape, spacing_mm=(3.0, 1.0, 2.0))
    return Volume("drawn", "noise", voxels, [], header=header)


@pytest.mark.filterwarnings("ignore")  # of MONAI's own
def test_a_monai_bundle_runs_with_its_transforms_inferer_and_network(tmp_path: Path) -> None:
    bundles = pytest.importorskip("monai.bundle")
    (tmp_path / "inference.json").write_text(json.dumps(BUNDLE))
    torch.manual_seed(0)
    workflow = bundles.ConfigWorkflow(
        str(tmp_path / "inference.json"), logging_file=False, workflow_type="infer"
    )
    workflow.initialize()
    model, given = as_model(workflow), volume()
    encoded = model.encode(given)
    (found,) = encoded.predict([Request((Click((3, 4, 25)), Click((9, 8, 7), False)))])
    image = torch.from_numpy(given.voxels.T.copy())[None]
    signal = {"image": (image - image.mean()) / image.std(correction=0)}
    signal["guidance"] = [[[25, 4, 3]], [[7, 8, 9]]]
    entered = workflow.preprocessing.transforms[-1](signal)["image"]
    with torch.no_grad():
        logits = workflow.network_def.eval()(torch.as_tensor(entered)[None].float())
    assert np.array_equal(found.mask().dense(), (logits[0, 0] > 0).numpy().T)
    assert 0 < found.mask().area < given.voxels.size
    with pytest.raises(BadInput, match="monai-bundle takes clicks only"):
        encoded.predict([Request((Box((1, 1, 1), (2, 2, 2)),))])
    with pytest.raises(BadInput, match="is an image, and 'monai-bundle' segments volumes"):
        model.encode(scene())


@pytest.mark.filterwarnings("ignore")  # of MONAI's own
def test_a_network_of_monai_that_takes_points_receives_them_in_its_frame() -> None:
    nets = pytest.importorskip("monai.networks.nets")
    torch.manual_seed(0)
    network, given = nets.vista3d132(encoder_embed_dim=8).eval(), volume()
    request = Request((Click((3, 4, 25)), Click((9, 8, 7), False)))
    (found,) = as_model(network).encode(given).predict([request])
    image = torch.from_numpy(given.voxels.T.copy())[None, None]
    points = torch.tensor([[[25.0, 4.0, 3.0], [7.0, 8.0, 9.0]]])
    with torch.no_grad():
        theirs = network(image, point_coords=points, point_labels=torch.tensor([[1, 0]]))
    assert np.array_equal(found.mask().dense(), (theirs[0, 0] > 0).numpy().T)

    seen: list[Any] = []

    class Half(torch.nn.Conv3d):
        def forward(self, x: Any, point_coords: Any, point_labels: Any) -> Any:
            seen.append((tuple(x.shape), point_coords.tolist(), point_labels.tolist()))
            return super().forward(x)

    transforms = pytest.importorskip("monai.transforms")
    steps = [transforms.EnsureChannelFirstd("image"), transforms.Spacingd("image", (1, 1, 1))]

    class BundleWorkflow:
        preprocessing, inferer = (
            transforms.Compose(steps),
            staticmethod(lambda x, n, **g: n(x, **g)),
        )
        network_def = Half(1, 1, 1)

    with pytest.raises(BadInput, match="returned an array of shape"):  # nothing inverts the spacing
        as_model(BundleWorkflow()).encode(given).predict([request])
    assert seen == [((1, 1, 63, 16, 46), [[[50.0, 4.0, 9.0], [14.0, 8.0, 27.0]]], [[1, 0]])]
