"""The predictor: prompt any model with plain arrays, as one prompts SAM's predictor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.api.loading import as_model, scene_of
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.sessions import Session


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
        self._scene: Any = None
        self._encoded: Any = None
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
            Points `(y, x)` (of a volume `(z, y, x)`), each on the object; `(point, False)` clicks
            the background. `Click` objects work as well.
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
        >>> int(predictor.predict(clicks=[(3, 3), ((7, 7), False)]).sum())
        9
        """
        session = self._started()
        dimensions = len(session.scene.shape)
        prompts: list[Prompt] = [*as_clicks(clicks)]
        prompts += [] if box is None else [_box(box, dimensions)]
        prompts += [] if mask is None else [MaskHint(Mask.of(np.asarray(mask)))]
        if isinstance(scribble, Scribble):
            prompts.append(scribble)
        elif scribble is not None:
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
        """Forget all prompts; the image stays encoded."""
        self._started()
        self._session = Session(self._scene, self._encoded, protocol=self.protocol)

    def _encode(self, scene: Any) -> None:
        self._scene, self._encoded = scene, self.model.encode(scene)
        self._session = Session(scene, self._encoded, protocol=self.protocol)

    def _started(self) -> Session:
        if self._session is None:
            raise BadInput("no image yet; call set_image(array) or set_volume(array) first")
        return self._session


def as_clicks(clicks: Sequence[Any]) -> Iterator[Click]:
    """Clicks of points, of `(point, positive)` pairs, or as they are."""
    for given in clicks:
        if isinstance(given, Click):
            yield given
        elif len(given) == 2 and np.ndim(given[0]) == 1:
            yield Click(_point(given[0]), bool(given[1]))
        else:
            yield Click(_point(given))


def _point(place: Any) -> tuple[float, ...]:
    return tuple(float(c) for c in place)


def _box(box: Any, dimensions: int) -> Box:
    if isinstance(box, Box):
        return box
    flat = np.asarray(box, dtype=float).ravel().tolist()
    if len(flat) != 2 * dimensions:
        raise BadInput(f"a box is {2 * dimensions} numbers here, low then high, not {len(flat)}")
    return Box(tuple(flat[:dimensions]), tuple(flat[dimensions:]))
