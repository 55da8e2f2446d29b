"""Data sets: one reader per layout."""
