"""Effort: counts of an annotator's actions; `stats/annotation_time` converts them to seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Effort:
    """Counts of a person's actions; they can be added.

    A prompter may hand a model many prompts for little work: three points that are
    interpolated over forty slices are three points here.
    """

    points: int = 0
    boxes: int = 0  # drawn in a slice
    boxes_3d: int = 0  # drawn around a whole target
    slices: int = 0  # named without prompting in them, such as the first and the last
    scribbles: int = 0
    stroke_px: float = 0.0  # length of the scribbles, in voxels
    scrolled: int = 0  # slices passed on the way from the first place of work to the last

    @property
    def interactions(self) -> int:
        """IntRaBench's count: a point is 1, a box 2, a 3D box 3, a named slice 1, a scribble 3.

        >>> (Effort(points=5, slices=2) + Effort(scribbles=1)).interactions
        10
        """
        return self.points + 2 * self.boxes + 3 * self.boxes_3d + self.slices + 3 * self.scribbles

    @property
    def degrees_of_freedom(self) -> int:
        """Numbers fixed: a point 3, a box in a slice 5, a 3D box 6, a slice 1, a scribble 12.

        The last is a stated constant: what a stroke fixes depends on its shape.
        """
        return (
            3 * self.points + 5 * self.boxes + 6 * self.boxes_3d + self.slices + 12 * self.scribbles
        )

    def __add__(self, other: Effort) -> Effort:
        return Effort(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __bool__(self) -> bool:
        return self != Effort()
