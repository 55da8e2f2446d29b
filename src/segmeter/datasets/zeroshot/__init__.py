"""The 23 data sets of Segment Anything's point evaluation: readers, sampling, cards."""
