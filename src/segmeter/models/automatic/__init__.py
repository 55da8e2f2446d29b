"""Automatic masks: everything in an image, from any view that takes clicks."""
