"""Automatic masks: everything in an image, from any model that takes clicks."""
