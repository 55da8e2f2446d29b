"""Clickability: where people click, as maps over the mistake they want mended."""
