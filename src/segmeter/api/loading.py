"""Loading models and datasets by name, and making datasets of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, check_choice, suggestion
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import check_spacing
from segmeter.core.scenes import Dataset as Source
from segmeter.core.scenes import DatasetCard, Image, Scene, SceneHeader, Target, Volume
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted
from segmeter.runtime.remote_files import Roots, as_typed, is_address

Tell = Callable[[str], None]
"""Receives progress messages."""

# Typed for it by people; its tasks are folders of volumes, read as they were unpacked.
_DECATHLON = ("msd", "decathlon", "medical-segmentation-decathlon")


def silent(sentence: str) -> None:
    """Ignore a sentence."""


def load_model(name: str | Path, weights: str | Path | None = None, **options: Any) -> Any:
    """Load a model by name.

    Parameters
    ----------
    name
        A name of `list_models()`, a file of weights, or `file.py:name` for a model in a Python
        file; options may follow a question mark, as in `"mobile-sam?device=cuda"`.
    weights
        A folder of many models' weights, this model's own folder or file, or a hub id. By default
        `SEGMETER_WEIGHTS`, the cache that `fetch` fills, and the hub's cache are searched.
    **options
        Options of the model, such as `device="cuda"`.

    Returns
    -------
    Model
        An object with `card` and `encode(scene)`. Use `Predictor(model)` to prompt it with arrays.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.load_model("grabcut").card.name
    'grabcut'
    """
    spec = Spec.parse(str(name))
    given = Spec(spec.name, {**spec.options, **options})
    return catalogue.models.make(given, **Roots(None, weights).options())


def load_dataset(name: str | Path, data: str | Path | None = None, **options: Any) -> Dataset:
    """Load a dataset by name, or a folder of your own images and masks.

    Parameters
    ----------
    name
        A name of `list_datasets()`, or a folder or address with images and masks (or volumes and
        label maps); the layout is recognised.
    data
        The folder that holds the published datasets; `SEGMETER_DATA` by default.
    **options
        Options of the dataset, such as `split="train"`.

    Returns
    -------
    Dataset
        A sequence of scenes. Nothing is read before a scene's pixels or targets are used.

    Examples
    --------
    >>> import segmeter
    >>> mini = segmeter.load_dataset("mini")
    >>> len(mini), mini[0].pixels.shape, len(mini[0].targets)
    (11, (512, 512, 3), 5)
    """
    spec = dataset_spec(str(name))
    given = Spec(spec.name, {**spec.options, **options})
    return Dataset(catalogue.datasets.make(given, **Roots(data, None).options()))


class Dataset:
    """A dataset: a sequence of scenes, each an image or a volume with its targets.

    `len(dataset)`, `dataset[0]`, `dataset["scene name"]` and `for scene in dataset` work as for a
    list. A scene has `pixels`, `targets` (each with a `mask`), `shape` and `id`. Pass a dataset
    to `evaluate` to run a benchmark on it.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.load_dataset("mini")
    <dataset mini: 11 scenes>
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names = list(source.scenes())

    @classmethod
    def from_arrays(
        cls,
        images: Sequence[Any],
        masks: Sequence[Any],
        *,
        name: str = "arrays",
        names: Sequence[str] | None = None,
        spacing_mm: tuple[float, float, float] = (1.0, 1.0, 1.0),
    ) -> Dataset:
        """Make a dataset of arrays in memory.

        Parameters
        ----------
        images
            Images `(H, W, 3)` or `(H, W)` of uint8, or volumes `(Z, Y, X)` of numbers.
        masks
            One entry per image, of the same size: a boolean mask; a label map with one target
            per non-zero value; or a list of masks, one per target.
        name
            Name of the dataset in results.
        names
            Names of the scenes; `000`, `001`, ... by default.
        spacing_mm
            Voxel spacing `(z, y, x)` of volumes.

        Examples
        --------
        >>> import numpy as np
        >>> import segmeter
        >>> image, mask = np.zeros((32, 48, 3), np.uint8), np.zeros((32, 48), bool)
        >>> mask[8:20, 10:30] = True
        >>> own = segmeter.Dataset.from_arrays([image], [mask])
        >>> own, own[0].targets[0].mask.area
        (<dataset arrays: 1 scene>, 240)
        """
        if len(images) != len(masks):
            raise BadInput(f"{len(images)} images have {len(masks)} masks; give one per image")
        chosen = [f"{k:03d}" for k in range(len(images))] if names is None else list(names)
        if len(chosen) != len(images) or len(set(chosen)) != len(chosen):
            raise BadInput("give one name per image, all different")
        pairs = dict(zip(chosen, zip(images, masks, strict=True), strict=True))
        return cls(_Arrays(name, pairs, spacing_mm))

    @property
    def card(self) -> DatasetCard:
        """Name, licence, citation and size."""
        return self._source.card

    @property
    def names(self) -> list[str]:
        """Names of the scenes, in their order."""
        return list(self._names)

    def scenes(self) -> Sequence[str]:
        """Names of the scenes, as benchmarks use them."""
        return self._names

    def load(self, scene: str) -> Scene:
        """One scene by name."""
        return self._source.load(scene)

    def fingerprint(self) -> str:
        """A digest that changes when the data changes."""
        return self._source.fingerprint()

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Scene]:
        return map(self.load, self._names)

    @overload
    def __getitem__(self, key: int | str) -> Scene: ...
    @overload
    def __getitem__(self, key: slice) -> list[Scene]: ...
    def __getitem__(self, key: int | str | slice) -> Scene | list[Scene]:
        if isinstance(key, slice):
            return [self.load(name) for name in self._names[key]]
        if not isinstance(key, str):  # also a whole number of NumPy's
            return self.load(self._names[key])
        if key not in self._names:
            first = "".join(f" the first is '{name}'" for name in self._names[:1])
            hint = suggestion(key, self._names) or first
            raise NotFound(f"dataset '{self.card.name}' has no scene '{key}';{hint}")
        return self.load(key)

    def __repr__(self) -> str:
        return f"<dataset {self.card.name}: {counted(len(self), 'scene')}>"


class _Arrays:
    """Scenes of arrays in memory."""

    def __init__(
        self, name: str, pairs: dict[str, tuple[Any, Any]], spacing_mm: tuple[float, ...]
    ) -> None:
        self._pairs, self._spacing = pairs, spacing_mm
        self.card = DatasetCard(name, "arrays in memory", "", "")

    def scenes(self) -> list[str]:
        return list(self._pairs)

    def load(self, scene: str) -> Scene:
        image, masks = self._pairs[scene]
        return scene_of(
            image, partial(_targets, masks), self.card.name, scene, spacing_mm=self._spacing
        )

    def fingerprint(self) -> str:
        arrays = ((np.asarray(i), [np.asarray(m) for m in listed(ms)])
                  for i, ms in self._pairs.values())  # fmt: skip
        held = [(i.shape, str(i.dtype), i.tobytes(), [m.tobytes() for m in ms]) for i, ms in arrays]
        return fingerprint(*self._pairs, held, self._spacing)


def scene_of(
    image: Any,
    targets: Sequence[Target] | Callable[[], Sequence[Target]] = (),
    dataset: str = "arrays",
    name: str = "000",
    *,
    spacing_mm: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> Scene:
    """A scene of an image `(H, W, 3)` or `(H, W)`, or of a volume `(Z, Y, X)`."""
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.ndim == 3 and pixels.shape[2] in (3, 4):
        if pixels.dtype != np.uint8:
            raise BadInput(f"an image must be uint8, not {pixels.dtype}; scale it to 0 to 255")
        return Image(dataset, name, np.ascontiguousarray(pixels[..., :3]), targets)
    if pixels.ndim != 3:
        raise BadInput(
            f"an image is (H, W, 3) or (H, W) and a volume (Z, Y, X), not {pixels.shape}"
        )
    z, y, x = check_spacing(spacing_mm, 3)
    affine = np.array([[0, 0, x, 0], [0, y, 0, 0], [z, 0, 0, 0], [0, 0, 0, 1]], dtype=float)
    header = SceneHeader("volume", pixels.shape, (z, y, x), tuple(map(tuple, affine)))
    return Volume(dataset, name, pixels, targets, header=header)


def as_model(model: Any, weights: str | Path | None = None) -> Any:
    """A model by name or file, or an object, function or predictor as a model."""
    named = isinstance(model, str | Path)
    return load_model(model, weights) if named else catalogue.adapted_model(model)


def as_dataset(dataset: Any, data: str | Path | None = None) -> Any:
    """A dataset by name or folder, or an object as it is."""
    return load_dataset(dataset, data) if isinstance(dataset, str | Path) else dataset


def as_user(user: Any) -> Any:
    """A simulated user by name, or an object as it is."""
    return catalogue.users.make(user) if isinstance(user, str) else user


def roots_of(data: str | Path | None, weights: str | Path | None = None) -> Roots:
    """Folders or addresses of data and weights; a folder that is named must exist."""
    found = [None if path is None else as_typed(path) for path in (data, weights)]
    for flag, path in zip(("--data", "--weights"), found, strict=True):
        if path is not None and not is_address(path) and not Path(path).is_dir():
            hint = f"; it is a file: --model {path}" if Path(path).is_file() else ""
            raise BadInput(f"{flag}: there is no folder '{path}'{hint}")
    return Roots(found[0], found[1])


def parsed_options(texts: Sequence[str]) -> dict[str, Any]:
    """Settings given as `name=value`; values are JSON where they can be.

    >>> parsed_options(["draws=3", "absent=skip"])
    {'draws': 3, 'absent': 'skip'}
    """
    for text in texts:
        if text.find("=") < 1:
            raise BadInput(f"--option is name=value, not '{text}'")
    return dict(Spec.parse("benchmark?" + "&".join(texts)).options)


def protocol_names(given: str | Sequence[str]) -> tuple[ProtocolName, ...]:
    """The protocols that `"published"`, `"corrected"`, `"both"` or a list of them name.

    >>> protocol_names("both")
    ('published', 'corrected')
    """
    words = [given] if isinstance(given, str) else list(given)
    for word in words:
        check_choice("protocol", word, ("published", "corrected", "both"))
    known: tuple[ProtocolName, ...] = ("published", "corrected")
    return known if "both" in words else tuple(name for name in known if name in words)


def is_own_data(path: str) -> bool:
    """Whether a path is a folder, a COCO file, or a table that lists volumes."""
    return Path(path).is_dir() or (
        path.lower().endswith((".csv", ".json")) and Path(path).is_file()
    )


def _folder_of(path: str) -> str:
    """The folder of a COCO file and its images; other paths as they are."""
    if not path.lower().endswith(".json") or not Path(path).is_file():
        return path
    inside = Path(path).parent
    base = inside.parent if inside.name == "annotations" else inside
    if len([*base.glob("*.json"), *base.glob("annotations/*.json")]) > 1:
        raise BadInput(
            f"--dataset: '{base}' has several JSON files; move '{path}' and its images to "
            "a folder of their own"
        )
    return str(base)


def dataset_spec(text: str) -> Spec:
    """The spec of a dataset by name, or of a folder of your own by its path or address."""
    spec = Spec.parse(text)
    if is_address(spec.name) or is_own_data(spec.name):
        return Spec("folder", {"path": _folder_of(spec.name), **spec.options})
    if spec.name.lower() in _DECATHLON:
        raise NotFound(
            "the Medical Segmentation Decathlon is given as the folder of one task: "
            "--dataset DATA/Task09_Spleen"
        )
    if "/" in spec.name and ".py:" not in spec.name:
        path = Path(spec.name)
        if path.is_file():
            raise NotFound(f"--dataset: '{path}' is a file; name the folder with the images")
        near = [str(folder) for folder in path.parent.glob("*/")]
        hint = suggestion(spec.name, near)
        raise NotFound(f"--dataset: there is no folder '{spec.name}'" + (hint and f";{hint}"))
    return spec


def _targets(masks: Any) -> list[Target]:
    """Targets of a mask, a label map or a list of masks."""
    first, *more = arrays = [np.asarray(mask) for mask in listed(masks)]
    if more:
        return [Target(str(k), Mask.of(mask)) for k, mask in enumerate(arrays, 1)]
    values = [value for value in np.unique(first).tolist() if value]
    if len(values) > 1 and not isinstance(masks, list | tuple):
        return [Target(str(value), Mask.of(first == value)) for value in values]
    return [Target("object", Mask.of(first != 0))]


def listed(things: Any) -> list[Any]:
    """Several things, or one in a list."""
    return list(things) if isinstance(things, list | tuple) else [things]
