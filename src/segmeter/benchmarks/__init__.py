"""Benchmarks: plans, statistics and report sections."""
