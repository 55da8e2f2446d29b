"""What models of one published checkpoint share: finding, checking and filling in its file."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from segmeter.core.capabilities import OnDevice, WithWeights, capable
from segmeter.core.models import ModelCard
from segmeter.models import weights as weight_files

__all__ = ["CheckpointModel"]

Network = TypeVar("Network")


@capable(OnDevice, WithWeights)
class CheckpointModel:
    """A model whose file is found and checked when it is made, and read at the first look."""

    def __init__(self, about: ModelCard, weights: str | None = None, device: str = "auto") -> None:
        """`about` is its card, but for the fingerprint of the file that is found."""
        self.name, self._about, self._device = about.name, about, device
        self.weights_path = weight_files.find(about.name, weights)
        weight_files.check(self.weights_path)

    @cached_property
    def card(self) -> ModelCard:
        return replace(self._about, fingerprint=weight_files.fingerprint(self.weights_path))

    @property
    def device(self) -> str:
        return self._device

    def filled(
        self, network: Network, tensors: dict[str, Any], spare: tuple[str, ...] = ()
    ) -> Network:
        """A network with the file's tensors, strictly but for `spare`, on its device."""
        from segmeter.models.sam._networks import pick_device

        made: Any = network
        weight_files.load_into(made, tensors, f"the weights in '{self.weights_path}'", spare)
        ready: Network = made.eval().requires_grad_(False).to(pick_device(self._device))
        return ready
