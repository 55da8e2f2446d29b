"""Data sets: one reader a layout."""
