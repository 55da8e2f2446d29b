"""Networks of LiteMedSAM, MedSAM and SAM-Med2D, filled from their published checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from segmeter.core.errors import BadWeights
from segmeter.models import weights
from segmeter.models.checkpoints import Checkpoint, account, fill, read_checkpoint
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder
from segmeter.models.sam._frames import Frame
from segmeter.models.sam._networks import pick_device, pick_dtype
from segmeter.models.sam._tiny_vit import TinyVit
from segmeter.models.sam._vit import SamVit
from segmeter.models.volumes._frames import LiteMedSamFrame, MedSamFrame, SamMed2dFrame

__all__ = ["ARCHITECTURES", "MedicalNetwork"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """How a kind is built: its encoder, the sides of its square and grid, its frame."""

    encoder: Callable[[], nn.Module]
    side: int
    grid: int
    frame: Callable[[tuple[int, int]], Frame]


ARCHITECTURES: Mapping[str, Architecture] = {
    "litemedsam": Architecture(lambda: TinyVit(fine=True), 256, 64, LiteMedSamFrame),
    "medsam": Architecture(SamVit, 1024, 64, MedSamFrame),
    "sam-med2d": Architecture(lambda: SamVit(256, adapters=True), 256, 16, SamMed2dFrame),
}


class MedicalNetwork:
    """An image encoder before the first SAM's prompt encoder and mask decoder."""

    second = False

    def __init__(self, kind: str, device: str = "cpu", dtype: str = "float32") -> None:
        """With random weights; `load` fills them."""
        own = ARCHITECTURES[kind]
        self.device, self.dtype = pick_device(device), pick_dtype(dtype)
        self.frame = own.frame
        self.encoder = own.encoder()
        self.prompts = PromptEncoder(own.side, own.grid)
        self.decoder = MaskDecoder()
        self.parts = nn.ModuleDict(
            {
                "image_encoder": self.encoder,
                "prompt_encoder": self.prompts,
                "mask_decoder": self.decoder,
            }
        )
        self.parts.eval().requires_grad_(False)

    @classmethod
    def check(cls, kind: str, path: Path) -> None:
        """Refuse weights of another network by names and shapes alone."""
        found = _checkpoint(kind, path, headers_only=True)
        with weights.unfilled():
            own = {k: tuple(v.shape) for k, v in cls(kind).parts.state_dict().items()}
        account(found, own)

    @classmethod
    def load(cls, kind: str, path: Path, device: str, dtype: str) -> MedicalNetwork:
        """From the published or a fine-tuned checkpoint; strictly."""
        network = cls(kind, device, dtype)
        fill(network.parts, _checkpoint(kind, path))
        network.parts.to(network.device, network.dtype)
        return network

    def encode(self, pixels: Tensor) -> Embedding:
        grid = self.encoder(pixels.to(self.dtype))
        return Embedding(grid.flatten(2).transpose(1, 2).contiguous())


def _checkpoint(kind: str, path: Path, *, headers_only: bool = False) -> Checkpoint:
    """The weights, which must be of this kind; MedSAM's cannot be told from SAM ViT-B's."""
    found = read_checkpoint(path, headers_only=headers_only)
    if found.model != ("sam-vit-b" if kind == "medsam" else kind):
        raise BadWeights(f"'{path}' holds weights of '{found.model}', not of '{kind}'")
    return found
