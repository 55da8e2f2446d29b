"""Benchmarks: what to run, what to compute from it, how to show it."""
