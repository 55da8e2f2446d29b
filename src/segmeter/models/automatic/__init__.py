"""Automatic masks: everything in a picture, from any view that takes clicks."""
