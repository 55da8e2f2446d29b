"""The 23 datasets of Segment Anything's point evaluation: readers, sampling, cards."""
