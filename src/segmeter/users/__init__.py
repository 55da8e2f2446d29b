"""Users: simulated annotators."""
