"""Datasets: one reader per layout."""
