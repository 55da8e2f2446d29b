"""Models that look at volumes: slice by slice, or at the whole."""
