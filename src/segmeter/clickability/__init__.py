"""Clickability: where people click."""
