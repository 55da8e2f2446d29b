"""Simulation on plain arrays: the next click, and a whole session of a simulated user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from segmeter.api.loading import as_model, as_user, scene_of
from segmeter.api.predictor import as_clicks
from segmeter.core.error_regions import deepest_sides
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession
from segmeter.core.lockstep import simulate as run_sessions
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click
from segmeter.core.scenes import Target
from segmeter.core.sessions import Round


def next_click(
    ground_truth: Any, prediction: Any = None, clicks: Sequence[Any] = (), *, ignore: Any = None
) -> Click | None:
    """The next click of a simulated user: the deepest wrong pixel.

    The robot user of the click benchmarks (Sofiiuk et al., 2022): the pixel that is farthest from
    the border of the error region it is in, and was not clicked before. Positive if the false
    negatives are deeper than the false positives; equally deep is negative; of equally deep pixels
    the first in raster order.

    Parameters
    ----------
    ground_truth, prediction
        Masks of the same size, 2D or 3D; all non-zero values are foreground. Without a prediction,
        the first click.
    clicks
        Clicks so far: points, or `(point, positive)` pairs, or `Click` objects.
    ignore
        Mask of pixels that are not scored.

    Returns
    -------
    Click or None
        With `point` `(y, x)` (3D: `(z, y, x)`) and `positive`; None if nothing is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> import segmeter
    >>> ground_truth = np.zeros((9, 9), bool)
    >>> ground_truth[2:7, 2:7] = True
    >>> segmeter.next_click(ground_truth)
    Click(point=(4, 4), positive=True)
    >>> segmeter.next_click(ground_truth, np.ones((9, 9), bool)).positive
    False
    """
    prediction = np.zeros(np.shape(ground_truth), bool) if prediction is None else prediction
    truth, shown = (Mask.of(np.asarray(mask) != 0) for mask in (ground_truth, prediction))
    if truth.shape != shown.shape:
        raise BadInput(f"ground truth is {truth.shape} but the prediction is {shown.shape}")
    spared = None if ignore is None else Mask.of(np.asarray(ignore) != 0)
    done = tuple(tuple(map(round, click.point)) for click in as_clicks(clicks))
    ((missed, added),) = deepest_sides([(Target("object", truth, ignore=spared), shown, done)])
    positive = missed.squared > added.squared
    point = missed.point if positive else added.point
    return None if point is None else Click(point, positive)


def simulate(
    model: Any,
    image: Any,
    mask: Any,
    user: Any = "centre-click",
    rounds: int = 20,
    *,
    measures: Sequence[str] = ("iou",),
    protocol: ProtocolName = "corrected",
    seed: int = 0,
    spacing_mm: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> list[Round]:
    """Let a simulated user segment one object with a model.

    Parameters
    ----------
    model
        A name of `list_models()`, or anything that `Predictor` takes.
    image
        `(H, W, 3)` or `(H, W)` of uint8, or a volume `(Z, Y, X)`.
    mask
        The object's ground-truth mask; all non-zero values are foreground.
    user
        A name of `list_users()`, or an object with `name` and `next(observation, rng)`.
    rounds
        At most so many rounds; the session ends when the user stops.
    measures, protocol, seed
        Measures of every round's mask; `"corrected"` or `"published"`; decides the user's draws.
    spacing_mm
        Voxel spacing `(z, y, x)` of a volume.

    Returns
    -------
    list of Round
        Each with `number`, `prompts`, `mask` (`mask.dense()` is an array), `scores` and
        `model_score`.

    Examples
    --------
    >>> import segmeter
    >>> scene = segmeter.load_dataset("mini")[0]
    >>> ground_truth = scene.targets[0].mask.dense()
    >>> session = segmeter.simulate("synthetic-oracle", scene.pixels, ground_truth, rounds=3)
    >>> session[0].scores["iou"]
    1.0
    """
    target = Target("object", Mask.of(np.asarray(mask) != 0))
    scene = scene_of(image, [target], spacing_mm=spacing_mm)
    scene.check()
    judges = {name: mask_measure(name, scene.spacing_mm) for name in measures}

    def judge(of: Target, shown: Mask) -> dict[str, float]:
        return {name: judged(of.mask, shown, of.ignore) for name, judged in judges.items()}

    wanted = [SimulatedSession(target, as_user(user), protocol)]
    encoded = as_model(model).encode(scene)
    (session,) = run_sessions(scene, encoded, wanted, rounds, judge, seed=seed)
    return [made for made in session.rounds if made.prompts or made.number == 1]
