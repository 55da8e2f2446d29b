"""Trackers with a memory: the video classes of SAM 2, EdgeTAM and SAM 3 in transformers.

Frames are encoded once per video and shared by all tracks. A track holds its prompted frames and
the last frames that the network can look back on (16), 2 MB each at 1024 pixels; earlier ones are
in temporary files and are read again when a propagation resumes there.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, WithWeights, capable
from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.core.scenes import Scene
from segmeter.core.videos import Video
from segmeter.models import weights as weight_files
from segmeter.models.videos import frame_trackers as shared

if TYPE_CHECKING:
    import torch

_STROKE_CLICKS = 8
_KINDS = {
    "sam2-video": ("Sam2VideoModel", "SAM 2 and 2.1", "ravi2024"),
    "edgetam-video": ("EdgeTamVideoModel", "EdgeTAM", "zhou2025"),
    "sam3-tracker-video": ("Sam3TrackerVideoModel", "the tracker of SAM 3", "carion2025"),
}


@capable(OnDevice, WithWeights)
class MemoryTracker:
    """A video network of transformers, from the folder `weights` or as the ready `network`.

    Embeddings of frames take at most `memory_mb`; others are computed again.
    """

    def __init__(
        self, name: str, weights: str | Path | None = None, device: str = "auto",
        memory_mb: int = shared.MEMORY_MB, network: Any = None,
    ) -> None:  # fmt: skip
        self.name, self.memory_mb, self._device = name, memory_mb, device
        self.weights_path = Path("in memory")
        if network is not None:
            self.network = network.eval()
            return
        self.weights_path = weight_files.find(name, weights)
        if self.weights_path == weight_files.ABSENT:
            return
        names = weight_files.sizes(self.weights_path) or ()
        if not any(key.startswith("memory_attention.") for key in names):
            raise BadWeights(
                f"'{self.weights_path}' has no memory (no tensor memory_attention.*), so it "
                f"segments images only; give the video weights of {name}, or use "
                "hand-over?model=sam2-hiera-tiny"
            )

    @property
    def card(self) -> ModelCard:
        summary = "a video network with a memory, as transformers runs it"
        return ModelCard(self.name, summary, shared.TAKEN, citation=_KINDS[self.name][2])

    @cached_property
    def device(self) -> torch.device:
        return weight_files.pick_device(self._device)

    @cached_property
    def network(self) -> Any:
        made = weight_files.pretrained(self.weights_path, _KINDS[self.name][0], self.name)
        return made.float().to(self.device)

    def encode(self, scene: Scene) -> MemoryVideo:
        return MemoryVideo(self, shared.as_video(scene))


class MemoryVideo(shared.EncodedVideo):
    def __init__(self, tracker: MemoryTracker, video: Video) -> None:
        from segmeter.models.sam._resizing import SAM3, Squeezed

        super().__init__(video)
        self.tracker, self.network = tracker, tracker.network
        self.frames = shared.FrameStore(tracker.memory_mb << 20)
        self.device = next(self.network.parameters()).device
        self.side = int(self.network.image_size)
        shape = (video.shape[1], video.shape[2])
        self.frame = Squeezed(shape, self.side, *(SAM3 if "sam3" in tracker.name else ()))

    def begin(self) -> MemoryTrack:
        return MemoryTrack(self)

    def features(self, t: int) -> Any:
        import torch

        def encoded() -> SimpleNamespace:
            with torch.inference_mode():
                pixels = self.frame.enter(self.video.frame(t), self.device)
                found = self.network.get_image_features(pixels, return_dict=True)
            maps, places = list(found.fpn_hidden_states), list(found.fpn_position_encoding)
            size = sum(tensor.nbytes for tensor in (*maps, *places))
            return SimpleNamespace(vision_feats=maps, vision_pos_embeds=places, nbytes=size)

        kept = self.frames.get(t, encoded)
        return {"vision_feats": kept.vision_feats, "vision_pos_embeds": kept.vision_pos_embeds}


class FrameOutputs(dict[int, Any]):
    """Outputs of a track by frame: the last `most` in memory, earlier ones in temporary files."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self._folder = most, Path(tempfile.mkdtemp(prefix="segmeter-track-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def __setitem__(self, t: int, output: Any) -> None:
        import torch

        self.pop(t, None)
        (self._folder / f"{t}.pt").unlink(missing_ok=True)  # of an earlier pass
        super().__setitem__(t, output)
        while len(self) > self.most:
            oldest = next(iter(self))
            torch.save(self.pop(oldest), self._folder / f"{oldest}.pt")

    def get(self, t: int, default: Any = None) -> Any:
        """The output of a frame, read from its file if it has left memory."""
        import torch

        if t not in self and (file := self._folder / f"{t}.pt").is_file():
            self[t] = torch.load(file, weights_only=True)
        return super().get(t, default)


class MemoryTrack:
    def __init__(self, encoded: MemoryVideo) -> None:
        import torch

        self.encoded, network = encoded, encoded.network
        module = importlib.import_module(type(network).__module__)
        kind = getattr(module, type(network).__name__.replace("Model", "InferenceSession"))
        length, height, width = encoded.video.shape
        self.session = kind(
            video_height=height, video_width=width, inference_device=encoded.device,
            dtype=torch.float32,
        )  # fmt: skip
        self.session.processed_frames = range(length)  # their embeddings are given, see `_run`
        self._object = self.session.obj_id_to_idx(1)
        self.outputs = self.session.output_dict_per_obj[self._object]
        most = max(network.config.max_object_pointers_in_encoder, network.config.num_maskmem)
        self.outputs["non_cond_frame_outputs"] = FrameOutputs(most)
        self.prompted: list[int] = []

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        """All prompts of a frame; one that was tracked before becomes a conditioning frame."""
        import torch

        if (only := shared.only_masks(prompts)) is not None:
            self.session.remove_point_inputs(self._object, frame)
            dense = torch.from_numpy(only.dense().astype(np.float32))[None, None]
            small = self.encoded.frame.shrink(dense, self.encoded.side) >= 0.5
            given = small.float().to(self.encoded.device)
            self.session.add_mask_inputs(self._object, frame, given)
        else:
            self.session.remove_mask_inputs(self._object, frame)
            self.session.add_point_inputs(self._object, frame, self._points(prompts))
        self.session.obj_with_new_inputs = [1]
        found = self._run(frame)
        # As SAM 2's own configuration: corrected frames join the prompted ones in memory.
        tracked = self.outputs["non_cond_frame_outputs"].pop(frame, None)
        if tracked is not None:
            self.outputs["cond_frame_outputs"][frame] = tracked
        self.prompted = sorted({*self.prompted, frame})
        return found

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        step = 1 if stop > start else -1
        for t in range(start + step, stop, step):
            yield t, self._run(t, reverse=step < 0)

    def segment(self) -> Iterator[tuple[int, Mask]]:
        """Forward from the first prompted frame, then backward from it."""
        first = self.prompted[0]
        yield first, self._run(first)
        yield from self.propagate(first, len(self.encoded.video))
        yield from self.propagate(first, -1)

    def _run(self, t: int, reverse: bool = False) -> Mask:
        cache = self.session.cache
        if cache.get_vision_features(t) is None:
            cache.clear_all()
            cache.cache_vision_features(t, self.encoded.features(t))
        found = self.encoded.network(self.session, frame_idx=t, reverse=reverse)
        for outputs in self.outputs.values():
            outputs.get(t, {}).pop("high_res_masks", None)  # 4 MB, not read again
        high = self.encoded.frame.leave(found.pred_masks)
        return Mask.of((high[0, 0] > 0).cpu().numpy())

    def _points(self, prompts: Sequence[Prompt]) -> dict[str, torch.Tensor]:
        """Points `(x, y)` on the network's square with their labels, a box as two corners."""
        import torch

        flat = list(shared.clicks_for_strokes(prompts, _STROKE_CLICKS))
        boxes = [p for p in flat if isinstance(p, Box)]
        corners = [c for p in boxes for c in (np.array(p.low), np.add(p.high, 1))]
        clicks = [p for p in flat if isinstance(p, Click)]
        points = [*corners, *(np.add(p.point, 0.5) for p in clicks)]
        if not points:
            raise BadInput(f"{self.encoded.tracker.name} takes clicks, boxes, strokes and masks")
        places = (np.array(points, float) * self.encoded.frame.scale)[:, ::-1].copy()
        labels = [2, 3] * (len(corners) // 2) + [int(p.positive) for p in clicks]
        return {
            "point_coords": torch.tensor(places, dtype=torch.float32)[None, None],
            "point_labels": torch.tensor(labels, dtype=torch.int32)[None, None],
        }


for _name, (_, _title, _) in _KINDS.items():
    _summary = f"tracker: {_title}, with memory (transformers)"
    catalogue.models.add(_name, summary=_summary)(partial(MemoryTracker, _name))
