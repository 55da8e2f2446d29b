"""Sources of the masks that people are shown: a run, or PNG files in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.datasets.image_files import image_size
from segmeter.datasets.mask_files import object_in, told_from
from segmeter.study.plan_parts import Masks

__all__ = ["MaskFolder", "RunMasks", "open_masks"]

Key = tuple[str, str]


class RunMasks:
    """The masks that a model gave in one round of a run.

    Where several users played, the first by name and the protocol `corrected` are taken.
    """

    def __init__(self, run: Path, model: str, round: int) -> None:
        self._masks = _read_run(run, model, round)

    def mask(self, scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        """The mask of a target in a scene of this shape: what rows claim is not asked."""
        text = self._masks.get((scene, target))
        return None if text is None else Mask.decoded(text, shape)


class MaskFolder:
    """PNG files `SCENE_TARGET.png`, or `SCENE.png` for images with one target."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFound(f"[[masks]]: there is no folder '{folder}'")
        self._folder = folder.resolve()

    def mask(self, scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        """The file's mask; one of another size than the scene is refused before it is read."""
        for name in (f"{scene}_{target}.png", f"{scene}.png"):
            path = (self._folder / name).resolve()
            if path.parent == self._folder and path.is_file():
                return _read_png(path, shape)
        return None


def open_masks(masks: Masks, folder: Path) -> RunMasks | MaskFolder:
    """A source of masks; paths are taken from where the plan lies."""
    if masks.source == "run":
        return RunMasks(folder / masks.run, masks.model, masks.round)
    return MaskFolder(folder / masks.folder)


def _read_png(path: Path, shape: tuple[int, ...]) -> Mask:
    """The one object of a file, whatever its values are; labels are taken together."""
    size = image_size(path)
    if size != shape:
        found, wanted = (" x ".join(map(str, sides)) for sides in (size, shape))
        raise BadInput(f"'{path}' is {found} but its scene is {wanted}; give masks of its size")
    kind = told_from([path])
    return object_in(path, kind if kind in ("soft", "alpha") else "binary", "mask").mask


def _read_run(run: Path, model: str, round: int) -> Mapping[Key, str]:
    """Run lengths of every target; the first by reading and user is taken."""
    from segmeter.store.run import Run

    opened = Run.open(run)
    if "mask" not in opened.sql("select * from rows limit 0").column_names:
        raise BadInput(f"the run '{run}' kept no masks; play it again with masks kept")
    table = opened.sql(
        """
        select scene, target, mask from rows
        where model = $model and round = $round and mask is not null
        order by protocol, "user", scene, target, dataset
        """,
        {"model": model, "round": round},
    )
    found: dict[Key, str] = {}
    for row in table.to_pylist():
        found.setdefault((row["scene"], row["target"]), row["mask"])
    if not found:
        raise BadInput(f"the run '{run}' has no masks of the model '{model}' in round {round}")
    return found
