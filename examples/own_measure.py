"""A measure of your own: how much of the object is missing."""

from segmeter.core.measures import measure


@measure("missed-share", range=(0, 1), better="lower", both_empty=0.0)
def missed_share(truth, guess, ignore=None):
    """Share of the object that the guess misses."""
    judged = truth if ignore is None else truth - ignore
    return (judged - guess).area / max(judged.area, 1)
