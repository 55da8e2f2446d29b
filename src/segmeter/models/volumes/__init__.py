"""Models for volumes: slice by slice, or whole volumes."""
