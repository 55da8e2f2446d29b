"""Measures: pure functions of masks, partitions, boundaries and clicks."""
