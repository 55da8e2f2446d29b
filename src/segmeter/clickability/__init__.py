"""Clickability: where people click, as maps over the error region they want corrected."""
