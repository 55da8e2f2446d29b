"""The rows of the benchmark: rounds of sessions, with what a person has spent by then."""

from __future__ import annotations

from dataclasses import fields

from segmeter.core.effort import Effort
from segmeter.core.rows import SESSION_ROWS, Column

__all__ = ["VOLUME_ROWS"]

VOLUME_ROWS = SESSION_ROWS.plus(
    [
        Column("target_slices", "integer", "slices that hold the target"),
        Column("volume_ml", "number", "volume of the target"),
        Column("predicted_ml", "number", "volume of the round's mask"),
        Column("modality", "text", "CT, MR, PT, ... of the channel, where the data says so"),
        Column("window_low", "number", "darkest value shown; null where each slice has its own"),
        Column("window_high", "number", "brightest value shown"),
        Column("paper_interactions", "text", "interactions as the paper prints them"),
        Column("interactions", "number", "interactions by the end of the round"),
        Column("degrees_of_freedom", "number", "degrees of freedom fixed by then"),
        *(
            Column(f"effort_{f.name}", "number", f"{f.name} by the end of the round")
            for f in fields(Effort)
        ),
        Column("case_dice_published", "number", "Dice of the case, instances re-matched"),
        Column(
            "prompts_outside_input", "integer", "prompts of the round that the network did not get"
        ),
        Column("target_vanished", "flag", "nothing of the target is on the network's grid"),
    ]
)
"""One row for each round; measures have columns of their own."""
