"""Clickability: where people click, as maps over the error region to correct."""
