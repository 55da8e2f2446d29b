"""Trackers: models that follow an object through the frames of a video."""
