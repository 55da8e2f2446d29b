"""The model behind every click network: a card, a shape, a file of weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from segmeter.core.capabilities import WithWeights, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import ModelCard
from segmeter.core.scenes import Scene
from segmeter.models import weights as places
from segmeter.models.clicknets import containers
from segmeter.models.clicknets.architectures import Shape
from segmeter.models.clicknets.encoded import ClickNetEncodedScene, Settings

__all__ = ["ClickNet"]


@capable(WithWeights)
class ClickNet:
    """A click network; its weights are read when it encodes its first scene.

    Weights of another network are refused when the model is made, by names and shapes.

    Parameters
    ----------
    settings
        Zoom, mirroring and threshold for a data set's name.
    weights
        A `.pth` or `.safetensors` file, or a folder that holds the model's own.
    """

    def __init__(
        self,
        card: ModelCard,
        shape: Shape,
        settings: Callable[[str], Settings],
        weights: str | Path | None = None,
        device: str = "auto",
    ) -> None:
        self._card, self.shape, self._settings = card, shape, settings
        self.weights_path = places.find(card.name, weights)
        self._device = device
        here = self.weights_path != places.ABSENT
        if here and importlib.util.find_spec("torch") is not None:
            containers.check(places.files(self.weights_path)[0], shape, card.name)

    @cached_property
    def card(self) -> ModelCard:
        return replace(
            self._card,
            summary=self._card.summary + places.named(self.weights_path),
            fingerprint=places.fingerprint(self.weights_path),
        )

    @cached_property
    def network(self) -> Any:
        import torch

        from segmeter.models.sam._networks import pick_device

        file = places.files(self.weights_path)[0]
        network = containers.load(file, self.shape, self._card.name)
        device = pick_device(self._device)
        # A quarter faster on a processor (answers and attack of EISeg's HRNet-18).
        order = torch.channels_last if device.type == "cpu" else torch.preserve_format
        return network.to(device, memory_format=order)

    def encode(self, scene: Scene) -> ClickNetEncodedScene:
        if scene.header.kind != "image":
            raise BadInput(
                f"{scene.name}: '{self._card.name}' looks at images, and this is a volume; "
                f"try 'slicewise?model={self._card.name}'"
            )
        return ClickNetEncodedScene(self.network, scene, self._settings(scene.dataset))
