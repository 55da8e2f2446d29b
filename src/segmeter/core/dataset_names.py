"""Names of data sets: the full name used in a run, and the label shown to readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from segmeter.core.catalogue import Spec

__all__ = ["DatasetName", "dataset_label", "dataset_names", "display_names"]


class DatasetName(str):
    """The whole name of a data set in a run, with its label.

    Comparing, sorting, storing and seeding use the whole name; text for readers uses
    `dataset_label(name)`, and tables show cells of this type by their labels.

    >>> name = DatasetName("folder?path=data/mine", "mine")
    >>> name == "folder?path=data/mine", name.label
    (True, 'mine')
    """

    __slots__ = ("label",)
    label: str

    def __new__(cls, name: str, label: str) -> DatasetName:
        made = super().__new__(cls, name)
        made.label = label
        return made

    def __reduce__(self) -> tuple[type[DatasetName], tuple[str, str]]:
        return DatasetName, (str(self), self.label)


def dataset_label(dataset: str) -> str:
    """The label of a data set, or its name where it has none.

    >>> dataset_label(DatasetName("folder?path=data/mine", "mine")), dataset_label("grabcut")
    ('mine', 'grabcut')
    """
    return dataset.label if isinstance(dataset, DatasetName) else dataset


def dataset_names(specs: Sequence[Spec]) -> dict[str, DatasetName]:
    """The names of a plan's data sets, with their labels.

    >>> dataset_names([Spec("folder", {"path": "data/mine"})])["folder?path=data/mine"].label
    'mine'
    """
    return {name: DatasetName(name, label) for name, label in display_names(specs).items()}


def display_names(specs: Sequence[Spec]) -> dict[str, str]:
    """Display name of each data set, by its full spec.

    A folder goes by the last part of its path, by more parts where two would share a name, and
    by its full spec where even that does not part them. All others keep their names.

    >>> display_names([Spec("folder", {"path": "data/mine"}), Spec("grabcut")])
    {'folder?path=data/mine': 'mine', 'grabcut': 'grabcut'}
    """
    names = {str(spec): spec.name for spec in specs if _parts(spec) == ()}
    for spec in specs:
        parts = _parts(spec)
        tails = ["/".join(parts[-many:]) for many in range(1, len(parts) + 1)]
        if parts:
            names[str(spec)] = next((t for t in tails if t not in names.values()), str(spec))
    return {str(spec): names[str(spec)] for spec in specs}


def _parts(spec: Spec) -> tuple[str, ...]:
    """The parts of a folder's path that name something; none for other data sets."""
    if spec.name != "folder":
        return ()
    path = PurePath(str(spec.options.get("path", "")))
    return tuple(p for p in path.parts if p not in ("..", path.anchor)) or ("folder",)
