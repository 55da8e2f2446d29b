"""Export: the masks of a run as files that other programs open."""
