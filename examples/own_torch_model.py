# A torch model whose logits are differentiable in the clicks, so that TETRIS can attack it.
import torch
from torch.nn.functional import grid_sample

from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard


class Glow:
    abilities = frozenset({"click", "differentiable"})
    card = ModelCard("glow", "soft similarity to clicks in colour and place", abilities)

    def encode(self, scene):
        height, width = scene.shape
        image = torch.tensor(scene.pixels).float() / 255
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return GlowScene(torch.dstack([image, y / max(scene.shape), x / max(scene.shape)]))


class GlowScene:
    def __init__(self, features):
        self.features, self.size = features, tuple(features.shape[:2])

    def predict(self, requests):
        return [MaskPrediction(Mask.of((found > 0).numpy())) for found in self.at_clicks(requests)]

    def at_clicks(self, requests):
        return [self.logits(*clicks_of(request)) for request in requests]

    def logits(self, points, signs):  # (K, 2) rows and columns, (K,) 1 or -1 -> (H, W)
        height, width = self.size
        grid = 2 * points.flip(-1) / torch.tensor([width - 1, height - 1]) - 1
        features = self.features.permute(2, 0, 1)[None]
        clicked = grid_sample(features, grid[None, None], align_corners=True)[0, :, 0].T
        away = (self.features[None] - clicked[:, None, None]).square().sum(-1)
        return (signs[:, None, None] * torch.exp(-20 * away)).sum(0) - 0.3

    def movable_clicks(self, requests):  # called by the attack
        return GlowClicks(self, [clicks_of(request) for request in requests])


class GlowClicks:
    """Sessions whose last click may move. The network's frame is the image here."""

    def __init__(self, scene, clicks):
        self.scene, self.clicks = scene, clicks
        self.sizes = self.step_sizes = [scene.size] * len(clicks)

    def start(self):  # (B, 2)
        return torch.stack([points[-1] for points, _ in self.clicks])

    def logits(self, last):  # differentiable in `last`, (B, 2)
        return [
            self.scene.logits(torch.cat([points[:-1], moved[None]]), signs)
            for (points, signs), moved in zip(self.clicks, last, strict=True)
        ]

    def masks(self, logits):
        return [Mask.of((one > 0).numpy()) for one in logits]

    def into_prediction(self, index, mask):
        return torch.from_numpy(mask.dense()).float()

    def into_frame(self, index, plane):
        return torch.from_numpy(plane)

    def to_image(self, points):
        return [tuple(point) for point in points.tolist()]


def clicks_of(request):
    points = torch.tensor([click.point for click in request.prompts], dtype=torch.float32)
    return points, torch.tensor([1.0 if click.positive else -1.0 for click in request.prompts])
