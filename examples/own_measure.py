"""A measure: the share of the object that the prediction misses."""

from segmeter.core.measures import measure


@measure("missed-share", range=(0, 1), better="lower", both_empty=0.0)
def missed_share(ground_truth, prediction, ignore=None):
    """Share of the object that the prediction misses."""
    judged = ground_truth if ignore is None else ground_truth - ignore
    return (judged - prediction).area / max(judged.area, 1)
