# A model with separate encoder and decoder: pixels take the sign of the most similar click.
import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard


class Lookalike:
    card = ModelCard("lookalike", "nearest click in colour and place", frozenset({"click"}))

    def encode(self, scene):  # once per scene: the encoder of a network goes here
        y, x = np.mgrid[: scene.shape[0], : scene.shape[1]] / max(scene.shape)
        return LookalikeEncodedScene(np.dstack([scene.pixels / 255, y, x]).astype(np.float32))


class LookalikeEncodedScene:
    def __init__(self, features):
        self.features = features  # (H, W, 5)

    def predict(self, requests):  # once per round, for all targets and users together
        return [MaskPrediction(Mask.of(self.nearest(request.prompts))) for request in requests]

    def nearest(self, clicks):
        far = [np.linalg.norm(self.features - self.features[c.point], axis=2) for c in clicks]
        return np.take([c.positive for c in clicks], np.argmin(far, 0)) & (np.min(far, 0) < 0.3)
