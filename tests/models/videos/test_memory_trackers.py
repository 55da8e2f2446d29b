"""The trackers with memory give the masks of transformers' own loop."""

from __future__ import annotations

import importlib
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadWeights  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.prompts import Click, MaskHint  # noqa: E402
from segmeter.core.scenes import SceneHeader  # noqa: E402
from segmeter.core.videos import Video  # noqa: E402
from segmeter.models.videos.memory_trackers import MemoryTracker, MemoryVideo  # noqa: E402

pytestmark = pytest.mark.long

PROMPTS = {2: [Click((100, 200)), Click((30, 40), False)], 6: [Click((120, 210))]}


SAM2_VISION = {
    "model_type": "sam2_vision_model",
    "backbone_config": {
        "model_type": "sam2_hiera_det_model",
        "image_size": [64, 64],
        "hidden_size": 16,
        "blocks_per_stage": [1, 2, 3, 1],
        "embed_dim_per_stage": [16, 32, 64, 128],
        "num_attention_heads_per_stage": [1, 1, 2, 4],
        "window_size_per_stage": [4, 4, 4, 2],
        "global_attention_blocks": [4],
        "window_positional_embedding_background_size": [4, 4],
    },
    "backbone_channel_list": [128, 64, 32, 16],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
}
SAM3_VISION = {
    "model_type": "sam3_vision_model",
    "backbone_config": {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "pretrain_image_size": 56,
        "window_size": 2,
        "global_attn_indexes": [0],
    },
}
TINY = {"memory_attention_num_layers": 1, "memory_attention_rope_feat_sizes": [4, 4]}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sam2-video": (
        "Sam2Video",
        {
            "vision_config": SAM2_VISION,
            "prompt_encoder_config": {"image_size": 64, "patch_size": 16},
            "image_size": 64,
            "memory_attention_feed_forward_hidden_size": 64,
        },
    ),
    # EdgeTAM's own image encoder needs timm; its video classes take any.
    "edgetam-video": (
        "EdgeTamVideo",
        {
            "vision_config": SAM2_VISION,
            "prompt_encoder_config": {"image_size": 64, "patch_size": 16},
            "image_size": 64,
            "memory_attention_mlp_hidden_size": 64,
            "memory_attention_rope_k_sizes": [2, 2],
            "perceiver_resampler_num_latents": 4,
            "perceiver_resampler_num_latents_2d": 4,
        },
    ),
    "sam3-tracker-video": (
        "Sam3TrackerVideo",
        {
            "vision_config": SAM3_VISION,
            "prompt_encoder_config": {"image_size": 56, "patch_size": 14},
            "image_size": 56,
            "memory_attention_feed_forward_hidden_size": 64,
        },
    ),
}


def tiny(name: str) -> MemoryTracker:
    """A tiny random network with memory, whose object score never blanks a mask."""
    kind, config = NETWORKS[name]
    torch.manual_seed(3)
    made = getattr(transformers, f"{kind}Config")(**config, **TINY)
    network = getattr(transformers, f"{kind}Model")(made).eval().requires_grad_(False)
    for name_, tensor in network.named_parameters():
        if "pred_obj_score_head" in name_:
            tensor.zero_().add_(1.0 if name_.endswith("bias") else 0.0)
        else:
            tensor.add_(0.05 * torch.randn(tensor.shape))
    return MemoryTracker(name, network=network, device="cpu")


@pytest.fixture(scope="module", params=list(NETWORKS))
def encoded(request: pytest.FixtureRequest) -> MemoryVideo:
    return tiny(request.param).encode(catalogue.datasets.make("mini-video").load("blackswan"))


def their_session(encoded: MemoryVideo) -> Any:
    name = type(encoded.network).__name__.replace("Model", "InferenceSession")
    module = importlib.import_module(type(encoded.network).__module__)
    length, height, width = encoded.video.shape
    enter, read = encoded.frame.enter, encoded.video.frame
    frames = torch.cat([enter(read(t), encoded.device) for t in range(length)])
    session = getattr(module, name)(frames, height, width, dtype=torch.float32)
    session.obj_id_to_idx(1)
    return session


def their_prompt(encoded: MemoryVideo, session: Any, t: int) -> Any:
    """As the processor adds points, which needs torchvision."""
    _, height, width = encoded.video.shape
    side = encoded.network.config.image_size
    points = [[(c.point[1] + 0.5) * side / width, (c.point[0] + 0.5) * side / height]
              for c in PROMPTS[t]]  # fmt: skip
    given = {
        "point_coords": torch.tensor([[points]]),
        "point_labels": torch.tensor([[[int(c.positive) for c in PROMPTS[t]]]], dtype=torch.int32),
    }
    session.add_point_inputs(0, t, given)
    session.obj_with_new_inputs = [1]
    return shown(encoded, encoded.network(session, frame_idx=t))


def shown(encoded: MemoryVideo, output: Any) -> Mask:
    high = torch.nn.functional.interpolate(
        output.pred_masks, encoded.video.shape[1:], mode="bilinear", align_corners=False
    )
    return Mask.of((high[0, 0] > 0).numpy())


def test_masks_are_those_of_transformers_loop(encoded: MemoryVideo) -> None:
    """Two prompted frames, forward, backward, and forward again from the middle."""
    session, track, before = their_session(encoded), encoded.begin(), encoded.frames.made
    for t, prompts in PROMPTS.items():
        assert track.prompt(t, prompts) == their_prompt(encoded, session, t)
    loop = encoded.network.propagate_in_video_iterator
    theirs = {o.frame_idx: shown(encoded, o) for o in loop(session, start_frame_idx=2)}
    theirs |= {o.frame_idx: shown(encoded, o) for o in loop(session, 2, reverse=True)}
    ours = dict(track.segment())
    assert ours == theirs
    assert sum(bool(mask) for mask in ours.values()) >= 6
    again = {o.frame_idx: shown(encoded, o) for o in loop(session, start_frame_idx=8)}
    assert dict(track.propagate(7, 12)) == again
    assert encoded.frames.made - before <= 12


def test_frames_are_encoded_once_for_all_tracks(encoded: MemoryVideo) -> None:
    for _ in range(2):
        track = encoded.begin()
        track.prompt(0, [Click((100, 200))])
        list(track.propagate(0, 4))
    assert encoded.frames.made <= 12


def tracked(length: int, most: int | None = None) -> tuple[list[dict[int, Mask]], list[int]]:
    """Masks of two passes, and how many outputs, embeddings and frames are in memory then."""
    tracker = tiny("sam2-video")
    tracker.network.config.max_object_pointers_in_encoder = 4
    tracker.memory_mb = 0  # of the embeddings only the newest is kept
    noise = np.random.default_rng(1).integers(0, 256, (32, 48, 3)).astype(np.uint8)
    read: list[weakref.ref[Any]] = []

    def frame(t: int) -> Any:
        pixels = np.roll(noise, t, 1)
        read.append(weakref.ref(pixels))
        return pixels

    video = Video("drawn", "long", frame, [], header=SceneHeader("video", (length, 32, 48)))
    track = tracker.encode(video).begin()
    outputs = track.outputs["non_cond_frame_outputs"]
    outputs.most = most or outputs.most
    track.prompt(0, [Click((16, 24))])
    first = dict(track.propagate(0, length))
    track.prompt(length - 6, [Click((8, 8), False)])
    masks = [first, dict(track.propagate(length - 6, length))]
    embeddings = len({*track.encoded.frames._kept, *track.encoded.frames._newest})
    return masks, [len(outputs), embeddings, sum(one() is not None for one in read)]


def test_a_track_holds_as_many_frames_however_long_the_video_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And gives the masks that it gives with everything in memory."""
    monkeypatch.setattr("segmeter.core.videos._KEPT_BYTES", 3 * 32 * 48 * 3)
    whole, held = tracked(14, most=14)
    assert held[0] == 12
    assert tracked(14) == (whole, [7, 1, 3])
    assert tracked(40)[1] == [7, 1, 3]


def test_a_given_mask_is_taken(encoded: MemoryVideo) -> None:
    given = encoded.video.targets[0].mask.slice(0)
    found = encoded.begin().prompt(0, [MaskHint(given)])
    assert found.overlap(given) / (found | given).area > 0.5


def test_weights_without_memory_are_refused_in_one_sentence(real_weights: Path) -> None:
    with pytest.raises(BadWeights, match=r"has no memory .* use hand-over") as error:
        catalogue.models.make("sam2-video", weights=str(real_weights / "sam2-hiera-tiny"))
    assert str(error.value).count(". ") == 0
