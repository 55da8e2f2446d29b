"""The clickability network against the reference run, and what it refuses."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

from segmeter.clickability._segnext import Clickability, Size  # noqa: E402
from segmeter.clickability.maps import ClickRegion  # noqa: E402
from segmeter.clickability.network import (  # noqa: E402
    Letterbox,
    apply,
    load,
    network_source,
)
from segmeter.clickability.saliency import crop_box, saliency_source  # noqa: E402
from segmeter.core.errors import BadWeights, NotFound  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.scenes import Image, Target  # noqa: E402

pytestmark = pytest.mark.long

Array = npt.NDArray[Any]
TINY = Size((16, 16, 16, 16), (1, 1, 1, 1), (2, 2, 2, 2), 32)


@pytest.fixture(scope="module")
def reference(golden: Path) -> Path:
    return golden / "networks" / "clickability"


@pytest.fixture(scope="module")
def network(reference: Path) -> Clickability:
    """The network filled by the rule of the reference run; each tensor's checksum agrees."""
    torch.set_num_threads(1)
    with gzip.open(reference / "keys.json.gz", "rt") as file:
        entries = next(iter(json.load(file).values()))
    state = {}
    for key, shape, dtype, checksum in entries:
        values = _by_rule(key, tuple(shape), dtype)
        assert int(checksum, 16) == zlib.crc32(np.ascontiguousarray(values).tobytes()), key
        state[key] = torch.from_numpy(values)
    made = Clickability()
    made.load_state_dict(state, strict=True)
    return made.eval()


def _by_rule(key: str, shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    last = key.rpartition(".")[2]
    if "int" in dtype:
        return np.zeros(shape, dtype=np.int64)
    if last == "running_var":
        return rng.uniform(1, 3, shape).astype(np.float32)
    if last == "bases":
        drawn = rng.random(shape)
        return (drawn / np.sqrt((drawn**2).sum(axis=1, keepdims=True))).astype(np.float32)
    if last == "scale":
        return np.full(shape, -4.0, dtype=np.float32)
    normal = rng.standard_normal(shape)
    if last == "running_mean":
        return (0.1 * normal).astype(np.float32)
    if last.startswith("layer_scale"):
        return (0.05 + 0.01 * normal).astype(np.float32)
    if last == "weight" and len(shape) == 1:
        return (1 + 0.1 * normal).astype(np.float32)
    if len(shape) <= 1:
        return (0.05 * normal).astype(np.float32)
    return (normal / math.sqrt(math.prod(shape[1:]))).astype(np.float32)


def _image(seed: int, height: int, width: int) -> Array:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, size=(-(-height // 16), -(-width // 16), 3))
    noise = rng.integers(-20, 21, size=(height, width, 3))
    blocks = np.repeat(np.repeat(base, 16, axis=0), 16, axis=1)[:height, :width]
    return np.clip(blocks + noise, 0, 255).astype(np.uint8)


def _target(height: int, width: int) -> Array:
    r, c = np.mgrid[:height, :width]
    a, b = height // 4, width // 5
    y, x = r - 9 * height // 20, c - 11 * width // 20
    return (y * b) ** 2 + (x * a) ** 2 <= (a * b) ** 2


def _previous(height: int, width: int) -> Array:
    r, c = np.mgrid[:height, :width]
    inner = (r >= height // 4) & (r < 3 * height // 4) & (c >= width // 4) & (c < 3 * width // 4)
    return np.where(inner, ((7 * r + 13 * c) % 17) / 16, 0)


@pytest.mark.parametrize(
    ("name", "seed", "height", "width"), [("a", 300, 416, 416), ("b", 301, 128, 160)]
)
def test_logits_and_maps_agree_with_the_original(
    network: Clickability, reference: Path, name: str, seed: int, height: int, width: int
) -> None:
    expected = np.load(reference / "net_outputs.npz")
    image = _image(seed, height, width).astype(np.float32) / np.float32(255)
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pixels = torch.from_numpy(((image - mean) / deviation).transpose(2, 0, 1)[None].copy())
    target = _target(height, width)
    planes = np.stack([target, target * (_previous(height, width) > 0.3)]).astype(np.float32)
    maps = torch.from_numpy(planes[None])
    with torch.inference_mode():
        logits, made = network.logits(pixels, maps), network(pixels, maps)
    found = logits.numpy().ravel()
    assert np.abs(found - expected[f"{name}__conv_seg"][: found.size]).max() < 1e-4
    step = json.loads((reference / "net_meta.json").read_text())["net"][name]
    every = made.numpy().ravel()[:: step["outputs"]["instances"]["step"]]
    assert np.abs(every - expected[f"{name}__instances"][: every.size]).max() < 1e-4


@pytest.mark.parametrize(
    ("name", "seed", "height", "width"),
    [("small", 11, 200, 300), ("big", 12, 480, 640), ("tall", 13, 500, 150)],
)
def test_the_wrapper_agrees_with_the_original(
    network: Clickability, reference: Path, name: str, seed: int, height: int, width: int
) -> None:
    meta = json.loads((reference / "net_meta.json").read_text())["apply"]
    expected = np.load(reference / "net_outputs.npz")
    target = _target(height, width)
    offset = target[..., None] * np.array([-50, 100, 0])
    image = np.clip(_image(seed, height, width) // 8 + 60 + offset, 0, 255).astype(np.uint8)
    error_region = target & (_previous(height, width) > 0.3)
    framed = Letterbox((height, width)).put(error_region)
    step = meta[f"padding_{name}"]["error_step"]
    assert np.allclose(framed.ravel()[::step], expected[f"padding_{name}_error"], atol=1e-6)
    made = apply(network, image, target, error_region)
    step = meta[f"apply_{name}"]["step"]
    assert np.abs(made.ravel()[::step] - expected[f"apply_{name}"]).max() < 1e-4


def test_letterboxed_click_maps_agree_with_the_originals(golden: Path) -> None:
    from segmeter.clickability.maps import from_clicks

    for case in json.loads((golden / "clicks" / "maps.json").read_text())["clickability"]:
        h, w = case["h"], case["w"]
        y, x = np.mgrid[:h, :w]
        mask = ((y - 0.5 * h) / (0.3 * h)) ** 2 + ((x - 0.45 * w) / (0.3 * w)) ** 2 < 1
        whole = from_clicks(case["clicks"], Mask.of(mask), case["sigma0"]).dense()
        framed = Letterbox((h, w)).put(whole)
        assert framed.sum(dtype=float) == pytest.approx(case["letterbox416"]["sum"], rel=1e-5)


def test_a_frame_gives_back_what_was_put_in() -> None:
    smooth = np.add.outer(np.linspace(0, 1, 300), np.linspace(0, 1, 200)).astype(np.float32)
    box = Letterbox((300, 200))
    (y, x), (height, width) = box.low, box.size
    inside = box.put(smooth)[y : y + height, x : x + width]
    assert np.abs(cv2.resize(inside, (200, 300)) - smooth).max() < 0.01


def test_checkpoints_of_both_kinds_load_and_others_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    network = Clickability(TINY)
    torch.save(network.state_dict(), tmp_path / "tiny.pth")
    with pytest.raises(BadWeights, match="weights of a clickability network"):
        load(tmp_path / "tiny.pth")
    size = {name: getattr(TINY, name) for name in TINY.__slots__}
    notes = {"segmeter.size": json.dumps(size)}
    save_file(network.state_dict(), tmp_path / "tiny.safetensors", metadata=notes)
    assert load(tmp_path / "tiny.safetensors").state_dict().keys() == network.state_dict().keys()
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(BadWeights, match="damaged or cut short"):
        load(tmp_path / "broken.safetensors")
    with pytest.raises(NotFound, match="no checkpoint"):
        load(tmp_path / "absent.pth")


def test_a_network_serves_as_a_click_source(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    size = {name: getattr(TINY, name) for name in TINY.__slots__}
    path = tmp_path / "tiny.safetensors"
    save_file(Clickability(TINY).state_dict(), path, {"segmeter.size": json.dumps(size)})
    mask = Mask.box((60, 90), (10, 20), (40, 70))
    scene = Image("drawn", "1", _image(3, 60, 90), [Target("1", mask)])
    map = network_source(path)(ClickRegion(scene, scene.targets[0], mask, True, "corrected")).on(
        mask
    )
    assert map.weights.shape == mask.bits.shape
    assert map.weights.max() > 0


def test_real_saliency_prefers_the_object_to_its_surroundings(
    real_data: Path, real_weights: Path
) -> None:
    from segmeter.core import catalogue

    torch.set_num_threads(1)
    data = catalogue.datasets.make("grabcut", data=real_data)
    scene = data.load("flower")
    target = scene.targets[0]
    whole = Mask.box(scene.shape, (0, 0), scene.shape)
    source = saliency_source(real_weights / "u2netp", cut_out=False)
    values = source(ClickRegion(scene, target, whole, True, "corrected")).dense()
    inside = values[target.mask.dense()].sum() / values.sum()
    assert inside > 0.8
    cut = saliency_source(real_weights / "u2netp")(
        ClickRegion(scene, target, target.mask, True, "corrected")
    )
    assert cut.dense()[~target.mask.dense()].sum() == 0


def test_the_crop_grows_by_a_fifth_and_stops_at_the_border() -> None:
    assert crop_box(Mask.box((100, 100), (40, 0), (60, 50))) == ((36, 0), (64, 60))


def test_any_saliency_serves_and_sees_the_crop_greyed_or_not() -> None:
    mask = Mask.box((60, 90), (20, 30), (40, 60))
    scene = Image("drawn", "1", _image(3, 60, 90), [Target("1", mask)])
    seen: list[Array] = []

    def redness(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        seen.append(image)
        return np.asarray(image[..., 0] / np.float32(255), dtype=np.float32)

    low, high = crop_box(mask)
    crop = scene.pixels[low[0] : high[0], low[1] : high[1]]
    maps = [
        saliency_source(redness, cut_out=cut)(
            ClickRegion(scene, scene.targets[0], mask, True, "published")
        )
        for cut in (True, False)
    ]
    inside = mask.crop(low, high)
    assert np.array_equal(seen[0][inside], crop[inside])
    assert (seen[0][~inside] == 128).all()
    assert np.array_equal(seen[1], crop)
    assert np.array_equal(maps[0].dense(), maps[1].dense())
    assert maps[0].dense().sum() == pytest.approx(1, abs=1e-5)
    blind = saliency_source(lambda image: np.zeros(image.shape[:2], dtype=np.float32))
    flat = blind(ClickRegion(scene, scene.targets[0], mask, True, "corrected")).dense()
    assert np.unique(flat[mask.dense()]).size == 1


def test_saliency_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(NotFound, match="no checkpoint"):
        saliency_source(tmp_path / "none")
    save_file({"other": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(BadWeights, match="weights of U2-Net-P"):
        saliency_source(tmp_path / "other.safetensors")
