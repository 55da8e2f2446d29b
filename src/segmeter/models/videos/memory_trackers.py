"""Trackers with a memory: the video classes of SAM 2, EdgeTAM and SAM 3 in transformers.

Frames are encoded once per video and shared by all tracks. A track's state is what transformers
keeps of an object: about 1 MB per tracked frame at 1024 pixels, on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, WithWeights, capable
from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.scenes import Scene
from segmeter.core.videos import Video
from segmeter.models import weights as weight_files
from segmeter.models.videos.frame_trackers import EncodedVideo, FrameStore, as_video

if TYPE_CHECKING:
    import torch

_MEMORY_MB = 2048
_STROKE_POINTS = 8
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SAM3 = (0.5, 0.5, 0.5)
_CITE = {
    "sam2-video": "ravi2024",
    "edgetam-video": "zhou2025",
    "sam3-tracker-video": "carion2025",
}
_CLASSES = {
    "sam2-video": ("Sam2VideoModel", "Sam2VideoInferenceSession"),
    "edgetam-video": ("EdgeTamVideoModel", "EdgeTamVideoInferenceSession"),
    "sam3-tracker-video": ("Sam3TrackerVideoModel", "Sam3TrackerVideoInferenceSession"),
}


@capable(OnDevice, WithWeights)
class MemoryTracker:
    """A video network of transformers.

    Parameters
    ----------
    name
        `sam2-video`, `edgetam-video` or `sam3-tracker-video`.
    weights
        Its folder, with `config.json` and the tensors of the memory.
    device
        `auto`, `cpu` or a GPU.
    memory_mb
        Memory for embeddings of frames; what does not fit is computed again.
    network
        A network that is made already, instead of `weights`.
    """

    def __init__(
        self,
        name: str,
        weights: str | Path | None = None,
        device: str = "auto",
        memory_mb: int = _MEMORY_MB,
        network: Any = None,
    ) -> None:
        self.name, self.memory_mb, self._device = name, memory_mb, device
        self.weights_path = Path("in memory")
        if network is not None:
            self.network = network.eval()
            return
        self.weights_path = weight_files.find(name, weights)
        if self.weights_path != weight_files.ABSENT:
            _check_memory(self.weights_path, name)

    @property
    def card(self) -> ModelCard:
        taken = frozenset({"click", "box", "scribble", "mask", "video"})
        return ModelCard(
            self.name,
            "a video network with a memory, as transformers runs it",
            taken,
            citation=_CITE[self.name],
        )

    @cached_property
    def device(self) -> torch.device:
        from segmeter.models.sam._networks import pick_device

        return pick_device(self._device)

    @cached_property
    def network(self) -> Any:
        """The network, loaded when first used."""
        import transformers

        kind = getattr(transformers, _CLASSES[self.name][0])
        try:
            made = kind.from_pretrained(self.weights_path, local_files_only=True)
        except weight_files.DAMAGED as error:
            raise BadWeights(f"'{self.weights_path}' is no {self.name}: {error}") from error
        return made.float().eval().to(self.device)

    def encode(self, scene: Scene) -> MemoryVideo:
        """Frames are encoded when a track first reaches them."""
        return MemoryVideo(self, as_video(scene))


class MemoryVideo(EncodedVideo):
    """A video and the embeddings of its frames."""

    def __init__(self, tracker: MemoryTracker, video: Video) -> None:
        super().__init__(video)
        self.tracker, self.network = tracker, tracker.network
        self.frames = FrameStore(tracker.memory_mb << 20)
        self.device = next(self.network.parameters()).device

    def begin(self) -> MemoryTrack:
        return MemoryTrack(self)

    @property
    def side(self) -> int:
        """Pixels of the square that the network sees."""
        return int(self.network.image_size)

    def pixels(self, t: int) -> torch.Tensor:
        """A frame as the network sees it, `(3, side, side)`."""
        import torch

        sam3 = self.tracker.name.startswith("sam3")
        mean, deviation = (_SAM3, _SAM3) if sam3 else (_MEAN, _DEVIATION)
        raw = torch.from_numpy(np.ascontiguousarray(self.video.frame(t))).to(self.device)
        values = raw.permute(2, 0, 1)[None].float() / 255
        size = (self.side, self.side)
        small = torch.nn.functional.interpolate(values, size, mode="bilinear", antialias=True)[0]
        shift, scale = (
            torch.tensor(v, device=self.device)[:, None, None] for v in (mean, deviation)
        )
        return (small - shift) / scale

    def features(self, t: int) -> _Features:
        """The embedding of a frame, as transformers caches it."""
        return self.frames.get(t, lambda: self._encoded(t))

    def _encoded(self, t: int) -> _Features:
        import torch

        with torch.inference_mode():
            found = self.network.get_image_features(self.pixels(t)[None], return_dict=True)
        return _Features(found.fpn_hidden_states, found.fpn_position_encoding)


class _Features(dict[str, Any]):
    """Embeddings of a frame, and the bytes that they take."""

    def __init__(self, maps: Sequence[torch.Tensor], places: Sequence[torch.Tensor]) -> None:
        super().__init__(vision_feats=list(maps), vision_pos_embeds=list(places))
        self.nbytes = sum(t.numel() * t.element_size() for t in (*maps, *places))


class _LazyFrames(Mapping[int, Any]):
    """The frames of a video for transformers, which asks only for how many there are."""

    def __init__(self, encoded: MemoryVideo) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded.video)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, t: int) -> Any:
        return self._encoded.pixels(t)


class MemoryTrack:
    """An object in an inference session of transformers."""

    def __init__(self, encoded: MemoryVideo) -> None:
        import importlib

        import torch

        self.encoded = encoded
        module = importlib.import_module(type(encoded.network).__module__)
        kind = getattr(module, _CLASSES[encoded.tracker.name][1])
        _, height, width = encoded.video.shape
        self.session = kind(
            video_height=height,
            video_width=width,
            inference_device=encoded.device,
            dtype=torch.float32,
        )
        self.session.processed_frames = _LazyFrames(encoded)
        self._object = self.session.obj_id_to_idx(1)
        self.prompted: list[int] = []

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        """All prompts of a frame; one that was tracked before becomes a conditioning frame."""
        masks = [p.mask for p in prompts if isinstance(p, MaskHint)]
        if len(masks) == len(prompts):
            self.session.remove_point_inputs(self._object, frame)
            self.session.add_mask_inputs(self._object, frame, self._mask(masks[-1]))
        else:
            self.session.remove_mask_inputs(self._object, frame)
            self.session.add_point_inputs(self._object, frame, self._points(prompts))
        self.session.obj_with_new_inputs = [1]
        found = self._run(frame)
        # As SAM 2's own configuration: corrected frames join the prompted ones in memory.
        outputs = self.session.output_dict_per_obj[self._object]
        tracked = outputs["non_cond_frame_outputs"].pop(frame, None)
        if tracked is not None:
            outputs["cond_frame_outputs"][frame] = tracked
        self.prompted = sorted({*self.prompted, frame})
        return found

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        """Frame by frame from the state so far."""
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
        import torch

        cache = self.session.cache
        if cache.get_vision_features(t) is None:
            cache.clear_all()
            cache.cache_vision_features(t, self.encoded.features(t))
        found = self.encoded.network(self.session, frame_idx=t, reverse=reverse)
        low = found.pred_masks.float()
        size = self.encoded.video.shape[1:]
        high = torch.nn.functional.interpolate(low, size, mode="bilinear", align_corners=False)
        return Mask.of((high[0, 0] > 0).cpu().numpy())

    def _mask(self, mask: Mask) -> torch.Tensor:
        import torch

        size = (self.encoded.side, self.encoded.side)
        dense = torch.from_numpy(mask.dense().astype(np.float32))[None, None]
        small = torch.nn.functional.interpolate(dense, size, mode="bilinear", antialias=True)
        return (small >= 0.5).float().to(self.encoded.device)

    def _points(self, prompts: Sequence[Prompt]) -> dict[str, torch.Tensor]:
        """Points `(x, y)` on the network's square with their labels, a box as two corners."""
        import torch

        points: list[Sequence[float]] = []
        labels: list[int] = []
        for prompt in sorted(prompts, key=lambda p: not isinstance(p, Box)):
            match prompt:
                case Box(low, high):
                    points += [[c - 0.5 for c in low], [c + 0.5 for c in high]]
                    labels += [2, 3]
                case Click(point, positive):
                    points.append(point)
                    labels.append(int(positive))
                case Scribble(stroke, positive):
                    many = min(_STROKE_POINTS, len(stroke))
                    chosen = np.linspace(0, len(stroke) - 1, many).round().astype(int)
                    points += [stroke[i] for i in chosen]
                    labels += [int(positive)] * many
        if not points:
            raise BadInput(f"{self.encoded.tracker.name} takes clicks, boxes, strokes and masks")
        _, height, width = self.encoded.video.shape
        scale = self.encoded.side / np.array([height, width])
        places = ((np.array(points, dtype=float) + 0.5) * scale)[:, ::-1].copy()
        return {
            "point_coords": torch.tensor(places, dtype=torch.float32)[None, None],
            "point_labels": torch.tensor(labels, dtype=torch.int32)[None, None],
        }


def _check_memory(path: Path, name: str) -> None:
    """Refuse weights of the image model, which lack the memory."""
    if not any(key.startswith("memory_attention.") for key in weight_files.sizes(path) or ()):
        raise BadWeights(
            f"'{path}' has no memory (no tensor memory_attention.*), so it segments images only; "
            f"give the video weights of {name}, or use hand-over?model=sam2-hiera-tiny"
        )


@catalogue.models.add("sam2-video", summary="tracker: SAM 2 and 2.1 with memory (transformers)")
def _sam2(
    weights: str | None = None, device: str = "auto", memory_mb: int = _MEMORY_MB
) -> MemoryTracker:
    return MemoryTracker("sam2-video", weights, device, memory_mb)


@catalogue.models.add("edgetam-video", summary="tracker: EdgeTAM with memory (transformers)")
def _edgetam(
    weights: str | None = None, device: str = "auto", memory_mb: int = _MEMORY_MB
) -> MemoryTracker:
    return MemoryTracker("edgetam-video", weights, device, memory_mb)


@catalogue.models.add("sam3-tracker-video", summary="tracker: SAM 3's tracker (transformers)")
def _sam3(
    weights: str | None = None, device: str = "auto", memory_mb: int = _MEMORY_MB
) -> MemoryTracker:
    return MemoryTracker("sam3-tracker-video", weights, device, memory_mb)
