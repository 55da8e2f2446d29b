"""Prompting a model with plain arrays: by hand as SAM's predictor, or by a simulated user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.api.loading import as_model, as_user, listed, scene_of
from segmeter.core.error_regions import deepest_sides
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.lockstep import SimulatedSession
from segmeter.core.lockstep import simulate as run_sessions
from segmeter.core.masks import Mask
from segmeter.core.measures import as_array, mask_measure
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.scenes import Target
from segmeter.core.sessions import Round, Session


class Predictor:
    """A model that is prompted with plain arrays.

    The image is encoded once by `set_image` (or `set_volume`). Every `predict` adds its prompts to
    those given since, so that a model which refines its last mask does so; `reset` starts over.

    Parameters
    ----------
    model
        A name of `list_models()`, a model, a function `predict(image, clicks)`, or an object with
        `set_image` and `predict` like SAM's predictor.
    weights
        Where the weights are, as for `load_model`.
    protocol
        `"corrected"` or `"published"`; see the page on protocols.

    Examples
    --------
    >>> import segmeter
    >>> scene = segmeter.load_dataset("mini")[0]
    >>> predictor = segmeter.Predictor("disc?radius=40")
    >>> predictor.set_image(scene.pixels)
    >>> mask = predictor.predict(clicks=[(200, 250)])
    >>> mask.shape, mask.dtype, bool(mask[200, 250])
    ((512, 512), dtype('bool'), True)
    """

    def __init__(
        self, model: Any, weights: str | Path | None = None, protocol: ProtocolName = "corrected"
    ) -> None:
        self.model = as_model(model, weights)
        self.protocol: ProtocolName = protocol
        self._session: Session | None = None

    def set_image(self, image: Any) -> None:
        """Encode an image `(H, W, 3)` or `(H, W)` of uint8."""
        pixels = np.asarray(image)
        if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
            raise BadInput(f"an image is (H, W, 3), not {pixels.shape}; use set_volume for volumes")
        self._encode(scene_of(pixels))

    def set_volume(
        self, volume: Any, spacing_mm: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> None:
        """Encode a volume `(Z, Y, X)` with its voxel spacing in mm, z first."""
        self._encode(scene_of(np.asarray(volume), spacing_mm=spacing_mm))

    def predict(
        self,
        clicks: Sequence[Any] = (),
        box: Any = None,
        mask: Any = None,
        scribble: Sequence[Any] | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Give prompts and return the mask that the model shows.

        Parameters
        ----------
        clicks
            Points `(y, x)` (of a volume `(z, y, x)`), each on the object; `(y, x, False)` or
            `(point, False)` clicks the background. `Click` objects work as well.
        box
            `(y0, x0, y1, x1)`, or `(low, high)` with a point each.
        mask
            A mask of the image's size to start from.
        scribble
            Points of a stroke on the object, or a `Scribble`.

        Returns
        -------
        array of bool
            The mask, of the size of the image or volume.

        Examples
        --------
        >>> import numpy as np
        >>> import segmeter
        >>> predictor = segmeter.Predictor(lambda image, clicks: image[..., 0] > 128)
        >>> image = np.zeros((8, 8, 3), np.uint8)
        >>> image[2:5, 2:5] = 255
        >>> predictor.set_image(image)
        >>> int(predictor.predict(clicks=[(3, 3), (7, 7, False)]).sum())
        9
        """
        session = self._started()
        dimensions = len(session.scene.shape)
        prompts: list[Prompt] = [*as_clicks(clicks)]
        prompts += [] if box is None else [_box(box, dimensions)]
        prompts += [] if mask is None else [MaskHint(Mask.of(as_array(mask)))]
        if isinstance(scribble, Scribble):
            prompts.append(scribble)
        elif scribble is not None:
            with _numbers("a scribble is a list of points such as (y, x)", scribble):
                prompts.append(Scribble(tuple(map(_point, scribble))))
        if not prompts:
            raise BadInput("predict() needs a prompt: clicks, box, mask or scribble")
        return session.step(prompts).mask.dense()

    @property
    def score(self) -> float:
        """The model's own score of its last mask; NaN before the first one."""
        rounds = self._started().rounds
        return rounds[-1].model_score if rounds else float("nan")

    def reset(self) -> None:
        """Reset all prompts; the image stays encoded."""
        before = self._started()
        self._session = Session(before.scene, before.encoded, protocol=self.protocol)

    def _encode(self, scene: Any) -> None:
        self._session = Session(scene, self.model.encode(scene), protocol=self.protocol)

    def _started(self) -> Session:
        if self._session is None:
            raise BadInput("no image yet; call set_image(array) or set_volume(array) first")
        return self._session


def as_clicks(clicks: Sequence[Any]) -> list[Click]:
    """Clicks of points, `(point, positive)`, `(y, x, positive)` with a bool, or as they are."""
    with _numbers("clicks are points such as (y, x) or (y, x, False)", clicks):
        return [_click(given) for given in clicks]


def _click(given: Any) -> Click:
    if isinstance(given, Click):
        return given
    if len(given) == 2 and np.ndim(given[0]) == 1:
        return Click(_point(given[0]), bool(given[1]))
    if isinstance(given[-1], bool | np.bool_):
        return Click(_point(given[:-1]), bool(given[-1]))
    return Click(_point(given))


def _point(place: Any) -> tuple[float, ...]:
    return tuple(float(c) for c in place)


@contextmanager
def _numbers(wanted: str, given: Any) -> Iterator[None]:
    """Turn Python's errors about what is no number into a sentence."""
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        raise BadInput(f"{wanted}, not {' '.join(repr(given).split())[:60]}") from error


def _box(box: Any, dimensions: int) -> Box:
    if isinstance(box, Box):
        return box
    with _numbers("a box is (y0, x0, y1, x1)", box):
        flat = np.asarray(box, dtype=float).ravel().tolist()
    if len(flat) != 2 * dimensions:
        raise BadInput(f"a box is {2 * dimensions} numbers here, low then high, not {len(flat)}")
    return Box(tuple(flat[:dimensions]), tuple(flat[dimensions:]))


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
    truth, shown = (Mask.of(as_array(mask)) for mask in (ground_truth, prediction))
    if truth.shape != shown.shape:
        raise BadInput(f"ground truth is {truth.shape} but the prediction is {shown.shape}")
    spared = None if ignore is None else Mask.of(as_array(ignore))
    with _numbers("clicks are points such as (y, x)", clicks):
        done = tuple(click.pixel for click in as_clicks(clicks))
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
    target = Target("object", Mask.of(as_array(mask)))
    scene = scene_of(image, [target], spacing_mm=spacing_mm)
    scene.check()
    check_choice("protocol", protocol, PROTOCOLS)
    judges = {name: mask_measure(name, scene.spacing_mm) for name in listed(measures)}

    def judge(of: Target, shown: Mask) -> dict[str, float]:
        return {name: judged(of.mask, shown, of.ignore) for name, judged in judges.items()}

    wanted = [SimulatedSession(target, as_user(user), protocol)]
    encoded = as_model(model).encode(scene)
    (session,) = run_sessions(scene, encoded, wanted, rounds, judge, seed=seed)
    return [made for made in session.rounds if made.prompts or made.number == 1]
