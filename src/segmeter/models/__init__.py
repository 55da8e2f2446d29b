"""Models: one adapter a family."""
