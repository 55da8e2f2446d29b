"""Models: one adapter per family."""
